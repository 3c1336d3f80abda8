/* nets.c - which nets a solver trains and tests.
 *
 * The train net is named by exactly one of net, net_param, train_net and
 * train_net_param.  Test nets come from test_net_param, then test_net, then
 * the general net or net_param for the remaining entries of test_iter.
 * States merge: phase, then the net's own, then train_state or test_state. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "layers/python_layer.h"
#include "net/phase.h"
#include "proto/batch_size.h"
#include "solver/solver_inner.h"

enum { TRIALS = 2 }; /* nets that are built to measure shares (shares.c) */

/* The definition of a net: a file, or a message inside the solver's. */
struct net_origin {
    const char                *path;
    const Caffe__NetParameter *message;
    const Caffe__NetState     *state;
    bool                       filled; /* fillers set its parameters */
};

/* Removes layers of other phases from *param, and sets this rank's batch sizes
 * and sources. */
static enum ct_status share_out(struct ct_solver *s,
                                const struct ct_net_options *o,
                                struct ct_net_training *t,
                                Caffe__NetParameter **param)
{
    Caffe__NetParameter *whole = *param;
    enum ct_status st;

    *param = NULL;
    st     = net_filter(whole, o, param);
    ct_message_free(whole);
    CT_TRY(st);
    CT_TRY(solver_divide_batch(s, *param, t));
    return solver_place_data(s->options.exchange, *param);
}

/* What a net of this training needs from its solver and from peers.  Between
 * two views parameters come from the old nets, so fillers do not run: those of
 * a large net take seconds, and other ranks would wait. */
static struct ct_net_training training_of(struct ct_solver *s, bool train,
                                          bool filled)
{
    const struct ct_exchange *x = train ? s->options.exchange : NULL;
    struct ct_net_training t    = {
        .more_come   = solver_commits(s),
        .pulse       = solver_pulse(s),
        .n_histories = train ? s->rule->n_history : 0,
        .unfilled    = !filled && (s->is_draft || s->standing.between),
        .pairs       = train,
    };

    if (!x)
        return t;
    t.own_data            = x->facts.own_data;
    t.share               = x->facts.micro;
    t.dealing.share_first = x->facts.first_part;
    t.dealing.share_all   = x->facts.parts;
    if (!s->shares.measuring) {
        t.peers         = x->facts.peers;
        t.dealing.feeds = x->facts.feeds;
    }
    return t;
}

/* The state in which layers are chosen.  *stage, for the caller to ct_free, is
 * also set on failure. */
static enum ct_status choose_state(const struct ct_solver_options *o,
                                   const struct net_origin *from,
                                   Caffe__Phase phase,
                                   struct ct_net_options *out,
                                   const char ***stage)
{
    const bool train = phase == CAFFE__PHASE__TRAIN;
    size_t n_own     = from->state ? from->state->n_stage : 0;

    out->phase = from->state && from->state->has_phase ? from->state->phase
                                                       : phase;
    out->level = from->state ? from->state->level : 0;
    if (train && o->level)
        out->level = o->level;
    CT_TRY(ct_alloc(n_own + (size_t)o->n_stage + 1, sizeof(**stage), "stages",
                    stage));
    for (size_t i = 0; i < n_own; i++)
        (*stage)[out->n_stage++] = from->state->stage[i];
    for (int i = 0; train && i < o->n_stage; i++)
        (*stage)[out->n_stage++] = o->stage[i];
    out->stage = *stage;
    return CT_OK;
}

static enum ct_status read_net(const struct net_origin *from,
                               Caffe__NetParameter **out)
{
    if (from->path)
        return ct_net_param_read(from->path, out);
    CT_TRY(ct_message_copy(from->message, out));
    return ct_upgrade_net(*out, "solver");
}

