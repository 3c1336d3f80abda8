/* deal.h - which batches are this rank's, and what its random draws are keyed
 * by.
 *
 * Batches are numbered over all ranks, in the order of the data.  A step deals
 * out the next V of them, each rank takes m in a row, from the f-th on
 * (ct_run.share; otherwise V is the number of ranks, m is 1 and f the rank):
 *
 *     pass p has batch  (p / m) V  +  f  +  p mod m
 *
 * In the TEST phase every rank has all of them, unless ct_run.deal_tests. */
#ifndef CT_LAYERS_DEAL_H
#define CT_LAYERS_DEAL_H

#include "base/rng.h"
#include "cortado/layer.h"
#include "data/order.h"

struct ct_feeds; /* data/feed.h */

/* What a net's sources read by, beside ct_run's rank, size and share.  Owned by
 * the net; zeros and NULL: as if none of it were there. */
struct ct_dealing {
    /* With ct_run.share: the first batch that is this rank's (f), and how many
     * all take together (V). */
    int     share_first, share_all;
    /* Where ranks have unequal batches: samples of this rank, of the ranks
     * before it, and of all. */
    int64_t batch_mine, batch_first, batch_step;
    /* Sources of the train net read `skew` samples further on than passes say,
     * where a step takes skew_step of them. */
    int64_t skew, skew_step;
    const struct ct_feeds *feeds; /* borrowed; NULL: each rank reads itself */
};

/* m, V and f of the head; 1, 1 and 0 where ranks do not deal.  Then the batch_
 * members of struct ct_dealing, where they count. */
struct ct_deal {
    uint64_t share, all, from;
    uint64_t mine, first, step;
};
/* What ct_run.dealing says; all zeros where it is NULL. */
const struct ct_dealing *ct_dealing_of(const struct ct_run *run);
struct ct_deal ct_deal_of(const struct ct_layer *l);

/* The number of the batch of a pass, for kernels too. */
CT_HOST_DEVICE static inline uint64_t ct_deal_number(struct ct_deal d,
                                                     uint64_t pass)
{
    return pass / d.share * d.all + d.from + pass % d.share;
}

/* The number of the first of a pass's rows, likewise. */
CT_HOST_DEVICE static inline uint64_t ct_deal_number_row(struct ct_deal d,
                                                         uint64_t pass,
                                                         uint64_t rows)
{
    if (d.step > 0 && rows % d.mine == 0)
        return (pass * d.step + d.first) * (rows / d.mine);
    return ct_deal_number(d, pass) * rows;
}

/* The number of this pass's batch. */
uint64_t ct_deal_batch(const struct ct_layer *l);
/* The number, over all ranks and passes, of the first of this pass's `rows`
 * rows: what draws for samples are keyed by, so that they do not depend on
 * the ranks. */
uint64_t ct_deal_row(const struct ct_layer *l, int64_t rows);
/* Where a source with this batch size reads. */
struct ct_shard ct_deal_shard(const struct ct_layer *l, int64_t batch);
/* What a seek is to add to the positions of such a shard (ct_dealing.skew,
 * which counts samples of the first source of the net). */
int64_t ct_deal_skew(const struct ct_layer *l, const struct ct_shard *s);

#endif
