/* test_data.c - the Data layer against what BVLC Caffe read in databases that
 * its own tools made, and against databases made here record by record. */
#include <stdatomic.h>

#include "base/mem.h"
#include "base/text.h"
#include "cortado/log.h"
#include "data/datum.h"
#include "data/images.h"
#include "layers/batches.h"
#include "testing/files.h"
#include "testing/layer_test.h"

enum { BATCH = 30, N_PASSES = 4 };

static void equals_caffe(const char *name, const char *source,
                         const char *backend, const char *transform, float tol)
{
    const char *file = test_format("caffe_files/%s.h5", name);
    struct layer_case *c = layer_case(CT_CPU, test_format(
        "name: 'd' type: 'Data' top: 'data' top: 'label' data_param { "
        "source: '%s' batch_size: 30 backend: %s } transform_param { %s }",
        test_copy(test_format("caffe_files/%s", source)), backend, transform));

    case_phase(c, CAFFE__PHASE__TEST);
    ASSERT_OK(case_setup(c));
    for (int k = 0; k < N_PASSES; k++) {
        const struct ct_blob *data, *label;

        ASSERT_OK(case_forward(c));
        data  = case_find(c, "top[0]");
        label = case_find(c, "top[1]");
        test_h5_equal(file, test_format("/data/%d", k), ct_data(data),
                      data->count, tol);
        test_h5_equal(file, test_format("/label/%d", k), ct_data(label),
                      label->count, 0);
    }
}

TEST(data, raw_lmdb_is_read_as_caffe_reads_it)
{
    equals_caffe("data_raw", "lmdb_raw", "LMDB", "", 0);
}

TEST(data, jpeg_lmdb_is_read_as_caffe_reads_it)
{
    equals_caffe("data_jpeg", "lmdb_jpeg", "LMDB", "mean_value: 120", 0);
}

TEST(data, png_lmdb_is_read_as_caffe_reads_it)
{
    equals_caffe("data_png", "lmdb_png", "LMDB", "", 0);
}

TEST(data, gray_lmdb_is_read_as_caffe_reads_it)
{
    equals_caffe("data_gray", "lmdb_gray_resized", "LMDB", "scale: 0.5", 0);
}

TEST(data, raw_leveldb_is_read_as_caffe_reads_it)
{
    equals_caffe("data_mean_value", "leveldb_raw", "LEVELDB",
                 "mean_value: 104 mean_value: 117 mean_value: 123 "
                 "crop_size: 24", 0);
}

TEST(data, mean_file_scale_and_crop_are_caffes)
{
    const char *mean = test_format(
        "scale: 0.00390625 crop_size: 27 mean_file: '%s'",
        test_recorded("caffe_files/mean.binaryproto"));

    equals_caffe("data_scale_mean", "lmdb_raw", "LMDB", mean, 0);
}

/* Record i of the small databases: 1 x 2 x 2 bytes i, 10 + i, 20 + i, 30 + i
 * with label i; `bad` is cut short. */
static const char *small_db(const char *backend, int n, int bad)
{
    const char *path  = test_path(backend);
    struct ct_text t  = { 0 };
    struct ct_db *db;

    ASSERT_OK(ct_db_open(backend, path, CT_DB_NEW, &db));
    for (int i = 0; i < n; i++) {
        unsigned char pixel[] = { (unsigned char)i, (unsigned char)(10 + i),
                                  (unsigned char)(20 + i),
                                  (unsigned char)(30 + i) };
        struct ct_datum d = { .channels = 1, .height = 2, .width = 2,
                              .label = i, .data = { pixel, i == bad ? 3 : 4 } };
        const char *key = test_format("%08d", i);

        ASSERT_OK(ct_datum_write(&d, CT_DATUM_SHAPE | CT_DATUM_LABEL, NULL,
                                 &t));
        ASSERT_OK(ct_db_put(db, (struct ct_bytes){ key, 8 },
                            (struct ct_bytes){ t.s, t.n_bytes }));
    }
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
    ct_text_fini(&t);
    return path;
}