static enum ct_status build_net(struct ct_solver *s,
                                const struct net_origin *from,
                                Caffe__Phase phase, struct ct_net **out)
{
    bool train = phase == CAFFE__PHASE__TRAIN;
    const struct ct_solver_options *o = &s->options;
    Caffe__NetParameter *param = NULL;
    const char **stage = NULL;
    struct ct_net_training training = training_of(s, train, from->filled);
    struct ct_net_options no = {
        .device       = o->device,
        .seed         = s->seed,
        .rank         = o->rank,
        .size         = o->size,
        .deal_tests   = s->tests.deals && !train,
        .quiet        = s->shares.measuring,
        .keep_blobs   = o->keep_blobs,
        .forward_only = !train && !o->keep_blobs,
        .training     = &training,
    };
    enum ct_status st;

    CT_TRY_GOTO(choose_state(o, from, phase, &no, &stage), st, out);
    CT_TRY_GOTO(read_net(from, &param), st, out);
    if (train && o->exchange)
        CT_TRY_GOTO(share_out(s, &no, &training, &param), st, out);
    st = ct_net_create(param, &no, out);
    if (st != CT_OK && from->path)
        st = ct_fail_in(st, "%s", from->path);
out:
    ct_message_free(param);
    ct_free(stage);
    return st;
}

/* Builds a net with the current shares and computes the next shares from its
 * speed. */
static enum ct_status try_shares(struct ct_solver *s,
                                 const struct net_origin *from)
{
    struct ct_net *net = NULL;
    enum ct_status st;

    s->shares.measuring = true;
    st           = build_net(s, from, CAFFE__PHASE__TRAIN, &net);
    s->shares.measuring = false;
    if (st == CT_OK)
        st = solver_time_ranks(s, net);
    ct_net_destroy(net);
    return st;
}

/* In an elastic job nets are built again in every view, and each sample must
 * count once.  So every source must be able to find its place again. */
static enum ct_status check_places(const struct ct_solver *s,
                                   const struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_layers(net) && solver_commits(s); i++) {
        const struct ct_layer *l = ct_net_layer(net, i);
        const char *type         = l->type->name;

        if (strcmp(type, "MemoryData") == 0 || strcmp(type, "Input") == 0)
            return ct_fail(CT_EINVAL, "layer %s: ranks come and go in an "
                           "elastic job, and what a program has put into a "
                           "layer of type %s is lost each time: take a source "
                           "that finds its place again, such as Data, "
                           "HDF5Data, ImageData or a Python layer", l->name,
                           type);
        if (ct_net_io(net, i).n_bottom == 0 && !ct_python_finds_place(l))
            return ct_fail(CT_EINVAL, "layer %s: ranks come and go in an "
                           "elastic job, and this Python layer would begin "
                           "its data anew each time: draw indices from "
                           "self.deal(n, self.batch_size), made in setup(), "
                           "or let the class have seek(self, n_passes)",
                           l->name);
    }
    return CT_OK;
}

static enum ct_status build_train(struct ct_solver *s,
                                  const struct net_origin *from)
{
    for (int i = 0; i < TRIALS && solver_measures_shares(s); i++)
        CT_TRY(try_shares(s, from));
    CT_TRY(build_net(s, from, CAFFE__PHASE__TRAIN, &s->net));
    CT_TRY(check_places(s, s->net));
    solver_say_shares(s);
    return CT_OK;
}

static struct net_origin train_origin(const Caffe__SolverParameter *p)
{
    return (struct net_origin){
        .path    = p->train_net ? p->train_net : p->net,
        .message = p->train_net_param ? p->train_net_param : p->net_param,
        .state   = p->train_state };
}

enum ct_status solver_batch_of(const Caffe__SolverParameter *p,
                               const struct ct_solver_options *options,
                               int64_t *out)
{
    const struct net_origin from = train_origin(p);
    struct ct_net_options no     = { .n_stage = 0 };
    Caffe__NetParameter *whole = NULL, *part = NULL;
    const char **stage           = NULL;
    enum ct_status st;

    *out = 0;
    if (!from.path && !from.message)
        return CT_OK;
    CT_TRY_GOTO(choose_state(options, &from, CAFFE__PHASE__TRAIN, &no, &stage),
                st, out);
    CT_TRY_GOTO(read_net(&from, &whole), st, out);
    CT_TRY_GOTO(net_filter(whole, &no, &part), st, out);
    *out = ct_batch_of(part);
out:
    ct_message_free(whole);
    ct_message_free(part);
    ct_free(stage);
    return st;
}

