/* root.h - rank 0 reads for all: `data: "root"`.
 *
 * A thread of rank 0 reads the database in the global order and packs the
 * stored records of a pass into one block per rank.  The comm thread sends the
 * blocks, as many passes ahead as the layer prefetches.  Each rank asks for the
 * next block when it begins a pass.  That is the same point of the job on all
 * ranks, so blocks and sums have the same order everywhere.  Each rank decodes
 * and transforms its own records. */
#ifndef CT_DIST_FEED_ROOT_H
#define CT_DIST_FEED_ROOT_H

#include "data/feed.h"

struct ct_dist;
struct dist_root; /* a feed of this kind */

/* For struct ct_feeds: opens the feed of a Data layer.  All ranks call it. */
CT_MUST_CHECK enum ct_status dist_root_open(
    const struct ct_feeds *p, const struct ct_feed_config *config,
    struct ct_feed **out);
/* The view ends before the feeds are closed: later reads fail. */
void dist_root_orphan(struct ct_dist *d);

#endif
