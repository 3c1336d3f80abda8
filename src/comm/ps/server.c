/* server.c - the server's side: creates it, answers pulls, destroys it. */
#include "comm/ps/server.h"

#include "base/mem.h"

static enum ct_status owned_init(struct ct_ps *p, int id, struct ps_owned *o)
{
    const struct ct_ps_config *c = &p->config;

    o->id      = id;
    o->first   = c->table->slice[id].first;
    o->n       = c->table->slice[id].n;
    o->version = c->clock;
    o->stamp   = 1;
    CT_TRY(ct_ps_clock_init(&o->clock, c->n_workers, c->clock));
    CT_TRY(ct_alloc((size_t)c->n_workers, sizeof(*o->slot), "slots",
                    &o->slot));
    if (!c->values)
        return CT_OK;
    CT_TRY(ct_alloc(o->n, sizeof(*o->value), "served values", &o->value));
    CT_TRY(ct_alloc((size_t)ps_ring_size(c), sizeof(*o->sum), "sums", &o->sum));
    for (int i = 0; i < ps_ring_size(c); i++)
        CT_TRY(ct_alloc(o->n, sizeof(float), "sum", &o->sum[i].sum));
    return CT_OK;
}

enum ct_status ps_server_create(struct ct_ps *p)
{
    const struct ct_ps_config *c = &p->config;
    struct ps_server *s;
    enum ct_status st = CT_OK;
    int *id           = NULL;

    CT_TRY(ct_alloc(1, sizeof(*s), "server", &s));
    p->server = s;
    s->round  = c->clock;
    CT_TRY(ct_alloc((size_t)c->n_workers, sizeof(*s->channel), "server",
                    &s->channel));
    for (int w = 0; w < c->n_workers; w++) {
        s->channel[w].rank  = c->worker_rank[w];
        s->channel[w].local = c->worker_rank[w] == c->comm->rank;
        s->channel[w].passed_on = ps_spreads(c) && ps_place(c, w) > PS_FAN;
        if (c->rounds)
            ct_ps_mask_add(&s->mask, w);
    }
    CT_TRY(ps_intake_init(p));
    CT_TRY(ct_alloc((size_t)c->table->n_of[p->i_server] + 1,
                    sizeof(*s->owned), "server", &s->owned));
    if (c->momentum > 0)
        CT_TRY(ct_alloc(c->table->longest + 1, sizeof(*s->history), "history",
                        &s->history));
    CT_TRY(ps_slices_of(c->table, p->i_server, &id));
    for (; s->n_owned < c->table->n_of[p->i_server] && st == CT_OK;
         s->n_owned++)
        st = owned_init(p, id[s->n_owned], &s->owned[s->n_owned]);
    ct_free(id);
    if (st == CT_OK && c->form.push_bytes)
        st = ct_alloc(c->table->longest, sizeof(*s->scratch), "server",
                      &s->scratch);
    return st;
}

static void owned_fini(struct ps_owned *o, const struct ct_ps_config *c)
{
    for (int w = 0; o->slot && w < c->n_workers; w++)
        ct_free(o->slot[w].message);
    for (int i = 0; i < o->n_parts; i++)
        ct_free(o->part[i]);
    for (int i = 0; o->sum && i < ps_ring_size(c); i++)
        ct_free(o->sum[i].sum);
    ct_free(o->slot);
    ct_free(o->sum);
    ct_free(o->value);
    ct_ps_clock_fini(&o->clock);
}

void ps_server_destroy(struct ct_ps *p)
{
    struct ps_server *s = p->server;

    if (!s)
        return;
    ps_intake_fini(p);
    ps_answers_fini(p);
    for (int k = 0; k < s->n_owned; k++)
        owned_fini(&s->owned[k], &p->config);
    ct_free(s->owned);
    ct_free(s->channel);
    ct_free(s->scratch);
    ct_free(s->history);
    ct_free(s);
    p->server = NULL;
}

void ps_server_pull(struct ct_ps *p, const struct ct_ps_pull *pull)
{
    struct ps_channel *c = &p->server->channel[p->worker];

    c->pull    = *pull;
    c->pulling = true;
}

/* Takes a pull of worker w; its answers wait for the pushes before it. */
enum ct_status ps_take_pull(struct ct_ps *p, int w)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];
    bool done            = false;

    if (!c->local && !c->pulling && !c->pull_posted) {
        CT_TRY(ct_comm_receive(p->config.comm, c->rank, CT_PS_TAG_PULL,
                               &c->pull, sizeof(c->pull), &c->pull_request));
        c->pull_posted = true;
    }
    if (c->pull_posted) {
        CT_TRY(ct_comm_test(p->config.comm, &c->pull_request, &done));
        c->pull_posted = !done;
        c->pulling     = done;
    }
    if (done && c->pull.magic != CT_PS_MAGIC)
        return ct_fail(CT_ECOMM, "what came from rank %d is no pull", c->rank);
    if (!c->pulling || c->n_taken < c->pull.after)
        return CT_OK;
    c->pulling = false;
    for (int k = 0; k < s->n_owned; k++)
        CT_TRY(ps_want(c, &(struct ps_want){ .k = k, .what = c->pull.what,
                                             .need = c->pull.need }));
    return CT_OK;
}

void ct_ps_reset(struct ct_ps *p, const float *x, int64_t clock)
{
    struct ps_server *s = p->server;

    p->config.clock = clock;
    if (p->client)
        ps_client_reset(p, x, clock);
    if (!s)
        return;
    s->round = clock;
    for (int k = 0; k < s->n_owned; k++) {
        struct ps_owned *o = &s->owned[k];

        for (size_t i = 0; i < o->n; i++)
            o->value[i] = x[o->first + i];
        for (int w = 0; w < p->config.n_workers; w++)
            o->clock.at[w] = clock;
        o->version   = clock;
        o->n_applied = 0;
        o->stamp++;
    }
}

void ct_ps_values(struct ct_ps *p, float *x)
{
    for (int k = 0; p->server && k < p->server->n_owned; k++) {
        const struct ps_owned *o = &p->server->owned[k];

        for (size_t i = 0; i < o->n; i++)
            x[o->first + i] = o->value[i];
    }
}

int64_t ct_ps_version(struct ct_ps *p)
{
    int64_t least = INT64_MAX;

    for (int k = 0; p->server && k < p->server->n_owned; k++)
        if (p->server->owned[k].version < least)
            least = p->server->owned[k].version;
    return least;
}
