/* feed.h - the records of one rank, in order, without end.
 *
 * A database feed walks its cursor when the order is sequential and nobody
 * shares it, and builds an index of the keys otherwise, so that a rank never
 * reads what belongs to another.
 *
 * The interface is a table because a feed need not read a database: with
 * `data: "root"` rank 0 reads and sends encoded records, and the other ranks'
 * feeds receive them (dist/feed/root.h; layers reach it by struct ct_feeds). */
#ifndef CT_DATA_FEED_H
#define CT_DATA_FEED_H

#include "data/db.h"
#include "data/order.h"

/* One record, with memory that is used again; one worker's, zeroed first. */
struct ct_record {
    struct ct_sample place;
    struct ct_bytes key, value; /* value.ptr NULL: ct_feed_fetch brings it */
    struct ct_room  key_room, value_room;
};
void ct_record_fini(struct ct_record *r);

struct ct_feed;

struct ct_feed_ops {
    /* Continue as after n passes, `skew` samples of all ranks further on.  No
     * other call is under way. */
    enum ct_status (*seek)(struct ct_feed *f, int64_t n_passes, int64_t skew);
    /* The next record; calls come one at a time. */
    enum ct_status (*next)(struct ct_feed *f, struct ct_record *r);
    /* Any thread, at any time: the value, where next() left it out, and the
     * record that stands in for r when r is broken. */
    enum ct_status (*fetch)(struct ct_feed *f, struct ct_record *r);
    enum ct_status (*after)(struct ct_feed *f, struct ct_record *r);
    /* Optional: the net begins a pass; on its thread. */
    enum ct_status (*step)(struct ct_feed *f);
    void (*destroy)(struct ct_feed *f);
};

/* The first member of a feed's own struct. */
struct ct_feed {
    const struct ct_feed_ops *ops;
    int64_t n_records; /* of the source; 0: nobody has counted */
};

struct ct_feed_config {
    const char       *backend, *source;
    enum ct_data_mode mode; /* SHARED or LOCAL */
    int               rank;
    struct ct_shard   shard;
    uint64_t          seed;
    bool              shuffle;
    bool              skip; /* after() will be called */
    int               ahead; /* passes that are prefetched */
};

CT_MUST_CHECK enum ct_status ct_feed_open(const struct ct_feed_config *config,
                                          struct ct_feed **out);
void ct_feed_destroy(struct ct_feed *f); /* takes NULL */

/* Where one rank reads for all: opens the feed of a Data layer, on all ranks at
 * the same point of their jobs. */
struct ct_feeds {
    enum ct_status (*open)(const struct ct_feeds *f,
                           const struct ct_feed_config *config,
                           struct ct_feed **out);
    void *arg;
};

#endif
