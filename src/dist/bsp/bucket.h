/* bucket.h - runs of the gradient arena that are sent together.
 *
 * The first is small, to get the wire going early; so is the last, which the
 * next forward pass waits for at once. */
#ifndef CT_DIST_BSP_BUCKET_H
#define CT_DIST_BSP_BUCKET_H

#include "net/cut.h"

enum {
    DIST_FIRST_BUCKET = 256 << 10, /* bytes of the first one */
    DIST_LAST_BUCKET  = 512 << 10  /* and of the last, at most */
};

/* Of about `bytes`, the first of `first_bytes`; 0: one a parameter.  Those
 * `apart` travel by another road. */
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
