/* few_bf16.h - the products of convolutions of few channels in bfloat16.
 *
 * An image lies as rows x columns x channels, with its padding, so that the
 * values under one row of a kernel lie together: the products take two of them
 * at once.  The gradient of the weights sums over positions and takes two of
 * those at once; for that each value of the image has beside it the one that
 * the next position has in its place.
 *
 * For CPUs with AVX512_BF16 (ct_short_runs()). */
#ifndef CT_DEVICE_CPU_FEW_BF16_H
#define CT_DEVICE_CPU_FEW_BF16_H

#include <stdbool.h>
#include <stdint.h>

enum { CT_FEW_ROWS = 8, CT_FEW_COLUMNS = 32 };

/* Values [0, n) of x beside those `shift` further on. */
void ct_few_pair(int64_t n, int64_t shift, const uint16_t *x, uint32_t *pairs);
/* n positions of `channels` in twos, position by position: positions x 32 x 2,
 * zeros where there are none. */
void ct_few_weave(int64_t n, int64_t channels, const uint16_t *dy,
                  int64_t step, uint16_t *pairs);

/* c (8 x 32) = sum over n pairs: those at a + offset[k] of the first row, and
 * `row` values further on for each other row. */
void ct_few_forward(int64_t n, const int32_t *offset, const uint16_t *a,
                    int64_t row, const uint16_t *b, float *c);
/* y = c + bias in `channels` channels of n positions. */
void ct_few_finish(int64_t n, int64_t channels, const float *c,
                   const float *bias, bool sum, bool relu, int64_t step,
                   uint16_t *y);

/* Where the sums of a gradient run: `lines` lines of n pairs of positions. */
struct ct_few_area {
    int64_t lines, n;
    int64_t next, line; /* pairs of the image between them */
};
/* c (8 x 32) += sum over the area; rows begin at a + offset[0..7]. */
void ct_few_gradient(const struct ct_few_area *area, const int32_t *offset,
                     const uint32_t *a, const uint16_t *b, float *c);

#endif
