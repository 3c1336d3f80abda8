/* prepare.c - nets for a view that is likely to come.
 *
 * When another rank asks to be taken in, all hear which rank they will probably
 * be among how many (elastic/member_room.c).  Each then builds its nets for
 * that place, on a thread of its own while it trains on, and runs a pass, so
 * that what the first pass of a net makes is there: primitives, scratch memory,
 * pages.  When the view comes, nets that fit it take the place of the old ones
 * at once; others are dropped, and nets are built as if nobody had known.  So
 * are those of a hint that is withdrawn, at once.
 *
 *     hint         solver_prepare      begins
 *     next view    solver_take_prepared
 *
 * A draft is a solver that has nets, that of a process which comes histories as
 * well, and nothing else.  Its parameters are zeros until those of the solver
 * come in their place. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

#include "base/hush.h"
#include "base/mem.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "device/cpu/loop.h"
#include "net/arena.h"
#include "net/training.h"
#include "solver/solver_inner.h"

enum { NICE = 10 };

struct solver_preparation {
    struct ct_solver   draft;    /* of `thread`, until it is done */
    struct ct_exchange exchange; /* the draft's: facts alone */
    struct ct_expected expected;
    pthread_t          thread;
    bool               runs;     /* the thread has yet to be joined */
    int                n_threads; /* of its loops */
    bool               is_first; /* of a process that has no solver yet */
    atomic_bool        done, dropped;
    bool               withdrawn; /* nothing of it is of use to anybody */
    enum ct_status     st;
};

/* ---- What can be prepared. */

/* Layers that leave something outside of the net, such as a file, or that run a
 * program of the user's, are built when they are needed. */
static bool is_harmless(const struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_layers(net); i++)
        if (ct_net_layer(net, i)->type->flags & CT_LAYER_CARRIES)
            return false;
    return true;
}

static bool is_harmless_message(const Caffe__NetParameter *net)
{
    for (size_t i = 0; net && i < net->n_layer; i++) {
        const struct ct_layer_type *t =
            ct_layer_find(net->layer[i]->type ? net->layer[i]->type : "");

        if (!t || (t->flags & CT_LAYER_CARRIES))
            return false;
    }
    return true;
}

/* Where a net is a file, the nets that there are tell. */
static bool all_harmless(const struct ct_solver *s)
{
    const Caffe__SolverParameter *p = s->param;
    bool yes = is_harmless_message(p->net_param) &&
               is_harmless_message(p->train_net_param);

    for (size_t i = 0; i < p->n_test_net_param; i++)
        yes &= is_harmless_message(p->test_net_param[i]);
    for (int i = 0; i < s->tests.n; i++)
        yes &= is_harmless(s->tests.net[i]);
    return yes && (s->net ? is_harmless(s->net)
                          : !p->net && !p->train_net && p->n_test_net == 0);
}

/* Will it have test nets, and has this rank built none of these files? */
static bool is_in_the_dark(const struct ct_solver *s,
                           const struct ct_exchange_facts *f)
{
    const Caffe__SolverParameter *p = s->param;
    const size_t n_named            = p->n_test_net + p->n_test_net_param;

    return (f->rank == 0 || (f->size > 1 && f->deal_tests)) &&
           (p->n_test_net > 0 || (p->net && p->n_test_iter > n_named)) &&
           s->tests.n < (int)p->n_test_iter;
}

/* Others take part in building the nets of shares that are measured, and in the
 * passes of layers that sum; a GPU allocates nothing while another thread
 * records. */
static bool can_prepare(const struct ct_solver *s,
                        const struct ct_exchange_facts *f)
{
    return s->options.device->kind == CT_CPU && !f->serves && !f->root_data &&
           !f->sums_in_layers && f->shares != CT_SHARES_SPEED &&
           all_harmless(s) && !is_in_the_dark(s, f);
}

/* ---- Preparing. */

static enum ct_status stop_if_dropped(struct ct_net *net, int layer, void *arg)
{
    struct solver_preparation *p = arg;

    (void)net;
    (void)layer;
    return atomic_load(&p->dropped) ? ct_fail(CT_ESTOP, "it is of no use")
                                    : CT_OK;
}

/* One pass, as an iteration makes it. */
static enum ct_status warm_up(struct solver_preparation *p)
{
    struct ct_net *net = p->draft.net;
    double loss;

    ct_net_set_layer_start(net, stop_if_dropped, p);
    CT_TRY(ct_net_begin_diffs(net));
    CT_TRY(ct_net_forward_paired(net, &loss));
    CT_TRY(ct_net_backward(net));
    ct_net_set_layer_start(net, NULL, NULL);
    return CT_OK;
}

/* A net whose images go forward and backward in turn would have to change its
 * memory while others wait. */
static enum ct_status keep_factors(struct solver_preparation *p)
{
    const struct ct_expected *e = &p->expected;

