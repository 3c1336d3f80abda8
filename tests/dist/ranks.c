/* ranks.c - ranks as threads of one process that train one small net. */
#include "dist/ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/db_writer.h"
#include "data/hdf5.h"
#include "testing/files.h"

enum { ROWS = 96 };

static char source[512];
static const char *inserted = "";

static int batch_given;
static const char *db_path, *db_words;

void ranks_source_db(const char *path, const char *more)
{
    db_path  = path;
    db_words = more;
}

void ranks_batch(int batch)
{
    batch_given = batch;
}

void ranks_insert(const char *layers)
{
    inserted = layers;
}

/* 96 rows of 3 x 6 x 6 values and a label, in an HDF5 file. */
void ranks_make_data(void)
{
    static float x[ROWS * 108], y[ROWS];
    char file[512];
    struct ct_hdf5 *h;
    FILE *list;

    inserted    = "";
    batch_given = 0;
    db_path     = NULL;
    for (int i = 0; i < ROWS * 108; i++)
        x[i] = ct_normal(3, 0, (uint64_t)i);
    for (int i = 0; i < ROWS; i++)
        y[i] = (float)(ct_philox_word(4, 0, (uint64_t)i) % 5);
    snprintf(file, sizeof(file), "%s/data.h5", test_folder());
    ASSERT_OK(ct_hdf5_create(file, &h));
    ASSERT_OK(ct_hdf5_write(h, "x", CT_SHAPE(ROWS, 3, 6, 6), x));
    ASSERT_OK(ct_hdf5_write(h, "y", CT_SHAPE(ROWS), y));
    ASSERT_OK(ct_hdf5_close(h));
    snprintf(source, sizeof(source), "%s/list.txt", test_folder());
    list = fopen(source, "w");
    ASSERT(list);
    fprintf(list, "%s\n", file);
    fclose(list);
}

const char *ranks_make_db(const char *name)
{
    const char *path = test_format("%s/%s", test_folder(), name);
    struct ct_db_writer *w;
    uint8_t pixel[108];

    ASSERT_OK(ct_db_writer_create("lmdb", path, &w));
    for (int i = 0; i < 90; i++) {
        struct ct_datum d = { .channels = 3, .height = 6, .width = 6,
                              .label = (int)(ct_philox_word(5, 0, (uint64_t)i)
                                             % 5),
                              .data = { pixel, sizeof(pixel) } };

        for (int k = 0; k < 108; k++)
            pixel[k] = (uint8_t)ct_philox_word(6, (uint64_t)i, (uint64_t)k);
        ASSERT_OK(ct_db_writer_put_datum(w, 5, i, &d, CT_DATUM_SHAPE |
                                         CT_DATUM_LABEL, NULL));
    }
    ASSERT_OK(ct_db_writer_finish(w));
    ct_db_writer_destroy(w);
    return path;
}

const char *ranks_source(void)
{
    return source;
}

Caffe__SolverParameter *ranks_solver(int n_ranks, const char *more)
{
    Caffe__SolverParameter *p = NULL, *add = NULL, *both = NULL;
    char data[1024], text[8192];

    snprintf(data, sizeof(data), db_path
             ? "type: 'Data' transform_param { scale: 0.01 mean_value: 128 } "
               "data_param { source: '%s' batch_size: %d backend: LMDB %s }"
             : "type: 'HDF5Data' hdf5_data_param { source: '%s' "
               "batch_size: %d } %s",
             db_path ? db_path : source,
             batch_given ? batch_given : RANKS_BATCH / n_ranks,
             db_path ? db_words : "");
    snprintf(text, sizeof(text),
        "net_param { name: 'd' layer { name: 'd' top: 'x' top: 'y' %s }"
        "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "
        "  convolution_param { num_output: 8 kernel_size: 3 "
        "  weight_filler { type: 'xavier' } } }"
        "%s layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
        "layer { name: 'f' type: 'InnerProduct' bottom: 'c' top: 'f' "
        "  param { name: 'w' } param { name: 'b' } "
        "  inner_product_param { num_output: 128 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 't' type: 'TanH' bottom: 'f' top: 'f' }"
        "layer { name: 'f2' type: 'InnerProduct' bottom: 'f' top: 'f2' "
        "  param { name: 'w' } inner_product_param { num_output: 128 } }"
        "layer { name: 'g' type: 'InnerProduct' bottom: 'f2' top: 'g' "
        "  inner_product_param { num_output: 5 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'g' bottom: 'y' "
        "  top: 'loss' } } base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 "
        "weight_decay: 0.001 random_seed: 9 snapshot_after_train: false",
        data, inserted);
    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, more,
                            strlen(more), "test", &add));
    ASSERT_OK(ct_message_merge(p, add, &both));
    ct_message_free(p);
    ct_message_free(add);
    return both;
}

