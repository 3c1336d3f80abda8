/* test_auto.c - roads chosen again while training goes on.
 *
 * Four ranks train a 300 x 50 matrix from 6 samples a rank; in the middle
 * rank 0 is told of another machine, so that it changes its mind, and all must
 * follow in the same iteration. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dist/ranks.h"

enum { P = 4, CHANGE_AT = 4, TURN_AT = 6 };

/* Factors are a tenth of the bytes, and cost products that sums do not. */
static const struct dist_machine slow_links = { 0, 1, 0, 1e18, 1, 0, 0 };
static const struct dist_machine slow_cores = { 0, 1e-9, 0, 1, 1, 0, 0 };

struct one_rank {
    struct ct_transport               *transport;
    const Caffe__SolverParameter      *param;
    const Caffe__DistributedParameter *options;
    struct dist_machine                machine; /* from CHANGE_AT on */
    struct dist_machine                turn; /* from TURN_AT on, if any, */
    double took, took_then; /* of the predicted time; from TURN_AT on */
    double                             scale[RANKS_STEPS]; /* of sums */
    enum ct_status                     st;
    char                               why[512];
    double                             loss[RANKS_STEPS];
    int                                n_factors[RANKS_STEPS];
    const char *net;                    /* NULL: the usual one */
    bool        turns; /* its chain, after any step; see net/chain.h */
};

/* What rank 0 is told of the iteration before: exchanges took so many times
 * what its machine makes one expect. */
static void pretend(double took, struct ct_dist *d)
{
    const struct dist_model m = { d->net, d->roads.forward,
                                  d->roads.backward, 0, 1 };
    struct dist_options o     = d->roads.options;

    o.scales = (struct dist_scales){ 0, 0, 0 };
    for (int i = 0; i < d->buckets.cut.n; i++)
        d->buckets.flight[i].slice[0].job.seconds =
            took * dist_bucket_cost(&m, &o, DIST_ROAD_AUTO, d->view.size,
                                       &d->buckets.cut, i).seconds;
    for (int i = 0; i < d->factors.n; i++) {
        struct dist_factor *x  = &d->factors.factor[i];
        struct dist_load load  = dist_model_load(&m, x->param);
        struct dist_cost c     = dist_factors_cost(&o, d->view.size, &load);

        x->job.seconds     = took * c.seconds;
        x->product_seconds = took * c.compute * P / (P - 1);
    }
}

static void tell(struct one_rank *r, struct ct_dist *d, int i)
{
    if (i == CHANGE_AT || (i == TURN_AT && r->turn.per_host)) {
        d->roads.options.machine = i == TURN_AT ? r->turn : r->machine;
        d->roads.options.scales  = (struct dist_scales){ 0, 0, 0 };
    }
    if (i > 0 && r->took > 0)
        pretend(i >= TURN_AT && r->took_then > 0 ? r->took_then : r->took, d);
}

static enum ct_status look(struct one_rank *r, struct ct_solver *s)
{
    char *text;

    CT_TRY(ct_net_plan_text(ct_solver_net(s), &text));
    r->turns |= strstr(text, "right away backward") != NULL;
    ct_free(text);
    return CT_OK;
}

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
        if (d->view.rank == 0)
            tell(r, d, i);
        st              = ct_solver_step(s, 1);
        if (st == CT_OK)
            st = look(r, s);
        r->scale[i]     = d->roads.options.scales.dense;
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

static Caffe__SolverParameter *solver(const char *net)
{
    static const char usual[] =
        "layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "
        "  dummy_data_param { shape { dim: 6 dim: 50 } "
        "  shape { dim: 6 dim: 300 } data_filler { value: 0.5 } "
        "  data_filler { value: 2 } } }"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
        "  inner_product_param { num_output: 300 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'y' bottom: 't' "
        "  top: 'loss' }";
    Caffe__SolverParameter *p = NULL;
    char text[2048];

    snprintf(text, sizeof(text), "net_param { %s } base_lr: 0.001 "
             "lr_policy: 'fixed' momentum: 0.9 random_seed: 9 "
             "snapshot_after_train: false", net ? net : usual);
    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    return p;
}

