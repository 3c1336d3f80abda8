/* random_elastic.c - trains a drawn case by ranks that come and go.
 *
 * Members are threads that agree by the real rules (dist/bus.h).  A play,
 * drawn for the case, says what happens to whom, at which point of which
 * iteration: one dies, leaves, is thought lost, begins another view, or lets a
 * new one in.  The batch of the case is that of all ranks together, so those
 * who come to the end must come to what one rank with all of it comes to. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "core/buffer.h"
#include "cortado/access.h"
#include "cortado/events.h"
#include "cortado/solver.h"
#include "dist/bus.h"
#include "dist/engine.h"
#include "proto/edit.h"
#include "solver/solver_inner.h"
#include "train_steps.h"

enum { MOST_EVENTS = 4, MOST_MEMBERS = 4, ANYBODY = -1 };

/* Where a member stands when something happens. */
enum point {
    AT_BEGIN,     /* of an iteration: it has tested, and marked nothing */
    AT_GRADIENT,  /* the gradient of a layer is made, and leaves now */
    AT_PART,      /* a part of shared parameters is half updated */
    AT_SUMS,      /* it has all sums, and has not said so */
    AT_READY,     /* it has said so */
    AT_COMMIT,    /* all have */
    AT_UPDATED,   /* parameters are; nothing that follows is done */
    AT_MEET,      /* before it meets the others */
    AT_NEXT,      /* it asks for the next view */
    AT_OPEN,      /* it has a place in that */
    N_POINTS
};
static const char *const point_name[] = {
    "at the beginning", "with a gradient", "in the middle of an update",
    "with all sums", "being ready", "with the commit", "behind its update",
    "before a meeting", "before a view", "in a new view",
};

enum fate { DIES, LEAVES, IS_SUSPECTED, BEGINS_A_VIEW, LETS_IN, N_FATES };
static const char *const fate_name[] = { "dies", "leaves", "is suspected",
                                         "begins a view", "lets one in" };

struct event {
    enum fate  fate;
    enum point point;
    int        who, iter; /* ANYBODY: who comes first */
    int        after; /* so many times at that point */
    bool       over;
};

struct play;

struct player {
    struct play            *play;
    struct member          *m;
    struct ct_dist         *dist;
    struct ct_solver       *solver;
    struct elastic_membership asks;
    struct solver_preparation *preparation; /* owned; NULL: none */
    struct ct_exchange_ops  ops; /* the exchange's, with points in them */
    struct ct_job_ops       job;
    const struct ct_exchange_ops *real_ops;
    const struct ct_job_ops *real_job;
    struct ct_params_user   user;
    int                     iter; /* under way */
    struct result           result;
    bool                    told[MOST_ITERATIONS];
};

struct play {
    const struct drawn *c;
    struct bus         *bus;
    int                 n_begin;
    bool                solves;   /* or steps */
    int                 saves;    /* steps so many at a time, with a snapshot
                                   * behind each; 0: all in one */
    Caffe__SolverParameter *param; /* the case's, with snapshots of its own */
    bool                meets;    /* at the end, as ct_elastic_close() does */
    bool                alone;    /* solvers are made alone, and join then */
    struct event        event[MOST_EVENTS];
    int                 n_events;
    struct player       player[BUS_MEMBERS];
};

/* Whose thread this is. */
static _Thread_local struct player *here;

static void *player_main(void *arg);

/* ---- What happens. */

static void start_player(struct play *y, struct member *m)
{
    struct player *p = &y->player[m->number];

    p->play = y;
    p->m    = m;
    pthread_create(&m->thread, NULL, player_main, p);
}

/* A process that is gone does nothing any more. */
static void await_others(struct player *p)
{
    struct bus *b        = p->play->bus;
    const uint32_t given = p->m->given;
    bool on              = false;

    while (!on) {
        bus_nap(100);
        pthread_mutex_lock(&b->lock);
        on = true;
        for (int i = 0; i < b->n; i++)
            on &= !b->member[i].alive || b->member[i].given == 0 ||
                  b->member[i].given > given;
        pthread_mutex_unlock(&b->lock);
    }
}

