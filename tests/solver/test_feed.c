/* test_feed.c - batches that go to a GPU, as bytes or as values, are the CPU's
 * to the bit, training on them is too, and steps leave nothing behind. */
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "core/blob_proto.h"
#include "cortado/memory_data.h"
#include "data/datum.h"
#include "data/hdf5.h"
#include "net/training.h"
#include "solver_test.h"
#include "testing/files.h"

enum { CHANNELS = 3, HEIGHT = 13, WIDTH = 11, RECORDS = 23, BATCH = 7 };

enum kinds { BYTES = 1, FLOATS = 2 };

/* Records of drawn pixels; every kind in turn. */
static const char *some_db(unsigned kinds)
{
    static int n_made;
    const char *path = test_path(test_format("lmdb%d", n_made++));
    struct ct_text t = { 0 };
    struct ct_db *db;

    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_NEW, &db));
    for (int i = 0; i < RECORDS; i++) {
        unsigned char pixel[CHANNELS * HEIGHT * WIDTH];
        float value[CHANNELS * HEIGHT * WIDTH];
        bool floats       = kinds == FLOATS || (kinds > FLOATS && i % 5 == 4);
        struct ct_datum d = { CHANNELS, HEIGHT, WIDTH, i % 3, false,
                              { pixel, sizeof(pixel) }, 0, { NULL, 0 } };
        const char *key   = test_format("%08d", i);

        for (size_t k = 0; k < sizeof(pixel); k++) {
            pixel[k] = (unsigned char)(ct_philox(5, (uint64_t)i, k).v[0] >> 24);
            value[k] = (float)pixel[k] / 2;
        }
        if (floats) {
            d.data     = (struct ct_bytes){ NULL, 0 };
            d.n_floats = sizeof(pixel);
        }
        ASSERT_OK(ct_datum_write(&d, CT_DATUM_SHAPE | CT_DATUM_LABEL,
                                 floats ? value : NULL, &t));
        ASSERT_OK(ct_db_put(db, (struct ct_bytes){ key, 8 },
                            (struct ct_bytes){ t.s, t.n_bytes }));
    }
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
    ct_text_fini(&t);
    return path;
}

static const char *mean_file(void)
{
    float value[CHANNELS * HEIGHT * WIDTH];
    struct ct_blob view = { .shape = CT_SHAPE(1, CHANNELS, HEIGHT, WIDTH),
                            .count = CHANNELS * HEIGHT * WIDTH,
                            .dev   = ct_device_cpu() };
    Caffe__BlobProto *b = NULL;
    const char *path    = test_path("mean.binaryproto");
    enum ct_status st;

    for (int i = 0; i < view.count; i++)
        value[i] = 100 + (float)i / 7;
    view.data.ptr = value;
    ASSERT_OK(ct_blob_to_proto(&view, false, &b));
    st = ct_binary_write(b, path);
    ct_message_free(b);
    ASSERT_OK(st);
    return path;
}

static const char *net_on(const char *source)
{
    return test_format(
        "net_param { layer { name: 'data' top: 'data' top: 'label' %s }"
        "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' "
        "  convolution_param { num_output: 4 kernel_size: 3 "
        "  weight_filler { type: 'gaussian' std: 0.01 } } }"
        "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' "
        "  inner_product_param { num_output: 3 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' "
        "  bottom: 'label' top: 'loss' } } "
        "base_lr: 0.001 lr_policy: 'fixed' momentum: 0.9 random_seed: 5 "
        "snapshot_after_train: false ", source);
}

static const char *net_text(const char *db, const char *transform)
{
    return net_on(test_format("type: 'Data' data_param { source: '%s' "
                              "batch_size: %d backend: LMDB } "
                              "transform_param { %s }", db, BATCH,
                              transform));
}

/* Drawn values and labels for sources that take them as they are. */
struct rows {
    float data[RECORDS * CHANNELS * HEIGHT * WIDTH], label[RECORDS];
};

