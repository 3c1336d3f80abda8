/* managed.h - partial updates where bandwidth is short.
 *
 * Coded values are divided into slices of SLICE.  In each step the tokens of
 * rank 0 limit how many slices travel.  Those with the largest sum of squares
 * over ranks go first, and a few that have waited longest.  Each rank keeps the
 * others and adds them to its next gradient.
 *
 *     dense: | riders, small parameters | squares of each slice | share |
 *
 * The squares and rank 0's share are summed with the dense values, so all ranks
 * see the same numbers and choose the same slices. */
#ifndef CT_DIST_CODEC_MANAGED_H
#define CT_DIST_CODEC_MANAGED_H

#include "dist/codec/coded_bucket.h"

/* Can values of this codec (NULL: floats) be managed?  Not if the codec holds
 * values back itself. */
bool dist_managed_suits(const struct dist_codec_type *type);
bool dist_managed_takes(int64_t rows, int64_t cols);

CT_MUST_CHECK enum ct_status dist_managed_reserve(struct dist_wire *w);
/* Sums dense and coded values. */
CT_MUST_CHECK enum ct_status dist_managed_sum(struct ct_comm *c,
                                              struct dist_wire *w);
/* The bytes that dist_managed_sum() sends if `share` of the slices travel. */
double dist_managed_sends(const struct ct_comm *c, const struct dist_wire *w,
                          double share);

#endif