/* With the lock: whether it has died. */
static bool happens(struct player *p, enum fate fate)
{
    struct bus *b    = p->play->bus;
    struct member *m = p->m;
    const bool others = bus_n_full(b) > 1; /* can go on without it */

    if (!m->alive)
        return false;
    switch (fate) {
    case DIES:
        if (others)
            bus_kill(b, m);
        return others;
    case LEAVES:
        if (others && !m->leaving) {
            m->leaving = true;
            elastic_leave(&m->a);
            bus_look(b);
        }
        return false;
    case IS_SUSPECTED:
        if (bus_n_full(b) > 2)
            bus_suspect_of(b, m);
        return false;
    case BEGINS_A_VIEW:
        if (b->n_views < BUS_VIEWS / 2)
            bus_renew(b, m);
        return false;
    default:
        if (b->n < BUS_MEMBERS && m->a.rank >= 0)
            start_player(p->play, bus_join(b));
        return false;
    }
}

/* Returns whether it has died there. */
static bool reach(struct player *p, enum point at)
{
    struct play *y = p->play;
    bool died      = false;

    pthread_mutex_lock(&y->bus->lock);
    for (int i = 0; i < y->n_events; i++) {
        struct event *e = &y->event[i];

        if (e->over || e->point != at || e->iter != p->iter ||
            (e->who != ANYBODY && e->who != p->m->number) || e->after-- > 0)
            continue;
        e->over = true;
        died |= happens(p, e->fate);
    }
    pthread_mutex_unlock(&y->bus->lock);
    if (died && at != AT_PART)
        await_others(p);
    return died;
}

/* ---- Points in the engine. */

static enum ct_status layer_done(struct ct_exchange *x, int layer)
{
    (void)reach(here, AT_GRADIENT);
    return here->real_ops->layer_done(x, layer);
}

static enum ct_status meet(struct ct_exchange *x)
{
    (void)reach(here, AT_MEET);
    return here->real_job->meet(x);
}

static enum ct_status commit(struct ct_exchange *x, int iter)
{
    CT_TRY(here->real_job->commit(x, iter));
    (void)reach(here, AT_COMMIT);
    return CT_OK;
}

/* What it leaves is no number, and is never said to be done. */
static void update_part(void *arg, size_t first, size_t n, const float *sum)
{
    struct player *p                = arg;
    const struct ct_shared_params *all = &p->solver->peers.shared;

    p->user.update(p->user.arg, first, n, sum);
    if (!reach(p, AT_PART))
        return;
    for (int i = 0; i <= p->solver->rule->n_history && all->next[i]; i++)
        for (size_t k = n / 2; k < n; k++)
            all->next[i]->ptr[first + k] = NAN;
    await_others(p);
}

static void leave_params(void *arg)
{
    struct player *p = arg;

    p->user.leave(p->user.arg);
}

/* Each view brings the real ones. */
static void put_points(struct player *p)
{
    struct ct_dist *d     = p->dist;
    struct ct_exchange *x = ct_dist_exchange(d);

    if (x->ops != &p->ops) {
        p->real_ops       = x->ops;
        p->ops            = *x->ops;
        p->ops.layer_done = layer_done;
        x->ops            = &p->ops;
    }
    if (x->job != &p->job) {
        p->real_job   = x->job;
        p->job        = *x->job;
        p->job.meet   = meet;
        p->job.commit = commit;
        x->job        = &p->job;
    }
    if (d->host.params_of && d->host.user.update != update_part) {
        p->user             = d->host.user;
        d->host.user.arg    = p;
        d->host.user.update = update_part;
        d->host.user.leave  = leave_params;
    }
}

static bool begin_iteration(int iter, void *arg)
{
    struct player *p = arg;

    p->iter = iter;
    put_points(p);
    (void)reach(p, AT_BEGIN);
    return false;
}

static void inspect(struct ct_solver *s, int iter, void *arg)
{
    (void)s;
    (void)iter;
    (void)arg;
}

