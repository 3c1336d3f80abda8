/* intake.c - receives pushes when there is room for them, and ends rounds.
 *
 * Heads are small and are always received.  Floats are received when a message
 * is free.  A server has as many messages as PS_PLACES workers push in one
 * iteration.  It accepts
 *
 *     in order               pushes of the next PS_PLACES workers in the order
 *                            of addition; always those of the slice that is
 *                            furthest behind
 *     in order of arrival    any push
 *     rounds                 whole turns of workers; see below
 *
 * A worker that stops in the middle of a push keeps its message.  If nothing
 * has arrived for a second, the others get messages beyond the limit, so that
 * they do not wait for workers that have stopped. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/ps/server.h"

static const double stuck_s = 1;

enum { LEAST_OUT = 8 }; /* messages that are always allowed */

enum ct_status ps_intake_init(struct ct_ps *p)
{
    const int n         = p->config.n_workers;
    struct ps_server *s = p->server;
    const struct ct_ps_table *t = p->config.table;
    const uint64_t own          = (uint64_t)t->n_of[p->i_server];

    s->most_heads = p->config.rounds && own > PS_DEPTH ? own : PS_DEPTH;
    s->most_out   = LEAST_OUT + (n < PS_PLACES ? n : PS_PLACES) *
                                    (int)(t->load[p->i_server] / t->longest);
    s->n_place[PS_OUTSIDE] = n;
    s->moved               = ct_now();
    for (int w = 0; w < n; w++) {
        struct ps_channel *c = &s->channel[w];

        CT_TRY(ct_alloc((size_t)s->most_heads, sizeof(*c->head), "heads",
                        &c->head));
        CT_TRY(ct_alloc((size_t)s->most_heads, sizeof(*c->head_request),
                        "heads", &c->head_request));
    }
    return CT_OK;
}

static struct ps_owned *owned_of(struct ps_server *s, uint64_t i)
{
    return &s->owned[i % (uint64_t)s->n_owned];
}

/* Cancels receives.  Memory that may still be written to is not freed. */
static void channel_fini(struct ct_ps *p, int w)
{
    struct ct_comm *comm = p->config.comm;
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];
    bool all             = true;

    for (; c->n_announced < c->n_asked && !c->local; c->n_announced++)
        all &= ct_comm_cancel(
            comm, &c->head_request[c->n_announced % s->most_heads]);
    for (; c->n_taken < c->n_posted && !c->local; c->n_taken++)
        if (!ct_comm_cancel(comm, &c->request[c->n_taken % PS_DEPTH]))
            owned_of(s, c->n_taken)->slot[w].message = NULL;
    if (c->pull_posted)
        (void)ct_comm_cancel(comm, &c->pull_request);
    if (all)
        ct_free(c->head);
    ct_free(c->head_request);
    ct_free(c->want);
}

void ps_intake_fini(struct ct_ps *p)
{
    struct ps_server *s = p->server;

    for (int w = 0; s->channel && w < p->config.n_workers; w++)
        channel_fini(p, w);
    while (s->spare) {
        void *message = s->spare;

        s->spare = *(void **)message;
        ct_free(message);
    }
}

/* ---- messages */

static enum ct_status fill_slot(struct ct_ps *p, struct ps_owned *o, int w)
{
    struct ps_server *s = p->server;
    void *message       = s->spare;

    if (message)
        s->spare = *(void **)message;
    else
        CT_TRY(ct_alloc(1, ct_ps_bytes(p->config.table->longest), "slot",
                        &message));
    o->slot[w].message = message;
    s->n_out++;
    return CT_OK;
}

void ps_give_back(struct ps_server *s, void *message)
{
    *(void **)message = s->spare;
    s->spare          = message;
    s->n_out--;
}

void ps_empty_slot(struct ps_server *s, struct ps_slot *slot)
{
    ps_give_back(s, slot->message);
    *slot = (struct ps_slot){ 0 };
}

/* ---- which pushes are accepted */

/* The slice that is furthest behind; its pushes are always accepted. */
static const struct ps_owned *front(const struct ps_server *s)
{
    const struct ps_owned *least = &s->owned[0];

    for (int k = 1; k < s->n_owned; k++)
        if (s->owned[k].version < least->version)
            least = &s->owned[k];
    return least;
}

/* Whether nothing has arrived for a while. */
static bool is_stuck(const struct ps_server *s)
{
    return ct_now() - s->moved > stuck_s;
}