static const struct rows *some_rows(void)
{
    static struct rows r;

    for (int i = 0; i < RECORDS * CHANNELS * HEIGHT * WIDTH; i++)
        r.data[i] = ct_normal(8, 0, (uint64_t)i);
    for (int i = 0; i < RECORDS; i++)
        r.label[i] = (float)(i % 3);
    return &r;
}

/* Batches that do not end with the file, in another order each epoch. */
static const char *hdf5_text(void)
{
    const struct rows *r = some_rows();
    const char *file = test_path("rows.h5"), *list = test_path("list.txt");
    struct ct_hdf5 *h;
    FILE *f;

    ASSERT_OK(ct_hdf5_create(file, &h));
    ASSERT_OK(ct_hdf5_write(h, "data", CT_SHAPE(RECORDS, CHANNELS, HEIGHT,
                                                WIDTH), r->data));
    ASSERT_OK(ct_hdf5_write(h, "label", CT_SHAPE(RECORDS), r->label));
    ASSERT_OK(ct_hdf5_close(h));
    f = fopen(list, "w");
    ASSERT(f);
    fprintf(f, "%s\n", file);
    fclose(f);
    return net_on(test_format("type: 'HDF5Data' hdf5_data_param { "
                              "source: '%s' batch_size: %d shuffle: true }",
                              list, BATCH));
}

static const char *memory_text(void)
{
    return net_on(test_format("type: 'MemoryData' memory_data_param { "
                              "batch_size: %d channels: %d height: %d "
                              "width: %d }", BATCH, CHANNELS, HEIGHT, WIDTH));
}

/* A net's blobs are plain float32 where all are kept. */
static struct ct_solver *solver_on(const struct ct_device *d, bool keep,
                                   const char *text)
{
    struct ct_solver_options o = { .device = d, .keep_blobs = keep };
    Caffe__SolverParameter *p  = NULL;
    struct ct_solver *s        = NULL;
    enum ct_status st;

    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    st = ct_solver_create(p, &o, &s);
    ct_message_free(p);
    ASSERT_OK(st);
    test_defer(solver_test_free, s);
    return s;
}

static struct ct_blob *blob_of(const struct ct_solver *s, const char *name)
{
    const struct ct_net *net = ct_solver_net(s);

    return ct_net_blob(net, ct_net_find_blob(net, name));
}

static float *values_of(const struct ct_solver *s, const char *name, float *to)
{
    struct ct_blob *b = blob_of(s, name);

    ASSERT(b->count <= BATCH * CHANNELS * HEIGHT * WIDTH);
    ASSERT_OK(ct_blob_get(b, false, to));
    return to;
}

