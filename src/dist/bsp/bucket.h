/* bucket.h - runs of the gradient arena that are sent together.
 *
 * The first bucket is small, so that sending starts early.  The last one is
 * small, because the next forward pass needs it first. */
#ifndef CT_DIST_BSP_BUCKET_H
#define CT_DIST_BSP_BUCKET_H

#include "net/cut.h"

enum {
    DIST_FIRST_BUCKET = 256 << 10, /* bytes of the first bucket */
    DIST_LAST_BUCKET  = 512 << 10  /* most bytes of the last one */
};

/* Buckets of about `bytes`, the first of `first_bytes`; 0: one bucket per
 * parameter.  Parameters in `apart` travel by another road. */
static inline struct ct_cut_policy dist_bucket_policy(size_t first_bytes,
                                                      size_t bytes,
                                                      const int *apart)
{
    return (struct ct_cut_policy){
        .first = (first_bytes + 3) / sizeof(float),
        .least = (bytes + 3) / sizeof(float),
        .last  = DIST_LAST_BUCKET / sizeof(float),
        .apart = apart,
    };
}

#endif