/* ---- Rounds: the caller decides which workers are in an iteration.
 *
 * A turn is all slices of a worker for one iteration.  Either all of them or
 * none count.  So slices are kept until the turn is complete, for PS_PLACES
 * turns at a time.  There are as many places more for workers whose pushes of
 * the turn are all announced, so that a worker that is slow in the middle of
 * its turn does not block fast ones.  If a place is needed, a complete turn is
 * added at once; the others are added when the iteration ends, in the order of
 * workers.
 *
 * With several servers, a turn that is complete here may be late at another
 * server.  Then it counts only in the slices of this server. */

static void set_place(struct ps_server *s, struct ps_channel *c, int place)
{
    s->n_place[c->place]--;
    c->place = place;
    s->n_place[c->place]++;
}

static bool is_whole(const struct ps_server *s, const struct ps_channel *c)
{
    return c->n_slices == s->n_owned && (s->n_owned == 0 ||
                                         c->clock == s->round);
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

/* Adds the kept slices of worker w's turn, times `scale`, and frees its
 * place. */
static void add_kept(struct ps_server *s, int w, float scale)
{
    for (int k = 0; k < s->n_owned; k++) {
        struct ps_owned *o = &s->owned[k];

        if (!o->slot[w].full)
            continue;
        if (scale > 0)
            add_to(&o->sum[0], o, w, scale);
        ps_empty_slot(s, &o->slot[w]);
    }
    set_place(s, &s->channel[w], PS_OUTSIDE);
}

/* The weight of a push of an earlier iteration in the current one. */
static float share_of(const struct ct_ps *p, int64_t clock)
{
    return p->config.fold > 0
               ? powf(p->config.fold, (float)(p->server->round - clock))
               : 0;
}

/* Adds the first complete turn, so that a place is free; false: none is
 * complete. */
static bool make_room(struct ct_ps *p, int place)
{
    struct ps_server *s = p->server;

    for (int w = 0; w < p->config.n_workers; w++)
        if ((int)s->channel[w].place == place &&
            is_whole(s, &s->channel[w])) {
            add_kept(s, w, 1);
            return true;
        }
    return false;
}

static bool round_has_room(struct ct_ps *p, int w, const struct ct_ps_head *h)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];
    const uint64_t n     = (uint64_t)s->n_owned;
    const bool ready     = c->n_announced / n > c->n_posted / n;

    if (h->clock < s->round) /* added or dropped on arrival: needs no place */
        return c->n_posted == c->n_taken;
    if (c->place != PS_OUTSIDE)
        return true;
    c->clock = h->clock;
    if (c->local || s->n_place[PS_IN_PART] < PS_PLACES ||
        make_room(p, PS_IN_PART)) {
        set_place(s, c, PS_IN_PART);
        return true;
    }
    if ((ready && (s->n_place[PS_IN_WHOLE] < PS_PLACES ||
                   make_room(p, PS_IN_WHOLE))) || is_stuck(s)) {
        set_place(s, c, PS_IN_WHOLE);
        return true;
    }
    return false;
}

static void round_take(struct ct_ps *p, int k, int w)
{
    struct ps_server *s        = p->server;
    struct ps_channel *c       = &s->channel[w];
    struct ps_owned *o         = &s->owned[k];
    const struct ct_ps_head *h = ct_ps_head(o->slot[w].message);

    c->n_slices++;
    c->clock = h->clock;
    if (s->since == 0 && h->clock >= s->round)
        s->since = ct_now();
    if (h->clock >= s->round)
        return;
    if (p->config.fold > 0)
        add_to(&o->sum[0], o, w, share_of(p, h->clock));
    ps_empty_slot(s, &o->slot[w]);
}

void ct_ps_round(struct ct_ps *p, struct ct_ps_round *out)
{
    const struct ps_server *s = p->server;

    *out = (struct ct_ps_round){ .clock = s->round, .since = s->since };
    for (int w = 0; w < p->config.n_workers; w++) {
        const struct ps_channel *c = &s->channel[w];

        if (is_whole(s, c))
            ct_ps_mask_add(&out->got, w);
        if (c->n_slices == s->n_owned &&
            (s->n_owned == 0 || c->clock < s->round))
            ct_ps_mask_add(&out->late, w);
    }
}

/* Worker w gets the current values and may push again. */
static enum ct_status release(struct ct_ps *p, int w)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];

    c->n_slices = 0;
    for (int k = 0; k < s->n_owned; k++)
        CT_TRY(ps_want(c, &(struct ps_want){ .k = k, .need = s->round }));
    return CT_OK;
}

