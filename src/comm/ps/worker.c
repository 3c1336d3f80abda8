/* worker.c - the worker's side on the thread that computes. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pulse.h"
#include "base/trace.h"
#include "comm/ps/client.h"

static const double look_s = 0.2; /* from one look at the comm thread's health
                                     to the next */
static const double tell_s = 5e-3; /* of waiting that peers need not know of */

typedef bool (*ready_fn)(const struct ct_ps *p, int slice, int64_t clock);

static bool has_clock(const struct ct_ps *p, int slice, int64_t clock)
{
    return p->client->local[slice].clock >= clock;
}

/* The oldest push makes room for another. */
static bool has_room(const struct ct_ps *p, int slice, int64_t clock)
{
    const struct ps_client *c = p->client;
    const struct ps_local *l  = &c->local[slice];

    (void)clock;
    return l->n_pushed - l->n_answered < (uint64_t)c->depth &&
           !l->push[l->n_pushed % (uint64_t)c->depth].sending;
}

static bool has_pulled(const struct ct_ps *p, int slice, int64_t clock)
{
    (void)slice, (void)clock;
    return p->client->n_pulled == p->config.table->n;
}

static enum ct_status stalled(const struct ct_ps *p, int slice, int64_t clock)
{
    int server = p->config.table->slice[slice].server;

    return ct_fail(CT_ECOMM, "rank %d: the server on rank %d has not answered "
                   "for %g s (slice %d, iteration %" PRId64 ")",
                   p->config.comm->rank, p->config.server_rank[server],
                   p->config.stall, slice, clock);
}

/* With the lock held, which it lets go of while it waits for news, or so many
 * seconds; false: there were none. */
static bool wait_news(struct ct_ps *p, double seconds)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(seconds * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(&p->news, &p->lock, &until) == 0;
}

/* With the lock held: how long a wait that began at `start` has been without
 * news. */
static double silence(const struct ct_ps *p, double start)
{
    const double news = p->client->last_news;

    return ct_now() - (news > start ? news : start);
}

/* Tells peers of a wait that has been without news for so long.  Can it still
 * end well? */
static enum ct_status judge(const struct ct_ps *p, int slice, int64_t clock,
                            double silent)
{
    const struct ct_comm *c = p->config.comm;
    const int server        = p->config.table->slice[slice].server;

    ct_comm_tell_wait(c, p->config.server_rank[server],
                      ct_pulse_now() - (uint64_t)(1e6 * silent));
    if (c->judge)
        return c->judge(c->tick_arg);
    return p->config.stall > 0 && silent > p->config.stall
               ? stalled(p, slice, clock)
               : CT_OK;
}

/* With the lock held, which it lets go of. */
static enum ct_status look_around(struct ct_ps *p, int slice, int64_t clock,
                                  double silent)
{
    enum ct_status st;

    pthread_mutex_unlock(&p->lock);
    st = judge(p, slice, clock, silent);
    if (st == CT_OK && p->config.health)
        st = p->config.health(p->config.arg);
    pthread_mutex_lock(&p->lock);
    return st;
}

/* With the lock held, which it lets go of while it waits.  The comm thread
 * ticks meanwhile. */
static enum ct_status await(struct ct_ps *p, ready_fn ready, int slice,
                            int64_t clock)
{
    const double start  = ct_now();
    const uint64_t span = ready(p, slice, clock) ? 0 : ct_trace_begin();
    enum ct_status st   = CT_OK;
    bool told           = false;

    while (st == CT_OK && !ready(p, slice, clock)) {
        if (p->failed != CT_OK) {
            st = ct_fail(p->failed, "%s", p->why);
        } else if (!wait_news(p, look_s)) {
            told = true;
            st   = look_around(p, slice, clock, silence(p, start));
        }
    }
    ct_trace_end(span, CT_TRACE_WAIT, "the servers");
    if (told)
        ct_comm_tell_wait(p->config.comm, -1, 0);
    return st;
}

