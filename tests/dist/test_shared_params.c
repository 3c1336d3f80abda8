/* test_shared_params.c - ranks of a host that have parameters and histories
 * once, and update them together. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cortado/access.h"
#include "dist/ranks.h"

static const char *const rules[] = {
    "",
    "type: 'Nesterov' regularization_type: 'L1'",
    "type: 'AdaGrad' momentum: 0",
    "type: 'RMSProp' momentum: 0 rms_decay: 0.9 base_lr: 0.01",
    "type: 'AdaDelta' base_lr: 1 delta: 1e-4",
    "type: 'Adam' base_lr: 0.01 lr_policy: 'multistep' gamma: 0.5 "
    "stepvalue: 3 stepvalue: 6",
    "type: 'AdamW' base_lr: 0.01 warmup_iter: 4",
    "iter_size: 2 lr_policy: 'step' gamma: 0.5 stepsize: 4",
};

static void skip_on_gpu(void)
{
    if (getenv("CORTADO_TEST_DEVICE"))
        test_skip("on a GPU every rank has its own copy");
}

/* A shared parameter has one place. */
static float *place_of_first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_elsewhere;

static void look(const struct rank *r, int iter)
{
    float *mine = ct_data(ct_net_param(r->net, 0)->blob);

    if (iter != 2)
        return;
    pthread_mutex_lock(&lock);
    n_elsewhere += place_of_first && mine != place_of_first;
    place_of_first = mine;
    pthread_mutex_unlock(&lock);
}

static int count_places(int n, const char *more, const char *options)
{
    struct rank *r;

    place_of_first = NULL;
    n_elsewhere    = 0;
    r = ranks_train_so(&(struct ranks_how){ .n_ranks = n, .more = more,
                                            .options = options,
                                            .each = look });
    for (int i = 0; i < n; i++)
        ASSERT_OK(r[i].st);
    return n_elsewhere;
}

TEST(shared_params, ranks_of_a_host_have_one_copy_where_they_can)
{
    skip_on_gpu();
    ranks_make_data();
    ASSERT_INT(0, count_places(4, "", ""));
    ASSERT_INT(0, count_places(3, "type: 'Adam'", "road: 'factors'"));
    ASSERT(count_places(3, "", "reduce: 'ring'") > 0);
    ASSERT(count_places(3, "clip_gradients: 1", "") > 0);
    ASSERT(count_places(3, "type: 'LARS'", "") > 0);
    ASSERT(count_places(3, "", "compress: 'bf16'") > 0);
    ASSERT(count_places(3, "", "sync: 'local'") > 0);
}

static void same(const struct rank *a, const struct rank *b, int n)
{
    double most = 0;

    for (int i = 0; i < n; i++) {
        if (a[i].st != CT_OK || b[i].st != CT_OK)
            FAIL("rank %d: %s %s", i, a[i].why, b[i].why);
        for (int k = 0; k < RANKS_STEPS; k++)
            ASSERT_FLOAT(a[i].loss[k], b[i].loss[k], 2e-5 * a[i].loss[0]);
        for (size_t j = 0; j < a[i].n; j++)
            most = fmax(most, fabs((double)a[i].weights[j]));
        for (size_t j = 0; j < a[i].n; j++)
            ASSERT_FLOAT(a[i].weights[j], b[i].weights[j], 2e-5 * most);
    }
}

/* The update of a part is the update that each rank makes of the whole. */
TEST(shared_params, every_rule_trains_as_copies_do)
{
    skip_on_gpu();
    ranks_make_data();
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        same(ranks_train(3, rules[i], "reduce: 'ring'", 0),
             ranks_train(3, rules[i], "bucket_bytes: 4096", 0), 3);
}

TEST(shared_params, any_number_of_ranks_trains_as_copies_do)
{
    static const int counts[] = { 2, 3, 4, 7, 8 };
    static const char *const roads[] = { "road: 'allreduce'",
                                         "road: 'factors'" };

    ranks_make_data();
    ranks_batch(3);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 2; k++)
            same(ranks_train(counts[i], "", "reduce: 'ring'", 0),
                 ranks_train(counts[i], "", roads[k], 0), counts[i]);
}