static struct layer_case *reader(const char *backend, const char *path,
                                 int batch, const char *more)
{
    return layer_case(CT_CPU, test_format(
        "name: 'd' type: 'Data' top: 'data' top: 'label' data_param { "
        "source: '%s' batch_size: %d backend: %s %s }", path, batch,
        strcmp(backend, "lmdb") == 0 ? "LMDB" : "LEVELDB", more));
}

/* Labels of the next pass; each pixel must belong to its label. */
static void pass(struct layer_case *c, int n, int *labels)
{
    ASSERT_OK(case_forward(c));
    for (int i = 0; i < n; i++) {
        labels[i] = (int)ct_data(case_find(c, "top[1]"))[i];
        for (int k = 0; k < 4; k++)
            ASSERT_INT(labels[i] + 10 * k,
                       ct_data(case_find(c, "top[0]"))[4 * i + k]);
    }
}

TEST(data, wraps_to_the_first_record_without_a_gap)
{
    static const char *const backends[] = { "lmdb", "leveldb" };

    for (int b = 0; b < 2; b++) {
        struct layer_case *c =
            reader(backends[b], small_db(backends[b], 5, -1), 3, "threads: 3");
        int got[3];

        ASSERT_OK(case_setup(c));
        ASSERT_SHAPE(c, "top[0]", 3, 1, 2, 2);
        for (int p = 0; p < 7; p++) {
            pass(c, 3, got);
            for (int i = 0; i < 3; i++)
                ASSERT_INT((3 * p + i) % 5, got[i]);
        }
    }
}

static void count_wraps(enum ct_log_level level, const char *line, void *arg)
{
    (void)level;
    if (strstr(line, "Restarting data prefetching from start."))
        atomic_fetch_add((atomic_int *)arg, 1);
}

TEST(data, wrap_is_logged_in_caffes_words)
{
    enum ct_log_level before = ct_log_level();
    static const char *const more[] = { "prefetch: 1",
                                        "prefetch: 1 shuffle: true" };
    const char *path = small_db("lmdb", 4, -1);

    for (int k = 0; k < 2; k++) {
        struct layer_case *c = reader("lmdb", path, 4, more[k]);
        atomic_int n         = 0;

        ASSERT_OK(case_setup(c));
        ct_log_set_sink(count_wraps, &n);
        ct_log_set_level(CT_LOG_INFO);
        for (int i = 0; i < 3; i++)
            ASSERT_OK(case_forward(c));
        ASSERT_OK(case_layer(c)->type->seek(case_layer(c), 0));
        ct_log_set_level(before);
        ct_log_set_sink(NULL, NULL);
        /* Two passes after the first; one more may be on its way. */
        ASSERT(atomic_load(&n) >= 2 && atomic_load(&n) <= 4);
    }
}

static void once_an_epoch(const char *backend, const char *path, int ranks,
                          int n, int batch, const char *more)
{
    int n_passes = n / batch, seen[64] = { 0 }, got[64];

    for (int r = 0; r < ranks; r++) {
        struct layer_case *c = reader(backend, path, batch, more);

        case_run(c)->rank = r;
        case_run(c)->size = ranks;
        ASSERT_OK(case_setup(c));
        for (int p = 0; p < n_passes; p++) { /* `ranks` epochs in all */
            pass(c, batch, got);
            for (int i = 0; i < batch; i++)
                seen[got[i]]++;
        }
    }
    for (int i = 0; i < n; i++)
        if (seen[i] != ranks)
            FAIL("%d ranks: record %d was seen %d times", ranks, i, seen[i]);
}

TEST(data, ranks_share_the_records_and_each_is_seen_once_an_epoch)
{
    static const int ranks[] = { 1, 2, 3, 4, 7 };
    const char *lmdb         = small_db("lmdb", 12, -1);
    const char *leveldb      = small_db("leveldb", 12, -1);

    for (int i = 0; i < 5; i++) {
        once_an_epoch("lmdb", lmdb, ranks[i], 12, 2, "");
        once_an_epoch("lmdb", lmdb, ranks[i], 12, 2, "shuffle: true");
        once_an_epoch("leveldb", leveldb, ranks[i], 12, 3, "shuffle: true");
        once_an_epoch("leveldb", leveldb, ranks[i], 12, 4, "");
    }
}

