/* test_push.c - coded gradients through servers that add up: nothing is lost,
 * what can be exact is, training goes on as without, and snapshots keep what
 * is held back. */
#include <pthread.h>

#include "base/mem.h"
#include "base/rng.h"
#include "dist/ranks.h"

enum { P = 3, TURNS = 6, MOST = 8192 };

/* One rank that pushes gradients made up here. */
struct pusher {
    struct ct_transport *transport;
    const char          *options;
    void               (*make)(int rank, int turn, size_t n, float *x);
    struct ct_dist      *dist;
    struct ct_net       *net;
    size_t               n;
    bool                 is_param[MOST]; /* not a gap between two */
    double given[MOST], sent[MOST], kept[MOST]; /* sums over turns; at end */
    float  last[MOST];                          /* the newest sum */
    enum ct_status st;
    char           why[512];
};

static enum ct_status make_net(struct ct_net **out)
{
    static const char text[] =
        "name: 'p' layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "
        "  dummy_data_param { shape { dim: 2 dim: 64 } "
        "  shape { dim: 2 dim: 16 } } }"
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' "
        "  inner_product_param { num_output: 96 } }"
        "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' "
        "  inner_product_param { num_output: 16 } }"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'b' bottom: 't' "
        "  top: 'l' }";

    return ranks_net(text, out);
}

static enum ct_status push_turn(struct pusher *q, int turn)
{
    struct ct_exchange *x = &q->dist->exchange;
    float *diff           = ct_net_arena_diff(q->net);

    q->make(q->dist->rank, turn, q->n, diff);
    for (size_t i = 0; i < q->n; i++)
        q->given[i] += (double)diff[i];
    CT_TRY(x->begin(x));
    for (int l = ct_net_n_layers(q->net) - 1; l >= 0; l--)
        CT_TRY(x->layer_done(x, l));
    for (int i = 0; i < ct_net_n_params(q->net); i++)
        CT_TRY(x->wait(x, i));
    CT_TRY(x->finish(x));
    for (size_t i = 0; i < q->n; i++)
        q->sent[i] += (double)diff[i];
    memcpy(q->last, diff, q->n * sizeof(*diff));
    return x->updated(x, turn + 1);
}

static void read_kept(struct pusher *q)
{
    for (int k = 0; k < q->dist->wires.n; k++) {
        const struct dist_wire *w = &q->dist->wires.wire[k];

        for (int i = 0; w->residual && i < w->n_pieces; i++)
            for (int64_t j = 0; w->piece[i].is_coded && j < w->piece[i].n; j++)
                q->kept[w->piece[i].first + (size_t)j] =
                    (double)w->residual[w->piece[i].at + j];
    }
}

static enum ct_status push_rank(struct pusher *q)
{
    Caffe__DistributedParameter *p = NULL;
    struct ct_exchange *x;
    enum ct_status st;

    CT_TRY(ct_text_parse(&caffe__distributed_parameter__descriptor,
                         q->options, strlen(q->options), "test", &p));
    st = dist_create_over(q->transport, p, &q->dist);
    ct_message_free(p);
    CT_TRY(st);
    x = &q->dist->exchange;
    CT_TRY(make_net(&q->net));
    q->n = ct_net_arena_count(q->net);
    CT_TRY(x->attach(x, q->net));
    for (int i = 0; i < ct_net_n_params(q->net); i++)
        memset(q->is_param + ct_net_param(q->net, i)->offset, true,
               (size_t)ct_net_param(q->net, i)->blob->count);
    for (int t = 0; t < TURNS; t++)
        CT_TRY(push_turn(q, t));
    read_kept(q);
    return x->end(x, TURNS);
}

static void *pusher_main(void *arg)
{
    struct pusher *q = arg;

    ct_device_cpu_set_threads(1);
    q->st = push_rank(q);
    if (q->st != CT_OK) {
        snprintf(q->why, sizeof(q->why), "%s", ct_last_error());
        ct_dist_abort(q->dist, 1);
    }
    ct_dist_destroy(q->dist);
    ct_net_destroy(q->net);
    return NULL;
}

static struct pusher *push(const char *options,
                           void (*make)(int rank, int turn, size_t n,
                                        float *x))
{
    struct pusher *q = ct_calloc(P, sizeof(*q), "pushers");
    struct ct_transport *t[P];
    pthread_t thread[P];
    const struct ct_loopback_options loop = { .delay_seed = 4 };

    test_defer(ct_free, q);
    ASSERT_OK(ct_loopback_create(P, &loop, t));
    for (int r = 0; r < P; r++) {
        q[r].transport = t[r];
        q[r].options   = options;
        q[r].make      = make;
        pthread_create(&thread[r], NULL, pusher_main, &q[r]);
    }
    for (int r = 0; r < P; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < P; r++) {
        if (q[r].st != CT_OK)
            FAIL("%s, rank %d: %s", options, r, q[r].why);
        ASSERT(q[r].n <= MOST);
        ASSERT_INT(0, memcmp(q[0].last, q[r].last, sizeof(q->last)));
    }
    return q;
}

static void normal(int rank, int turn, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = ct_normal((uint64_t)(rank + 1), (uint64_t)turn, (uint64_t)i);
}

/* Of one size but for the sign: r + 1 quarters on rank r. */
static void plus_minus(int rank, int turn, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (ct_philox_word(7, (uint64_t)turn, (uint64_t)i) & 1 ? 0.25f
                                                                  : -0.25f) *
               (float)(rank + 1);
}

static const char *const roads[] = { "ps", "sharded" };

/* Sent and held back are what was given, value by value; and something is
 * held back indeed. */