static void show(const struct ct_iteration *e, void *arg)
{
    struct rank *r = arg;

    if (r->how->each)
        r->how->each(r, e->iter + 1);
}

static const struct ct_solver_events events = { .iteration = show };

static bool on_gpu(int number)
{
    const char *name = getenv("CORTADO_TEST_DEVICE");

    return name && (strcmp(name, "cuda") == 0 ||
                    (strcmp(name, "mixed") == 0 && number % 2 == 0));
}

bool ranks_alike(int number)
{
    return on_gpu(number) == on_gpu(0);
}

/* Devices sum in other orders. */
static double tolerance(void)
{
    return on_gpu(0) ? 2e-4 : 1e-5;
}

static enum ct_status spoil(const struct ct_net *net)
{
    const struct ct_blob *b = ct_net_param(net, 0)->blob;
    float first;

    CT_TRY(b->dev->ops->to_host(b->dev, sizeof(first), ct_data(b), &first));
    first += 1;
    return b->dev->ops->from_host(b->dev, sizeof(first), &first, ct_data(b));
}

static enum ct_status step_rank(struct rank *r, struct ct_solver *s)
{
    if (r->how->resume)
        CT_TRY(ct_solver_restore(s, r->how->alone && r->number > 0
                                        ? "/no/such/file"
                                        : r->how->resume));
    if (r->how->stay)
        return ct_solver_snapshot(s);
    if (r->how->steps) {
        CT_TRY(ct_solver_step(s, r->how->steps));
        r->loss[0] = ct_solver_loss(s);
        return CT_OK;
    }
    for (int i = ct_solver_iter(s); i < RANKS_STEPS; i++) {
        if (r->spoil_at && i == r->spoil_at)
            CT_TRY(spoil(ct_solver_net(s)));
        CT_TRY(ct_solver_step(s, 1));
        r->loss[i] = ct_solver_loss(s);
    }
    return CT_OK;
}

static enum ct_status run_rank(struct rank *r, struct ct_dist *d,
                               const struct ct_device *dev)
{
    struct ct_solver_options o = { .device   = dev,
                                   .rank     = ct_dist_rank(d),
                                   .size     = ct_dist_size(d),
                                   .action   = r->how->action,
                                   .arg      = r,
                                   .exchange = ct_dist_exchange(d) };
    struct ct_solver *s = NULL;
    enum ct_status st;

    CT_TRY(ct_solver_create(r->param, &o, &s));
    CT_TRY(ct_solver_listen(s, &events, r));
    r->net      = ct_solver_net(s);
    r->exchange = o.exchange;
    st          = step_rank(r, s);
    if (st == CT_OK && r->param->snapshot_after_train)
        st = ct_solver_snapshot(s);
    r->iter = ct_solver_iter(s);
    r->n = ct_net_arena_count(ct_solver_net(s));
    r->weights = ct_calloc(r->n, sizeof(float), "weights of a rank");
    for (int i = 0; i < ct_net_n_params(r->net) && st == CT_OK; i++) {
        const struct ct_net_param *p = ct_net_param(r->net, i);

        st = dev->ops->to_host(dev, (size_t)p->blob->count * sizeof(float),
                               ct_data(p->blob), r->weights + p->offset);
    }
    ct_solver_destroy(s);
    r->stats = ct_dist_stats(d);
    return st;
}

/* Nobody's transport goes while all are told that their view is over. */
static pthread_mutex_t leaving = PTHREAD_MUTEX_INITIALIZER;

void ranks_over(const struct rank *r)
{
    const struct rank *all = r - r->number;

    pthread_mutex_lock(&leaving);
    for (int i = 0; i < r->how->n_ranks; i++)
        all[i].transport->ops->over(all[i].transport);
    pthread_mutex_unlock(&leaving);
}

static atomic_int n_failed; /* ranks of the job */

bool ranks_have_failed(void)
{
    return atomic_load(&n_failed) > 0;
}

static void *rank_thread(void *arg)
{
    struct rank *r    = arg;
    struct ct_dist *d = NULL;
    const struct ct_device *dev = ct_device_cpu();

    ct_device_cpu_set_threads(1);
    r->st = dist_create_over(r->transport, r->options, &d);
    if (r->st == CT_OK && on_gpu(r->number))
        r->st = ct_device_cuda_open(0, CT_FP32, &dev);
    if (r->st == CT_OK)
        r->st = run_rank(r, d, dev);
    if (r->st != CT_OK) {
        snprintf(r->why, sizeof(r->why), "%s", ct_last_error());
        atomic_fetch_add(&n_failed, 1);
        if (!r->how->quiet)
            ct_dist_abort(d, 1);
    }
    pthread_mutex_lock(&leaving);
    pthread_mutex_unlock(&leaving);
    ct_dist_destroy(d);
    ct_device_close(dev);
    return NULL;
}