enum ct_status ps_apply(struct ct_ps *p, struct ps_owned *o, float *sum,
                        float scale, int64_t clock)
{
    struct ct_ps_update u = { o->first, o->n, clock, sum, scale, 1, o->value };

    if (p->config.staleness == CT_PS_ASYNC)
        u.share = 1 / (float)p->config.n_workers;
    o->stamp++;
    return p->config.apply(p->config.arg, &u);
}

static enum ct_status change_values(struct ct_ps *p)
{
    struct ps_server *s = p->server;

    for (int k = 0; k < s->n_owned; k++) {
        struct ps_owned *o = &s->owned[k];
        struct ps_sum *sum = &o->sum[0]; /* includes late gradients (fold) */

        CT_TRY(ps_apply(p, o, sum->sum, 1 / sum->weight, s->round));
        *sum       = (struct ps_sum){ .sum = sum->sum };
        o->version = s->round + 1;
    }
    return CT_OK;
}

enum ct_status ct_ps_close(struct ct_ps *p, const struct ct_ps_mask *in)
{
    struct ps_server *s = p->server;

    for (int w = 0; w < p->config.n_workers; w++)
        if (ct_ps_mask_has(in, w))
            add_kept(s, w, 1);
    CT_TRY(change_values(p));
    s->mask = *in;
    s->round++;
    s->since = 0;
    for (int w = 0; w < p->config.n_workers; w++) {
        const struct ps_channel *c = &s->channel[w];

        if (ct_ps_mask_has(in, w))
            CT_TRY(release(p, w));
        else if (c->n_slices > 0 && c->clock >= s->round)
            s->since = ct_now(); /* this worker is already in the next round */
        else if (c->n_slices > 0 || c->place != PS_OUTSIDE)
            add_kept(s, w, share_of(p, c->clock)); /* its other slices will
                                                    * be late, too */
    }
    return CT_OK;
}

enum ct_status ct_ps_rejoin(struct ct_ps *p, const struct ct_ps_mask *late)
{
    for (int w = 0; w < p->config.n_workers; w++)
        if (ct_ps_mask_has(late, w))
            CT_TRY(release(p, w));
    return CT_OK;
}

/* ---- pushes that arrive */

/* Whether the next push of worker w is accepted. */
static bool has_room(struct ct_ps *p, int w, const struct ct_ps_head *h)
{
    struct ps_server *s        = p->server;
    const struct ps_channel *c = &s->channel[w];
    const struct ps_owned *o   = owned_of(s, c->n_posted);
    const bool room            = s->n_out < s->most_out;

    if (o->slot[w].message)
        return false;
    if (p->config.rounds)
        return round_has_room(p, w, h);
    if (ps_in_order(&p->config))
        return w - o->n_added < PS_PLACES && (room || o == front(s));
    return room || (c->n_posted == c->n_taken && is_stuck(s));
}

/* Fails if this is not the next push of worker w, or, with bounded staleness,
 * if its iteration is not in the ring of sums. */
static enum ct_status check_head(const struct ct_ps *p,
                                 const struct ps_owned *o, int w,
                                 const struct ct_ps_head *h)
{
    const struct ct_ps_config *g = &p->config;
    const struct ps_channel *c   = &p->server->channel[w];

    CT_TRY(ps_check(h, c->rank, c->n_announced - 1, o->id));
    if (h->worker != w || h->clock < 0 || h->clock >= INT32_MAX)
        return ct_fail(CT_ECOMM, "from rank %d came iteration %lld of worker "
                       "%d, which is worker %d", c->rank, (long long)h->clock,
                       (int)h->worker, w);
    if (!ps_in_order(g) && g->staleness != CT_PS_ASYNC &&
        (h->clock < o->version || h->clock >= o->version + ps_ring_size(g)))
        return ct_fail(CT_ECOMM, "from rank %d came iteration %lld while %lld "
                       "are in, and the staleness is %d", c->rank,
                       (long long)h->clock, (long long)o->version,
                       g->staleness);
    if (!(h->weight >= 0))
        return ct_fail(CT_ECOMM, "from rank %d came a gradient of weight %g",
                       c->rank, (double)h->weight);
    return CT_OK;
}

/* The turn of push number `i` of a channel: how many pushes of its slice were
 * before it, counted from p->begun. */
static int64_t turn_of(const struct ct_ps *p, uint64_t i)
{
    return p->begun + (int64_t)(i / (uint64_t)p->server->n_owned);
}

