/* block.h - records in a row, as rank 0 sends them to one rank.
 *
 *     | epoch i64 | index i64 | key u32 | value u32 | key | value | ...   */
#ifndef CT_DIST_FEED_BLOCK_H
#define CT_DIST_FEED_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"

struct ct_record;

/* Zero it before the first use. */
struct dist_block {
    char  *data; /* owned */
    size_t bytes, room;
};

void dist_block_fini(struct dist_block *b);
/* Makes room for `bytes` bytes and keeps the contents. */
CT_MUST_CHECK enum ct_status dist_block_grow(struct dist_block *b,
                                             uint64_t bytes);
CT_MUST_CHECK enum ct_status dist_block_add(struct dist_block *b,
                                            const struct ct_record *r);
/* Reads the record at byte *at and advances *at; `out` points into the block.
 * CT_ECOMM: no complete record is left. */
CT_MUST_CHECK enum ct_status dist_block_next(const struct dist_block *b,
                                             size_t *at,
                                             struct ct_record *out);

#endif
