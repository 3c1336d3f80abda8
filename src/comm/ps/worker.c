/* worker.c - the worker's side on the thread that computes. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/trace.h"
#include "comm/ps/client.h"
#include "comm/wait.h"

enum { LOOK_NS = 200000000 }; /* from one look at the comm thread's health to
                                * the next */

/* The comm thread polls; the compute thread sleeps until there are news. */
static const struct ct_pace polling = { .nap_ns = 20000 }, sleeping = { 0 };

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

/* Nothing that would bring the clock is on its way. */
static bool has_all_answers(const struct ct_ps *p, int slice, int64_t clock)
{
    const struct ps_local *l = &p->client->local[slice];

    return has_clock(p, slice, clock) || l->n_answered == l->n_pushed;
}

static bool has_pulled(const struct ct_ps *p, int slice, int64_t clock)
{
    (void)slice, (void)clock;
    return p->client->n_pulled == p->config.table->n;
}

/* With the lock held, which it lets go of: waits for news, or so long. */
static void wait_news(struct ct_ps *p, long ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&p->news, &p->lock, &until);
}

/* What is waited for: a slice's answer of that clock, room for another push. */
struct waiting {
    struct ct_ps *ps;
    ready_fn      ready;
    int           slice;
    int64_t       clock;
    bool          here;  /* on the comm thread, which moves things along */
    double        until; /* then it ends in any case; 0: never */
    double        news;  /* when the latest came */
    bool          done;
};

/* With the lock held. */
static enum ct_status look(struct waiting *x)
{
    struct ct_ps *p = x->ps;

    x->done = x->ready(p, x->slice, x->clock) ||
              (x->until > 0 && ct_now() >= x->until);
    x->news = p->client->last_news;
    return x->done || p->failed == CT_OK ? CT_OK
                                         : ct_fail(p->failed, "%s", p->why);
}

static void sleep_for_news(void *arg)
{
    struct waiting *x = arg;
    const double left = x->until - ct_now();
    const bool ends   = x->until > 0 && left < 1e-9 * LOOK_NS;

    if (ends && left <= 0)
        return;
    pthread_mutex_lock(&x->ps->lock);
    if (!x->ready(x->ps, x->slice, x->clock) && x->ps->failed == CT_OK)
        wait_news(x->ps, ends ? (long)(1e9 * left) : LOOK_NS);
    pthread_mutex_unlock(&x->ps->lock);
}

/* Is the comm thread, which brings answers, well?  It may be at work for a
 * while before it can say so. */
static enum ct_status comm_is_well(void *arg, int peer)
{
    const struct ct_ps_config *c = &((struct waiting *)arg)->ps->config;

    (void)peer;
    return c->health ? c->health(c->arg) : CT_OK;
}

static enum ct_status await(struct waiting x)
{
    struct ct_ps *p  = x.ps;
    const int server = p->config.table->slice[x.slice].server;
    struct ct_wait w = {
        .comm  = p->config.comm,
        .peer  = p->config.server_rank[server],
        .owner = x.here,
        .pace  = x.here ? polling : sleeping,
        .sleep = x.here ? NULL : sleep_for_news,
        .alive = x.here || x.until > 0 ? NULL : comm_is_well,
        .arg   = &x,
    };
    enum ct_status st = CT_OK;
    uint64_t span     = 0;

    ct_wait_begin(&w);
    for (;;) {
        if (x.here)
            CT_TRY_GOTO(ct_ps_progress(p), st, out);
        pthread_mutex_lock(&p->lock);
        st = look(&x);
        pthread_mutex_unlock(&p->lock);
        if (st != CT_OK || x.done)
            break;
        if (!span && !x.here)
            span = ct_trace_begin();
        ct_wait_news(&w, x.news);
        CT_TRY_GOTO(ct_wait_on(&w), st, out);
    }
out:
    (void)ct_wait_end(&w);
    ct_trace_end(span, CT_TRACE_WAIT, "the servers");
    return st;
}