    return e->keeps_factors && p->draft.param->iter_size == 1 &&
                   e->keeps_factors(p->draft.net, e->facts.size)
               ? ct_net_keep_factors(p->draft.net)
               : CT_OK;
}

/* Where ranks share parameters, memory for them and for gradients is elsewhere,
 * and what the pass has touched here is given back now. */
static void make_room(struct solver_preparation *p)
{
    const struct ct_expected *e = &p->expected;
    const struct ct_solver *d   = &p->draft;

    if (!e->shares || !solver_fits_shared(d) || atomic_load(&p->dropped))
        return;
    ct_net_clear_arenas(d->net);
    if (e->reserve)
        e->reserve(e->owner, e->facts.size, ct_net_arena_count(d->net),
                   1 + d->rule->n_history);
}

/* Those who train go before this. */
static void *prepare_main(void *arg)
{
    struct solver_preparation *p = arg;

    (void)!setpriority(PRIO_PROCESS, 0, NICE); /* of this thread */
    (void)ct_cpu_team(p->n_threads);
    ct_log_hush(true);
    p->st = solver_create_nets(&p->draft);
    if (p->st == CT_OK)
        p->st = keep_factors(p);
    if (p->st == CT_OK)
        p->st = warm_up(p);
    if (p->st == CT_OK && p->is_first)
        p->st = solver_create_histories(&p->draft);
    if (p->st == CT_OK)
        make_room(p);
    atomic_store(&p->done, true);
    p->expected.prepared(p->expected.arg, p->expected.hint);
    return NULL;
}

static void start(struct solver_preparation *p)
{
    p->runs = pthread_create(&p->thread, NULL, prepare_main, p) == 0;
    if (!p->runs)
        p->st = CT_ENOMEM;
}

static void finish(struct solver_preparation *p)
{
    if (p->runs)
        pthread_join(p->thread, NULL);
    p->runs = false;
}

/* A draft of `s`, or of a solver that has no more than parameters and options;
 * NULL: nothing can be prepared. */
static struct solver_preparation *create(const struct ct_solver *s,
                                         const struct ct_expected *e)
{
    struct solver_preparation *p;

    if (!can_prepare(s, &e->facts))
        return NULL;
    p = ct_calloc(1, sizeof(*p), "what is prepared");
    if (!p)
        return NULL;
    p->expected       = *e;
    p->n_threads      = ct_device_cpu_threads();
    p->is_first       = !s->net;
    p->exchange.facts = e->facts;
    p->draft.is_draft = true;
    p->draft.options  = s->options;
    p->draft.options.exchange = &p->exchange;
    p->draft.options.rank     = e->facts.rank;
    p->draft.options.size     = e->facts.size;
    p->draft.rule = solver_rule_find(s->param->type);
    p->draft.seed = s->seed;
    if (p->draft.rule &&
        ct_message_copy(s->param, &p->draft.param) == CT_OK)
        return p;
    solver_preparation_destroy(p);
    return NULL;
}

void solver_preparation_destroy(struct solver_preparation *p)
{
    struct ct_solver *d;

    if (!p)
        return;
    d = &p->draft;
    atomic_store(&p->dropped, true);
    finish(p);
    if (p->withdrawn && p->expected.reserve)
        p->expected.reserve(p->expected.owner, 0, 0, 0);
    for (int i = 0; i < d->tests.n; i++)
        ct_net_destroy(d->tests.net[i]);
    ct_free(d->tests.net);
    ct_free(d->tests.n_batches);
    ct_free(d->shares.weights);
    ct_free(d->shares.batches);
    ct_buffer_drop(d->history[0]);
    ct_buffer_drop(d->history[1]);
    ct_net_destroy(d->net);
    ct_message_free(d->param);
    ct_free(p);
}

/* Its thread may still build: then it is joined later. */
static void drop(struct solver_ahead *a)
{
    struct solver_preparation *p = a->prepared;

    a->prepared = NULL;
    if (!p)
        return;
    atomic_store(&p->dropped, true);
    if (a->dropped || atomic_load(&p->done) || !p->runs)
        solver_preparation_destroy(p);
    else
        a->dropped = p;
}

/* No hint stands. */
static void withdraw(struct solver_ahead *a)
{
    if (a->has_next)
        return;
    if (a->prepared)
        a->prepared->withdrawn = true;
    if (a->dropped)
        a->dropped->withdrawn = true;
}

static void begin(struct ct_solver *s, const struct ct_expected *e)
{
    struct solver_preparation *p = create(s, e);

    if (p)
        start(p);
    if (p && p->runs) {
        s->ahead.prepared = p;
        return;
    }
    solver_preparation_destroy(p);
    e->prepared(e->arg, e->hint);
}

/* Memory that was reserved for a view and not taken by it is given back when an
 * iteration counts, because all ranks wait while a view begins.  Whoever
 * prepares for another place reserves it anew. */
