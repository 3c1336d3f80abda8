/* mvn.h - what a MVN layer keeps; see mvn.c. */
#ifndef CT_LAYERS_MVN_H
#define CT_LAYERS_MVN_H

#include "cortado/layer.h"
#include "device/norm.h"

/* Rows of `stats`. */
enum { MEAN, VARIANCE, INVERSE, SLOPE, OFFSET, N_STATS };

struct mvn {
    struct ct_channels rows;  /* as 1 x rows x length */
    struct ct_blob    *stats; /* N_STATS values per row */
    struct ct_blob    *sums;
};

#endif
