/* test_push.c - coded gradients on their way to servers, which add up or keep
 * parameters: nothing is lost, what can be exact is, training goes on as
 * without, and snapshots keep what is held back. */
#include <pthread.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "dist/ranks.h"
#include "net/arena.h"

enum { P = 3, TURNS = 6, LATE = 2, MOST = 8192, WATCHED = 100 };

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
    double bytes; /* that it sent, pushes and the pull at the end */
    int    n_slices;
    /* With a deadline; rank 2 sleeps at LATE until rank 0 has gone on. */
    struct pusher *all;
    atomic_int     turn;
    uint64_t       in[TURNS];    /* who was in, as rank 0 hears */
    double         mean[TURNS], weight[TURNS]; /* of float WATCHED */
    int            ahead[TURNS]; /* where it went on, late; 0: in time */
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

static enum ct_status push_turn(struct pusher *q, int turn, int *next)
{
    struct ct_exchange *x   = &q->dist->exchange;
    const bool remote       = x->facts.remote;
    float *diff             = ct_net_arena_diff(q->net);
    struct ct_answer answer = { 0 };

    atomic_store(&q->turn, turn);
    while (q->dist->plan->rounds && q->dist->view.rank == 2 && turn == LATE &&
           atomic_load(&q->all->turn) <= LATE)
        usleep(1000);
    CT_TRY(x->ops->fetch(x, turn));
    q->make(q->dist->view.rank, turn, q->n, diff);
    for (size_t i = 0; i < q->n; i++)
        q->given[i] += (double)diff[i];
    CT_TRY(x->ops->begin(x, turn));
    for (int l = ct_net_n_layers(q->net) - 1; l >= 0; l--)
        CT_TRY(x->ops->layer_done(x, l));
    for (int i = 0; i < ct_net_n_params(q->net); i++)
        CT_TRY(x->ops->wait(x, i, &(const float *){ NULL }));
    CT_TRY(x->ops->finish(x, &answer));
    for (size_t i = 0; i < q->n && !remote; i++)
        q->sent[i] += (double)diff[i];
    if (!remote)
        memcpy(q->last, diff, q->n * sizeof(*diff));
    q->in[turn]    = q->dist->ps.latest.mask.bits[0];
    q->ahead[turn] = answer.ahead;
    *next          = answer.ahead > 0 ? answer.ahead : turn + 1;
    return x->ops->updated(x, *next, 0);
}

static void begin_updates(void *arg)
{
    (void)arg;
}

