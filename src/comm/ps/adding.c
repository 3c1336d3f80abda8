/* adding.c - how a server adds up a push that it has received. */
#include "base/clock.h"
#include "comm/ps/server.h"

/* ---- in order
 *
 * Pairs of workers are added, then pairs of pairs.  The order does not depend
 * on which rank serves or which push arrives first.  For a power of two it is
 * the order of canonical sums (dist/proof/canonical.h).  Worker w completes as
 * many pairs as its number has binary ones at its end:
 *
 *     parts after worker 0: 0   1: 01   2: 01 2   3: 0123   4: 0123 4        */

static void add_last_two(struct ps_server *s, struct ps_owned *o)
{
    void *last = o->part[--o->n_parts];

    ct_ps_add(last, 1, o->n, ct_ps_payload(o->part[o->n_parts - 1]));
    ps_give_back(s, last);
}

/* Adds the push of the next worker in order. */
static void add_next(struct ps_server *s, struct ps_owned *o)
{
    const int w = o->n_added++;

    o->weight += ct_ps_head(o->slot[w].message)->weight;
    o->part[o->n_parts++] = o->slot[w].message;
    o->slot[w]            = (struct ps_slot){ 0 };
    for (int ones = w; ones & 1; ones >>= 1)
        add_last_two(s, o);
}

/* The parts have the pushes of all workers: makes the sum of them. */
static enum ct_status end_sum(struct ct_ps *p, struct ps_owned *o)
{
    struct ps_answer *a = NULL;
    float *to = o->value ? o->sum[0].sum : NULL, weight = o->weight;

    if (!to) {
        CT_TRY(ps_answer_free(o, &a));
        to = ct_ps_payload(a->message);
    }
    while (o->n_parts > 1)
        add_last_two(p->server, o);
    ct_ps_set(o->part[0], 1, o->n, to);
    ps_give_back(p->server, o->part[0]);
    o->n_parts = o->n_added = 0;
    o->weight  = 0;
    o->version++;
    if (o->value)
        return ps_apply(p, o, to, 1 / weight, o->version - 1);
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

static enum ct_status add_in_order(struct ct_ps *p, struct ps_owned *o)
{
    const int n = p->config.n_workers;

    while (o->n_added < n && o->slot[o->n_added].full)
        add_next(p->server, o);
    return o->n_added == n ? end_sum(p, o) : CT_OK;
}

/* ---- in the order of arrival */

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

/* Updates the usual duration of an iteration; the latest one counts a fifth. */
static void note_version(struct ps_owned *o)
{
    const double now = ct_now(), took = now - o->since;

    if (o->since > 0)
        o->usual += (o->usual > 0 ? .2 : 1) * (took - o->usual);
    o->since = now;
}

/* Bounded staleness: an iteration changes the values when all its pushes are
 * added. */
static enum ct_status apply_whole(struct ct_ps *p, struct ps_owned *o)
{
    const int ring = ps_ring_size(&p->config);

    while (o->sum[o->version % ring].n == p->config.n_workers) {
        struct ps_sum *q = &o->sum[o->version % ring];

        CT_TRY(ps_apply(p, o, q->sum, 1 / q->weight, o->version));
        q->n      = 0;
        q->weight = 0;
        o->version++;
        note_version(o);
    }
    return CT_OK;
}

/* Unbounded staleness: each push is an update with a share of the rate.  So the
 * effect of weight decay while all workers push once is that of one update. */
static enum ct_status apply_alone(struct ct_ps *p, struct ps_owned *o,
                                  void *message)
{
    const int n = p->config.n_workers;

    CT_TRY(ps_apply(p, o, ct_ps_payload(message), 1,
                    p->config.clock + (int64_t)(o->n_applied / (uint64_t)n)));
    o->n_applied++;
    o->version = ct_ps_clock_least(&o->clock);
    return CT_OK;
}

enum ct_status ps_add_push(struct ct_ps *p, int k, int w)
{
    const struct ct_ps_config *g = &p->config;
    struct ps_server *s          = p->server;
    struct ps_owned *o           = &s->owned[k];
    struct ps_channel *c         = &s->channel[w];
    void *message                = o->slot[w].message;
    const int64_t clock          = ct_ps_head(message)->clock;
    const bool any               = g->staleness == CT_PS_ASYNC;

    ct_ps_clock_advance(&o->clock, w, clock + 1);
    if (ps_in_order(g)) {
        CT_TRY(add_in_order(p, o));
        return ps_want(c, &(struct ps_want){ .k = k, .need = clock + 1 });
    }
    if (any) {
        CT_TRY(apply_alone(p, o, message));
    } else {
        add_at_once(o, message, ps_ring_size(g));
        CT_TRY(apply_whole(p, o));
    }
    ps_empty_slot(s, &o->slot[w]);
    if (any)
        return ps_want(c, &(struct ps_want){ .k = k, .need = g->clock,
                                             .others = g->n_workers - 1 });
    return ps_want(c, &(struct ps_want){
        .k = k, .need = clock + 1 - g->staleness, .wish = clock + 1,
        .late = ct_now() + CT_PS_FRESH * o->usual });
}
