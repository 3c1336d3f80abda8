/* test_mirror.c - what a GPU's mirror does, on the CPU, where its copies are
 * plain ones.
 *
 * The net has a, 4 x 3 and a bias, b, 2 x 4 and a bias, c, 2 x 2 without; the
 * arena holds riders, then c, b, a. */
#include <stdlib.h>

#include "base/mem.h"
#include "dist/ranks.h"
#include "net/arena.h"
#include "net/training.h"

static struct ct_net *small_net(void)
{
    static const char text[] =
        "name: 'm' layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "
        "  dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 2 } "
        "  data_filler { type: 'constant' value: 1 } } }"
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' "
        "  inner_product_param { num_output: 4 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' "
        "  inner_product_param { num_output: 2 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'c' type: 'InnerProduct' bottom: 'b' top: 'c' "
        "  inner_product_param { num_output: 2 bias_term: false "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'c' bottom: 't' "
        "  top: 'l' }";
    struct ct_net_options o = { .phase = CAFFE__PHASE__TRAIN, .seed = 3,
                                .quiet = true };
    Caffe__NetParameter *p = NULL;
    struct ct_net *net     = NULL;

    ASSERT_OK(ct_text_parse(&caffe__net_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_OK(ct_net_create(p, &o, &net));
    ct_message_free(p);
    return net;
}

static enum ct_status queue(struct ct_net *net, int layer, void *arg)
{
    (void)net;
    return ct_mirror_queue(arg, layer);
}

static int n_waited;

static enum ct_status waited(struct ct_exchange *x, int param,
                             const float **sum)
{
    *sum = NULL;
    (void)x, (void)param;
    n_waited++;
    return CT_OK;
}

struct pair {
    struct ct_net    *net;
    struct ct_mirror *mirror;
};

static void drop(void *arg)
{
    struct pair *p = arg;

    ct_net_destroy(p->net);
    ct_mirror_destroy(p->mirror);
}

static struct pair *small_pair(size_t group_bytes)
{
    static struct pair p;

    p = (struct pair){ small_net(), NULL };
    test_defer(drop, &p);
    ASSERT_OK(ct_mirror_create(p.net, ct_device_cpu(), group_bytes, NULL, 0,
                               &p.mirror));
    ct_net_set_layer_done(p.net, queue, p.mirror);
    return &p;
}

static double run_pass(struct pair *p)
{
    double loss;

    ct_mirror_expect(p->mirror);
    ASSERT_OK(ct_net_forward_backward(p->net, true, &loss));
    return loss;
}

TEST(mirror, gradients_come_out_and_riders_stay)
{
    struct pair *p      = small_pair(0);
    struct ct_mirror *m = p->mirror;
    const float *diff   = ct_net_arena_diff(p->net);

    m->diff[CT_RIDER_STOP] = 7;
    ASSERT(run_pass(p) > 0);
    ASSERT_OK(ct_mirror_wait(m, 0));
    ASSERT_FLOAT(7, m->diff[CT_RIDER_STOP], 0);
    for (size_t i = CT_ARENA_RIDERS; i < ct_net_arena_count(p->net); i++)
        ASSERT_FLOAT(diff[i], m->diff[i], 0);
}

TEST(mirror, sums_go_back_once_and_what_is_apart_stays)
{
    struct pair *p       = small_pair(0);
    struct ct_mirror *m  = p->mirror;
    const struct ct_exchange_ops ops = { .wait = waited };
    struct ct_exchange x = { .ops = &ops };
    const struct ct_net_param *b = ct_net_param(p->net, 2);
    float kept;

    ct_mirror_keep(m, 2, true); /* the weight of b */
    run_pass(p);
    kept = ct_diff(b->blob)[0];
    ASSERT(kept != 0);
    ASSERT_FLOAT(0, m->diff[b->offset], 0);
    for (size_t i = 0; i < ct_net_arena_count(p->net); i++)
        m->diff[i] = (float)i;
    n_waited = 0;
    ASSERT_OK(ct_mirror_arrive(m, &x, 0));
    ASSERT_INT(5, n_waited); /* all are in one group */
    for (int i = 0; i < 5; i++) {
        const struct ct_net_param *q = ct_net_param(p->net, i);

        ASSERT_FLOAT(i == 2 ? (double)kept : (double)q->offset,
                     ct_diff(q->blob)[0], 0);
    }
    m->diff[b->offset + 16] = -1;
    ASSERT_OK(ct_mirror_arrive(m, &x, 3));
    ASSERT_INT(5, n_waited);
}

/* The pass has got as far as b: what lies below is not there yet. */
static float seen_of_a;

static enum ct_status queue_and_look(struct ct_net *net, int layer, void *arg)
{
    struct ct_mirror *m = arg;

    CT_TRY(ct_mirror_queue(m, layer));
    if (layer == 2)
        seen_of_a = m->diff[ct_net_param(net, 0)->offset];
    return CT_OK;
}

TEST(mirror, groups_leave_while_the_pass_goes_on)
{
    struct pair *p       = small_pair(64);
    struct ct_mirror *m  = p->mirror;
    const struct ct_exchange_ops ops = { .wait = waited };
    struct ct_exchange x = { .ops = &ops };

    ASSERT_INT(3, m->groups.n); /* a layer each */
    ASSERT_INT(-1, m->of_layer[4]);
    ASSERT_INT(0, m->of_layer[3]);
    ASSERT_INT(1, m->of_layer[2]);
    ASSERT_INT(2, m->of_layer[1]);
    ASSERT_INT(2, m->of_layer[0]);
    ct_net_set_layer_done(p->net, queue_and_look, m);
    seen_of_a = 1;
    run_pass(p);
    ASSERT_FLOAT(0, seen_of_a, 0);
    ASSERT(m->diff[ct_net_param(p->net, 0)->offset] != 0);
    n_waited = 0;
    ASSERT_OK(ct_mirror_arrive(m, &x, 2));
    ASSERT_INT(2, n_waited); /* b's weight and bias */
}

TEST(mirror, parameters_go_both_ways)
{
    struct pair *p      = small_pair(0);
    struct ct_mirror *m = p->mirror;
    const struct ct_net_param *a = ct_net_param(p->net, 0);
    float first = ct_data(a->blob)[0], second = ct_data(a->blob)[1];

    ASSERT_OK(ct_mirror_get(m));
    ASSERT_FLOAT(first, m->data[a->offset], 0);
    m->data[a->offset] = 5;
    m->data[a->offset + 1] = 6;
    ASSERT_OK(ct_mirror_put_run(m, a->offset, 1));
    ASSERT_FLOAT(5, ct_data(a->blob)[0], 0);
    ASSERT_FLOAT(second, ct_data(a->blob)[1], 0);
    ASSERT_OK(ct_mirror_put(m));
    ASSERT_FLOAT(6, ct_data(a->blob)[1], 0);
    ASSERT_OK(ct_mirror_get(NULL));
    ASSERT_OK(ct_mirror_put_history(NULL));
}

TEST(mirror, nccl_wants_a_gpu_for_every_rank)
{
    ranks_make_data();
    ranks_refuse("not every rank has a GPU of its own",
                 ranks_train(2, "", "reduce: 'nccl'", 0), 2);
    ranks_refuse("without servers",
                 ranks_train(2, "", "reduce: 'nccl' road: 'ps'", 0), 2);
}

TEST(mirror, one_rank_sums_by_nccl_as_it_does_alone)
{
    const char *name = getenv("CORTADO_TEST_DEVICE");
    struct rank *one;

    if (!name || strcmp(name, "cuda") != 0)
        test_skip("CORTADO_TEST_DEVICE=cuda is not set");
    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    ranks_same_as_one(one, ranks_train(1, "", "reduce: 'nccl' "
                                       "bucket_bytes: 4096", 0), 1);
    one = ranks_train(1, "iter_size: 2 clip_gradients: 0.05", "", 0);
    ranks_same_as_one(one, ranks_train(1, "iter_size: 2 clip_gradients: 0.05",
                                       "reduce: 'nccl' overlap: false", 0), 1);
}

static void forget(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
}

static struct rank *train_by_tree(int n, const char *impl)
{
    struct rank *r;

    ASSERT(setenv("CORTADO_IMPL", impl, 1) == 0);
    r = ranks_train(n, "", "reduce: 'tree' road: 'allreduce' "
                    "bucket_bytes: 4096 guard_interval: 0", 0);
    for (int i = 0; i < n; i++)
        if (r[i].st != CT_OK)
            FAIL("rank %d of %d: %s", i, n, r[i].why);
    return r;
}

/* Ranks read each other's arrays, and send no gradient.  The loss, which rides
 * apart then, may be added up in another order. */
TEST(mirror, a_tree_over_near_memory_has_the_bits_of_the_one_by_messages)
{
    static const int counts[] = { 2, 3, 4, 8 };

    ranks_make_data();
    test_defer(forget, NULL);
    for (int k = 0; k < 4; k++) {
        const int n        = counts[k];
        struct rank *sent  = train_by_tree(n, "mirror:copy,tree:host");
        struct rank *there = train_by_tree(n, "mirror:copy");

        for (int i = 0; i < n; i++) {
            for (int j = 0; j < RANKS_STEPS; j++)
                ASSERT_FLOAT(sent[i].loss[j], there[i].loss[j], 1e-6);
            for (size_t j = 0; j < sent->n; j++)
                if (sent[i].weights[j] != there[i].weights[j])
                    FAIL("rank %d of %d: weight %zu is %.9g, wanted %.9g", i,
                         n, j, (double)there[i].weights[j],
                         (double)sent[i].weights[j]);
            ASSERT(there[i].stats.bytes_sent * 20 < sent[i].stats.bytes_sent);
        }
    }
}

/* g, 5 x 128 from 6 samples a rank, and what is wider. */
TEST(mirror, factors_are_read_where_they_are)
{
    struct rank *one, *sent, *there;

    ranks_make_data();
    test_defer(forget, NULL);
    ASSERT(setenv("CORTADO_IMPL", "mirror:copy,factors:host", 1) == 0);
    one  = ranks_train(1, "", "", 0);
    sent = ranks_train(4, "", "road: 'factors' reduce: 'ring'", 0);
    ASSERT(setenv("CORTADO_IMPL", "mirror:copy", 1) == 0);
    for (int n = 2; n <= 4; n++) {
        there = ranks_train(n, "", "road: 'factors' reduce: 'ring'", 0);
        ranks_same_as_one(one, there, n);
    }
    /* 6 x 133 floats to 3 peers stay where they are. */
    ASSERT_FLOAT(RANKS_STEPS * 4.0 * 3 * 6 * 133,
                 (double)sent[1].stats.bytes_sent -
                     (double)there[1].stats.bytes_sent, 100);
}
