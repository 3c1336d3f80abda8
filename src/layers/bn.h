/* bn.h - what a BN layer keeps; see bn.c. */
#ifndef CT_LAYERS_BN_H
#define CT_LAYERS_BN_H

#include "cortado/layer.h"
#include "device/norm.h"

/* Its blobs; the last two only where it keeps statistics. */
enum { SCALE, SHIFT, RUNNING_MEAN, RUNNING_VAR };

/* Rows of `stats`; FACTOR is s v. */
enum { MEAN, VARIANCE, INVERSE, FACTOR, SLOPE, OFFSET, N_STATS };

/* Where mean and variance come from: there are none, the running ones, the
 * batch. */
enum bn_source { BN_NONE, BN_RUNNING, BN_BATCH };

struct bn {
    enum bn_source     source;
    bool               runs;  /* a pass moves the running statistics */
    int                axis;
    float              keeps; /* what part of them stays */
    float              eps;
    struct ct_channels view;
    int64_t            channels;
    struct ct_blob    *stats; /* N_STATS rows of c */
    struct ct_blob    *sums;  /* scratch of the reductions */
    struct ct_blob    *kept;  /* x, in place; or NULL */
    double            *merged; /* sums over ranks; NULL: own batch; owned */
    float             *here;   /* two rows of stats, from a GPU; owned */
    double             m;      /* values a channel that the statistics see */
};

#endif
