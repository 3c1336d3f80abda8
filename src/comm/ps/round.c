/* round.c - iterations of which the layer above says who is in them.
 *
 * A turn of a worker, all of its slices, is in an iteration or not.  So slices
 * are kept until the turn is whole, PS_PLACES turns at a time; for those that
 * workers have wholly ready there are as many places more, so that a worker
 * which is slow in the middle of its turn does not keep the fast ones out.  If
 * a place is needed, a turn that is whole is added at once; the others when the
 * iteration ends, in the order of workers.
 *
 * With several servers a turn that was added here may not have reached another
 * one in time.  Then it counts in the slices of this server alone. */
#include <math.h>

#include "base/clock.h"
#include "comm/ps/server.h"

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

/* What is kept of worker w's turn counts so much, and is gone. */
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

/* What a push of an earlier iteration counts in the current one. */
static float share_of(const struct ct_ps *p, int64_t clock)
{
    return p->config.fold > 0
               ? powf(p->config.fold, (float)(p->server->round - clock))
               : 0;
}

/* Adds the first turn that is whole. */
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

bool ps_round_has_room(struct ct_ps *p, int w, const struct ct_ps_head *h)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];
    const uint64_t n     = (uint64_t)s->n_owned;
    const bool ready     = c->n_announced / n > c->n_posted / n;

    if (h->clock < s->round) /* it is added, or dropped, as it comes */
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
                   make_room(p, PS_IN_WHOLE))) || ps_is_stuck(s)) {
        set_place(s, c, PS_IN_WHOLE);
        return true;
    }
    return false;
}

void ps_round_take(struct ct_ps *p, int k, int w)
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

/* Worker w gets the values as they are, and may push again. */
static enum ct_status release(struct ct_ps *p, int w)
{
    struct ps_server *s  = p->server;
    struct ps_channel *c = &s->channel[w];

    c->n_slices = 0;
    for (int k = 0; k < s->n_owned; k++)
        CT_TRY(ps_want(c, &(struct ps_want){ .k = k, .need = s->round }));
    return CT_OK;
}

static enum ct_status change_values(struct ct_ps *p)
{
    struct ps_server *s = p->server;

    for (int k = 0; k < s->n_owned; k++) {
        struct ps_owned *o = &s->owned[k];
        struct ps_sum *sum = &o->sum[0]; /* with what was folded in */

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
            s->since = ct_now(); /* one that was ahead of this server */
        else if (c->n_slices > 0 || c->place != PS_OUTSIDE)
            add_kept(s, w, share_of(p, c->clock)); /* the rest comes late */
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