static enum ct_status create_train(struct ct_solver *s)
{
    const Caffe__SolverParameter *p = s->param;
    const struct net_origin from    = train_origin(p);
    int n = !!p->net + !!p->net_param + !!p->train_net + !!p->train_net_param;

    if (n == 0)
        return ct_fail(CT_EINVAL, "the solver names no net to train: set "
                       "`net:`");
    if (n > 1)
        return ct_fail(CT_EINVAL, "the solver names %d train nets; use one of "
                       "net, net_param, train_net, train_net_param", n);
    if (from.path)
        CT_INFO("Creating training net from %s file: %s",
                p->train_net ? "train_net" : "net", from.path);
    else
        CT_INFO("Creating training net specified in %s",
                p->train_net_param ? "train_net_param." : "net_param.");
    return build_train(s, &from);
}

static enum ct_status check_tests(const Caffe__SolverParameter *p)
{
    int n_named = (int)(p->n_test_net + p->n_test_net_param);
    int general = p->net || p->net_param;
    int n_iter  = (int)p->n_test_iter;

    if (general ? n_iter < n_named : n_iter != n_named)
        return ct_fail(CT_EINVAL, "test_iter stands %d times for %d test "
                       "net(s): give it once for each", n_iter, n_named);
    if (p->n_test_state && (int)p->n_test_state != n_iter)
        return ct_fail(CT_EINVAL, "test_state stands %zu times for %d test "
                       "net(s): give it once for each, or not at all",
                       p->n_test_state, n_iter);
    if (n_iter && p->test_interval <= 0)
        return ct_fail(CT_EINVAL, "there are test nets, but test_interval is "
                       "not above 0");
    return CT_OK;
}

/* Whether a test net without fillers has parameters that the train net does not
 * have. */
static bool has_own_params(const struct ct_net *test,
                           const struct ct_net *train)
{
    const int n = ct_net_n_layers(train);

    for (int i = 0; i < ct_net_n_layers(test); i++) {
        const struct ct_layer *l = ct_net_layer(test, i);
        int k                    = 0;

        if (l->n_blob == 0 || !l->run->unfilled)
            continue;
        while (k < n && strcmp(ct_net_layer(train, k)->name, l->name) != 0)
            k++;
        if (k == n)
            return true;
    }
    return false;
}

static enum ct_status build_test(struct ct_solver *s, size_t i)
{
    const Caffe__SolverParameter *p = s->param;
    struct net_origin from          = { 0 };
    size_t j                        = i - p->n_test_net_param;

    if (i < p->n_test_net_param) {
        from.message = p->test_net_param[i];
    } else if (j < p->n_test_net) {
        from.path = p->test_net[j];
    } else {
        from.path    = p->net;
        from.message = p->net_param;
    }
    from.state = p->n_test_state ? p->test_state[i] : NULL;
    if (from.path)
        CT_INFO("Creating test net (#%zu) specified by net file: %s", i,
                from.path);
    else
        CT_INFO("Creating test net (#%zu) specified in net_param", i);
    CT_TRY(build_net(s, &from, CAFFE__PHASE__TEST, &s->tests.net[i]));
    if (has_own_params(s->tests.net[i], s->net)) {
        ct_net_destroy(s->tests.net[i]);
        s->tests.net[i] = NULL;
        from.filled     = true;
        CT_TRY(build_net(s, &from, CAFFE__PHASE__TEST, &s->tests.net[i]));
    }
    s->tests.n++;
    CT_TRY(check_places(s, s->tests.net[i]));
    return ct_net_share_weights(s->tests.net[i], s->net);
}

static void drop_tests(struct ct_solver *s)
{
    while (s->tests.n > 0)
        ct_net_destroy(s->tests.net[--s->tests.n]);
}

/* Why this rank cannot test its part of the batches (empty: it can), and
 * whether tests change statistics. */
struct verdict {
    char why[191];
    bool counts;
};