TEST(data, local_mode_reads_the_ranks_own_database)
{
    const char *path     = small_db("lmdb", 4, -1);
    const char *source   = test_path("part");
    struct layer_case *c = reader("lmdb", source, 2, "mode: LOCAL");
    int got[2];

    ASSERT(rename(path, test_path("part_1")) == 0);
    case_run(c)->rank = 1;
    case_run(c)->size = 2;
    ASSERT_OK(case_setup(c));
    pass(c, 2, got);
    ASSERT_INT(0, got[0]);
    ASSERT_INT(1, got[1]);
}

TEST(data, shuffled_epochs_differ_and_repeat_by_seed)
{
    const char *path = small_db("lmdb", 20, -1);
    int a[40], b[40], moved = 0, differ = 0;

    for (int run = 0; run < 2; run++) {
        struct layer_case *c = reader("lmdb", path, 20, "shuffle: true");

        ASSERT_OK(case_setup(c));
        pass(c, 20, run ? b : a);
        pass(c, 20, (run ? b : a) + 20);
    }
    for (int i = 0; i < 20; i++) {
        moved += a[i] != i;
        differ += a[i] != a[20 + i];
    }
    ASSERT(memcmp(a, b, sizeof(a)) == 0);
    ASSERT(moved > 10 && differ > 10);
}

TEST(data, seek_continues_with_the_next_sample)
{
    static const char *const more[] = { "", "shuffle: true", "threads: 2" };
    const char *path[] = { small_db("lmdb", 7, -1),
                           small_db("leveldb", 7, -1) };

    for (int k = 0; k < 6; k++) {
        const char *backend  = k % 2 ? "leveldb" : "lmdb";
        struct layer_case *c = reader(backend, path[k % 2], 3, more[k / 2]);
        struct ct_layer *l;
        int straight[8][3], got[3];

        ASSERT_OK(case_setup(c));
        l = case_layer(c);
        for (int p = 0; p < 8; p++)
            pass(c, 3, straight[p]);
        for (uint64_t to = 0; to < 8; to += to ? 3 : 1) {
            ASSERT_OK(l->type->seek(l, to));
            ASSERT_OK(case_reshape(c)); /* allows the pass to allocate */
            pass(c, 3, got);
            ASSERT(memcmp(got, straight[to], sizeof(got)) == 0);
        }
    }
}

static float *first_pass(const char *path, int rank, int size, int batch,
                         const char *threads)
{
    struct layer_case *c = layer_case(CT_CPU, test_format(
        "name: 'd' type: 'Data' top: 'data' top: 'label' data_param { "
        "source: '%s' batch_size: %d backend: LMDB shuffle: true %s } "
        "transform_param { crop_size: 20 mirror: true augment { min_area: 0.5 "
        "rotation: 10 brightness: 0.2 } }", path, batch, threads));
    const struct ct_blob *top;
    float *kept;

    case_run(c)->rank = rank;
    case_run(c)->size = size;
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    top  = case_find(c, "top[0]");
    kept = ct_malloc((size_t)top->count * sizeof(float), "kept");
    test_defer(ct_free, kept);
    memcpy(kept, ct_data(top), (size_t)top->count * sizeof(float));
    return kept;
}

TEST(data, augmentation_does_not_depend_on_ranks_or_threads)
{
    const char *path = test_copy("caffe_files/lmdb_jpeg");
    const size_t n   = 3 * 20 * 20;
    float *one       = first_pass(path, 0, 1, 8, "threads: 1");

    ASSERT(memcmp(one, first_pass(path, 0, 1, 8, "threads: 4"),
                  8 * n * sizeof(float)) == 0);
    for (int r = 0; r < 4; r++)
        ASSERT(memcmp(one + 2 * (size_t)r * n, first_pass(path, r, 4, 2, ""),
                      2 * n * sizeof(float)) == 0);
}

TEST(data, broken_record_stops_and_is_named)
{
    struct layer_case *c = reader("lmdb", small_db("lmdb", 9, 4), 3, "");
    int got[3];

    ASSERT_OK(case_setup(c));
    pass(c, 3, got);
    ASSERT_STATUS(CT_EPARSE, case_forward(c));
    ASSERT_HAS("layer d: record 00000004", ct_last_error());
    ASSERT_STATUS(CT_EPARSE, case_forward(c)); /* and stays so */
    ASSERT_HAS("layer d: record 00000004", ct_last_error());
}