/* The same on the comm thread, which moves things along itself. */
static enum ct_status await_here(struct ct_ps *p, ready_fn ready, int slice,
                                 int64_t clock)
{
    const struct timespec nap = { 0, 20000 };
    const double start        = ct_now();
    bool told                 = false;
    enum ct_status st;

    while ((st = ct_ps_progress(p)) == CT_OK) {
        double silent;
        bool done;

        pthread_mutex_lock(&p->lock);
        done   = ready(p, slice, clock);
        silent = silence(p, start);
        pthread_mutex_unlock(&p->lock);
        if (done)
            break;
        if (silent > tell_s) {
            told = true;
            st   = judge(p, slice, clock, silent);
            if (st == CT_OK)
                st = ct_comm_tick(p->config.comm, ct_now());
            if (st != CT_OK)
                break;
        }
        nanosleep(&nap, NULL);
    }
    if (told)
        ct_comm_tell_wait(p->config.comm, -1, 0);
    return st;
}

/* With the lock held, and room. */
static enum ct_status push(struct ct_ps *p, int slice, int64_t clock,
                           const struct ct_ps_weight *weight, float *x,
                           const int64_t *words)
{
    const struct ct_ps_slice *t = &p->config.table->slice[slice];
    struct ps_client *c         = p->client;
    struct ps_lane *l           = &c->lane[t->server];
    struct ps_local *s          = &c->local[slice];
    struct ps_push *q           = &s->push[s->n_pushed % (uint64_t)c->depth];
    struct ct_ps_head *h        = ct_ps_head(q->message);
    const struct ct_ps_form *f  = &p->config.form;
    const uint64_t start        = ct_trace_begin();

    CT_ASSERT(l->slice[l->n_ready % (uint64_t)l->n] == slice);
    CT_TRY(ps_client_expect(l, slice, false));
    *h = (struct ct_ps_head){ .magic = CT_PS_MAGIC, .seq = l->n_ready,
                              .clock = clock, .slice = slice,
                              .worker = p->worker, .weight = weight->of };
    if (words)
        memcpy(h->word, words, sizeof(h->word));
    if (f->push_bytes)
        f->push(f->arg, slice, ps_lane_turn(p, l, l->n_ready), weight->times,
                x + t->first, ct_ps_payload(q->message));
    else
        ct_ps_pack(q->message, x + t->first, weight->times, t->n);
    q->clock   = clock;
    q->sending = true;
    s->x       = x;
    s->n_pushed++;
    l->n_ready++;
    ct_trace_end_about(start, CT_TRACE_SEND, "to a server",
                       (struct ct_trace_about){
                           .bytes = t->n * (int64_t)sizeof(float) });
    return CT_OK;
}

enum ct_status ct_ps_push(struct ct_ps *p, int slice, int64_t clock,
                          const struct ct_ps_weight *weight, float *x,
                          const int64_t *words)
{
    enum ct_status st;

    pthread_mutex_lock(&p->lock);
    st = await(p, has_room, slice, clock);
    if (st == CT_OK)
        st = push(p, slice, clock, weight, x, words);
    pthread_mutex_unlock(&p->lock);
    return st;
}

enum ct_status ct_ps_push_here(struct ct_ps *p, int slice, int64_t clock,
                               const struct ct_ps_weight *weight, float *x,
                               const int64_t *words)
{
    enum ct_status st;

    CT_TRY(await_here(p, has_room, slice, clock));
    pthread_mutex_lock(&p->lock);
    st = push(p, slice, clock, weight, x, words);
    pthread_mutex_unlock(&p->lock);
    return st;
}

enum ct_status ct_ps_await(struct ct_ps *p, int slice, int64_t clock)
{
    enum ct_status st;

    pthread_mutex_lock(&p->lock);
    st = await(p, has_clock, slice, clock);
    pthread_mutex_unlock(&p->lock);
    return st;
}

void ct_ps_hope(struct ct_ps *p, int slice, int64_t clock, double until)
{
    const struct ps_local *l = &p->client->local[slice];

    pthread_mutex_lock(&p->lock);
    while (p->failed == CT_OK && !has_clock(p, slice, clock) &&
           l->n_answered < l->n_pushed) {
        const double left = until - ct_now();

        if (left <= 0)
            break;
        (void)wait_news(p, left < look_s ? left : look_s);
    }
    pthread_mutex_unlock(&p->lock);
}

enum ct_status ct_ps_await_here(struct ct_ps *p, int slice, int64_t clock)
{
    return await_here(p, has_clock, slice, clock);
}