/* Decodes a push that was sent in another form. */
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

/* Handles the oldest push in flight, which has arrived. */
static enum ct_status take(struct ct_ps *p, int w)
{
    const struct ct_ps_config *g = &p->config;
    struct ps_server *s          = p->server;
    struct ps_channel *c         = &s->channel[w];
    const int k                  = (int)(c->n_taken++ % (uint64_t)s->n_owned);
    struct ps_owned *o           = &s->owned[k];

    s->moved        = ct_now();
    o->slot[w].full = true;
    CT_TRY(open_push(p, o, w));
    if (o->id == 0 && g->note && g->note(g->arg, o->slot[w].message))
        o->stamp++;
    if (!g->rounds)
        return ps_add_push(p, k, w);
    round_take(p, k, w);
    return CT_OK;
}

static enum ct_status take_heads(struct ct_ps *p, int w)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];

    for (;;) {
        bool done = false;
        const struct ct_ps_head *h;

        for (; c->n_asked - c->n_posted < s->most_heads; c->n_asked++) {
            const uint64_t i = c->n_asked % s->most_heads;

            c->head[i].magic = 0;
            CT_TRY(ct_comm_receive(p->config.comm, c->rank, CT_PS_TAG_HEAD,
                                   &c->head[i], sizeof(c->head[i]),
                                   &c->head_request[i]));
        }
        h = &c->head[c->n_announced % s->most_heads];
        if (c->n_announced < c->n_asked)
            CT_TRY(ct_comm_test(p->config.comm,
                                &c->head_request[c->n_announced %
                                                 s->most_heads], &done));
        if (!done)
            return CT_OK;
        c->n_announced++;
        CT_TRY(check_head(p, owned_of(s, c->n_announced - 1), w, h));
    }
}

static enum ct_status ask_for_floats(struct ct_ps *p, int w)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];

    while (c->n_posted < c->n_announced &&
           c->n_posted - c->n_taken < PS_DEPTH) {
        const struct ct_ps_head *h = &c->head[c->n_posted % s->most_heads];
        struct ps_owned *o         = owned_of(s, c->n_posted);

        if (!has_room(p, w, h))
            break;
        CT_TRY(fill_slot(p, o, w));
        *ct_ps_head(o->slot[w].message) = *h;
        CT_TRY(ct_comm_receive(p->config.comm, c->rank, CT_PS_TAG_PUSH,
                               ct_ps_payload(o->slot[w].message),
                               ps_push_bytes(&p->config, o->id,
                                             turn_of(p, c->n_posted)) -
                                   sizeof(*h),
                               &c->request[c->n_posted % PS_DEPTH]));
        c->n_posted++;
    }
    return CT_OK;
}

static enum ct_status take_pushes(struct ct_ps *p, int w)
{
    struct ps_channel *c = &p->server->channel[w];

    if (c->local) { /* ps_server_push has filled the slots */
        while (c->n_taken < c->n_posted)
            CT_TRY(take(p, w));
        return CT_OK;
    }
    for (;;) {
        bool done = false;

        CT_TRY(take_heads(p, w));
        CT_TRY(ask_for_floats(p, w));
        if (c->n_taken < c->n_posted)
            CT_TRY(ct_comm_test(p->config.comm,
                                &c->request[c->n_taken % PS_DEPTH], &done));
        if (!done)
            return CT_OK;
        CT_TRY(take(p, w));
    }
}

enum ct_status ps_server_push(struct ct_ps *p, const void *message, bool *out)
{
    const struct ct_ps_head *h = message;
    struct ps_server *s        = p->server;
    struct ps_channel *c       = &s->channel[p->worker];
    struct ps_owned *o         = owned_of(s, c->n_posted);

    *out = has_room(p, p->worker, h);
    if (!*out)
        return CT_OK;
    CT_TRY(fill_slot(p, o, p->worker));
    *ct_ps_head(o->slot[p->worker].message) = *h;
    ct_ps_unpack(message, o->n, ct_ps_payload(o->slot[p->worker].message));
    c->n_announced++;
    c->n_posted++;
    return CT_OK;
}

enum ct_status ps_server_progress(struct ct_ps *p)
{
    struct ps_server *s = p->server;

    for (int w = 0; w < p->config.n_workers && s->n_owned > 0; w++) {
        CT_TRY(take_pushes(p, w));
        if (p->config.values)
            CT_TRY(ps_take_pull(p, w));
    }
    return ps_answer_all(p);
}
