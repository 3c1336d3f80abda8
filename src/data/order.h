/* order.h - which sample comes next.
 *
 * Samples are taken at positions 0, 1, 2, ... of one endless global sequence:
 * position p is place p mod n of epoch p / n.  Without shuffle the place is
 * the sample; with it an epoch is a permutation of [0, n), a 4-round Feistel
 * network with cycle walking keyed by (seed, epoch): any place is found in
 * constant time and nothing is stored, so every rank agrees.
 *
 * A training step takes B consecutive positions and rank r its part of them:
 *
 *     step t:   | b_0 | b_1 | ... | b_{P-1} |    B = sum b_r
 *               tB                        (t+1)B
 *
 * so every sample is taken exactly once an epoch, for any P.  A rank may make
 * several passes a step; its part is then cut into as many batches. */
#ifndef CT_DATA_ORDER_H
#define CT_DATA_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "cortado/status.h"

struct ct_order {
    uint64_t seed;
    int64_t  n;
    bool     shuffle;
    int      half_bits; /* the network permutes [0, 4^half_bits) */
};

struct ct_sample {
    int64_t epoch, index; /* index: the sample's number in its source */
};

/* n >= 1.  Sources of one length and seed shuffle alike, so that two of them
 * in one net stay in step. */
void ct_order_init(struct ct_order *o, uint64_t seed, int64_t n, bool shuffle);
struct ct_sample ct_order_at(const struct ct_order *o, int64_t position);

/* One rank's part of every step. */
struct ct_shard {
    int64_t step;  /* B, what all ranks take in one step */
    int64_t first; /* where this rank's part starts in it */
    int64_t count; /* the rank's batch size; its part is share times that */
    int64_t share; /* passes a step: batches that it takes in a row */
    int64_t skew;  /* added to every position */
};

/* `share` batches of the same size on every rank. */
struct ct_shard ct_shard_even(int rank, int size, int64_t batch,
                              int64_t share);
/* The position of item i of this rank in its pass t, when the first step
 * starts at position `start`. */
int64_t ct_shard_position(const struct ct_shard *s, int64_t start, int64_t t,
                          int64_t i);
/* Whether it is all there is: positions follow one another. */
bool ct_shard_is_whole(const struct ct_shard *s);

/* Where a rank's records come from. */
enum ct_data_mode {
    CT_DATA_SHARED, /* all read one source, each its part of every step */
    CT_DATA_LOCAL,  /* rank r has <source>_<r> for itself */
    CT_DATA_ROOT    /* rank 0 reads and sends; see feed.h */
};

/* The source that `rank` opens; ct_free'd by the caller. */
CT_MUST_CHECK enum ct_status ct_order_source(enum ct_data_mode mode,
                                             const char *source, int rank,
                                             char **out);
#endif
