/* ps.c - code that both sides share. */
#include "comm/ps/ps.h"

#include <inttypes.h>

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

size_t ps_push_bytes(const struct ct_ps_config *c, int slice, int64_t turn)
{
    const struct ct_ps_form *f = &c->form;

    return f->push_bytes
               ? sizeof(struct ct_ps_head) + f->push_bytes(f->arg, slice, turn)
               : ct_ps_bytes(c->table->slice[slice].n);
}

size_t ps_answer_bytes(const struct ct_ps_config *c, int slice)
{
    const struct ct_ps_form *f = &c->form;

    return f->answer_bytes
               ? sizeof(struct ct_ps_head) + f->answer_bytes(f->arg, slice)
               : ct_ps_bytes(c->table->slice[slice].n);
}

enum ct_status ct_ps_create(const struct ct_ps_config *config,
                            struct ct_ps **out)
{
    const int me = config->comm->rank;
    struct ct_ps *p;
    pthread_condattr_t attr;
    enum ct_status st = CT_OK;

    if (config->rounds && config->n_workers > CT_PS_MOST_WORKERS)
        return ct_fail(CT_ENOTSUP, "%d workers; with a deadline servers take "
                       "%d at most", config->n_workers,
                       (int)CT_PS_MOST_WORKERS);
    CT_TRY(ct_alloc(1, sizeof(*p), "parameter server", &p));
    p->config   = *config;
    p->begun    = config->clock;
    p->worker   = find(config->worker_rank, config->n_workers, me);
    p->i_server = find(config->server_rank, config->table->n_servers, me);
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->news, &attr);
    pthread_condattr_destroy(&attr);
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
    ct_free(p);
}

int ct_ps_worker(const struct ct_ps *p)
{
    return p->worker;
}

bool ct_ps_serves(const struct ct_ps *p)
{
    return p->server;
}
