/* server.c - pushes come in, are added up, and change values. */
#include "comm/ps/server.h"

#include <math.h>

#include "base/clock.h"
#include "base/mem.h"

static bool in_order(const struct ct_ps_config *c)
{
    return !c->values || c->staleness == 0;
}

static int ring_size(const struct ct_ps_config *c)
{
    return c->values && c->staleness > 0 ? c->staleness + 1 : 1;
}

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
    for (int w = 0; w < c->n_workers; w++)
        CT_TRY(ct_alloc(1, ct_ps_bytes(o->n), "slot", &o->slot[w].message));
    if (!c->values)
        return CT_OK;
    CT_TRY(ct_alloc(o->n, sizeof(*o->value), "served values", &o->value));
    CT_TRY(ct_alloc((size_t)ring_size(c), sizeof(*o->sum), "sums", &o->sum));
    for (int i = 0; i < ring_size(c); i++)
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
    for (int i = 0; o->sum && i < ring_size(c); i++)
        ct_free(o->sum[i].sum);
    ct_free(o->slot);
    ct_free(o->sum);
    ct_free(o->value);
    ct_ps_clock_fini(&o->clock);
}

/* Takes receives back; memory that may still be written to stays behind. */
static void channel_fini(struct ct_ps *p, struct ps_channel *c)
{
    struct ps_server *s = p->server;

    for (; c->n_taken < c->n_posted && !c->local; c->n_taken++) {
        struct ps_owned *o = &s->owned[c->n_taken % (uint64_t)s->n_owned];

        if (!ct_comm_cancel(p->config.comm,
                            &c->request[c->n_taken % PS_DEPTH]))
            o->slot[c - s->channel].message = NULL;
    }
    if (c->pull_posted)
        (void)ct_comm_cancel(p->config.comm, &c->pull_request);
    ct_free(c->want);
}

