/* draws.h - a run of random numbers that belongs to one sample.
 *
 * Draws depend on key, epoch and sample alone, never on threads or ranks; how
 * many a sample takes is nobody else's business. */
#ifndef CT_DATA_DRAWS_H
#define CT_DATA_DRAWS_H

#include "base/rng.h"

struct ct_draws {
    uint64_t key;
    int64_t  epoch, sample;
    uint32_t next; /* the number of the next draw */
};

/* Uniform 32 bits. */
static inline uint32_t ct_draws_word(struct ct_draws *d)
{
    const uint32_t i = d->next++;

    return ct_philox(d->key, (uint64_t)d->epoch,
                     (uint64_t)d->sample << 24 | (i / 4 & 0xffffff)).v[i % 4];
}

/* [lo, hi), evenly. */
static inline float ct_draws_between(struct ct_draws *d, float lo, float hi)
{
    return lo + (hi - lo) * (float)(ct_draws_word(d) >> 8) * 0x1p-24f;
}

/* [0, n). */
static inline uint32_t ct_draws_below(struct ct_draws *d, uint32_t n)
{
    return (uint32_t)(((uint64_t)ct_draws_word(d) * n) >> 32);
}

static inline int ct_draws_happens(struct ct_draws *d, float probability)
{
    return ct_draws_between(d, 0, 1) < probability;
}

#endif
