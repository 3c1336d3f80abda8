/* root.h - rank 0 reads for all: `data: "root"`.
 *
 * A thread of rank 0 walks the database in the one global order and packs the
 * records of a pass, as they are stored, into a block a rank; the comm thread
 * hands the blocks out, so many passes ahead as the layer prefetches.  A rank
 * asks for the next block when it begins a pass: at the same point of the job
 * on all, so that blocks take their turn with sums.  Decoding and transforming
 * is each rank's own. */
#ifndef CT_DIST_FEED_ROOT_H
#define CT_DIST_FEED_ROOT_H

#include "data/feed.h"

struct ct_dist;
struct dist_root; /* a feed of this kind */

/* For struct ct_feeds: the feed of a Data layer.  All ranks call it. */
CT_MUST_CHECK enum ct_status dist_root_open(
    const struct ct_feeds *p, const struct ct_feed_config *config,
    struct ct_feed **out);
/* The peers go before the feeds do: these give nothing more. */
void dist_root_orphan(struct ct_dist *d);

#endif
