/* client.c - the worker's side on the comm thread. */
#include "comm/ps/client.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

static enum ct_status local_init(const struct ct_ps_config *c, size_t n,
                                 int depth, struct ps_local *l)
{
    l->clock = c->clock;
    l->holds = c->clock;
    CT_TRY(ct_alloc((size_t)depth, sizeof(*l->push), "pushes", &l->push));
    for (int i = 0; i < depth; i++)
        CT_TRY(ct_alloc(1, ct_ps_bytes(n), "push", &l->push[i].message));
    CT_TRY(ct_alloc(1, ct_ps_bytes(n), "answer", &l->staging));
    if (c->values)
        CT_TRY(ct_alloc(1, ct_ps_bytes(n), "answer", &l->fresh));
    return CT_OK;
}

static void join_tree(const struct ct_ps *p, struct ps_link *l)
{
    const struct ct_ps_config *g = &p->config;
    const bool spreads           = ps_spreads(g) && !l->local;
    int place                    = ps_place(g, p->worker);

    l->from = spreads ? ps_rank_at(g, (place - 1) / PS_FAN) : l->rank;
    for (int i = 0; i < PS_FAN; i++)
        l->child[i] = spreads ? ps_rank_at(g, PS_FAN * place + 1 + i) : -1;
}

enum ct_status ps_client_create(struct ct_ps *p)
{
    const struct ct_ps_config *g = &p->config;
    const struct ct_ps_table *t  = g->table;
    struct ps_client *c;

    CT_TRY(ct_alloc(1, sizeof(*c), "worker", &c));
    p->client = c;
    c->depth  = g->staleness == CT_PS_ASYNC ? 2
                : g->values                 ? g->staleness + 1
                                            : 1;
    CT_TRY(ct_alloc((size_t)t->n_servers, sizeof(*c->link), "links",
                    &c->link));
    CT_TRY(ct_alloc((size_t)t->n + 1, sizeof(*c->local), "slices",
                    &c->local));
    for (int s = 0; s < t->n_servers; s++) {
        c->link[s].rank  = g->server_rank[s];
        c->link[s].local = g->server_rank[s] == g->comm->rank;
        c->link[s].n     = t->n_of[s];
        join_tree(p, &c->link[s]);
        CT_TRY(ps_slices_of(t, s, &c->link[s].slice));
        CT_TRY(ct_alloc((size_t)c->link[s].n + 1, sizeof(*c->link[s].head),
                        "links", &c->link[s].head));
    }
    for (int i = 0; i < t->n; i++)
        CT_TRY(local_init(g, t->slice[i].n, c->depth, &c->local[i]));
    return g->values && g->form.push_bytes
               ? ct_alloc(2 * t->longest, sizeof(*c->opened), "pushes",
                          &c->opened)
               : CT_OK;
}

/* The push that is number `i` of a link. */
static struct ps_push *link_push(struct ps_client *c, struct ps_link *l,
                                 uint64_t i)
{
    struct ps_local *s = &c->local[l->slice[i % (uint64_t)l->n]];

    return &s->push[i / (uint64_t)l->n % (uint64_t)c->depth];
}

/* Takes requests back; memory that they may still use stays behind. */
static void link_fini(struct ct_ps *p, struct ps_link *l)
{
    struct ps_client *c  = p->client;
    struct ct_comm *comm = p->config.comm;

    for (; l->n_gone < l->n_announced && !l->local; l->n_gone++) {
        bool all = true;

        if (l->n_gone < l->n_sent)
            all &= ct_comm_cancel(comm, &l->send[l->n_gone % PS_DEPTH]);
        if (!l->head_gone)
            all &= ct_comm_cancel(comm, &l->head[l->n_gone % (uint64_t)l->n]);
        if (!all)
            link_push(c, l, l->n_gone)->message = NULL;
        l->head_gone = false;
    }
    for (; l->n_come < l->n_posted; l->n_come++)
        if (!ct_comm_cancel(comm, &l->receive[l->n_come % PS_DEPTH]))
            c->local[l->due[l->n_come % l->most_due].slice].staging = NULL;
    for (int k = 0; k < l->n; k++) {
        struct ps_local *s = &c->local[l->slice[k]];

        for (int i = 0; i < s->n_pass; i++)
            if (!ct_comm_cancel(comm, &s->pass[i]))
                s->staging = NULL;
    }
    if (l->pull_posted)
        (void)ct_comm_cancel(comm, &l->pull_request);
    ct_free(l->due);
    ct_free(l->head);
    ct_free(l->slice);
}