static void give_back(struct ct_solver *s)
{
    struct solver_ahead *a = &s->ahead;

    if (!a->reserved.reserve || s->iter <= a->reserved_at || a->dropped)
        return;
    if (!a->prepared || !a->prepared->expected.reserve)
        a->reserved.reserve(a->reserved.owner, 0, 0, 0);
    a->reserved.reserve = NULL;
}

void solver_prepare(struct ct_solver *s)
{
    struct ct_exchange *x  = s->options.exchange;
    struct solver_ahead *a = &s->ahead;

    if (a->retired.train && s->iter > a->retired_at)
        solver_drop_retired(s);
    if (!solver_commits(s))
        return;
    if (a->dropped && atomic_load(&a->dropped->done)) {
        solver_preparation_destroy(a->dropped);
        a->dropped = NULL;
    }
    give_back(s);
    if (x->job->expects(x, &a->next)) {
        a->has_next = a->next.facts.size > 0;
        withdraw(a);
        drop(a);
    }
    if (!a->has_next || a->dropped)
        return;
    a->has_next = false;
    begin(s, &a->next);
}

/* Takes NULL. */
static void prepare(struct solver_preparation *p)
{
    if (!p)
        return;
    start(p);
    finish(p);
}

void solver_prepare_now(struct ct_solver *s, const struct ct_expected *e)
{
    drop(&s->ahead);
    s->ahead.prepared = create(s, e);
    prepare(s->ahead.prepared);
}

void solver_prepare_first(const Caffe__SolverParameter *param,
                          const struct ct_solver_options *options,
                          const struct ct_expected *e,
                          struct solver_preparation **out)
{
    Caffe__SolverParameter *same = NULL;
    struct ct_solver s           = { .options = *options,
                                     .seed = (uint64_t)param->random_seed };

    solver_preparation_destroy(*out);
    *out = NULL;
    if (param->random_seed < 0 || ct_message_copy(param, &same) != CT_OK)
        return; /* others know what was drawn */
    s.param = same;
    *out    = create(&s, e);
    prepare(*out);
    ct_message_free(same);
}

/* ---- The view has come. */

static bool is(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* All that nets are built by.  Where nobody has parameters, fillers have to
 * run. */
static bool fits(const struct solver_preparation *p, const struct ct_solver *s)
{
    const struct ct_exchange_facts *a = &p->exchange.facts;
    const struct ct_exchange_facts *b;

    if (!s->options.exchange)
        return false;
    b = &s->options.exchange->facts;
    return b->n_full > 0 && a->rank == b->rank && a->size == b->size &&
           a->serves == b->serves && a->own_data == b->own_data &&
           a->root_data == b->root_data &&
           a->global_batch == b->global_batch && a->shares == b->shares &&
           is(a->weights, b->weights) &&
           a->parts == b->parts && a->micro == b->micro &&
           a->first_part == b->first_part && a->commits == b->commits &&
           a->sums_in_layers == b->sums_in_layers &&
           a->deal_tests == b->deal_tests && p->draft.seed == s->seed &&
           p->draft.options.device == s->options.device &&
           p->n_threads == ct_device_cpu_threads();
}

static void take(struct ct_solver *s, struct ct_solver *draft)
{
    s->net        = draft->net;
    s->tests      = draft->tests;
    s->shares     = draft->shares;
    draft->net    = NULL;
    draft->tests  = (struct solver_tests){ 0 };
    draft->shares = (struct solver_shares){ 0 };
    for (int i = 0; i < 2 && draft->history[i]; i++) {
        s->history[i]     = draft->history[i];
        draft->history[i] = NULL;
    }
    ct_net_set_pulse(s->net, solver_pulse(s));
    for (int i = 0; i < s->tests.n; i++)
        ct_net_set_pulse(s->tests.net[i], solver_pulse(s));
}

bool solver_take_prepared(struct ct_solver *s)
{
    struct solver_preparation *p = s->ahead.prepared;
    struct solver_preparation *last = p ? p : s->ahead.dropped;
    bool taken;

    s->ahead.has_next = s->ahead.taken = false;
    if (last && last->expected.reserve) {
        s->ahead.reserved    = last->expected;
        s->ahead.reserved_at = s->iter;
    }
    if (!p || !fits(p, s)) {
        drop(&s->ahead);
        return false;
    }
    finish(p); /* what is left of it has to be done in any case */
    taken = p->st == CT_OK;
    if (taken)
        take(s, &p->draft);
    drop(&s->ahead);
    s->ahead.taken = taken;
    return taken;
}

void solver_prepare_fini(struct ct_solver *s)
{
    solver_preparation_destroy(s->ahead.prepared);
    solver_preparation_destroy(s->ahead.dropped);
    solver_drop_retired(s);
    s->ahead = (struct solver_ahead){ NULL };
}