static void end_iteration(const struct ct_iteration *e, void *arg)
{
    struct player *p = arg;

    if (e->iter < MOST_ITERATIONS && p->told[e->iter] &&
        p->result.st == CT_OK) {
        p->result.st = CT_EINTERNAL;
        snprintf(p->result.why, sizeof(p->result.why),
                 "member %d has done iteration %d twice", p->m->number,
                 e->iter);
    }
    if (e->iter < MOST_ITERATIONS) {
        p->told[e->iter]        = true;
        p->result.loss[e->iter] = e->loss;
    }
    (void)reach(p, AT_UPDATED);
}

static const struct ct_solver_events player_events = {
    .iteration     = end_iteration,
    .wants_inspect = begin_iteration,
    .inspect       = inspect,
};

static enum ct_status next_place(void *arg, struct elastic_place *out)
{
    struct player *p = arg;

    (void)reach(p, AT_NEXT);
    return p->m->asks.next(p->m, out);
}

static enum ct_status open_place(void *arg, struct ct_transport **out)
{
    struct player *p = arg;

    CT_TRY(p->m->asks.open(p->m, out));
    (void)reach(p, AT_OPEN);
    return CT_OK;
}

static void close_place(void *arg)
{
    struct player *p = arg;

    p->m->asks.close(p->m);
}

static bool be_ready(void *arg, int iter)
{
    struct player *p = arg;

    (void)reach(p, AT_SUMS);
    if (!p->m->asks.ready(p->m, iter))
        return false;
    (void)reach(p, AT_READY);
    return true;
}

static bool expects(void *arg, struct elastic_place *out)
{
    struct player *p = arg;

    return p->m->asks.expects(p->m, out);
}

static void prepared(void *arg, uint64_t hint)
{
    struct player *p = arg;

    p->m->asks.prepared(p->m, hint);
}

/* ---- A member. */

static enum ct_status make_solver(struct player *p, struct ct_exchange *x)
{
    struct ct_solver_options o = { .device = ct_device_cpu(), .exchange = x };
    struct solver_preparation *ready = p->preparation;

    if (x) {
        o.rank = x->facts.rank;
        o.size = x->facts.size;
    }
    p->preparation = NULL;
    CT_TRY(solver_create_prepared(p->play->param, &o, ready, &p->solver));
    return ct_solver_listen(p->solver, &player_events, p);
}

static void prepare(void *arg, const struct ct_expected *e)
{
    struct player *p                 = arg;
    const struct ct_solver_options o = { .device = ct_device_cpu() };

    solver_prepare_first(p->play->param, &o, e, &p->preparation);
}

/* As the program does: each view has a solver made for it. */
static enum ct_status enter_as_program(struct player *p)
{
    const struct dist_preparer preparer = { prepare, p };
    struct ct_exchange *x;

    ct_solver_destroy(p->solver);
    ct_dist_destroy(p->dist);
    p->solver = NULL;
    p->dist   = NULL;
    CT_TRY(dist_create_elastic(&p->asks, p->play->bus->options, &preparer,
                               &p->dist));
    x = ct_dist_exchange(p->dist);
    CT_TRY(make_solver(p, x));
    return x->facts.n_full < x->facts.size ? solver_enter_view(p->solver, true)
                                           : CT_OK;
}

static enum ct_status begin(void *arg, int iter)
{
    (void)arg;
    (void)iter;
    return CT_OK;
}

/* As bindings do. */
static enum ct_status enter_alone(struct player *p)
{
    const struct dist_entry how = { .begin = begin };

    CT_TRY(make_solver(p, NULL));
    return dist_enter_elastic(&p->asks, &how, p->play->bus->options, p->solver,
                              &p->dist);
}

/* Who comes begins with a step, as the program of the others does. */
static enum ct_status train_saving(struct player *p, int last)
{
    while (ct_solver_iter(p->solver) < last) {
        const int left = last - ct_solver_iter(p->solver);

        CT_TRY(ct_solver_step(p->solver, left < p->play->saves
                                             ? left : p->play->saves));
        CT_TRY(ct_solver_snapshot(p->solver));
    }
    return CT_OK;
}

static enum ct_status live(struct player *p)
{
    const struct play *y = p->play;
    const int last       = y->c->solver->max_iter;
    enum ct_status st;

