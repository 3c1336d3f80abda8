/* test_auto.c - roads chosen again while training goes on.
 *
 * Four ranks train a 300 x 50 matrix from 6 samples a rank; in the middle
 * rank 0 is told of another machine, so that it changes its mind, and all must
 * follow in the same iteration. */
#include <pthread.h>

#include "dist/ranks.h"

enum { P = 4, CHANGE_AT = 4 };

/* Factors are a tenth of the bytes, and cost products that sums do not. */
static const struct dist_machine slow_links = { 0, 1, 0, 1e18, 1, 0, 0 };
static const struct dist_machine slow_cores = { 0, 1e-9, 0, 1, 1, 0, 0 };

struct one_rank {
    struct ct_transport               *transport;
    const Caffe__SolverParameter      *param;
    const Caffe__DistributedParameter *options;
    struct dist_machine                machine; /* from CHANGE_AT on */
    enum ct_status                     st;
    char                               why[512];
    double                             loss[RANKS_STEPS];
    int                                n_factors[RANKS_STEPS];
};

static enum ct_status train(struct one_rank *r, struct ct_dist *d)
{
    struct ct_solver_options o = { .rank     = ct_dist_rank(d),
                                   .size     = ct_dist_size(d),
                                   .exchange = ct_dist_exchange(d) };
    struct ct_solver *s = NULL;
    enum ct_status st;

    CT_TRY(ct_solver_create(r->param, &o, &s));
    st = CT_OK;
    for (int i = 0; i < RANKS_STEPS && st == CT_OK; i++) {
        if (i == CHANGE_AT && d->rank == 0) {
            d->roads.options.machine = r->machine;
            d->roads.options.scales  = (struct dist_scales){ 0, 0, 0 };
        }
        st              = ct_solver_step(s, 1);
        r->loss[i]      = ct_solver_loss(s);
        r->n_factors[i] = d->factors.n;
    }
    ct_solver_destroy(s);
    return st;
}

static void *rank_thread(void *arg)
{
    struct one_rank *r = arg;
    struct ct_dist *d  = NULL;

    ct_device_cpu_set_threads(1);
    r->st = dist_create_over(r->transport, r->options, &d);
    if (r->st == CT_OK)
        r->st = train(r, d);
    if (r->st != CT_OK) {
        snprintf(r->why, sizeof(r->why), "%s", ct_last_error());
        ct_dist_abort(d, 1);
    }
    ct_dist_destroy(d);
    return NULL;
}

static Caffe__SolverParameter *solver(void)
{
    static const char text[] =
        "net_param { layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "
        "  dummy_data_param { shape { dim: 6 dim: 50 } "
        "  shape { dim: 6 dim: 300 } data_filler { value: 0.5 } "
        "  data_filler { value: 2 } } }"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
        "  inner_product_param { num_output: 300 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'y' bottom: 't' "
        "  top: 'loss' } } base_lr: 0.001 lr_policy: 'fixed' momentum: 0.9 "
        "random_seed: 9 snapshot_after_train: false";
    Caffe__SolverParameter *p = NULL;

    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            sizeof(text) - 1, "test", &p));
    return p;
}

static void train_all(struct one_rank *r, const char *options,
                      struct dist_machine machine)
{
    const struct ct_loopback_options loop = { 0 };
    Caffe__SolverParameter *param  = solver();
    Caffe__DistributedParameter *p = NULL;
    struct ct_transport *t[P];
    pthread_t thread[P];

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    ASSERT_OK(ct_loopback_create(P, &loop, t));
    for (int i = 0; i < P; i++) {
        r[i] = (struct one_rank){ .transport = t[i], .param = param,
                                  .options = p, .machine = machine };
        pthread_create(&thread[i], NULL, rank_thread, &r[i]);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    ct_message_free(param);
    ct_message_free(p);
    for (int i = 0; i < P; i++)
        if (r[i].st != CT_OK)
            FAIL("rank %d: %s", i, r[i].why);
}

static void change_over(const struct one_rank *dense,
                        struct dist_machine machine, int n_factors,
                        const char *options, double tolerance)
{
    struct one_rank r[P];

    train_all(r, options, machine);
    ASSERT_INT(n_factors, r[0].n_factors[RANKS_STEPS - 1]);
    for (int i = 0; i < P; i++)
        for (int k = 0; k < RANKS_STEPS; k++) {
            ASSERT_FLOAT(dense->loss[k], r[i].loss[k],
                         tolerance * dense->loss[0]);
            ASSERT_INT(r[0].n_factors[k], r[i].n_factors[k]);
        }
}

TEST(auto, all_ranks_change_over_in_one_iteration_and_train_on)
{
    static const char plain[] = "road: 'auto' redecide: 1 guard_interval: 1 "
                                "reduce: 'ring'";
    static const char coded[] = "road: 'auto' redecide: 1 guard_interval: 1 "
                                "compress: 'bf16'";
    struct one_rank dense[P];

    train_all(dense, "road: 'allreduce' reduce: 'ring'", slow_links);
    ASSERT(dense->loss[RANKS_STEPS - 1] < dense->loss[0] / 2);
    ASSERT_INT(0, dense->n_factors[0]);
    change_over(dense, slow_links, 1, plain, 1e-4);
    change_over(dense, slow_cores, 0, plain, 1e-4);
    /* Nothing of a gradient waits in bf16's buckets, so they may change. */
    change_over(dense, slow_links, 1, coded, 2e-2);
    change_over(dense, slow_cores, 0, coded, 2e-2);
}

TEST(auto, redecide_0_keeps_the_first_choice)
{
    struct one_rank r[P];

    train_all(r, "road: 'auto' reduce: 'ring' redecide: 0", slow_cores);
    for (int k = 1; k < RANKS_STEPS; k++)
        ASSERT_INT(r[0].n_factors[0], r[0].n_factors[k]);
}
