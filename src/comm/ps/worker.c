/* worker.c - the worker's side.  The compute thread pushes and waits; the comm
 * thread sends and receives messages and runs the server's side, too. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/trace.h"
#include "comm/ps/client.h"
#include "comm/wait.h"

enum { LOOK_NS = 200000000 }; /* between two checks of the comm thread */

/* The comm thread polls; the compute thread sleeps until it is signalled. */
static const struct ct_pace polling = { .nap_ns = 20000 }, sleeping = { 0 };

typedef bool (*ready_fn)(const struct ct_ps *p, int slice, int64_t clock);

static bool has_clock(const struct ct_ps *p, int slice, int64_t clock)
{
    return p->client->local[slice].clock >= clock;
}

/* Whether another push of the slice can be made. */
static bool has_room(const struct ct_ps *p, int slice, int64_t clock)
{
    const struct ps_client *c = p->client;
    const struct ps_local *l  = &c->local[slice];

    (void)clock;
    return l->n_pushed - l->n_answered < (uint64_t)c->depth &&
           !l->push[l->n_pushed % (uint64_t)c->depth].sending;
}

/* Whether no answer in flight can bring the clock: it is reached, or all pushes
 * are answered. */
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

/* With the lock held, which is released: waits for a signal, at most `ns`
 * nanoseconds. */
static void wait_news(struct ct_ps *p, long ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&p->news, &p->lock, &until);
}

/* A wait of a worker: for an answer of a slice with some clock, or for room for
 * another push. */
struct waiting {
    struct ct_ps *ps;
    ready_fn      ready;
    int           slice;
    int64_t       clock;
    bool          here;  /* on the comm thread, which must make progress */
    double        until; /* time when the wait ends anyway; 0: none */
    double        news;  /* time of the latest answer */
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

/* Fails if the comm thread, which receives answers, does not work any more.
 * The caller's `health` knows. */
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

/* With the lock held; there is room. */
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

enum ct_status ps_client_await_pulled(struct ct_ps *p)
{
    return await((struct waiting){ .ps = p, .ready = has_pulled });
}

bool ct_ps_has(struct ct_ps *p, int slice, int64_t clock)
{
    bool has;

    pthread_mutex_lock(&p->lock);
    has = has_clock(p, slice, clock);
    pthread_mutex_unlock(&p->lock);
    return has;
}

/* ---- The comm thread ---- */

/* With the lock held. */
enum ct_status ps_client_expect(struct ps_link *l, struct ps_due due)
{
    if (l->n_due - l->n_come == l->most_due) {
        uint64_t most     = 2 * l->most_due + 16;
        struct ps_due *to = NULL;

        CT_TRY(ct_alloc(most, sizeof(*to), "answers due", &to));
        for (uint64_t i = l->n_come; i < l->n_due; i++)
            to[i % most] = l->due[i % l->most_due];
        ct_free(l->due);
        l->due      = to;
        l->most_due = most;
    }
    l->due[l->n_due++ % l->most_due] = due;
    return CT_OK;
}

/* With the lock held: an answer contains this worker's pushes before the clock
 * that is returned. */
static int64_t own_until(const struct ct_ps *p, const struct ps_local *l,
                         const struct ct_ps_head *h)
{
    const uint64_t depth = (uint64_t)p->client->depth;

    if (p->config.staleness != CT_PS_ASYNC || l->n_answered == 0)
        return h->clock;
    return l->push[(l->n_answered - 1) % depth].clock + 1;
}

/* With the lock held: accepts an answer for slice i in `message`.  If the
 * server keeps values, `message` is already `fresh`. */
static void accept(struct ct_ps *p, int i, bool pulled, const void *message)
{
    const struct ct_ps_head *h  = message;
    const struct ct_ps_slice *t = &p->config.table->slice[i];
    const struct ct_ps_form *f  = &p->config.form;
    struct ps_client *c         = p->client;
    struct ps_local *l          = &c->local[i];

    c->last_news = ct_now();
    c->n_pulled += pulled;
    l->n_answered += !pulled;
    if (h->what > 0) {
        ct_ps_unpack(message, t->n, c->pull_to + t->first);
    } else {
        if (i == 0)
            c->latest = *h;
        if (f->take)
            f->take(f->arg, i, (const char *)message + sizeof(*h),
                    l->x + t->first);
        else if (!p->config.values)
            ct_ps_unpack(message, t->n, l->x + t->first);
        l->holds = own_until(p, l, h);
        l->clock = h->clock;
    }
    pthread_cond_broadcast(&p->news);
}

static void swap(void **a, void **b)
{
    void *t = *a;

    *a = *b;
    *b = t;
}

/* With the lock held: forwards the answer to the children of this worker. */
static enum ct_status pass_on(struct ct_ps *p, const struct ps_link *l,
                              struct ps_local *s, int slice)
{
    for (int i = 0; i < PS_FAN; i++)
        if (l->child[i] >= 0)
            CT_TRY(ct_comm_send(p->config.comm, l->child[i], CT_PS_TAG_ANSWER,
                                s->staging,
                                ps_answer_bytes(&p->config, slice),
                                &s->pass[s->n_pass++]));
    return CT_OK;
}

/* With the lock held: *out tells whether all forwarding sends of the staging
 * memory are done. */
static enum ct_status has_passed(struct ct_ps *p, struct ps_local *s,
                                 bool *out)
{
    for (int i = s->n_pass - 1; i >= 0; i--) {
        bool done;

        CT_TRY(ct_comm_test(p->config.comm, &s->pass[i], &done));
        if (done)
            s->pass[i] = s->pass[--s->n_pass];
    }
    *out = s->n_pass == 0;
    return CT_OK;
}

/* Handles the oldest posted answer, which has arrived. */
static enum ct_status come(struct ct_ps *p, struct ps_link *l)
{
    struct ps_due due  = l->due[l->n_come % l->most_due];
    struct ps_local *s = &p->client->local[due.slice];
    void *message      = s->staging;

