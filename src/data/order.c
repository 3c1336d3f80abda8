/* order.c - places, permutations and shards. */
#include "data/order.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"

enum { ROUNDS = 4 };

void ct_order_init(struct ct_order *o, uint64_t seed, int64_t n, bool shuffle)
{
    CT_ASSERT(n >= 1);
    *o = (struct ct_order){ ct_key(seed, "order"), n, shuffle, 1 };
    while (o->half_bits < 31 && (int64_t)1 << 2 * o->half_bits < n)
        o->half_bits++;
}

/* One pass through the network: a permutation of [0, 4^half_bits), whatever
 * the round function is. */
static uint64_t order_mix(const struct ct_order *o, uint64_t epoch, uint64_t x)
{
    const uint64_t mask = ((uint64_t)1 << o->half_bits) - 1;
    uint64_t left = x >> o->half_bits, right = x & mask;

    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t f = ct_philox(o->seed, epoch, right << 2 | round).v[0];
        uint64_t t = right;

        right = (left ^ f) & mask;
        left  = t;
    }
    return left << o->half_bits | right;
}

struct ct_sample ct_order_at(const struct ct_order *o, int64_t position)
{
    struct ct_sample p = { position / o->n, position % o->n };

    /* What falls outside [0, n) walks on along its cycle until it is inside;
     * the cycle leads back to the start, so this ends. */
    if (o->shuffle) {
        uint64_t x = (uint64_t)p.index;

        do
            x = order_mix(o, (uint64_t)p.epoch, x);
        while (x >= (uint64_t)o->n);
        p.index = (int64_t)x;
    }
    return p;
}

struct ct_shard ct_shard_even(int rank, int size, int64_t batch,
                              int64_t share)
{
    return (struct ct_shard){ size * share * batch, rank * share * batch,
                              batch, share, 0 };
}

int64_t ct_shard_position(const struct ct_shard *s, int64_t start, int64_t t,
                          int64_t i)
{
    return start + s->skew + t / s->share * s->step + s->first +
           t % s->share * s->count + i;
}

bool ct_shard_is_whole(const struct ct_shard *s)
{
    return s->step == s->share * s->count;
}

enum ct_status ct_order_source(enum ct_data_mode mode, const char *source,
                               int rank, char **out)
{
    struct ct_text name = { 0 };

    if (mode == CT_DATA_LOCAL)
        ct_text_addf(&name, "%s_%d", source, rank);
    else
        ct_text_add(&name, source);
    *out = name.s;
    return name.failed ? CT_ENOMEM : CT_OK;
}