TEST(push, what_was_sent_and_what_is_held_back_is_what_was_given)
{
    static const char *const codecs[] = { "onebit", "topk:0.1:0",
                                          "topk:0.02:3" };

    for (int i = 0; i < 6; i++) {
        char options[96];
        double held = 0;
        struct pusher *q;

        snprintf(options, sizeof(options), "road: '%s' compress: '%s'",
                 roads[i % 2], codecs[i / 2]);
        q = push(options, normal);
        for (size_t k = 0; k < q->n; k++) {
            double given = 0, kept = 0;

            for (int r = 0; r < P; r++) {
                given += q[r].given[k];
                kept += q[r].kept[k];
            }
            held += fabs(kept);
            if (q->is_param[k])
                ASSERT_FLOAT(given, q->sent[k] + kept, 1e-4);
        }
        ASSERT(held > 0.5 * (double)q->n);
    }
}

/* 1-bit codes hold values of one size exactly: rank r's (r + 1) / 4, which
 * add up to 1.5, with the sign that all ranks drew. */
TEST(push, one_bit_of_equal_sizes_is_exact)
{
    for (int i = 0; i < 2; i++) {
        char options[96];
        float one[MOST];
        struct pusher *q;

        snprintf(options, sizeof(options), "road: '%s' compress: 'onebit'",
                 roads[i]);
        q = push(options, plus_minus);
        plus_minus(0, TURNS - 1, q->n, one);
        for (size_t k = 0; k < q->n; k++)
            if (q->is_param[k])
                ASSERT_FLOAT(6 * one[k], q->last[k], 0);
    }
}

/* A value is rounded to one of 127 parts of its chunk's norm, on each rank:
 * less than P times that is the error of a sum, and it is there. */
TEST(push, eight_bits_are_as_close_as_they_can_be)
{
    struct pusher *q = push("road: 'sharded' compress: 'qsgd'", normal);
    double most = 0;

    for (size_t k = 0; k < q->n; k++) {
        double sum = 0;

        for (int i = 0; i < P; i++)
            sum += (double)ct_normal((uint64_t)(i + 1), TURNS - 1,
                                     (uint64_t)k);
        if (q->is_param[k])
            most = fmax(most, fabs(sum - (double)q->last[k]));
    }
    ASSERT(most > 0.01);
    ASSERT(most < P * 1.3 * sqrt(DIST_CHUNK) / 127);
}

/* All values travel.  (With SGD momentum acts in the codec, and weight decay
 * in the solver, which is not quite the same.) */
TEST(push, topk_of_everything_trains_as_without)
{
    static const char adam[] = "type: 'Adam' delta: 1";
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, adam, "", 0);
    for (int i = 0; i < 2; i++) {
        char options[96];

        snprintf(options, sizeof(options), "road: '%s' compress: 'topk:1'",
                 roads[i]);
        ranks_same_as_one(one, ranks_train(4, adam, options, 0), 4);
    }
    ranks_same_as_one(one, ranks_train_so(&(struct ranks_how){
        .n_ranks = 5, .n_servers = 2, .more = adam,
        .options = "road: 'sharded' servers: 2 compress: 'topk:1'" }), 3);
}

/* Ranks are equal, learn, and send less; going on from a snapshot gives the
 * bits of the whole run. */
TEST(push, every_codec_trains_and_resumes_bit_for_bit)
{
    static const char *const codecs[] = { "bf16", "onebit", "qsgd",
                                          "topk:0.25:0" };
    struct rank *plain;

    ranks_make_data();
    plain = ranks_train(4, "", "road: 'ps'", 0);
    for (int k = 0; k < 4; k++) {
        char more[512], options[128], state[512];
        struct rank *whole, *rest;

        snprintf(more, sizeof(more), "snapshot: 4 snapshot_prefix: '%s/p%d'",
                 test_folder(), k);
        snprintf(state, sizeof(state), "%s/p%d_iter_4.solverstate",
                 test_folder(), k);
        snprintf(options, sizeof(options), "road: 'ps' compress: '%s'",
                 codecs[k]);
        whole = ranks_train(4, more, options, 0);
        rest  = ranks_resume(4, more, options, state, false);
        for (int r = 0; r < 4; r++) {
            if (whole[r].st != CT_OK)
                FAIL("rank %d: %s", r, whole[r].why);
            ASSERT_OK(rest[r].st);
            ASSERT_INT(0, memcmp(whole->weights, whole[r].weights,
                                 whole->n * sizeof(float)));
            ASSERT_INT(0, memcmp(whole->weights, rest[r].weights,
                                 whole->n * sizeof(float)));
        }
        ASSERT_FLOAT(plain->loss[0], whole->loss[0], 1e-5);
        ASSERT_FLOAT(plain->loss[RANKS_STEPS - 1],
                     whole->loss[RANKS_STEPS - 1], 0.3);
        ASSERT(whole->loss[RANKS_STEPS - 1] < 0.9 * whole->loss[0]);
        /* What rank 1 sends is pushes. */
        rest = ranks_train(4, "", options, 0);
        ASSERT((double)rest[1].stats.bytes_sent <
               0.7 * (double)plain[1].stats.bytes_sent);
    }
}

TEST(push, what_servers_cannot_add_up_is_refused)
{
    ranks_make_data();
    ranks_refuse("two sums", ranks_train(2, "", "road: 'ps' compress: "
                                         "'powersgd:4'", 0), 2);
    ranks_refuse("--sync=bsp", ranks_train(2, "", "sync: 'ssp' compress: "
                                           "'onebit'", 0), 2);
}
