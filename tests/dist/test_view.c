/* test_view.c - ranks come and go between two iterations, inside one process:
 * losses stay those of one rank with the same batch. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "dist/ranks.h"
#include "solver/solver_inner.h"
#include "testing/files.h"

/* Ranks of each view, and the steps that it takes; RANKS_STEPS in all.  Who
 * they are: in every view a rank is another process, and the first of all is
 * among those that leave and come again.  Rank 0 has the parameters, so it was
 * there before. */
enum { VIEWS = 4, MOST = 5 };
static const int n_ranks[VIEWS] = { 4, 3, 5, 4 };
static const int n_steps[VIEWS] = { 3, 2, 2, 2 };
static const int who[VIEWS][MOST] = { { 0, 1, 2, 3 },
                                      { 2, 3, 1 },
                                      { 3, 0, 2, 4, 1 },
                                      { 1, 4, 3, 0 } };

struct one {
    pthread_t                          thread;
    const Caffe__SolverParameter      *param;
    const Caffe__DistributedParameter *options;
    struct ct_transport               *transport[VIEWS]; /* NULL: not in it */
    struct ct_dist                    *dist;
    struct ct_solver                  *solver;
    double                             loss[RANKS_STEPS]; /* where it was in */
    bool                               was_in[RANKS_STEPS];
    int                                iter;
    uint64_t                           sent[VIEWS]; /* up to their ends */
    float                             *weights; /* at the end, if it is in */
    size_t                             n;
    enum ct_status                     st;
    char                               why[512];
};

/* A membership that has the next view's transport already. */
static enum ct_status take(void *arg, struct ct_transport **out)
{
    *out = arg;
    return CT_OK;
}

static enum ct_status enter(struct one *o, int view)
{
    struct ct_solver_options so = { .device = ct_device_cpu() };

    if (o->dist) {
        const uint64_t sent = ct_dist_stats(o->dist).bytes_sent;

        CT_TRY(dist_change_view(o->dist, take, o->transport[view]));
        if (ct_dist_stats(o->dist).bytes_sent != sent)
            return ct_fail(CT_EINTERNAL, "%llu bytes were sent before a view, "
                           "and %llu after", (unsigned long long)sent,
                           (unsigned long long)
                               ct_dist_stats(o->dist).bytes_sent);
        return solver_enter_view(o->solver, false);
    }
    CT_TRY(dist_create_over(o->transport[view], o->options, &o->dist));
    so.exchange = ct_dist_exchange(o->dist);
    so.rank     = ct_dist_rank(o->dist);
    so.size     = ct_dist_size(o->dist);
    CT_TRY(ct_solver_create(o->param, &so, &o->solver));
    return view == 0 ? CT_OK : solver_enter_view(o->solver, true);
}

static enum ct_status stay(struct one *o, int view)
{
    int step = 0;

    for (int v = 0; v < view; v++)
        step += n_steps[v];
    CT_TRY(enter(o, view));
    for (int i = 0; i < n_steps[view]; i++, step++) {
        CT_TRY(ct_solver_step(o->solver, 1));
        o->loss[step]   = ct_solver_loss(o->solver);
        o->was_in[step] = true;
    }
    o->iter = ct_solver_iter(o->solver);
    o->sent[view] = ct_dist_stats(o->dist).bytes_sent;
    return solver_leave_view(o->solver);
}

static void leave(struct one *o)
{
    ct_solver_destroy(o->solver);
    ct_dist_destroy(o->dist);
    o->solver = NULL;
    o->dist   = NULL;
}

static void take_weights(struct one *o)
{
    const struct ct_net *net = ct_solver_net(o->solver);

    o->n       = ct_net_arena_count(net);
    o->weights = ct_calloc(o->n, sizeof(float), "weights of a rank");
    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);

        memcpy(o->weights + p->offset, ct_data(p->blob),
               (size_t)p->blob->count * sizeof(float));
    }
}

static void *run(void *arg)
{
    struct one *o = arg;

    ct_device_cpu_set_threads(1);
    for (int v = 0; v < VIEWS && o->st == CT_OK; v++) {
        if (!o->transport[v] && o->dist)
            leave(o);
        if (o->transport[v])
            o->st = stay(o, v);
    }
    if (o->st != CT_OK) {
        snprintf(o->why, sizeof(o->why), "%s", ct_last_error());
        ct_dist_abort(o->dist, 1);
    } else if (o->solver) {
        take_weights(o);
    }
    leave(o);
    return NULL;
}