/* Gradients of several tiles, across and down: 40 x 8300 and 8300 x 108. */
TEST(shared_params, tiles_of_factors_make_whole_gradients)
{
    skip_on_gpu();
    ranks_make_data();
    ranks_insert("layer { name: 'tall' type: 'InnerProduct' bottom: 'x' "
                 "top: 'tall' inner_product_param { num_output: 8300 "
                 "weight_filler { type: 'xavier' } } } "
                 "layer { name: 'wide' type: 'InnerProduct' bottom: 'tall' "
                 "top: 'wide' inner_product_param { num_output: 40 "
                 "weight_filler { type: 'xavier' } } } "
                 "layer { name: 'q' type: 'Reduction' bottom: 'wide' top: 'q' "
                 "loss_weight: 1e-3 reduction_param { operation: SUMSQ } } ");
    same(ranks_train(3, "", "reduce: 'ring'", 0),
         ranks_train(3, "", "road: 'factors'", 0), 3);
}

/* Each rank has seen other samples; a copy for all would mix them up. */
TEST(shared_params, statistics_stay_each_ranks_own)
{
    struct rank *copies, *shared;

    ranks_make_data();
    ranks_insert("layer { name: 'n' type: 'BatchNorm' bottom: 'c' top: 'c' } "
                 "layer { name: 's' type: 'Scale' bottom: 'c' top: 'c' "
                 "scale_param { bias_term: true } } "
                 "layer { name: 'z' type: 'Scale' bottom: 'c' top: 'c' "
                 "param { lr_mult: 0 } } ");
    copies = ranks_train(3, "", "reduce: 'ring'", 0);
    shared  = ranks_train(3, "", "", 0);
    same(copies, shared, 3);
    ASSERT(memcmp(shared[0].weights, shared[1].weights,
                  shared->n * sizeof(float)) != 0);
}

TEST(shared_params, a_snapshot_goes_on_with_any_number_of_ranks)
{
    static const char *const formats[] = { "BINARYPROTO", "HDF5" };
    char more[600], state[600];
    struct rank *one, *rest;

    ranks_make_data();
    one = ranks_train(1, "type: 'Adam' base_lr: 0.01", "", 0);
    for (int k = 0; k < 2; k++) {
        snprintf(more, sizeof(more), "type: 'Adam' base_lr: 0.01 snapshot: 4 "
                 "snapshot_format: %s snapshot_prefix: '%s/h%d'", formats[k],
                 test_folder(), k);
        snprintf(state, sizeof(state), "%s/h%d_iter_4.solverstate%s",
                 test_folder(), k, k ? ".h5" : "");
        ASSERT_OK(ranks_train(4, more, "", 0)->st);
        for (int n = 1; n <= 8; n *= 2) {
            rest = ranks_resume(n, more, "", state, false);
            for (int i = 4; i < RANKS_STEPS; i++)
                ASSERT_FLOAT(one->loss[i], rest->loss[i], 1e-4);
        }
    }
}

/* ---- Updates that the caller asks for, and a life after it. */

/* A CPU that may have no memory; without ops it is not taken. */
static atomic_bool no_memory;
static struct ct_device_ops scarce_ops;
static struct ct_device scarce;

enum { P = 3 };

struct by_hand {
    struct ct_transport               *transport;
    const Caffe__SolverParameter      *param;
    const Caffe__DistributedParameter *options;
    enum ct_status                     st;
    char                               why[512];
    float                              first, after, alone; /* a weight */
    enum ct_status (*live)(struct by_hand *r, struct ct_solver *s,
                           struct ct_dist *d);
};

static enum ct_status one_step(struct ct_solver *s, struct ct_dist *d)
{
    struct ct_net *net = ct_solver_net(s);
    double loss;

    CT_TRY(ct_net_clear_diffs(net));
    CT_TRY(ct_net_forward(net, &loss));
    CT_TRY(ct_net_backward(net));
    CT_TRY(ct_dist_sum(d, ct_net_arena_diff(net),
                       (int64_t)ct_net_arena_count(net)));
    return ct_solver_apply_update(s);
}