bool ct_ps_has(struct ct_ps *p, int slice, int64_t clock)
{
    bool has;

    pthread_mutex_lock(&p->lock);
    has = has_clock(p, slice, clock);
    pthread_mutex_unlock(&p->lock);
    return has;
}

void ct_ps_take(struct ct_ps *p, int slice, float *out)
{
    pthread_mutex_lock(&p->lock);
    ct_ps_unpack(p->client->local[slice].fresh,
                 p->config.table->slice[slice].n, out);
    pthread_mutex_unlock(&p->lock);
}

/* The floats of a slice's push number i, from 0. */
static enum ct_status open_own(struct ct_ps *p, int slice, uint64_t i,
                               const float **out)
{
    const struct ct_ps_form *f = &p->config.form;
    struct ps_client *c        = p->client;
    void *message = c->local[slice].push[i % (uint64_t)c->depth].message;

    *out = ct_ps_payload(message);
    if (!f->push_bytes)
        return CT_OK;
    CT_TRY(f->open(f->arg, slice, p->begun + (int64_t)i, *out,
                   c->opened + p->config.table->longest, c->opened));
    *out = c->opened;
    return CT_OK;
}

enum ct_status ct_ps_own(struct ct_ps *p, int slice, ct_ps_own_fn add,
                         void *arg)
{
    struct ps_client *c         = p->client;
    struct ps_local *l          = &c->local[slice];
    const struct ct_ps_slice *t = &p->config.table->slice[slice];
    uint64_t depth              = (uint64_t)c->depth, i;
    enum ct_status st           = CT_OK;
    const bool any = p->config.staleness == CT_PS_ASYNC;

    pthread_mutex_lock(&p->lock);
    i = l->n_pushed > depth ? l->n_pushed - depth : 0;
    for (; i < l->n_pushed && st == CT_OK; i++) {
        const int64_t clock = l->push[i % depth].clock;
        const float *x      = NULL;

        if (clock < l->holds && !(any && i + 1 == l->n_pushed))
            continue;
        st = open_own(p, slice, i, &x);
        if (st == CT_OK)
            add(arg, clock, t->first, t->n, x);
    }
    pthread_mutex_unlock(&p->lock);
    return st;
}

/* With the lock held. */
static enum ct_status begin_pull(struct ct_ps *p, int64_t clock, int history,
                                 float *out)
{
    struct ps_client *c = p->client;

    c->pull_to  = out;
    c->n_pulled = 0;
    for (int s = 0; s < p->config.table->n_servers; s++) {
        struct ps_lane *l = &c->lane[s];

        if (l->n == 0)
            continue;
        l->pull = (struct ct_ps_pull){ .magic = CT_PS_MAGIC,
                                       .what  = (uint32_t)(history + 1),
                                       .need  = clock,
                                       .after = l->n_ready };
        l->pull_due = true;
        for (int k = 0; k < l->n; k++)
            CT_TRY(ps_client_expect(l, l->slice[k], true));
    }
    return CT_OK;
}

enum ct_status ct_ps_pull(struct ct_ps *p, int64_t clock, int history,
                          float *out)
{
    enum ct_status st;

    pthread_mutex_lock(&p->lock);
    st = begin_pull(p, clock, history, out);
    if (st == CT_OK)
        st = await(p, has_pulled, 0, clock);
    pthread_mutex_unlock(&p->lock);
    return st;
}

struct ct_ps_head ct_ps_latest(struct ct_ps *p)
{
    struct ct_ps_head h;

    pthread_mutex_lock(&p->lock);
    h = p->client->latest;
    pthread_mutex_unlock(&p->lock);
    return h;
}

void ps_client_reset(struct ct_ps *p, const float *x, int64_t clock)
{
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->config.table->n; i++) {
        const struct ct_ps_slice *t = &p->config.table->slice[i];
        struct ps_local *l          = &p->client->local[i];

        l->clock = l->holds = clock;
        ct_ps_pack(l->fresh, x + t->first, 1, t->n);
        for (int k = 0; k < p->client->depth; k++)
            l->push[k].clock = clock - 1;
    }
    p->client->latest = (struct ct_ps_head){ .clock = clock };
    pthread_mutex_unlock(&p->lock);
}
