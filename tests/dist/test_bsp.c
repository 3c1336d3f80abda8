/* test_bsp.c - ranks as threads of one process: k ranks at batch B/k train as
 * one rank at batch B, whatever the way to sum, and stay equal. */
#include <pthread.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/log.h"
#include "cortado/solver.h"
#include "data/hdf5.h"
#include "dist/dist.h"
#include "testing/test.h"

enum { BATCH = 24, ROWS = 96, STEPS = 9, MOST_RANKS = 8 };

static char source[512];

/* 96 rows of 3 x 6 x 6 values and a label, in an HDF5 file. */
static void make_data(void)
{
    static float x[ROWS * 108], y[ROWS];
    char file[512];
    struct ct_hdf5 *h;
    FILE *list;

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

static Caffe__SolverParameter *solver_param(int ranks, const char *more)
{
    Caffe__SolverParameter *p = NULL;
    char text[4096];

    snprintf(text, sizeof(text),
        "net_param { name: 'd' layer { name: 'd' type: 'HDF5Data' top: 'x' "
        "  top: 'y' hdf5_data_param { source: '%s' batch_size: %d } }"
        "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "
        "  convolution_param { num_output: 8 kernel_size: 3 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
        "layer { name: 'f' type: 'InnerProduct' bottom: 'c' top: 'f' "
        "  param { name: 'w' } param { name: 'b' } "
        "  inner_product_param { num_output: 128 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 't' type: 'TanH' bottom: 'f' top: 'f' }"
        "layer { name: 'f2' type: 'InnerProduct' bottom: 'f' top: 'f2' "
        "  param { name: 'w' } param { name: 'b' } "
        "  inner_product_param { num_output: 128 } }"
        "layer { name: 'g' type: 'InnerProduct' bottom: 'f2' top: 'g' "
        "  inner_product_param { num_output: 5 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'g' bottom: 'y' "
        "  top: 'loss' } } base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 "
        "weight_decay: 0.001 random_seed: 9 snapshot_after_train: false %s",
        source, BATCH / ranks, more);
    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    return p;
}

struct rank {
    struct ct_transport          *transport;
    const Caffe__SolverParameter *param;
    struct ct_dist_options        options;
    enum ct_status                st;
    char                          why[512];
    double                        loss[STEPS];
    float                        *weights; /* all parameters at the end */
    size_t                        n;
    struct ct_dist_stats          stats;
    int                           spoil_at; /* step before which w changes */
};

static enum ct_status run_rank(struct rank *r, struct ct_dist *d)
{
    struct ct_solver_options o = { .rank     = ct_dist_rank(d),
                                   .size     = ct_dist_size(d),
                                   .exchange = ct_dist_exchange(d) };
    struct ct_solver *s = NULL;
    enum ct_status st;

    CT_TRY(ct_solver_create(r->param, &o, &s));
    st = CT_OK;
    for (int i = 0; i < STEPS && st == CT_OK; i++) {
        if (r->spoil_at && i == r->spoil_at)
            ct_data(ct_net_param(ct_solver_net(s), 0)->blob)[0] += 1;
        st         = ct_solver_step(s, 1);
        r->loss[i] = ct_solver_loss(s);
    }
    r->n = ct_net_arena_count(ct_solver_net(s));
    r->weights = ct_malloc(r->n * sizeof(float), "weights of a rank");
    memcpy(r->weights, ct_net_arena_data(ct_solver_net(s)),
           r->n * sizeof(float));
    r->stats = ct_dist_stats(d);
    ct_solver_destroy(s);
    return st;
}

static void *rank_thread(void *arg)
{
    struct rank *r    = arg;
    struct ct_dist *d = NULL;

    ct_device_cpu_set_threads(1);
    r->st = dist_create_over(r->transport, &r->options, &d);
    if (r->st == CT_OK)
        r->st = run_rank(r, d);
    if (r->st != CT_OK) {
        snprintf(r->why, sizeof(r->why), "%s", ct_last_error());
        ct_dist_abort(d, 1);
    }
    ct_dist_destroy(d);
    return NULL;
}

static void free_weights(void *arg)
{
    struct rank *r = arg;

    for (int i = 0; i < MOST_RANKS; i++)
        ct_free(r[i].weights);
    ct_free(r);
}

/* Trains on `n` ranks; the caller looks at what each ended with. */
static struct rank *train(int n, const char *more,
                          struct ct_dist_options options, int spoil_at)
{
    struct rank *r = ct_calloc(MOST_RANKS, sizeof(*r), "ranks");
    struct ct_transport *t[MOST_RANKS];
    pthread_t thread[MOST_RANKS];
    const struct ct_loopback_options loop = { 0 };
    Caffe__SolverParameter *param = solver_param(n, more);

    test_defer(free_weights, r);
    ASSERT_OK(ct_loopback_create(n, &loop, t));
    for (int i = 0; i < n; i++) {
        r[i].transport = t[i];
        r[i].param     = param;
        r[i].options   = options;
        r[i].spoil_at  = i == n - 1 ? spoil_at : 0;
        pthread_create(&thread[i], NULL, rank_thread, &r[i]);
    }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    ct_message_free(param);
    return r;
}

static void same_as_one(const struct rank *one, const struct rank *r, int n)
{
    double most = 0;

    for (size_t j = 0; j < one->n; j++)
        most = fmax(most, fabs((double)one->weights[j]));
    for (int i = 0; i < n; i++) {
        if (r[i].st != CT_OK)
            FAIL("rank %d: %s", i, r[i].why);
        for (int k = 0; k < STEPS; k++)
            ASSERT_FLOAT(one->loss[k], r[i].loss[k], 1e-5);
        for (size_t j = 0; j < one->n; j++)
            ASSERT_FLOAT(one->weights[j], r[i].weights[j], 1e-5 * most);
        ASSERT_INT(0, memcmp(r[0].weights, r[i].weights,
                             one->n * sizeof(float)));
    }
}

TEST(bsp, k_ranks_at_a_kth_of_the_batch_train_as_one)
{
    static const int counts[] = { 2, 3, 4, 8 };
    struct rank *one;

    make_data();
    one = train(1, "", (struct ct_dist_options){ 0 }, 0);
    ASSERT_OK(one->st);
    ASSERT(one->loss[STEPS - 1] < one->loss[0]);
    for (int i = 0; i < 4; i++)
        same_as_one(one, train(counts[i], "", (struct ct_dist_options){
                                                  .bucket_bytes = 4096 }, 0),
                    counts[i]);
}

TEST(bsp, every_way_to_sum_trains_alike)
{
    static const char *const ways[] = { "ring", "halving", "tree",
                                        "hierarchical" };
    struct rank *one;

    make_data();
    one = train(1, "", (struct ct_dist_options){ 0 }, 0);
    for (int i = 0; i < 4; i++)
        same_as_one(one, train(3, "", (struct ct_dist_options){
                                          .reduce = ways[i] }, 0), 3);
}

TEST(bsp, clipping_micro_batches_and_no_overlap_keep_to_it)
{
    const char *clip = "clip_gradients: 0.05";
    struct rank *one;

    make_data();
    one = train(1, clip, (struct ct_dist_options){ 0 }, 0);
    same_as_one(one, train(4, clip, (struct ct_dist_options){ 0 }, 0), 4);
    one = train(1, "iter_size: 2", (struct ct_dist_options){ 0 }, 0);
    same_as_one(one, train(2, "iter_size: 2",
                           (struct ct_dist_options){ .no_overlap = true }, 0),
                2);
}

TEST(bsp, factors_give_the_gradient_that_sums_give)
{
    struct rank *one;

    make_data();
    one = train(1, "", (struct ct_dist_options){ 0 }, 0);
    for (int n = 2; n <= 4; n++)
        same_as_one(one, train(n, "", (struct ct_dist_options){
                                          .road = "factors" }, 0), n);
    one = train(1, "clip_gradients: 0.05", (struct ct_dist_options){ 0 }, 0);
    same_as_one(one, train(2, "clip_gradients: 0.05",
                           (struct ct_dist_options){ .road = "factors" }, 0),
                2);
}

/* g is 5 x 128 from 6 samples a rank: 6 x 133 floats to each of 3 peers. */
TEST(bsp, factors_send_the_formulas_bytes)
{
    struct rank *dense, *fact;
    double saved;

    make_data();
    dense = train(4, "", (struct ct_dist_options){ .road = "allreduce",
                                                   .reduce = "ring" }, 0);
    fact = train(4, "", (struct ct_dist_options){ .road = "factors",
                                                  .reduce = "ring" }, 0);
    ASSERT_OK(fact[1].st);
    saved = ((double)dense[1].stats.bytes_sent -
             (double)fact[1].stats.bytes_sent) / STEPS;
    /* Dense sends 2 3/4 640 floats for it. */
    ASSERT_FLOAT(4 * (2 * 0.75 * 640 - 3 * 6 * 133), saved, 1e-6);
}

TEST(bsp, a_rank_that_drifts_is_caught_with_its_layer)
{
    struct rank *r;

    make_data();
    r = train(3, "", (struct ct_dist_options){ .guard_interval = 1 }, 4);
    ASSERT_STATUS(CT_ECOMM, r[0].st);
    ASSERT_HAS("rank 2", r[0].why);
    ASSERT_HAS("layer c", r[0].why);
}

TEST(bsp, bytes_on_the_wire_are_those_of_the_formula)
{
    struct rank *r;
    double floats;

    make_data();
    r = train(4, "", (struct ct_dist_options){ .road = "allreduce",
                                               .reduce = "ring",
                                               .bucket_bytes = 1 << 30 }, 0);
    ASSERT_OK(r[1].st);
    floats = 2.0 * 3 / 4 * (double)r[1].n; /* 2 (P-1)/P n an exchange */
    ASSERT_FLOAT(STEPS * floats * sizeof(float),
                 (double)r[1].stats.bytes_sent, 1e-6);
    ASSERT_INT(STEPS, r[1].stats.n_exchanges);
}

TEST(bsp, an_unknown_way_to_sum_is_refused)
{
    struct rank *r;

    make_data();
    r = train(2, "", (struct ct_dist_options){ .reduce = "shout" }, 0);
    ASSERT_STATUS(CT_EINVAL, r[0].st);
    ASSERT_HAS("shout", r[0].why);
}
