/* client.c - the worker's side: creates it, reads values, destroys it. */
#include "comm/ps/client.h"

#include <string.h>

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

/* Cancels requests.  Memory that a cancelled request may still use is not
 * freed. */
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
            ps_link_push(c, l, l->n_gone)->message = NULL;
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

/* ---- Values ---- */

void ct_ps_take(struct ct_ps *p, int slice, float *out)
{
    pthread_mutex_lock(&p->lock);
    ct_ps_unpack(p->client->local[slice].fresh,
                 p->config.table->slice[slice].n, out);
    pthread_mutex_unlock(&p->lock);
}

/* The floats of push number i, from 0, of a slice. */
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
    return st == CT_OK ? ps_client_await_pulled(p) : st;
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
