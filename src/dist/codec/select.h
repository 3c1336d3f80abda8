/* select.h - the largest of many. */
#ifndef CT_DIST_CODEC_SELECT_H
#define CT_DIST_CODEC_SELECT_H

#include <stdint.h>

/* The indices of the k largest magnitudes of n values, in ascending order, 1 <=
 * k <= n.  Of equal values the first is taken.  Values that are not finite are
 * the largest.  `index` and `scratch` have room for n. */
void dist_largest(int64_t n, const float *v, int64_t k, uint32_t *index,
                  uint32_t *scratch);

#endif