static enum ct_status live(struct by_hand *r, struct ct_solver *s,
                           struct ct_dist *d)
{
    const struct ct_blob *b = ct_net_param(ct_solver_net(s), 0)->blob;

    CT_TRY(ct_solver_step(s, 2));
    r->first = ct_data(b)[3];
    for (int i = 0; i < 3; i++)
        CT_TRY(one_step(s, d));
    r->after = ct_data(b)[3];
    CT_TRY(ct_dist_sum(d, &(float){ 0 }, 1)); /* all have looked */
    ct_solver_leave(s);
    ct_data(b)[3] += (float)ct_dist_rank(d);
    CT_TRY(ct_dist_sum(d, &(float){ 0 }, 1)); /* all have written */
    r->alone = ct_data(b)[3];
    return CT_OK;
}

static void *by_hand_thread(void *arg)
{
    struct by_hand *r  = arg;
    struct ct_dist *d  = NULL;
    struct ct_solver *s = NULL;

    ct_device_cpu_set_threads(1);
    r->st = dist_create_over(r->transport, r->options, &d);
    if (r->st == CT_OK) {
        struct ct_solver_options o = { .device   = scarce.ops ? &scarce : NULL,
                                       .rank     = ct_dist_rank(d),
                                       .size     = P,
                                       .exchange = ct_dist_exchange(d) };

        r->st = ct_solver_create(r->param, &o, &s);
    }
    if (r->st == CT_OK)
        r->st = r->live(r, s, d);
    if (r->st != CT_OK) {
        snprintf(r->why, sizeof(r->why), "%s", ct_last_error());
        ct_dist_abort(d, 1);
    }
    ct_solver_destroy(s);
    ct_dist_destroy(d);
    return NULL;
}

static void run_by_hand(const char *options,
                        enum ct_status (*how)(struct by_hand *r,
                                              struct ct_solver *s,
                                              struct ct_dist *d),
                        struct by_hand *r)
{
    const struct ct_loopback_options loop = { 0 };
    Caffe__SolverParameter *param  = ranks_solver(P, "");
    Caffe__DistributedParameter *p = NULL;
    struct ct_transport *t[P];
    pthread_t thread[P];

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    ASSERT_OK(test_ends(P, &loop, t));
    for (int i = 0; i < P; i++) {
        r[i] = (struct by_hand){ .transport = t[i], .param = param,
                                 .options = p, .live = how };
        pthread_create(&thread[i], NULL, by_hand_thread, &r[i]);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    ct_message_free(param);
    ct_message_free(p);
    for (int i = 0; i < P; i++)
        if (r[i].st != CT_OK)
            FAIL("rank %d: %s", i, r[i].why);
}

TEST(shared_params, updates_by_hand_happen_once_and_who_leaves_takes_a_copy)
{
    struct by_hand copies[P], shared[P];

    ranks_make_data();
    run_by_hand("road: 'allreduce' reduce: 'ring'", live, copies);
    run_by_hand("road: 'allreduce'", live, shared);
    for (int i = 0; i < P; i++) {
        ASSERT_FLOAT(copies[i].first, shared[i].first, 1e-6);
        ASSERT_FLOAT(copies[i].after, shared[i].after, 1e-5);
        ASSERT(fabsf(shared[i].after - shared[i].first) > 1e-4f);
        ASSERT_FLOAT(shared[i].after + (float)i, shared[i].alone, 1e-6);
    }
}

/* ---- No memory for a copy. */

static enum ct_status alloc_some(const struct ct_device *d, size_t bytes,
                                 const char *name, void **out)
{
    if (atomic_load(&no_memory))
        return ct_fail(CT_ENOMEM, "no memory for %s", name);
    return ct_device_cpu()->ops->alloc(d, bytes, name, out);
}

/* Rank 1 leaves and has no memory; it trains alone when there is some.  The
 * others still have the parameters that it left. */
static enum ct_status leave_hungry(struct by_hand *r, struct ct_solver *s,
                                   struct ct_dist *d)
{
    const struct ct_blob *b = ct_net_param(ct_solver_net(s), 0)->blob;
    enum ct_status hungry = CT_ENOMEM, by_hand = CT_ENOMEM;