    CT_TRY(ps_check(message, l->from, 0, due.slice));
    if (ct_ps_head(message)->what != due.what)
        return ct_fail(CT_ECOMM, "from rank %d came history %u of slice %d "
                       "where %u was due; 0 is its values", l->from,
                       (unsigned)ct_ps_head(message)->what, due.slice,
                       (unsigned)due.what);
    s->posted = false;
    CT_TRY(pass_on(p, l, s, due.slice));
    if (p->config.values && ct_ps_head(message)->what == 0)
        swap(&s->staging, &s->fresh);
    l->n_come++;
    accept(p, due.slice, due.pulled, message);
    return CT_OK;
}

void ps_client_answer(struct ct_ps *p, const void *message)
{
    const struct ct_ps_head *h = message;
    struct ps_link *l          = &p->client->link[p->i_server];
    struct ps_local *s         = &p->client->local[h->slice];
    size_t n                   = p->config.table->slice[h->slice].n;

    pthread_mutex_lock(&p->lock);
    if (p->config.values && h->what == 0) {
        *ct_ps_head(s->fresh) = *h;
        ct_ps_unpack(message, n, ct_ps_payload(s->fresh));
    }
    accept(p, h->slice, l->due[l->n_come++ % l->most_due].pulled, message);
    pthread_mutex_unlock(&p->lock);
}

/* With the lock held, here and below: finishes sends that are done. */
static enum ct_status finish_sends(struct ct_ps *p, struct ps_link *l)
{
    while (l->n_gone < l->n_sent) {
        bool done;

        if (!l->head_gone)
            CT_TRY(ct_comm_test(p->config.comm,
                                &l->head[l->n_gone % (uint64_t)l->n],
                                &l->head_gone));
        if (!l->head_gone)
            break;
        CT_TRY(ct_comm_test(p->config.comm, &l->send[l->n_gone % PS_DEPTH],
                            &done));
        if (!done)
            break;
        l->head_gone = false;
        ps_link_push(p->client, l, l->n_gone++)->sending = false;
        pthread_cond_broadcast(&p->news);
    }
    return CT_OK;
}

/* Sends the heads of pushes, which tell the server what there is. */
static enum ct_status announce(struct ct_ps *p, struct ps_link *l)
{
    for (; l->n_announced < l->n_ready &&
           l->n_announced - l->n_gone < (uint64_t)l->n; l->n_announced++)
        CT_TRY(ct_comm_send(p->config.comm, l->rank, CT_PS_TAG_HEAD,
                            ps_link_push(p->client, l, l->n_announced)->message,
                            sizeof(struct ct_ps_head),
                            &l->head[l->n_announced % (uint64_t)l->n]));
    return CT_OK;
}

/* Posts the sends of floats; the server receives them when it has room. */
static enum ct_status send_floats(struct ct_ps *p, struct ps_link *l)
{
    for (; l->n_sent < l->n_announced && l->n_sent - l->n_gone < PS_DEPTH;
         l->n_sent++) {
        const int slice    = l->slice[l->n_sent % (uint64_t)l->n];
        const size_t bytes = ps_push_bytes(&p->config, slice,
                                           ps_link_turn(p, l, l->n_sent));

        CT_TRY(ct_comm_send(p->config.comm, l->rank, CT_PS_TAG_PUSH,
                            ct_ps_payload(ps_link_push(p->client, l,
                                                    l->n_sent)->message),
                            bytes - sizeof(struct ct_ps_head),
                            &l->send[l->n_sent % PS_DEPTH]));
    }
    return CT_OK;
}

/* Passes pushes to the server in this process. */
static enum ct_status hand_over(struct ct_ps *p, struct ps_link *l)
{
    bool taken = true;