static void train_so(struct one_rank *r, const char *options,
                     struct one_rank how)
{
    const struct ct_loopback_options loop = { 0 };
    Caffe__SolverParameter *param  = solver(how.net);
    Caffe__DistributedParameter *p = NULL;
    struct ct_transport *t[P];
    pthread_t thread[P];

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    ASSERT_OK(test_ends(P, &loop, t));
    for (int i = 0; i < P; i++) {
        r[i]           = how;
        r[i].transport = t[i];
        r[i].param     = param;
        r[i].options   = p;
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

static void train_all(struct one_rank *r, const char *options,
                      struct dist_machine machine)
{
    train_so(r, options, (struct one_rank){ .machine = machine });
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

static const char often[] = "road: 'auto' redecide: 1 reduce: 'halving'";

/* By halving, four ranks send 6 bytes a float, at a byte a second; factors,
 * with the bias as it is, less, and products for what is left of `share` of
 * that time.  A tenth must be saved. */
static void turn(double share, int n_factors)
{
    struct one_rank r[P], how = { .machine = slow_cores, .took = 1 };
    const double bytes = 6 * (15000 + 316);
    const double sent  = 6 * 316 + 4 * 6 * 350 * (P - 1);

    how.turn = (struct dist_machine){
        0, 1, 0, 2 * 15000 * 6 * (P - 1) / (share * bytes - sent), 1, 0, 0 };
    train_so(r, often, how);
    ASSERT_INT(0, r[0].n_factors[TURN_AT - 1]);
    for (int i = 0; i < P; i++)
        ASSERT_INT(n_factors, r[i].n_factors[RANKS_STEPS - 1]);
}

TEST(auto, a_change_must_promise_a_tenth_of_the_step)
{
    turn(0.93, 0);
    turn(0.87, 1);
}

/* Exchanges take three times as long as predicted, then as long as that: the
 * newest iteration counts for a fifth. */
TEST(auto, what_is_new_counts_for_a_fifth)
{
    struct one_rank r[P], how = { .machine = slow_cores, .took = 3,
                                  .took_then = 1 };
    double scale = 3;

    train_so(r, "road: 'auto' redecide: 100 reduce: 'ring'", how);
    for (int i = CHANGE_AT; i < RANKS_STEPS; i++) {
        scale = i < TURN_AT ? 3 : 0.8 * scale + 0.2;
        ASSERT_FLOAT(scale, r[0].scale[i], 1e-6);
    }
}

static void small_groups_end(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
}

/* Roads change between forward and backward, and factors are made of what a
 * chain that turns has thrown away. */
TEST(auto, nets_whose_roads_may_change_do_not_turn)
{
    static const char net[] =
        "layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "
        "  dummy_data_param { shape { dim: 6 dim: 3 dim: 8 dim: 8 } "
        "  shape { dim: 6 } data_filler { value: 0.5 } "
        "  data_filler { value: 2 } } }"
        "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "
        "  convolution_param { num_output: 16 kernel_size: 3 pad: 1 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: 'y' "
        "  inner_product_param { num_output: 24 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 't' "
        "  top: 'loss' }";
    struct one_rank dense[P], r[P];
    struct one_rank how = { .machine = slow_links, .net = net };

    test_defer(small_groups_end, NULL);
    setenv("CORTADO_IMPL", "chain:2", 1);
    train_so(dense, "road: 'allreduce' reduce: 'ring'", how);
    train_so(r, "road: 'auto' redecide: 1 reduce: 'ring'", how);
    ASSERT_INT(1, r[0].n_factors[RANKS_STEPS - 1]);
    for (int i = 0; i < P; i++) {
        ASSERT(dense[i].turns);
        ASSERT(!r[i].turns);
        for (int k = 0; k < RANKS_STEPS; k++)
            ASSERT_FLOAT(dense[i].loss[k], r[i].loss[k],
                         1e-4 * dense[i].loss[0]);
    }
}