    CT_TRY(ct_solver_step(s, 2));
    r->first = ct_data(b)[3];
    CT_TRY(ct_dist_sum(d, &(float){ 0 }, 1)); /* all have looked */
    if (ct_dist_rank(d) == 1) {
        atomic_store(&no_memory, true);
        ct_solver_leave(s);
        hungry  = ct_solver_step(s, 1);
        by_hand = ct_solver_apply_update(s);
        atomic_store(&no_memory, false);
    }
    if (hungry != CT_ENOMEM || by_hand != CT_ENOMEM)
        return ct_fail(CT_EINTERNAL, "it trains without memory");
    if (ct_dist_rank(d) == 1)
        CT_TRY(ct_solver_step(s, 1));
    r->alone = ct_data(b)[3];
    CT_TRY(ct_dist_sum(d, &(float){ 0 }, 1)); /* it has trained */
    r->after = ct_data(b)[3];
    return CT_OK;
}

TEST(shared_params, who_has_no_memory_for_a_copy_trains_when_it_has)
{
    struct by_hand r[P];

    skip_on_gpu();
    scarce           = *ct_device_cpu();
    scarce_ops       = *scarce.ops;
    scarce_ops.alloc = alloc_some;
    scarce.ops       = &scarce_ops;
    ranks_make_data();
    run_by_hand("road: 'allreduce'", leave_hungry, r);
    for (int i = 0; i < P; i++) {
        ASSERT_FLOAT(r[0].first, r[i].first, 0);
        ASSERT_FLOAT(r[i].first, r[i].after, i == 1 ? INFINITY : 0);
    }
    ASSERT(r[1].alone != r[1].first);
    scarce.ops = NULL;
}

/* ---- A net that learns nothing. */

struct idle {
    struct ct_transport          *transport;
    const Caffe__SolverParameter *param;
    double                        loss;
    enum ct_status                st;
};

static enum ct_status idle_steps(struct idle *r, struct ct_dist *d)
{
    const struct ct_solver_options o = { .rank     = ct_dist_rank(d),
                                         .size     = ct_dist_size(d),
                                         .exchange = ct_dist_exchange(d) };
    struct ct_solver *s = NULL;
    enum ct_status st;

    CT_TRY(ct_solver_create(r->param, &o, &s));
    st      = ct_solver_step(s, 2);
    r->loss = ct_solver_loss(s);
    ct_solver_destroy(s);
    return st;
}

static void *idle_rank(void *arg)
{
    struct idle *r    = arg;
    struct ct_dist *d = NULL;

    r->st = dist_create_over(r->transport, NULL, &d);
    if (r->st == CT_OK)
        r->st = idle_steps(r, d);
    ct_dist_destroy(d);
    return NULL;
}

TEST(shared_params, a_net_without_parameters_has_its_loss)
{
    static const char text[] =
        "net_param { layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "
        "  dummy_data_param { shape { dim: 2 dim: 3 } data_filler { value: 1 }"
        "  data_filler { value: 3 } } } layer { name: 'l' "
        "  type: 'EuclideanLoss' bottom: 'x' bottom: 't' top: 'l' } } "
        "base_lr: 1 lr_policy: 'fixed' snapshot_after_train: false";
    Caffe__SolverParameter *p = NULL;
    struct ct_transport *t[2];
    struct idle r[2];
    pthread_t thread[2];

    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_OK(test_ends(2, NULL, t));
    for (int i = 0; i < 2; i++) {
        r[i] = (struct idle){ .transport = t[i], .param = p };
        pthread_create(&thread[i], NULL, idle_rank, &r[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        ASSERT_OK(r[i].st);
        ASSERT_FLOAT(6, r[i].loss, 1e-6);
    }
    ct_message_free(p);
}