/* Nearest in bfloat16, ties to even. */
static float bf16(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000u;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* Whole passes, or, where blobs are not kept, what the source does. */
static void pass(const struct ct_solver *s, bool whole)
{
    double loss;

    if (whole)
        ASSERT_OK(ct_net_forward_backward(ct_solver_net(s), true, &loss));
    else
        ASSERT_OK(ct_net_forward_range(ct_solver_net(s), 0, 1, NULL));
}

static void same_batches(const struct ct_solver *here,
                         const struct ct_solver *there, bool keep,
                         int n_passes)
{
    static float want[BATCH * CHANNELS * HEIGHT * WIDTH], got[sizeof(want) / 4];
    const int64_t n   = blob_of(here, "data")->count;
    const bool rounds = blob_of(there, "data")->data.dtype == CT_BF16;

    for (int k = 0; k < n_passes; k++) {
        pass(here, true);
        pass(there, keep);
        values_of(here, "data", want);
        values_of(there, "data", got);
        for (int64_t i = 0; i < n; i++) {
            float w = rounds ? bf16(want[i]) : want[i];

            if (w != got[i])
                FAIL("pass %d, value %lld is %.9g, wanted %.9g", k,
                     (long long)i, (double)got[i], (double)w);
        }
        values_of(here, "label", want);
        values_of(there, "label", got);
        for (int i = 0; i < BATCH; i++)
            ASSERT_FLOAT(want[i], got[i], 0);
    }
}

static void batches_are_the_cpus(unsigned kinds, enum ct_precision precision,
                                 const char *transform)
{
    const bool keep           = precision == CT_FP32;
    const struct ct_device *d = solver_test_gpu(precision);
    const char *text          = net_text(some_db(kinds), transform);

    same_batches(solver_on(ct_device_cpu(), true, text),
                 solver_on(d, keep, text), keep, 8);
}

TEST(feed, bytes_are_transformed_on_the_gpu_as_on_the_cpu)
{
    batches_are_the_cpus(BYTES, CT_FP32, "crop_size: 8 mirror: true "
                         "mean_value: 104.5 mean_value: 117 mean_value: 123 "
                         "scale: 0.0173");
}

TEST(feed, bytes_without_a_crop_are_too)
{
    batches_are_the_cpus(BYTES, CT_FP32, "mirror: true mean_value: 99 ");
    batches_are_the_cpus(BYTES, CT_FP32, "scale: 0.00390625");
}

TEST(feed, a_mean_image_is_taken_off_where_the_crop_lies)
{
    batches_are_the_cpus(BYTES, CT_FP32, test_format(
        "crop_size: 9 mirror: true scale: 0.7 mean_file: '%s'", mean_file()));
}

TEST(feed, the_nets_own_layout_and_type_are_written)
{
    batches_are_the_cpus(BYTES, CT_BF16_MIXED, "crop_size: 8 mirror: true "
                         "mean_value: 104.5 scale: 0.0173");
}

TEST(feed, floats_go_over_as_values)
{
    batches_are_the_cpus(FLOATS, CT_FP32, "crop_size: 8 mirror: true");
}

TEST(feed, bytes_and_floats_may_stand_in_one_batch)
{
    batches_are_the_cpus(BYTES | FLOATS, CT_FP32, "crop_size: 8 mirror: true "
                         "mean_value: 20");
}

static void hdf5_is_the_cpus(enum ct_precision precision)
{
    const bool keep           = precision == CT_FP32;
    const struct ct_device *d = solver_test_gpu(precision);
    const char *text          = hdf5_text();
    struct ct_solver *here    = solver_on(ct_device_cpu(), true, text);
    struct ct_solver *there   = solver_on(d, keep, text);

    same_batches(here, there, keep, 8);
    ASSERT_OK(ct_net_seek(ct_solver_net(here), 2));
    ASSERT_OK(ct_net_seek(ct_solver_net(there), 2));
    same_batches(here, there, keep, 5);
}

TEST(feed, rows_of_hdf5_files_are_the_cpus)
{
    hdf5_is_the_cpus(CT_FP32);
    hdf5_is_the_cpus(CT_BF16_MIXED);
}

static void memory_from(const struct ct_solver *s, int64_t first, int64_t n)
{
    const struct rows *r = some_rows();

    ASSERT_OK(ct_memory_data_set(
        ct_net_layer(ct_solver_net(s), 0),
        r->data + first * CHANNELS * HEIGHT * WIDTH, r->label + first, n));
}

/* Arrays may change between passes: no batch is taken early. */
TEST(feed, a_programs_arrays_are_the_cpus)
{
    static const enum ct_precision precision[] = { CT_FP32, CT_BF16_MIXED };

    for (int i = 0; i < 2; i++) {
        const bool keep           = precision[i] == CT_FP32;
        const struct ct_device *d = solver_test_gpu(precision[i]);
        struct ct_solver *here =
            solver_on(ct_device_cpu(), true, memory_text());
        struct ct_solver *there = solver_on(d, keep, memory_text());

        for (int k = 0; k < 3; k++) {
            memory_from(here, k, (k + 1) * BATCH);
            memory_from(there, k, (k + 1) * BATCH);
            same_batches(here, there, keep, 3);
        }
    }
}

TEST(feed, a_source_that_is_moved_starts_there)
{
    static float want[BATCH * CHANNELS * HEIGHT * WIDTH], got[sizeof(want) / 4];
    const struct ct_device *d = solver_test_gpu(CT_FP32);
    const char *text = net_text(some_db(BYTES), "crop_size: 8 mirror: true");
    struct ct_solver *here  = solver_on(ct_device_cpu(), true, text);
    struct ct_solver *there = solver_on(d, true, text);
    double loss;

    for (int pass = 0; pass < 4; pass++)
        ASSERT_OK(ct_net_forward(ct_solver_net(there), &loss));
    ASSERT_OK(ct_net_seek(ct_solver_net(here), 9));
    ASSERT_OK(ct_net_seek(ct_solver_net(there), 9));
    for (int pass = 0; pass < 3; pass++) {
        ASSERT_OK(ct_net_forward(ct_solver_net(here), &loss));
        ASSERT_OK(ct_net_forward(ct_solver_net(there), &loss));
        values_of(here, "data", want);
        values_of(there, "data", got);
        for (int i = 0; i < BATCH * CHANNELS * 8 * 8; i++)
            ASSERT_FLOAT(want[i], got[i], 0);
    }
}

static void training_is_the_cpus(const char *text)
{
    const struct ct_device *d = solver_test_gpu(CT_FP32);
    struct ct_solver *here  = solver_on(ct_device_cpu(), true, text);
    struct ct_solver *there = solver_on(d, true, text);

    ASSERT_OK(ct_solver_step(here, 30));
    ASSERT_OK(ct_solver_step(there, 30));
    for (int i = 0; i < ct_net_n_params(ct_solver_net(here)); i++) {
        struct ct_blob *a = ct_net_param(ct_solver_net(here), i)->blob;
        struct ct_blob *b = ct_net_param(ct_solver_net(there), i)->blob;
        static float x[2048], y[2048];

        ASSERT(a->count <= 2048);
        ASSERT_OK(ct_blob_get(a, false, x));
        ASSERT_OK(ct_blob_get(b, false, y));
        for (int64_t k = 0; k < a->count; k++)
            ASSERT_FLOAT(x[k], y[k], 1e-5);
    }
}

TEST(feed, training_on_bytes_is_the_cpus)
{
    training_is_the_cpus(net_text(some_db(BYTES), "crop_size: 8 mirror: true "
                                  "mean_value: 110 scale: 0.01"));
}

TEST(feed, training_on_rows_of_hdf5_files_is_the_cpus)
{
    training_is_the_cpus(hdf5_text());
}

static long resident_pages(void)
{
    long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f && fscanf(f, "%ld %ld", &all, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident;
}

static void steps_leave_nothing(enum ct_precision precision, const char *text)
{
    const struct ct_device *d = solver_test_gpu(precision);
    struct ct_solver *s       = solver_on(d, true, text);
    struct ct_device_memory before, after;
    struct ct_mem_stats host;
    long pages;

    ASSERT_OK(ct_solver_step(s, 1000));
    before = ct_device_memory(d);
    host   = ct_mem_stats();
    pages  = resident_pages();
    ASSERT_OK(ct_solver_step(s, 9000));
    after = ct_device_memory(d);
    ASSERT_INT(before.n_calls, after.n_calls);
    ASSERT_INT(before.used, after.used);
    ASSERT_INT(before.free, after.free);
    ASSERT_INT(host.n_calls, ct_mem_stats().n_calls);
    ASSERT_INT(host.live_bytes, ct_mem_stats().live_bytes);
    if (resident_pages() > pages + 256) /* a megabyte */
        FAIL("%ld pages are resident, %ld were", resident_pages(), pages);
}

static const char small_images[] = "crop_size: 8 mirror: true scale: 0.01";

TEST(feed, ten_thousand_steps_allocate_nothing_and_leave_nothing)
{
    steps_leave_nothing(CT_FP32, net_text(some_db(BYTES), small_images));
}

TEST(feed, nor_do_they_in_fp16)
{
    steps_leave_nothing(CT_FP16_MIXED, net_text(some_db(BYTES),
                                                small_images));
}

TEST(feed, nor_do_they_on_rows_of_hdf5_files)
{
    steps_leave_nothing(CT_FP32, hdf5_text());
}