/* Whether a BatchNorm updates its statistics in tests. */
static bool counts(const struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_layers(net); i++) {
        const struct ct_layer *l = ct_net_layer(net, i);

        if (l->type->take_in && (l->flags & CT_LAYER_CARRIES))
            return true;
    }
    return false;
}

static struct verdict judge_tests(const struct ct_solver *s,
                                  enum ct_status built)
{
    struct verdict v = { "", false };

    if (built != CT_OK)
        snprintf(v.why, sizeof(v.why), "%s", ct_last_error());
    for (int i = 0, l; i < s->tests.n && built == CT_OK; i++)
        if (!ct_net_can_deal(s->tests.net[i], &l))
            snprintf(v.why, sizeof(v.why), "layer %s of type %s cannot be "
                     "shared out",
                     ct_net_layer(s->tests.net[i], l)->name,
                     ct_net_layer(s->tests.net[i], l)->type->name);
    for (int i = 0; i < s->tests.n && built == CT_OK; i++)
        v.counts |= counts(s->tests.net[i]);
    return v;
}

/* Every rank has built the test nets for its part of their batches.  If one
 * could not, because its layers or its data do not allow it, nobody deals. */
static enum ct_status agree_to_deal(struct ct_solver *s, enum ct_status built)
{
    struct ct_exchange *x     = s->options.exchange;
    const size_t n            = (size_t)x->facts.size;
    const struct verdict mine = judge_tests(s, built);
    struct verdict *all       = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc(n, sizeof(*all), "verdicts", &all));
    CT_TRY_GOTO(ct_exchange_gather(x, &mine, sizeof(mine), all), st, out);
    s->tests.count = all[0].counts;
    for (size_t r = 0; r < n && s->tests.deals; r++)
        if (all[r].why[0]) {
            CT_INFO("Rank 0 tests alone: rank %zu: %.*s", r,
                    (int)sizeof(all[r].why) - 1, all[r].why);
            s->tests.deals = false;
            drop_tests(s);
        }
out:
    ct_free(all);
    return st;
}

static enum ct_status build_tests(struct ct_solver *s)
{
    if (s->tests.n > 0) /* prepare.c has built them */
        return CT_OK;
    for (size_t i = 0; i < s->param->n_test_iter; i++)
        CT_TRY(build_test(s, i));
    return CT_OK;
}

static enum ct_status create_tests(struct ct_solver *s)
{
    const Caffe__SolverParameter *p = s->param;
    const struct ct_exchange *x     = s->options.exchange;
    enum ct_status st;

    CT_TRY(check_tests(p));
    if (p->n_test_iter == 0)
        return CT_OK;
    if (!s->tests.net)
        CT_TRY(ct_alloc(p->n_test_iter, sizeof(*s->tests.net), "test nets",
                        &s->tests.net));
    if (!s->tests.n_batches)
        CT_TRY(ct_alloc(p->n_test_iter, sizeof(*s->tests.n_batches),
                        "test nets", &s->tests.n_batches));
    s->tests.deals = x && x->facts.size > 1 && x->facts.deal_tests;
    if (s->tests.deals) {
        st = build_tests(s);
        if (s->is_draft)
            return st;
        CT_TRY(agree_to_deal(s, st));
    }
    return s->tests.deals || (x && x->facts.rank > 0) ? CT_OK
                                                      : build_tests(s);
}

enum ct_status solver_create_nets(struct ct_solver *s)
{
    if (!solver_take_prepared(s))
        CT_TRY(create_train(s));
    return create_tests(s);
}

enum ct_status ct_solver_precision(const Caffe__SolverParameter *p,
                                   enum ct_precision *out)
{
    const Caffe__NetParameter *message =
        p->train_net_param ? p->train_net_param : p->net_param;
    const char *path           = p->train_net ? p->train_net : p->net;
    Caffe__NetParameter *param = NULL;

    *out = message ? ct_net_precision(message) : CT_FP32;
    if (!path)
        return CT_OK;
    CT_TRY(ct_net_param_read(path, &param));
    *out = ct_net_precision(param);
    ct_message_free(param);
    return CT_OK;
}
