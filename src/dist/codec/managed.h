/* managed.h - partial updates where bandwidth is short.
 *
 * Coded values are cut into slices of SLICE.  In each step as many travel as
 * the tokens of rank 0 suffice for: those whose summed squares over ranks are
 * largest, and a few that have waited longest; the rest stays on the rank and
 * joins the next gradient.
 *
 *     dense: | riders, small parameters | squares of each slice | share |
 *
 * The squares and rank 0's share ride along with the dense values, so all
 * ranks see the same numbers and choose the same slices. */
#ifndef CT_DIST_CODEC_MANAGED_H
#define CT_DIST_CODEC_MANAGED_H

#include "dist/codec/coded_bucket.h"

/* May the values of this codec (NULL: floats) be managed?  Not where the
 * codec holds values back itself. */
bool dist_managed_suits(const struct dist_codec_type *type);
bool dist_managed_takes(int64_t rows, int64_t cols);

CT_MUST_CHECK enum ct_status dist_managed_reserve(struct dist_wire *w);
/* Sums dense and coded values. */
CT_MUST_CHECK enum ct_status dist_managed_sum(struct ct_comm *c,
                                              struct dist_wire *w);
/* What that sends when `share` of the slices travel. */
double dist_managed_sends(const struct ct_comm *c, const struct dist_wire *w,
                          double share);

#endif
