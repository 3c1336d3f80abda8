/* bias_bf16.h - the gradient of a bias, and a ReLU's mask, in one pass over
 * bfloat16 arrays in NHWC.
 *
 * For CPUs with AVX512_BF16 (ct_short_runs()). */
#ifndef CT_DEVICE_CPU_BIAS_BF16_H
#define CT_DEVICE_CPU_BIAS_BF16_H

#include <stdbool.h>
#include <stdint.h>

/* Whether arrays of so many channels are taken, on this CPU. */
bool ct_bias_short_takes(int64_t channels);

/* db[c] += sum over positions of dy[position, c].  Where y is not NULL, `to`
 * becomes dy before, which it may be, but 0 where y is not above 0, and is what
 * is added up.  The bits do not depend on the number of threads. */
void ct_bias_short(int64_t positions, int64_t channels, const uint16_t *dy,
                   const uint16_t *y, uint16_t *to, float *db);

#endif
