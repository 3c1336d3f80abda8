/* ps.c - what both sides have in common. */
#include "comm/ps/ps.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "comm/ps/parts.h"

enum ct_status ps_slices_of(const struct ct_ps_table *t, int server, int **out)
{
    int n = 0;

    CT_TRY(ct_alloc((size_t)t->n_of[server] + 1, sizeof(**out), "slices",
                    out));
    for (int i = 0; i < t->n; i++)
        if (t->slice[i].server == server)
            (*out)[n++] = i;
    return CT_OK;
}

enum ct_status ps_check(const struct ct_ps_head *h, int from, uint64_t seq,
                        int slice)
{
    if (h->magic == CT_PS_MAGIC && h->seq == seq && h->slice == slice)
        return CT_OK;
    return ct_fail(CT_ECOMM, "from rank %d came message %" PRIu64 " for slice "
                   "%d where %" PRIu64 " for slice %d was due", from, h->seq,
                   (int)h->slice, seq, slice);
}

static int find(const int *rank, int n, int me)
{
    for (int i = 0; i < n; i++)
        if (rank[i] == me)
            return i;
    return -1;
}

bool ps_spreads(const struct ct_ps_config *c)
{
    return !c->values && c->table->n_servers == 1 &&
           c->n_workers > PS_FEW_WORKERS;
}

int ps_place(const struct ct_ps_config *c, int worker)
{
    int here = find(c->worker_rank, c->n_workers, c->server_rank[0]);

    if (worker == here)
        return 0;
    return worker + (here < 0 || worker < here);
}

int ps_rank_at(const struct ct_ps_config *c, int place)
{
    for (int w = 0; w < c->n_workers; w++)
        if (ps_place(c, w) == place && place > 0)
            return c->worker_rank[w];
    return place == 0 ? c->server_rank[0] : -1;
}

bool ps_is_coded(const struct ct_ps_config *c, int slice)
{
    return c->form.bytes && !c->values && slice > 0;
}

size_t ps_wire_bytes(const struct ct_ps_config *c, int slice)
{
    size_t n = c->table->slice[slice].n;

    return ps_is_coded(c, slice)
               ? sizeof(struct ct_ps_head) + c->form.bytes(n)
               : ct_ps_bytes(n);
}

void ps_encode(struct ct_ps *p, int slice, void *message)
{
    const struct ct_ps_form *f = &p->config.form;
    size_t n                   = p->config.table->slice[slice].n;

    if (!ps_is_coded(&p->config, slice))
        return;
    ct_ps_unpack(message, n, p->scratch);
    f->encode(f->arg, n, p->scratch, ct_ps_payload(message));
}

void ps_decode(struct ct_ps *p, int slice, void *message)
{
    const struct ct_ps_form *f = &p->config.form;
    size_t n                   = p->config.table->slice[slice].n;

    if (!ps_is_coded(&p->config, slice))
        return;
    f->decode(f->arg, n, ct_ps_payload(message), p->scratch);
    ct_ps_pack(message, p->scratch, 1, n);
}

enum ct_status ct_ps_create(const struct ct_ps_config *config,
                            struct ct_ps **out)
{
    const int me = config->comm->rank;
    struct ct_ps *p;
    pthread_condattr_t attr;
    enum ct_status st = CT_OK;

    if (config->n_workers > CT_PS_MOST_WORKERS)
        return ct_fail(CT_ENOTSUP, "%d workers; servers take %d at most",
                       config->n_workers, (int)CT_PS_MOST_WORKERS);
    CT_TRY(ct_alloc(1, sizeof(*p), "parameter server", &p));
    p->config   = *config;
    p->worker   = find(config->worker_rank, config->n_workers, me);
    p->i_server = find(config->server_rank, config->table->n_servers, me);
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->news, &attr);
    pthread_condattr_destroy(&attr);
    if (config->form.bytes)
        CT_TRY_GOTO(ct_alloc(config->table->longest, sizeof(*p->scratch),
                             "codes", &p->scratch), st, out);
    if (p->i_server >= 0)
        CT_TRY_GOTO(ps_server_create(p), st, out);
    if (p->worker >= 0)
        CT_TRY_GOTO(ps_client_create(p), st, out);
    *out = p;
    return CT_OK;
out:
    ct_ps_destroy(p);
    return st;
}

void ct_ps_destroy(struct ct_ps *p)
{
    if (!p)
        return;
    ps_client_destroy(p);
    ps_server_destroy(p);
    pthread_cond_destroy(&p->news);
    pthread_mutex_destroy(&p->lock);
    ct_free(p->scratch);
    ct_free(p);
}

static enum ct_status progress(struct ct_ps *p)
{
    if (p->client)
        CT_TRY(ps_client_progress(p));
    if (p->server)
        CT_TRY(ps_server_progress(p));
    return CT_OK;
}

/* Who waits for an answer must hear that none will come. */
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
