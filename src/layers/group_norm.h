/* group_norm.h - what a GroupNorm layer keeps; see group_norm.c. */
#ifndef CT_LAYERS_GROUP_NORM_H
#define CT_LAYERS_GROUP_NORM_H

#include "cortado/layer.h"
#include "device/norm.h"

/* Rows of `stats`. */
enum { MEAN, VARIANCE, INVERSE, SLOPE, OFFSET, N_STATS };

struct group_norm {
    int64_t            groups;
    float              eps;
    struct ct_channels rows;  /* as 1 x rows x length */
    struct ct_blob    *stats; /* N_STATS values per row */
    struct ct_blob    *sums;
    struct ct_blob    *kept;  /* x, in place; or NULL */
};

#endif