TEST(data, broken_record_is_skipped_counted_and_moves_no_other)
{
    static const int want[] = { 0, 1, 2, 3, 5, 5, 6, 7, 8 };
    static const char *const more[] = { "on_error: SKIP",
                                        "on_error: SKIP shuffle: true" };
    const char *path[] = { small_db("lmdb", 9, 4), small_db("leveldb", 9, 4) };

    for (int k = 0; k < 4; k++) {
        struct layer_case *c = reader(k % 2 ? "leveldb" : "lmdb", path[k % 2],
                                      3, more[k / 2]);
        int got[9], n_five = 0;
        int64_t n_skipped;

        ASSERT_OK(case_setup(c));
        for (int p = 0; p < 3; p++)
            pass(c, 3, got + 3 * p);
        for (int i = 0; i < 9; i++) {
            n_five += got[i] == 5;
            if (k < 2)
                ASSERT_INT(want[i], got[i]);
        }
        ASSERT_INT(2, n_five);
        (void)ct_batches_stats(case_layer(c), &n_skipped);
        ASSERT(n_skipped >= 1);
    }
}

TEST(data, source_with_nothing_good_in_it_ends)
{
    struct layer_case *c = reader("lmdb", small_db("lmdb", 1, 0), 1,
                                  "on_error: SKIP");

    ASSERT_STATUS(CT_EPARSE, case_setup(c));
}

/* lmdb_jpeg where the picture of record 50 ends too early. */
static const char *with_a_broken_jpeg(void)
{
    const char *from = test_copy("caffe_files/lmdb_jpeg");
    const char *path = test_path("broken");
    struct ct_db *in, *out;
    struct ct_cursor *c;
    int i = 0;

    ASSERT_OK(ct_db_open("lmdb", from, CT_DB_READ, &in));
    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_NEW, &out));
    ASSERT_OK(ct_cursor_create(in, &c));
    for (; ct_cursor_valid(c); i++) {
        struct ct_bytes v = ct_cursor_value(c);
        struct ct_room r  = { 0 };

        ASSERT_OK(ct_room_keep(&r, v, &v));
        if (i == 50)
            memcpy((char *)r.ptr + v.n - 200, "\xff\xd9", 2);
        ASSERT_OK(ct_db_put(out, ct_cursor_key(c), v));
        ct_room_fini(&r);
        ASSERT_OK(ct_cursor_next(c));
    }
    ASSERT_OK(ct_db_commit(out));
    ct_cursor_destroy(c);
    ct_db_close(in);
    ct_db_close(out);
    return path;
}

TEST(data, broken_jpeg_in_the_middle_follows_the_policy)
{
    const char *path     = with_a_broken_jpeg();
    struct layer_case *c = reader("lmdb", path, 30, "");
    struct layer_case *d = reader("lmdb", path, 30, "on_error: SKIP");
    int64_t n_skipped;

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_STATUS(CT_EPARSE, case_forward(c));
    ASSERT_HAS("record 00000050_", ct_last_error());
    ASSERT_HAS("JPEG", ct_last_error());
    ASSERT_OK(case_setup(d));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(case_forward(d));
    (void)ct_batches_stats(case_layer(d), &n_skipped);
    ASSERT(n_skipped >= 1);
}

static void put_datum(struct ct_db *db, const char *key, int channels,
                      int height)
{
    unsigned char pixel[64] = { 0 };
    struct ct_text t        = { 0 };
    struct ct_datum d = { .channels = channels, .height = height, .width = 2,
                          .data = { pixel, (size_t)(channels * height * 2) } };

    ASSERT_OK(ct_datum_write(&d, CT_DATUM_SHAPE, NULL, &t));
    ASSERT_OK(ct_db_put(db, (struct ct_bytes){ key, strlen(key) },
                        (struct ct_bytes){ t.s, t.n_bytes }));
    ct_text_fini(&t);
}