/* With the lock held, and room. */
static enum ct_status push(struct ct_ps *p, int slice, int64_t clock,
                           const struct ct_ps_weight *weight, float *x,
                           const int64_t *words)
{
    const struct ct_ps_slice *t = &p->config.table->slice[slice];
    struct ps_client *c         = p->client;
    struct ps_link *l           = &c->link[t->server];
    struct ps_local *s          = &c->local[slice];
    struct ps_push *q           = &s->push[s->n_pushed % (uint64_t)c->depth];
    struct ct_ps_head *h        = ct_ps_head(q->message);
    const struct ct_ps_form *f  = &p->config.form;
    const uint64_t start        = ct_trace_begin();

    CT_ASSERT(l->slice[l->n_ready % (uint64_t)l->n] == slice);
    CT_TRY(ps_client_expect(l, (struct ps_due){ .slice = slice }));
    *h = (struct ct_ps_head){ .magic = CT_PS_MAGIC, .seq = l->n_ready,
                              .clock = clock, .slice = slice,
                              .worker = p->worker, .weight = weight->of };
    if (words)
        memcpy(h->word, words, sizeof(h->word));
    if (f->push_bytes)
        f->push(f->arg, slice, ps_link_turn(p, l, l->n_ready), weight->times,
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

static enum ct_status await_and_push(struct ct_ps *p, int slice, int64_t clock,
                                     const struct ct_ps_weight *weight,
                                     float *x, const int64_t *words, bool here)
{
    enum ct_status st;

    CT_TRY(await((struct waiting){ .ps = p, .ready = has_room, .slice = slice,
                                   .clock = clock, .here = here }));
    pthread_mutex_lock(&p->lock);
    st = push(p, slice, clock, weight, x, words);
    pthread_mutex_unlock(&p->lock);
    return st;
}

enum ct_status ct_ps_push(struct ct_ps *p, int slice, int64_t clock,
                          const struct ct_ps_weight *weight, float *x,
                          const int64_t *words)
{
    return await_and_push(p, slice, clock, weight, x, words, false);
}

enum ct_status ct_ps_push_here(struct ct_ps *p, int slice, int64_t clock,
                               const struct ct_ps_weight *weight, float *x,
                               const int64_t *words)
{
    return await_and_push(p, slice, clock, weight, x, words, true);
}

enum ct_status ct_ps_await(struct ct_ps *p, int slice, int64_t clock)
{
    return await((struct waiting){ .ps = p, .ready = has_clock, .slice = slice,
                                   .clock = clock });
}

enum ct_status ct_ps_await_until(struct ct_ps *p, int slice, int64_t clock,
                                 double until)
{
    return await((struct waiting){ .ps = p, .ready = has_all_answers,
                                   .slice = slice, .clock = clock,
                                   .until = until });
}

enum ct_status ct_ps_await_here(struct ct_ps *p, int slice, int64_t clock)
{
    return await((struct waiting){ .ps = p, .ready = has_clock, .slice = slice,
                                   .clock = clock, .here = true });
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
        struct ps_link *l = &c->link[s];

        if (l->n == 0)
            continue;
        l->pull = (struct ct_ps_pull){ .magic = CT_PS_MAGIC,
                                       .what  = (uint32_t)(history + 1),
                                       .need  = clock,
                                       .after = l->n_ready };
        l->pull_due = true;
        for (int k = 0; k < l->n; k++)
            CT_TRY(ps_client_expect(l, (struct ps_due){ l->slice[k], true,
                                                        l->pull.what }));
    }
    return CT_OK;
}

enum ct_status ct_ps_pull(struct ct_ps *p, int64_t clock, int history,
                          float *out)
{
    enum ct_status st;

    pthread_mutex_lock(&p->lock);
    st = begin_pull(p, clock, history, out);
    pthread_mutex_unlock(&p->lock);
    return st == CT_OK ? await((struct waiting){ .ps = p, .ready = has_pulled,
                                                 .clock = clock })
                       : st;
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