    do
        st = y->alone ? enter_alone(p) : enter_as_program(p);
    while (st == CT_ECOMM);
    CT_TRY(st);
    put_points(p);
    CT_TRY(y->solves  ? ct_solver_solve(p->solver)
           : y->saves ? train_saving(p, last)
                      : ct_solver_step(p->solver,
                                       last - ct_solver_iter(p->solver)));
    if (y->meets)
        CT_TRY(solver_meet_last(p->solver));
    if (ct_solver_iter(p->solver) != last)
        return ct_fail(CT_EINTERNAL, "it ends after iteration %d of %d",
                       ct_solver_iter(p->solver), last);
    return train_collect(p->solver, !ct_dist_exchange(p->dist)->facts.remote,
                         false, &p->result);
}

static void *player_main(void *arg)
{
    struct player *p = arg;
    enum ct_status st;

    here    = p;
    p->asks = (struct elastic_membership){
        .arg = p, .next = next_place, .open = open_place, .close = close_place,
        .ready = be_ready, .expects = expects, .prepared = prepared };
    ct_device_cpu_set_threads(1);
    st = live(p);
    if (st != CT_OK && p->result.st == CT_OK) {
        p->result.st = st;
        snprintf(p->result.why, sizeof(p->result.why), "member %d: %s",
                 p->m->number, ct_last_error());
    }
    p->m->st = st;
    pthread_mutex_lock(&p->play->bus->lock);
    bus_leave(p->m);
    pthread_mutex_unlock(&p->play->bus->lock);
    solver_preparation_destroy(p->preparation);
    ct_solver_destroy(p->solver);
    ct_dist_destroy(p->dist);
    return NULL;
}

/* ---- A play. */

static void draw_play(const struct drawn *c, const struct way *w,
                      struct play *y)
{
    struct stream r = { .key = ct_key(c->seed, w->name) };
    int most        = w->exact ? c->parts : c->batch, n;

    most       = most < MOST_MEMBERS ? most : MOST_MEMBERS;
    y->c       = c;
    y->n_begin = 1 + stream_below(&r, most);
    y->solves  = stream_chance(&r, 50);
    y->meets   = stream_chance(&r, 50);
    y->alone   = stream_chance(&r, 30);
    y->saves   = !y->solves && stream_chance(&r, 30)
                     ? 1 + stream_below(&r, c->solver->max_iter)
                     : 0;
    n          = y->n_begin;
    y->n_events = 1 + stream_below(&r, MOST_EVENTS);
    for (int i = 0; i < y->n_events; i++) {
        struct event *e = &y->event[i];

        *e = (struct event){ .fate  = stream_below(&r, N_FATES),
                             .point = stream_below(&r, N_POINTS),
                             .who   = stream_below(&r, n),
                             .iter  = stream_below(&r, c->solver->max_iter) };
        if (e->point == AT_GRADIENT || e->point == AT_MEET)
            e->after = stream_below(&r, 4);
        if (e->point == AT_PART) { /* whoever has time */
            e->who   = ANYBODY;
            e->after = stream_below(&r, 2);
        }
        if (stream_chance(&r, 15))
            e->fate = LETS_IN;
        if (e->fate == LETS_IN && n == most)
            e->fate = BEGINS_A_VIEW;
        n += e->fate == LETS_IN;
    }
}

static void print_play(const struct play *y, const struct result *out)
{
    printf("---- %d members%s%s%s, %d views:\n", y->n_begin,
           y->solves  ? ", a whole training"
           : y->saves ? ", steps and snapshots"
                      : ", steps",
           y->meets ? ", who meet at the end" : "",
           y->alone ? ", made alone" : "", y->bus->n_views);
    for (int i = 0; i < y->n_events; i++)
        printf("---- member %d %s %s of iteration %d%s%s\n", y->event[i].who,
               fate_name[y->event[i].fate], point_name[y->event[i].point],
               y->event[i].iter, y->event[i].after > 0 ? ", not at once" : "",
               y->event[i].over ? "" : ": never came to it");
    for (int i = 0; i < y->bus->n; i++)
        printf("---- member %d ends in view %u: %s\n", i,
               y->bus->member[i].given,
               y->player[i].result.st == CT_OK ? "all done"
                                               : y->player[i].result.why);
    if (out->st != CT_OK)
        printf("---- %s\n", out->why);
}

