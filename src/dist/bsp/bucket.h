/* bucket.h - the gradient arena cut into runs that are sent together.
 *
 *     arena:   | riders | last layer ... |  ...  | ... first layer |
 *     bucket:  |        0       |   1    |  ...  |       n-1       |
 *
 * Backward fills the arena front to back, so buckets become ready in order.
 * The first is small, to get the wire going early; so is the last, which the
 * next forward pass waits for at once. */
#ifndef CT_DIST_BSP_BUCKET_H
#define CT_DIST_BSP_BUCKET_H

#include "cortado/net.h"

enum {
    DIST_FIRST_BUCKET = 256 << 10, /* bytes of the first one */
    DIST_LAST_BUCKET  = 512 << 10  /* and of the last, at most */
};

struct dist_bucket {
    size_t first, n;   /* floats of the arena */
    int    ready_after; /* the layer whose backward completes it */
};

struct dist_buckets {
    struct dist_bucket *bucket;
    int                 n;
    int                *of_param; /* bucket of each parameter of the net */
};

/* Buckets of about `cap_bytes`, the first of `first_bytes`; a parameter is
 * never cut.  cap 0: one a parameter.  Parameters whose `apart` is not
 * negative travel by another road and are in none. */
CT_MUST_CHECK enum ct_status dist_buckets_init(struct dist_buckets *b,
                                               const struct ct_net *net,
                                               const int *apart,
                                               size_t first_bytes,
                                               size_t cap_bytes);
void dist_buckets_fini(struct dist_buckets *b);

#endif