void ps_server_destroy(struct ct_ps *p)
{
    struct ps_server *s = p->server;

    if (!s)
        return;
    for (int w = 0; s->channel && w < p->config.n_workers; w++)
        channel_fini(p, &s->channel[w]);
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

static enum ct_status apply(struct ct_ps *p, struct ps_owned *o, float *sum,
                            float scale, int64_t clock)
{
    struct ct_ps_update u = { o->first, o->n, clock, sum, scale, 1, o->value };

    if (p->config.staleness == CT_PS_ASYNC)
        u.share = 1 / (float)p->config.n_workers;
    o->stamp++;
    return p->config.apply(p->config.arg, &u);
}

/* Pairs of workers, then pairs of pairs: the order does not depend on who
 * serves, and for a power of two it is that of canonical sums (dist/
 * canonical.h). */
static void add_along_tree(struct ps_owned *o, int n_workers)
{
    for (int step = 1; step < n_workers; step *= 2)
        for (int w = 0; w + step < n_workers; w += 2 * step)
            ct_ps_add(o->slot[w + step].message, 1, o->n,
                      ct_ps_payload(o->slot[w].message));
}

/* Lock-step: all workers' pushes of a slice are there. */
static enum ct_status add_in_order(struct ct_ps *p, struct ps_owned *o)
{
    struct ps_answer *a = NULL;
    float *to = o->value ? o->sum[0].sum : NULL, weight = 0;

    if (!to) {
        CT_TRY(ps_answer_free(o, &a));
        to = ct_ps_payload(a->message);
    }
    add_along_tree(o, p->config.n_workers);
    ct_ps_set(o->slot[0].message, 1, o->n, to);
    for (int w = 0; w < p->config.n_workers; w++) {
        weight += ct_ps_head(o->slot[w].message)->weight;
        o->slot[w].busy = false;
    }
    o->n_full = 0;
    o->version++;
    if (o->value)
        return apply(p, o, to, 1 / weight, o->version - 1);
    if (p->config.form.answer)
        p->config.form.answer(p->config.form.arg, o->id, to);
    *ct_ps_head(a->message) = (struct ct_ps_head){
        .magic = CT_PS_MAGIC, .clock = o->version, .slice = o->id,
        .worker = -1, .weight = weight, .mask = p->server->mask,
    };
    a->stamp   = ++o->stamp;
    o->current = a;
    return CT_OK;
}

static void add_at_once(struct ps_owned *o, const void *message, int ring)
{
    const struct ct_ps_head *h = message;
    struct ps_sum *to          = &o->sum[h->clock % ring];

    if (to->n++ == 0)
        ct_ps_set(message, 1, o->n, to->sum);
    else
        ct_ps_add(message, 1, o->n, to->sum);
    to->weight += h->weight;
}

/* How long iterations take, the newest counting for a fifth. */
static void note_version(struct ps_owned *o)
{
    const double now = ct_now(), took = now - o->since;

    if (o->since > 0)
        o->usual += (o->usual > 0 ? .2 : 1) * (took - o->usual);
    o->since = now;
}

/* Bounded staleness: iterations that are whole change the values. */
static enum ct_status apply_whole(struct ct_ps *p, struct ps_owned *o)
{
    const int ring = ring_size(&p->config);

    while (o->sum[o->version % ring].n == p->config.n_workers) {
        struct ps_sum *q = &o->sum[o->version % ring];

        CT_TRY(apply(p, o, q->sum, 1 / q->weight, o->version));
        q->n      = 0;
        q->weight = 0;
        o->version++;
        note_version(o);
    }
    return CT_OK;
}

/* Each push is an update of its own, with a share of the rate: so weight decay,
 * too, acts once while all workers push once. */
static enum ct_status apply_alone(struct ct_ps *p, struct ps_owned *o, int w)
{
    const int n = p->config.n_workers;

    CT_TRY(apply(p, o, ct_ps_payload(o->slot[w].message), 1,
                 p->config.clock + (int64_t)(o->n_applied / (uint64_t)n)));
    o->n_applied++;
    o->version = ct_ps_clock_least(&o->clock);
    return CT_OK;
}

/* The round waits for whole turns. */
static void take_in_round(struct ct_ps *p, struct ps_channel *c,
                          const struct ct_ps_head *h)
{
    struct ps_server *s = p->server;

    c->n_slices++;
    c->clock = h->clock;
    if (s->since == 0 && h->clock >= s->round)
        s->since = ct_now();
}

/* Which push of its slice number `i` of a channel is. */
static int64_t turn_of(const struct ct_ps *p, uint64_t i)
{
    return p->begun + (int64_t)(i / (uint64_t)p->server->n_owned);
}

/* What came in another form becomes floats. */
static enum ct_status open_push(struct ct_ps *p, struct ps_owned *o, int w)
{
    const struct ct_ps_form *f = &p->config.form;
    float *payload             = ct_ps_payload(o->slot[w].message);

    return f->push_bytes
               ? f->open(f->arg, o->id,
                         turn_of(p, p->server->channel[w].n_taken - 1),
                         payload, p->server->scratch, payload)
               : CT_OK;
}

/* Is it what worker w sends next?  With bounded staleness its iteration has a
 * place in the ring of sums. */
static enum ct_status check_push(const struct ct_ps *p,
                                 const struct ps_owned *o, int w)
{
    const struct ct_ps_config *g = &p->config;
    const struct ps_channel *c   = &p->server->channel[w];
    const struct ct_ps_head *h   = ct_ps_head(o->slot[w].message);

    CT_TRY(ps_check(h, c->rank, c->n_taken - 1, o->id));
    if (h->worker != w || h->clock < 0 || h->clock >= INT32_MAX)
        return ct_fail(CT_ECOMM, "from rank %d came iteration %lld of worker "
                       "%d, which is worker %d", c->rank, (long long)h->clock,
                       (int)h->worker, w);
    if (!in_order(g) && g->staleness != CT_PS_ASYNC &&
        (h->clock < o->version || h->clock >= o->version + ring_size(g)))
        return ct_fail(CT_ECOMM, "from rank %d came iteration %lld while %lld "
                       "are in, and the staleness is %d", c->rank,
                       (long long)h->clock, (long long)o->version,
                       g->staleness);
    if (!(h->weight >= 0))
        return ct_fail(CT_ECOMM, "from rank %d came a gradient of weight %g",
                       c->rank, (double)h->weight);
    return CT_OK;
}

/* Slot w of slice k is full. */
static enum ct_status take(struct ct_ps *p, int k, int w)
{
    const struct ct_ps_config *g = &p->config;
    struct ps_owned *o           = &p->server->owned[k];
    struct ps_channel *c         = &p->server->channel[w];
    struct ct_ps_head *h         = ct_ps_head(o->slot[w].message);

    CT_TRY(check_push(p, o, w));
    CT_TRY(open_push(p, o, w));
    if (o->id == 0 && g->note && g->note(g->arg, h))
        o->stamp++;
    if (g->rounds) {
        take_in_round(p, c, h);
        return CT_OK;
    }
    ct_ps_clock_advance(&o->clock, w, h->clock + 1);
    if (in_order(g)) {
        if (++o->n_full == g->n_workers)
            CT_TRY(add_in_order(p, o));
        return ps_want(c, &(struct ps_want){ .k = k, .need = h->clock + 1 });
    }
    if (g->staleness == CT_PS_ASYNC) {
        CT_TRY(apply_alone(p, o, w));
    } else {
        add_at_once(o, h, ring_size(g));
        CT_TRY(apply_whole(p, o));
    }
    o->slot[w].busy = false;
    if (g->staleness == CT_PS_ASYNC)
        return ps_want(c, &(struct ps_want){ .k = k, .need = g->clock,
                                             .others = g->n_workers - 1 });
    return ps_want(c, &(struct ps_want){
        .k = k, .need = h->clock + 1 - g->staleness, .wish = h->clock + 1,
        .late = ct_now() + CT_PS_FRESH * o->usual });
}

static enum ct_status take_pushes(struct ct_ps *p, int w)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];
    const uint64_t n     = (uint64_t)s->n_owned;

    for (;;) {
        struct ps_owned *o;
        bool done = false;

        while (c->n_posted - c->n_taken < PS_DEPTH) {
            o = &s->owned[c->n_posted % n];
            if (o->slot[w].busy)
                break;
            ct_ps_head(o->slot[w].message)->magic = 0;
            CT_TRY(ct_comm_receive(p->config.comm, c->rank, CT_PS_TAG_PUSH,
                                   o->slot[w].message,
                                   ps_push_bytes(&p->config, o->id,
                                                 turn_of(p, c->n_posted)),
                                   &c->request[c->n_posted % PS_DEPTH]));
            o->slot[w].busy = true;
            c->n_posted++;
        }
        if (c->n_taken < c->n_posted)
            CT_TRY(ct_comm_test(p->config.comm,
                                &c->request[c->n_taken % PS_DEPTH], &done));
        if (!done)
            return CT_OK;
        CT_TRY(take(p, (int)(c->n_taken++ % n), w));
    }
}