/* Servers that keep values keep the sum of all that came. */
static enum ct_status add_up(void *arg, int iter,
                             const struct ct_update_range *u)
{
    struct pusher *q = arg;

    for (size_t i = 0; i < u->n; i++)
        u->value[i] += u->sum[i];
    if (u->first <= WATCHED && WATCHED < u->first + u->n && iter < TURNS) {
        q->mean[iter]   = (double)(u->scale * u->sum[WATCHED - u->first]);
        q->weight[iter] = 1 / (double)u->scale;
    }
    return CT_OK;
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
    struct ct_trainer t = { 0 };
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
    t.updater = (struct ct_updater){ .begin = begin_updates,
                                     .update = add_up, .arg = q };
    CT_TRY(x->ops->attach(x, q->net, &t, &(struct ct_attached){ 0 }));
    if (x->facts.serves)
        return x->ops->serve(x, TURNS, &(int){ 0 });
    for (int i = 0; i < ct_net_n_params(q->net); i++)
        memset(q->is_param + ct_net_param(q->net, i)->offset, true,
               (size_t)ct_net_param(q->net, i)->blob->count);
    for (int turn = 0, next; turn < TURNS; turn = next)
        CT_TRY(push_turn(q, turn, &next));
    atomic_store(&q->turn, TURNS);
    CT_TRY(x->ops->settle(x, TURNS, CT_SETTLE_END));
    read_kept(q);
    q->bytes    = (double)ct_dist_stats(q->dist).bytes_sent;
    q->n_slices = q->dist->ps.table.n;
    if (!x->facts.remote)
        return CT_OK;
    memcpy(q->last, ct_net_arena_data(q->net), q->n * sizeof(*q->last));
    for (size_t i = 0; i < q->n; i++)
        q->sent[i] = (double)q->last[i];
    return CT_OK;
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
    ASSERT_OK(test_ends(P, &loop, t));
    for (int r = 0; r < P; r++) {
        q[r].transport = t[r];
        q[r].options   = options;
        q[r].all       = q;
        q[r].make      = make;
        pthread_create(&thread[r], NULL, pusher_main, &q[r]);
    }
    for (int r = 0; r < P; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < P; r++) {
        if (q[r].st != CT_OK)
            FAIL("%s, rank %d: %s", options, r, q[r].why);
        ASSERT(q[r].n <= MOST);
        for (size_t k = 0; k < q->n && q[r].bytes > 0; k++)
            if (q->is_param[k])
                ASSERT_FLOAT(q[0].last[k], q[r].last[k], 0);
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
static void nothing_is_lost(const char *how, const char *codec)
{
    char options[128];
    double held = 0;
    struct pusher *q;

    snprintf(options, sizeof(options), "%s compress: '%s'", how, codec);
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

static const char *const holding[] = { "onebit", "topk:0.1:0", "topk:0.02:3",
                                       "onebit:2" };
enum { N_HOLDING = 4 };

TEST(push, what_was_sent_and_what_is_held_back_is_what_was_given)
{
    for (int k = 0; k < N_HOLDING; k++) {
        nothing_is_lost("road: 'ps'", holding[k]);
        nothing_is_lost("road: 'sharded'", holding[k]);
    }
}

/* The same where servers apply each gradient to the values that they keep, in
 * step or not, by ranks or by groups of them. */
TEST(push, servers_that_keep_values_lose_nothing_either)
{
    static const char *const how[] = {
        "sync: 'ssp'", "sync: 'ssp' staleness: 2 road: 'ps'",
        "sync: 'async'", "groups: 2", "groups: 2 staleness: 1",
        "sync: 'ssp' staleness: 1 servers: 1",
    };

    for (int k = 0; k < N_HOLDING; k++)
        for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++)
            nothing_is_lost(how[i], holding[k]);
}

/* The mean of an iteration is over those who were in it; where what is late
 * counts, it is in the iteration that its rank went on with, at half of its
 * weight for every one that it is late. */
static void mean_is_over_who_came(const char *options, bool folds)
{
    const struct pusher *q = push(options, normal);

    ASSERT(q[2].ahead[LATE] > LATE);
    ASSERT(!(q->in[LATE] & 4));
    for (int t = 0; t < TURNS; t++) {
        double sum = 0, weight = 0;

        for (int i = 0; i < P * (t + 1); i++) {
            const int r = i % P, made = i / P; /* whose, of which turn */
            double share = made == t && q->in[t] >> r & 1;

            if (folds && q[r].ahead[made] == t && made < t)
                share = pow(0.5, t - made);
            sum += share * (double)ct_normal((uint64_t)(r + 1),
                                             (uint64_t)made, WATCHED);
            weight += share;
        }
        ASSERT_FLOAT(weight, q->weight[t], 1e-6);
        ASSERT_FLOAT(sum / weight, q->mean[t], 1e-5);
    }
}

TEST(push, with_a_deadline_the_mean_is_over_who_came)
{
    mean_is_over_who_came("road: 'ps' deadline: 0.2 quorum: 0.4", false);
    mean_is_over_who_came("road: 'ps' deadline: 0.2 quorum: 0.4 late: 'fold'",
                          true);
}

/* bf16 takes two bytes a float but for the riders; topk eight for each of an
 * eighth of the matrices' values, and four for the others.  Slices have heads,
 * and at the end comes a question for all values; who does not wait for
 * others meets them then, by two messages of a byte. */
TEST(push, bytes_are_the_formulas_where_servers_keep_values)
{
    static const char *const how[] = { "sync: 'ssp' road: 'ps'",
                                       "sync: 'ssp' staleness: 2 road: 'ps'",
                                       "sync: 'async' road: 'ps'" };
    enum { COUNTED = 96 * 64 + 16 * 96, OTHERS = 96 + 16 + CT_ARENA_RIDERS };

    for (int i = 0; i < 3; i++) {
        char options[128];
        struct pusher *q;

        for (int coded = 0; coded < 2; coded++) {
            double want;

            snprintf(options, sizeof(options), "%s compress: '%s'", how[i],
                     coded ? "topk:0.125:0" : "bf16");
            q    = push(options, normal);
            want = coded ? 8.0 * COUNTED / 8 : 2.0 * (COUNTED + OTHERS);
            want += coded ? 4.0 * OTHERS : 2.0 * CT_ARENA_RIDERS;
            want = TURNS * (want + 128.0 * q[1].n_slices) +
                   sizeof(struct ct_ps_pull) + (i == 2 ? 2 : 0);
            for (int r = 1; r < P; r++)
                ASSERT_FLOAT(want, q[r].bytes, 0);
        }
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
    ranks_refuse("two sums", ranks_train(2, "", "sync: 'ssp' compress: "
                                         "'powersgd:4'", 0), 2);
    ranks_refuse("hold parts of gradients back",
                 ranks_train(2, "", "deadline: 9 compress: 'onebit'", 0), 2);
    ranks_refuse("hold parts of gradients back",
                 ranks_train(2, "", "deadline: 9 compress: 'topk:0.1'", 0), 2);
    ranks_refuse("raise those", ranks_train(2, "", "sync: 'local' compress: "
                                            "'bf16'", 0), 2);
}