void ps_client_destroy(struct ct_ps *p)
{
    struct ps_client *c = p->client;

    if (!c)
        return;
    for (int s = 0; c->link && s < p->config.table->n_servers; s++)
        link_fini(p, &c->link[s]);
    for (int i = 0; c->local && i < p->config.table->n; i++) {
        for (int k = 0; c->local[i].push && k < c->depth; k++)
            ct_free(c->local[i].push[k].message);
        ct_free(c->local[i].push);
        ct_free(c->local[i].staging);
        ct_free(c->local[i].fresh);
    }
    ct_free(c->local);
    ct_free(c->link);
    ct_free(c->opened);
    ct_free(c);
    p->client = NULL;
}

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

/* With the lock held: own pushes that an answer's values hold. */
static int64_t own_until(const struct ct_ps *p, const struct ps_local *l,
                         const struct ct_ps_head *h)
{
    const uint64_t depth = (uint64_t)p->client->depth;

    if (p->config.staleness != CT_PS_ASYNC || l->n_answered == 0)
        return h->clock;
    return l->push[(l->n_answered - 1) % depth].clock + 1;
}

/* With the lock held: an answer for slice i is in `message`; where values are
 * kept, it has become `fresh`. */
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

/* With the lock held: on to those behind this worker. */
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

/* With the lock held: is the staging read by nobody any more? */
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

/* The staging of the oldest posted answer is full. */
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

/* With the lock held, here and below. */
static enum ct_status see_off(struct ct_ps *p, struct ps_link *l)
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
        link_push(p->client, l, l->n_gone++)->sending = false;
        pthread_cond_broadcast(&p->news);
    }
    return CT_OK;
}

/* Heads say which pushes there are. */
static enum ct_status announce(struct ct_ps *p, struct ps_link *l)
{
    for (; l->n_announced < l->n_ready &&
           l->n_announced - l->n_gone < (uint64_t)l->n; l->n_announced++)
        CT_TRY(ct_comm_send(p->config.comm, l->rank, CT_PS_TAG_HEAD,
                            link_push(p->client, l, l->n_announced)->message,
                            sizeof(struct ct_ps_head),
                            &l->head[l->n_announced % (uint64_t)l->n]));
    return CT_OK;
}

/* The server asks for floats when it has room. */
static enum ct_status send_floats(struct ct_ps *p, struct ps_link *l)
{
    for (; l->n_sent < l->n_announced && l->n_sent - l->n_gone < PS_DEPTH;
         l->n_sent++) {
        const int slice    = l->slice[l->n_sent % (uint64_t)l->n];
        const size_t bytes = ps_push_bytes(&p->config, slice,
                                           ps_link_turn(p, l, l->n_sent));

        CT_TRY(ct_comm_send(p->config.comm, l->rank, CT_PS_TAG_PUSH,
                            ct_ps_payload(link_push(p->client, l,
                                                    l->n_sent)->message),
                            bytes - sizeof(struct ct_ps_head),
                            &l->send[l->n_sent % PS_DEPTH]));
    }
    return CT_OK;
}

/* To the server in this process. */
static enum ct_status hand_over(struct ct_ps *p, struct ps_link *l)
{
    bool taken = true;

    while (l->n_sent < l->n_ready && taken) {
        struct ps_push *push = link_push(p->client, l, l->n_sent);

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
    CT_TRY(see_off(p, l));
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

/* A pull tells how many pushes it follows, so it need not wait for them. */
static enum ct_status send_pull(struct ct_ps *p, struct ps_link *l)
{
    bool done = false;

    if (l->pull_due && l->local) {
        ps_server_pull(p, &l->pull);
        l->pull_due = false;
    }
    if (l->pull_due && !l->pull_posted) {
        l->pull_sent = l->pull; /* the next may be due before it is sent */
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

/* From the server behind this worker on, so that workers do not all start at
 * the same one. */
enum ct_status ps_client_progress(struct ct_ps *p)
{
    const int n       = p->config.table->n_servers;
    enum ct_status st = CT_OK;

    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < n && st == CT_OK; i++)
        st = link_progress(p, &p->client->link[(p->worker + 1 + i) % n]);
    pthread_mutex_unlock(&p->lock);
    return st;
}