TEST(data, every_batch_takes_the_shape_of_its_first_record)
{
    const char *path = test_path("mixed");
    struct layer_case *c;
    struct ct_db *db;

    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_NEW, &db));
    put_datum(db, "a", 3, 2);
    put_datum(db, "b", 3, 2);
    put_datum(db, "c", 3, 4);
    put_datum(db, "d", 3, 4);
    put_datum(db, "e", 1, 4);
    put_datum(db, "f", 3, 4);
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
    c = reader("lmdb", path, 2, "");
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 2, 2);
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 2, 2);
    ASSERT_OK(case_reshape(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 4, 2);
    ASSERT_STATUS(CT_ESHAPE, case_forward(c)); /* 3 channels after 1 */
    ASSERT_HAS("layer d: record f: a sample of 3 x 4 x 2 values in a batch of "
               "1 x 4 x 2", ct_last_error());
}

TEST(data, label_is_optional)
{
    struct layer_case *c = reader("lmdb", small_db("lmdb", 4, -1), 2, "");

    case_tops(c, 1);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 10, 20, 30, 1, 11, 21, 31);
}

TEST(data, planned_top_is_copied_to_and_keeps_its_memory)
{
    struct layer_case *c = reader("lmdb", small_db("lmdb", 4, -1), 1, "");
    struct ct_blob *top;
    const float *at;

    ASSERT_OK(case_setup(c));
    top          = (struct ct_blob *)(uintptr_t)case_find(c, "top[0]");
    at           = ct_data(top);
    top->planned = true;
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(case_forward(c));
        ASSERT(ct_data(top) == at);
        ASSERT_FLOAT(10 + i, at[1], 0);
    }
}

TEST(data, counters_tell_what_was_delivered)
{
    struct layer_case *c = reader("lmdb", small_db("lmdb", 4, -1), 2, "");
    struct ct_prefetch_stats s;
    int64_t n_skipped;

    ASSERT_OK(case_setup(c));
    for (int i = 0; i < 5; i++)
        ASSERT_OK(case_forward(c));
    s = ct_batches_stats(case_layer(c), &n_skipped);
    ASSERT_INT(5, s.n_batches);
    ASSERT_INT(0, n_skipped);
    ASSERT(s.wait_s >= 0 && s.depth_sum >= 0 && s.depth_sum <= 25);
}

static void refused(enum ct_status want, const char *text, const char *param)
{
    struct layer_case *c = layer_case(CT_CPU, test_format(
        "name: 'd' type: 'Data' top: 'x' data_param { %s }", param));

    ASSERT_STATUS(want, case_setup(c));
    ASSERT_HAS("layer d", ct_last_error());
    ASSERT_HAS(text, ct_last_error());
}

TEST(data, bad_parameters_are_refused_by_layer_name)
{
    const char *path = small_db("lmdb", 2, -1);

    refused(CT_EINVAL, "batch_size", test_format("source: '%s' backend: LMDB",
                                                 path));
    refused(CT_EINVAL, "no source", "batch_size: 1");
    refused(CT_EINVAL, "prefetch", "source: 'x' batch_size: 1 prefetch: 0");
    refused(CT_ENOTFOUND, "nowhere", "source: 'nowhere' batch_size: 1");
    refused(CT_EINVAL, "set the backend to LMDB",
            test_format("source: '%s' batch_size: 1", path));
}

TEST(data, truncated_lmdb_is_refused)
{
    const char *path = test_copy("caffe_files/lmdb_raw");
    const char *file = test_format("%s/data.mdb", path);
    struct ct_bytes b = test_read(file);

    test_write(file, b.ptr, b.n / 2);
    refused(CT_EPARSE, "truncated",
            test_format("source: '%s' batch_size: 1 backend: LMDB", path));
}

TEST(data, damaged_leveldb_is_reported)
{
    const char *path = test_copy("caffe_files/leveldb_raw");
    const char *file = test_format("%s/000005.ldb", path);
    struct ct_bytes b = test_read(file);
    struct layer_case *c;
    enum ct_status st;

    test_write(file, b.ptr, b.n / 2);
    c  = reader("leveldb", path, 100, "");
    st = case_setup(c);
    ASSERT(st == CT_EPARSE || st == CT_EIO);
    ASSERT_HAS("layer d", ct_last_error());
}