bool ps_server_push(struct ct_ps *p, const void *message)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[p->worker];
    struct ps_owned *o   = &s->owned[c->n_taken % (uint64_t)s->n_owned];
    struct ps_slot *slot = &o->slot[p->worker];

    if (slot->busy)
        return false;
    *ct_ps_head(slot->message) = *(const struct ct_ps_head *)message;
    ct_ps_unpack(message, o->n, ct_ps_payload(slot->message));
    slot->busy = true;
    c->n_posted++;
    return true;
}

/* What the worker of this process has pushed, taken when it is its turn. */
static enum ct_status take_local(struct ct_ps *p, int w)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];

    while (c->n_taken < c->n_posted)
        CT_TRY(take(p, (int)(c->n_taken++ % (uint64_t)s->n_owned), w));
    return CT_OK;
}

void ps_server_pull(struct ct_ps *p, const struct ct_ps_pull *pull)
{
    struct ps_channel *c = &p->server->channel[p->worker];

    c->pull    = *pull;
    c->pulling = true;
}

/* A pull waits for the pushes that were sent before it. */
static enum ct_status take_pull(struct ct_ps *p, int w)
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

enum ct_status ps_server_progress(struct ct_ps *p)
{
    struct ps_server *s = p->server;

    for (int w = 0; w < p->config.n_workers && s->n_owned > 0; w++) {
        if (s->channel[w].local)
            CT_TRY(take_local(p, w));
        else
            CT_TRY(take_pushes(p, w));
        if (p->config.values)
            CT_TRY(take_pull(p, w));
    }
    return ps_answer_all(p);
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

bool ct_ps_quiet(struct ct_ps *p)
{
    bool quiet = !p->server || p->server->n_flights == 0;

    for (int w = 0; p->server && w < p->config.n_workers; w++)
        quiet &= p->server->channel[w].n_wants == 0 &&
                 !p->server->channel[w].pulling;
    return quiet;
}

void ct_ps_round(struct ct_ps *p, struct ct_ps_round *out)
{
    const struct ps_server *s = p->server;

    *out = (struct ct_ps_round){ .clock = s->round, .since = s->since };
    for (int w = 0; w < p->config.n_workers; w++) {
        const struct ps_channel *c = &s->channel[w];
        bool whole                 = c->n_slices == s->n_owned;

        if (whole && (s->n_owned == 0 || c->clock == s->round))
            ct_ps_mask_add(&out->got, w);
        if (whole && (s->n_owned == 0 || c->clock < s->round))
            ct_ps_mask_add(&out->late, w);
    }
}

static void add_to(struct ps_sum *to, const struct ps_owned *o, int w,
                   float scale)
{
    const struct ct_ps_head *h = o->slot[w].message;

    if (to->n++ == 0)
        ct_ps_set(h, scale, o->n, to->sum);
    else
        ct_ps_add(h, scale, o->n, to->sum);
    to->weight += scale * h->weight;
}

/* Worker w gets the values as they are, and may push again. */
static enum ct_status release(struct ct_ps *p, int w)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];

    c->n_slices = 0;
    for (int k = 0; k < s->n_owned; k++) {
        s->owned[k].slot[w].busy = false;
        CT_TRY(ps_want(c, &(struct ps_want){ .k = k, .need = s->round }));
    }
    return CT_OK;
}

