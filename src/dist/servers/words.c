/* words.c - losses and requests in messages, if servers keep values.
 *
 *     push    word 0: stop   1: snapshot   2: loss   3: trace
 *     answer  word 0, 1, 3: the iteration at which all do so, + 1; 0: none
 *             word 2: the mean of the latest losses
 *
 * Ranks are at different iterations, so a request takes effect at an iteration
 * that no rank has reached.  The server of slice 0 chooses it.  Every rank
 * learns of it in time, because a worker cannot push more than `depth`
 * iterations after the latest answer that it has. */
#include <string.h>

#include "dist/engine.h"

enum { STOP, SNAPSHOT, LOSS, TRACE };

static int64_t from_double(double x)
{
    int64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double to_double(int64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

void dist_words_write(const float *rider, float n_ranks, int64_t *words)
{
    words[STOP]     = rider[CT_RIDER_STOP] > 0;
    words[SNAPSHOT] = rider[CT_RIDER_SNAPSHOT] > 0;
    words[TRACE]    = rider[CT_RIDER_TRACE] > 0;
    words[LOSS]     = from_double((double)(rider[CT_RIDER_LOSS] / n_ranks));
}

/* Sets the iteration of a request in *at, unless an earlier request may not
 * have taken effect on all ranks. */
static bool name_when(int64_t asked, int64_t when, int64_t margin,
                      const struct dist_ps *p, int64_t *at)
{
    if (!asked || (*at && *at + margin >= p->most_clock))
        return false;
    *at = when + 1;
    return true;
}

bool dist_words_note(void *dist, const struct ct_ps_head *push)
{
    struct ct_dist *d = dist;
    struct dist_ps *p = &d->ps;
    int64_t margin    = (d->plan->staleness > 0 ? d->plan->staleness : 1) + 2;
    int64_t when;

    p->loss[push->worker]   = to_double(push->word[LOSS]);
    p->weighs[push->worker] = (double)push->weight;
    if (push->clock > p->most_clock)
        p->most_clock = push->clock;
    when = p->most_clock + 1 + margin;
    if (push->word[STOP] && !p->stop_at) {
        p->stop_at = when + 1;
        return true;
    }
    return name_when(push->word[SNAPSHOT], when, margin, p, &p->snapshot_at) |
           name_when(push->word[TRACE], when, margin, p, &p->trace_at);
}

void dist_words_fill(void *dist, struct ct_ps_head *answer)
{
    const struct ct_dist *d = dist;
    double sum = 0, n = 0;

    if (answer->slice != 0)
        return;
    for (int w = 0; w < d->plan->n_groups; w++)
        if (!d->plan->rounds || ct_ps_mask_has(&answer->mask, w)) {
            sum += d->ps.weighs[w] * d->ps.loss[w];
            n += d->ps.weighs[w];
        }
    answer->word[STOP]     = d->ps.stop_at;
    answer->word[SNAPSHOT] = d->ps.snapshot_at;
    answer->word[TRACE]    = d->ps.trace_at;
    answer->word[LOSS]     = from_double(n > 0 ? sum / n : 0);
}

void dist_words_read(const struct ct_ps_head *h, int64_t clock, int64_t next,
                     float n_ranks, float *rider, int64_t *traced)
{
    if (h->magic) /* an answer has arrived */
        rider[CT_RIDER_LOSS] = n_ranks * (float)to_double(h->word[LOSS]);
    rider[CT_RIDER_STOP]     = h->word[STOP] > 0 && next >= h->word[STOP];
    rider[CT_RIDER_SNAPSHOT] = clock + 1 == h->word[SNAPSHOT];
    /* A rank that missed a deadline may skip that iteration. */
    rider[CT_RIDER_TRACE] = h->word[TRACE] > *traced &&
                            next >= h->word[TRACE];
    if (rider[CT_RIDER_TRACE] > 0)
        *traced = h->word[TRACE];
}
