/* ps_words.c - what rides with the gradients, where servers keep values.
 *
 *     push    word 0: stop   1: snapshot   2: loss
 *     answer  word 0, 1: the iteration at which all do so, + 1; 0: none
 *             word 2: the mean of the latest losses
 *
 * Ranks are at different iterations, so a request is met at one that none has
 * reached: the server of slice 0 names it, and everyone hears of it before,
 * because a worker cannot push more than `depth` iterations beyond the newest
 * answer that it has. */
#include <string.h>

#include "dist/dist.h"

enum { STOP, SNAPSHOT, LOSS };

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
    words[LOSS]     = from_double((double)(rider[CT_RIDER_LOSS] / n_ranks));
}

bool dist_words_note(void *dist, const struct ct_ps_head *push)
{
    struct ct_dist *d = dist;
    struct dist_ps *p = &d->ps;
    int64_t margin    = (d->mode.staleness > 0 ? d->mode.staleness : 1) + 2;
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
    /* Another one may follow when all have met this one. */
    if (push->word[SNAPSHOT] &&
        (!p->snapshot_at || p->snapshot_at + margin < p->most_clock)) {
        p->snapshot_at = when + 1;
        return true;
    }
    return false;
}

void dist_words_fill(void *dist, struct ct_ps_head *answer)
{
    const struct ct_dist *d = dist;
    double sum = 0, n = 0;

    if (answer->slice != 0)
        return;
    for (int w = 0; w < d->mode.n_groups; w++)
        if (!d->mode.rounds || ct_ps_mask_has(&answer->mask, w)) {
            sum += d->ps.weighs[w] * d->ps.loss[w];
            n += d->ps.weighs[w];
        }
    answer->word[STOP]     = d->ps.stop_at;
    answer->word[SNAPSHOT] = d->ps.snapshot_at;
    answer->word[LOSS]     = from_double(n > 0 ? sum / n : 0);
}

void dist_words_read(const struct ct_ps_head *h, int64_t clock, int64_t next,
                     float n_ranks, float *rider)
{
    if (h->magic) /* an answer has come */
        rider[CT_RIDER_LOSS] = n_ranks * (float)to_double(h->word[LOSS]);
    rider[CT_RIDER_STOP]     = h->word[STOP] > 0 && next >= h->word[STOP];
    rider[CT_RIDER_SNAPSHOT] = clock + 1 == h->word[SNAPSHOT];
}