enum ct_status ct_ps_close(struct ct_ps *p, const struct ct_ps_mask *in)
{
    struct ps_server *s = p->server;

    for (int k = 0; k < s->n_owned; k++) {
        struct ps_owned *o = &s->owned[k];
        struct ps_sum *to  = &o->sum[0]; /* with what was folded in */

        for (int w = 0; w < p->config.n_workers; w++)
            if (ct_ps_mask_has(in, w))
                add_to(to, o, w, 1);
        CT_TRY(apply(p, o, to->sum, 1 / to->weight, s->round));
        *to        = (struct ps_sum){ .sum = to->sum };
        o->version = s->round + 1;
    }
    s->mask = *in;
    s->round++;
    s->since = 0;
    for (int w = 0; w < p->config.n_workers; w++) {
        const struct ps_channel *c = &s->channel[w];

        if (ct_ps_mask_has(in, w))
            CT_TRY(release(p, w));
        else if (c->n_slices > 0 && c->clock >= s->round)
            s->since = ct_now(); /* one that was ahead of this server */
    }
    return CT_OK;
}

enum ct_status ct_ps_rejoin(struct ct_ps *p, const struct ct_ps_mask *late)
{
    struct ps_server *s = p->server;

    for (int w = 0; w < p->config.n_workers; w++) {
        float share = powf(p->config.fold,
                           (float)(s->round - s->channel[w].clock));

        if (!ct_ps_mask_has(late, w))
            continue;
        for (int k = 0; k < s->n_owned && p->config.fold > 0; k++)
            add_to(&s->owned[k].sum[0], &s->owned[k], w, share);
        CT_TRY(release(p, w));
    }
    return CT_OK;
}