static void look_at_losses(const char *options, const struct one *one,
                           const struct rank *alone)
{
    for (int r = 0; r < MOST; r++)
        for (int i = 0; i < RANKS_STEPS; i++)
            if (one[r].was_in[i] &&
                !(fabs(one[r].loss[i] - alone->loss[i]) <= 2e-5))
                FAIL("%s: process %d, step %d: the loss is %.9g, alone %.9g",
                     options, r, i, one[r].loss[i], alone->loss[i]);
}

/* Who is in at the end has what one rank has, and to the bit what the others
 * have; who came later counts on from where those were. */
static void look_at_ends(const char *options, const struct one *one,
                         const struct rank *alone)
{
    const struct one *first = &one[who[VIEWS - 1][0]];
    double most             = 0;

    for (size_t j = 0; j < alone->n; j++)
        most = fmax(most, fabs((double)alone->weights[j]));
    for (int r = 0; r < n_ranks[VIEWS - 1]; r++) {
        const struct one *o = &one[who[VIEWS - 1][r]];

        ASSERT_INT(RANKS_STEPS, o->iter);
        ASSERT_INT(alone->n, o->n);
        for (size_t j = 0; j < o->n; j++)
            if (!(fabs((double)(o->weights[j] - alone->weights[j])) <=
                  1e-4 * most))
                FAIL("%s: rank %d: weight %zu is %.9g, alone %.9g", options, r,
                     j, (double)o->weights[j], (double)alone->weights[j]);
        ASSERT_INT(0, memcmp(first->weights, o->weights,
                             o->n * sizeof(float)));
    }
}

/* Bytes are counted on from view to view. */
static void look_at_bytes(const struct one *o)
{
    uint64_t before = o->sent[0];

    for (int v = 1; v < VIEWS; v++) {
        if (!o->transport[v])
            continue;
        ASSERT(o->sent[v] >= before);
        ASSERT(o->sent[v] < 100 * o->sent[0] + 1000000);
        before = o->sent[v];
    }
}

static void through_views(const char *options, const char *more,
                          const struct rank *alone)
{
    Caffe__SolverParameter *param  = NULL;
    Caffe__DistributedParameter *p = NULL;
    struct one one[MOST]           = { 0 };

    ranks_batch(RANKS_BATCH);
    param = ranks_solver(1, more);
    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    for (int v = 0; v < VIEWS; v++) {
        struct ct_transport *t[MOST];

        ASSERT_OK(test_ends(n_ranks[v], NULL, t));
        for (int r = 0; r < n_ranks[v]; r++)
            one[who[v][r]].transport[v] = t[r];
    }
    for (int r = 0; r < MOST; r++) {
        one[r].param   = param;
        one[r].options = p;
        pthread_create(&one[r].thread, NULL, run, &one[r]);
    }
    for (int r = 0; r < MOST; r++)
        pthread_join(one[r].thread, NULL);
    for (int r = 0; r < MOST; r++)
        if (one[r].st != CT_OK)
            FAIL("%s: process %d: %s", options, r, one[r].why);
    look_at_losses(options, one, alone);
    look_at_ends(options, one, alone);
    look_at_bytes(&one[1]); /* which is in all of them */
    for (int r = 0; r < MOST; r++)
        ct_free(one[r].weights);
    ct_message_free(param);
    ct_message_free(p);
}

TEST(view, ranks_come_and_go_and_losses_stay_those_of_one)
{
    static const char *const ways[] = {
        "", "reduce: 'ring'", "reduce: 'tree'", "reduce: 'halving'",
        "reduce: 'hierarchical'", "road: 'allreduce' bucket_bytes: 4096",
        "road: 'allreduce' reduce: 'ring' slice_bytes: 512",
        "road: 'factors'", "road: 'factors' reduce: 'ring'", "road: 'ps'",
        "road: 'sharded'", "overlap: false", "sync_bn: true" };
    const struct rank *alone;

    ranks_make_data();
    alone = ranks_train(1, "", "", 0);
    ASSERT_OK(alone->st);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        through_views(test_format("batch: 'global' %s", ways[i]), "",
                      alone);
}

/* Histories of two arrays, rates that change and a clipped norm come along. */
TEST(view, rules_go_on_where_they_were)
{
    static const char *const rules[] = {
        "type: 'Adam' momentum2: 0.99 base_lr: 0.002",
        "lr_policy: 'multistep' gamma: 0.5 stepvalue: 4 stepvalue: 6",
        "clip_gradients: 0.5 warmup_iter: 4", "iter_size: 2" };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const struct rank *alone;

        ranks_make_data();
        alone = ranks_train(1, rules[i], "", 0);
        ASSERT_OK(alone->st);
        through_views("batch: 'global'", rules[i], alone);
        through_views("batch: 'global' reduce: 'ring'", rules[i], alone);
    }
}