    while (l->n_sent < l->n_ready && taken) {
        struct ps_push *push = ps_link_push(p->client, l, l->n_sent);

        CT_TRY(ps_server_push(p, push->message, &taken));
        if (taken) {
            push->sending  = false;
            l->n_announced = l->n_gone = ++l->n_sent;
        }
    }
    return CT_OK;
}

static enum ct_status send_pushes(struct ct_ps *p, struct ps_link *l)
{
    if (l->local)
        return hand_over(p, l);
    CT_TRY(finish_sends(p, l));
    CT_TRY(announce(p, l));
    return send_floats(p, l);
}

static enum ct_status receive_answers(struct ct_ps *p, struct ps_link *l)
{
    struct ps_client *c = p->client;

    for (;;) {
        bool done = false;

        while (l->n_posted < l->n_due && l->n_posted - l->n_come < PS_DEPTH) {
            int i              = l->due[l->n_posted % l->most_due].slice;
            struct ps_local *s = &c->local[i];
            bool passed        = false;

            if (!s->posted)
                CT_TRY(has_passed(p, s, &passed));
            if (!passed)
                break;
            ct_ps_head(s->staging)->magic = 0;
            CT_TRY(ct_comm_receive(p->config.comm, l->from, CT_PS_TAG_ANSWER,
                                   s->staging,
                                   ps_answer_bytes(&p->config, i),
                                   &l->receive[l->n_posted % PS_DEPTH]));
            s->posted = true;
            l->n_posted++;
        }
        if (l->n_come < l->n_posted)
            CT_TRY(ct_comm_test(p->config.comm,
                                &l->receive[l->n_come % PS_DEPTH], &done));
        if (!done)
            return CT_OK;
        CT_TRY(come(p, l));
    }
}

/* Sends a pull.  It says how many pushes are before it, so it can be sent at
 * once. */
static enum ct_status send_pull(struct ct_ps *p, struct ps_link *l)
{
    bool done = false;

    if (l->pull_due && l->local) {
        ps_server_pull(p, &l->pull);
        l->pull_due = false;
    }
    if (l->pull_due && !l->pull_posted) {
        l->pull_sent = l->pull; /* a copy: l->pull may change before it is
                                 * sent */
        CT_TRY(ct_comm_send(p->config.comm, l->rank, CT_PS_TAG_PULL,
                            &l->pull_sent, sizeof(l->pull_sent),
                            &l->pull_request));
        l->pull_posted = true;
        l->pull_due    = false;
    }
    if (l->pull_posted) {
        CT_TRY(ct_comm_test(p->config.comm, &l->pull_request, &done));
        l->pull_posted = !done;
    }
    return CT_OK;
}

static enum ct_status link_progress(struct ct_ps *p, struct ps_link *l)
{
    CT_TRY(send_pushes(p, l));
    CT_TRY(send_pull(p, l));
    return l->local ? CT_OK : receive_answers(p, l);
}

/* Each worker starts with another server, so that they do not all use the same
 * one at a time. */
static enum ct_status client_progress(struct ct_ps *p)
{
    const int n       = p->config.table->n_servers;
    enum ct_status st = CT_OK;

    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < n && st == CT_OK; i++)
        st = link_progress(p, &p->client->link[(p->worker + 1 + i) % n]);
    pthread_mutex_unlock(&p->lock);
    return st;
}

/* ---- Both sides ---- */

static enum ct_status progress(struct ct_ps *p)
{
    if (p->client)
        CT_TRY(client_progress(p));
    if (p->server)
        CT_TRY(ps_server_progress(p));
    return CT_OK;
}

/* A failure is kept, so that threads that wait for answers learn of it. */
enum ct_status ct_ps_progress(void *ps)
{
    struct ct_ps *p = ps;
    enum ct_status st;

    if (p->failed != CT_OK)
        return ct_fail(p->failed, "%s", p->why);
    st = progress(p);
    if (st != CT_OK) {
        pthread_mutex_lock(&p->lock);
        p->failed = st;
        snprintf(p->why, sizeof(p->why), "%s", ct_last_error());
        pthread_cond_broadcast(&p->news);
        pthread_mutex_unlock(&p->lock);
    }
    return st;
}
