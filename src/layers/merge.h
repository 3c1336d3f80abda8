/* merge.h - statistics of channels over ranks, in the CPU's memory, where
 * ct_run.peers can sum; every rank calls at the same point of its pass. */
#ifndef CT_LAYERS_MERGE_H
#define CT_LAYERS_MERGE_H

#include "cortado/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Means and variances over m values each become those over all ranks' values,
 * whose number m becomes.  `room` has 2 n + 1 values. */
CT_MUST_CHECK enum ct_status ct_merge_moments(const struct ct_layer *l,
                                              int64_t n, double *room,
                                              double *m, float *mean,
                                              float *var);

/* n values of a and of b become their sums. */
CT_MUST_CHECK enum ct_status ct_merge_sums(const struct ct_layer *l, int64_t n,
                                           double *room, float *a, float *b);

#ifdef __cplusplus
}
#endif
#endif
