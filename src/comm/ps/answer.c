/* answer.c - answers of the server to the workers.
 *
 * The answer for a slice is made once and sent to all workers that want this
 * state of the slice.  If the state changes while an answer is still being
 * sent, another answer is made, so no worker waits for the slowest one.
 * Workers that are not in step want different states.  So each of them has at
 * most PS_DEPTH answers in flight; others are made when they can be sent.
 *
 * A gradient that is applied m updates after its values were sent was computed
 * at old values, while momentum mu has moved them on.  Both together make
 * training oscillate.  So the server sends a prediction of the values at that
 * time:
 *
 *     w - (mu + mu^2 + ... + mu^m) h        h: the latest update
 *
 * With bounded staleness m is the number of iterations that are missing,
 * otherwise the number of the other workers. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/ps/server.h"

static const uint64_t no_stamp = 0;

enum ct_status ps_want(struct ps_channel *c, const struct ps_want *want)
{
    if (c->n_wants == c->most_wants) {
        size_t most        = 2 * c->most_wants + 16;
        struct ps_want *to = NULL;

        CT_TRY(ct_alloc(most, sizeof(*to), "answers due", &to));
        for (size_t i = 0; i < c->n_wants; i++)
            to[i] = c->want[(c->first_want + i) % c->most_wants];
        ct_free(c->want);
        c->want       = to;
        c->most_wants = most;
        c->first_want = 0;
    }
    c->want[(c->first_want + c->n_wants++) % c->most_wants] = *want;
    return CT_OK;
}

enum ct_status ps_answer_free(struct ps_owned *o, struct ps_answer **out)
{
    struct ps_answer *a = o->pool;

    while (a && a->refs > 0)
        a = a->next;
    if (!a) {
        CT_TRY(ct_alloc(1, sizeof(*a), "server's answer", &a));
        a->next = o->pool;
        o->pool = a;
        CT_TRY(ct_alloc(1, ct_ps_bytes(o->n), "server's answer",
                        &a->message));
    }
    a->stamp = no_stamp;
    if (o->current == a)
        o->current = NULL;
    *out = a;
    return CT_OK;
}

static void write_head(struct ct_ps *p, const struct ps_owned *o,
                       uint32_t what, struct ct_ps_head *h)
{
    *h = (struct ct_ps_head){ .magic = CT_PS_MAGIC, .clock = o->version,
                              .slice = o->id, .worker = -1, .what = what,
                              .mask = p->server->mask };
    if (p->config.fill)
        p->config.fill(p->config.arg, h);
}

/* The factor of the latest update in the prediction. */
static float ahead_of(const struct ct_ps *p, const struct ps_owned *o,
                      const struct ps_want *q)
{
    int64_t m   = q->wish > o->version ? q->wish - o->version : q->others;
    float share = 1, sum = 0;

    for (; m > 0 && p->config.momentum > 0; m--) {
        share *= p->config.momentum;
        sum += share;
    }
    return sum;
}

static enum ct_status write_values(struct ct_ps *p, const struct ps_owned *o,
                                   float ahead, void *message)
{
    float *to = ct_ps_payload(message), *h = p->server->history;

    ct_ps_pack(message, o->value, 1, o->n);
    if (ahead == 0)
        return CT_OK;
    CT_TRY(p->config.read(p->config.arg, 0, o->first, o->n, h));
    for (size_t i = 0; i < o->n; i++)
        to[i] -= ahead * h[i];
    return CT_OK;
}

/* Makes or finds the message for a want. */
static enum ct_status make_answer(struct ct_ps *p, struct ps_owned *o,
                                  const struct ps_want *q,
                                  struct ps_answer **out)
{
    struct ps_answer *a = o->current;
    float ahead         = ahead_of(p, o, q);

    if (q->what == 0 && a && a->stamp == o->stamp && a->ahead == ahead) {
        *out = a;
        return CT_OK;
    }
    CT_TRY(ps_answer_free(o, &a));
    write_head(p, o, q->what, ct_ps_head(a->message));
    if (q->what == 0) {
        a->ahead = o->value ? ahead : 0;
        CT_TRY(write_values(p, o, a->ahead, a->message));
        a->stamp   = o->stamp;
        o->current = a;
    } else {
        CT_TRY(p->config.read(p->config.arg, (int64_t)q->what - 1, o->first,
                              o->n, ct_ps_payload(a->message)));
    }
    *out = a;
    return CT_OK;
}

static enum ct_status post(struct ct_ps *p, struct ps_channel *c,
                           struct ps_owned *o, struct ps_answer *a)
{
    struct ps_server *s = p->server;

    if (c->local) {
        ps_client_answer(p, a->message);
        return CT_OK;
    }
    if (c->passed_on)
        return CT_OK;
    if (s->n_flights == s->most_flights) {
        int most             = 2 * s->most_flights + 16;
        struct ps_flight *to = ct_realloc(s->flight,
                                          (size_t)most * sizeof(*to),
                                          "answers under way");

        if (!to)
            return CT_ENOMEM;
        s->flight       = to;
        s->most_flights = most;
    }
    CT_TRY(ct_comm_send(p->config.comm, c->rank, CT_PS_TAG_ANSWER, a->message,
                        ps_answer_bytes(&p->config, o->id),
                        &s->flight[s->n_flights].request));
    s->flight[s->n_flights].worker   = (int)(c - s->channel);
    s->flight[s->n_flights++].answer = a;
    c->n_flights++;
    a->refs++;
    return CT_OK;
}

static enum ct_status retire(struct ct_ps *p)
{
    struct ps_server *s = p->server;

    for (int i = 0; i < s->n_flights;) {
        struct ps_flight *f = &s->flight[i];
        bool done;

        CT_TRY(ct_comm_test(p->config.comm, &f->request, &done));
        if (!done) {
            i++;
            continue;
        }
        f->answer->refs--;
        s->channel[f->worker].n_flights--;
        *f = s->flight[--s->n_flights];
    }
    return CT_OK;
}

enum ct_status ps_answer_all(struct ct_ps *p)
{
    struct ps_server *s = p->server;
    const bool shared   = ps_in_order(&p->config) && !p->config.rounds;

    CT_TRY(retire(p));
    for (int w = 0; w < p->config.n_workers; w++) {
        struct ps_channel *c = &s->channel[w];

        while (c->n_wants > 0 && (shared || c->n_flights < PS_DEPTH)) {
            struct ps_want *q   = &c->want[c->first_want];
            struct ps_owned *o  = &s->owned[q->k];
            struct ps_answer *a = NULL;

            if (o->version < q->need ||
                (o->version < q->wish && ct_now() < q->late))
                break;
            CT_TRY(make_answer(p, o, q, &a));
            c->first_want = (c->first_want + 1) % c->most_wants;
            c->n_wants--;
            CT_TRY(post(p, c, o, a));
        }
    }
    return CT_OK;
}

void ps_answers_fini(struct ct_ps *p)
{
    struct ps_server *s = p->server;

    for (int i = 0; i < s->n_flights; i++)
        if (!ct_comm_cancel(p->config.comm, &s->flight[i].request))
            s->flight[i].answer->message = NULL; /* it may still be read */
    for (int k = 0; k < s->n_owned; k++)
        while (s->owned[k].pool) {
            struct ps_answer *a = s->owned[k].pool;

            s->owned[k].pool = a->next;
            ct_free(a->message);
            ct_free(a);
        }
    ct_free(s->flight);
}