static void free_weights(void *arg)
{
    struct rank *r = arg;

    for (int i = 0; i < RANKS_MOST; i++)
        ct_free(r[i].weights);
    ct_free(r);
}

static void free_message(void *message)
{
    ct_message_free(message);
}

struct rank *ranks_train_so(const struct ranks_how *how)
{
    const int n = how->n_ranks;
    Caffe__DistributedParameter *p = NULL;
    struct rank *r = ct_calloc(RANKS_MOST, sizeof(*r), "ranks");
    struct ct_transport *t[RANKS_MOST];
    pthread_t thread[RANKS_MOST];
    const struct ct_loopback_options loop = { .delay_seed = how->delay_seed,
                                              .host       = how->host };
    Caffe__SolverParameter *param =
        ranks_solver(n - how->n_servers, how->more ? how->more : "");

    ASSERT(n <= RANKS_MOST);
    test_defer(free_weights, r);
    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor,
                            how->options, strlen(how->options), "test", &p));
    test_defer(free_message, p);
    ASSERT_OK(test_ends(n, &loop, t));
    atomic_store(&n_failed, 0);
    for (int i = 0; i < n; i++) {
        r[i].transport = t[i];
        r[i].param     = param;
        r[i].options   = p;
        r[i].how       = how;
        r[i].number    = i;
        r[i].spoil_at  = i == n - 1 ? how->spoil_at : 0;
        pthread_create(&thread[i], NULL, rank_thread, &r[i]);
    }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    ct_message_free(param);
    return r;
}

struct rank *ranks_train(int n, const char *more, const char *options,
                         int spoil_at)
{
    return ranks_train_so(&(struct ranks_how){ .n_ranks  = n,
                                               .more     = more,
                                               .options  = options,
                                               .spoil_at = spoil_at });
}

struct rank *ranks_resume(int n, const char *more, const char *options,
                          const char *snapshot, bool stay)
{
    return ranks_train_so(&(struct ranks_how){ .n_ranks = n,
                                               .more    = more,
                                               .options = options,
                                               .resume  = snapshot,
                                               .stay    = stay });
}

struct rank *ranks_train_at_once(int n, const char *more, const char *options)
{
    return ranks_train_so(&(struct ranks_how){ .n_ranks = n,
                                               .more    = more,
                                               .options = options,
                                               .steps   = RANKS_STEPS });
}

void ranks_refuse(const char *text, const struct rank *r, int n)
{
    bool said = false;

    for (int i = 0; i < n; i++) {
        ASSERT(r[i].st != CT_OK);
        said |= strstr(r[i].why, text) != NULL;
    }
    if (!said)
        FAIL("no rank says \"%s\", rank 0: %s", text, r->why);
}

void ranks_same_as_one(const struct rank *one, const struct rank *r, int n)
{
    ranks_near_one(one, r, n, tolerance());
}

void ranks_near_one(const struct rank *one, const struct rank *r, int n,
                    double limit)
{
    double most = 0;

    for (size_t j = 0; j < one->n; j++)
        most = fmax(most, fabs((double)one->weights[j]));
    for (int i = 0; i < n; i++) {
        if (r[i].st != CT_OK)
            FAIL("rank %d: %s", i, r[i].why);
        for (int k = 0; k < RANKS_STEPS; k++)
            if (!(fabs(one->loss[k] - r[i].loss[k]) <= limit))
                FAIL("rank %d of %d, step %d: the loss is %.9g, wanted %.9g",
                     i, n, k, r[i].loss[k], one->loss[k]);
        for (size_t j = 0; j < one->n; j++)
            ASSERT_FLOAT(one->weights[j], r[i].weights[j], limit * most);
        if (ranks_alike(i))
            ASSERT_INT(0, memcmp(r[0].weights, r[i].weights,
                                 one->n * sizeof(float)));
    }
}

enum ct_status ranks_net(const char *text, struct ct_net **out)
{
    struct ct_net_options o = { .phase = CAFFE__PHASE__TRAIN, .seed = 3,
                                .quiet = true };
    Caffe__NetParameter *p = NULL;
    enum ct_status st;

    CT_TRY(ct_text_parse(&caffe__net_parameter__descriptor, text,
                         strlen(text), "test", &p));
    st = ct_net_create(p, &o, out);
    ct_message_free(p);
    return st;
}