/* Whoever came to the end came to the same; *out is what. */
static void take_results(struct play *y, struct result *out)
{
    struct player *one = NULL;
    bool told[MOST_ITERATIONS] = { false };

    out->st       = CT_OK;
    out->n_losses = y->c->solver->max_iter;
    for (int i = 0; i < y->bus->n && out->st == CT_OK; i++) {
        struct player *p = &y->player[i];

        if (p->result.st == CT_ESTOP || p->result.st == CT_OK)
            out->st = CT_OK;
        else {
            out->st = p->result.st;
            memcpy(out->why, p->result.why, sizeof(out->why));
            continue;
        }
        for (int k = 0; k < out->n_losses; k++) {
            if (p->told[k] && told[k] &&
                memcmp(&out->loss[k], &p->result.loss[k],
                       sizeof(out->loss[k])) != 0) {
                out->st = CT_EINVAL;
                snprintf(out->why, sizeof(out->why), "iteration %d: the loss "
                         "of member %d is %.9g, that of another %.9g", k, i,
                         p->result.loss[k], out->loss[k]);
            }
            if (p->told[k]) {
                told[k]      = true;
                out->loss[k] = p->result.loss[k];
            }
        }
        if (p->result.st != CT_OK)
            continue;
        for (int k = 0; one && k < one->result.n_arrays; k++)
            if (memcmp(one->result.array[k].v, p->result.array[k].v,
                       (size_t)one->result.array[k].n * sizeof(float)) != 0) {
                out->st = CT_EINVAL;
                snprintf(out->why, sizeof(out->why), "%s of member %d is not "
                         "that of member %d", one->result.array[k].name, i,
                         one->m->number);
            }
        one = one ? one : p;
    }
    for (int k = 0; k < out->n_losses && out->st == CT_OK; k++)
        if (!told[k]) {
            out->st = CT_EINVAL;
            snprintf(out->why, sizeof(out->why), "nobody told of iteration %d",
                     k);
        }
    if (out->st == CT_OK && !one) {
        out->st = CT_EINVAL;
        snprintf(out->why, sizeof(out->why), "nobody came to the end");
    }
    if (out->st == CT_OK) {
        out->array    = one->result.array;
        out->n_arrays = one->result.n_arrays;
        one->result.array    = NULL;
        one->result.n_arrays = 0;
    }
}

static void perform(struct play *y, struct result *out)
{
    struct bus *b = y->bus;

    bus_start(b, y->n_begin);
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < y->n_begin; i++)
        start_player(y, &b->member[i]);
    pthread_mutex_unlock(&b->lock);
    bus_await(b);
    bus_stop(b);
    take_results(y, out);
    if (getenv("CORTADO_RANDOM_PLAYS"))
        print_play(y, out);
    for (int i = 0; i < b->n; i++)
        result_fini(&y->player[i].result);
}

/* Another way that resumes is not to find what this one leaves. */
static enum ct_status make_param(const struct drawn *c, struct play *y)
{
    char prefix[512];

    CT_TRY(ct_message_copy(c->solver, &y->param));
    snprintf(prefix, sizeof(prefix), "%s_elastic", c->solver->snapshot_prefix);
    return ct_edit_string(&y->param->snapshot_prefix, prefix);
}

void train_elastic(const struct drawn *c, const struct way *w,
                   struct result *out)
{
    Caffe__DistributedParameter *options = NULL;
    struct play *y = NULL;

    out->st = train_options(c, w, &options);
    if (out->st == CT_OK)
        out->st = ct_alloc(1, sizeof(*y), "play", &y);
    if (out->st == CT_OK)
        out->st = make_param(c, y);
    if (out->st == CT_OK)
        out->st = bus_create(c->seed, y->param, options, &y->bus);
    if (out->st == CT_OK) {
        draw_play(c, w, y);
        perform(y, out);
    } else {
        snprintf(out->why, sizeof(out->why), "%s", ct_last_error());
    }
    if (y && y->bus)
        bus_destroy(y->bus);
    if (y)
        ct_message_free(y->param);
    ct_free(y);
    ct_message_free(options);
}
