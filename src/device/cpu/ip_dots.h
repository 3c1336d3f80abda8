/* ip_dots.h - inner products of few rows with factors of bfloat16.
 *
 * For CPUs with AVX512_BF16 (ct_short_runs()). */
#ifndef CT_DEVICE_CPU_IP_DOTS_H
#define CT_DEVICE_CPU_IP_DOTS_H

#include <stdint.h>

#include "device/ip.h"

/* y = x W^T + b, as p says.  x is rounded already; its rows are `step` values
 * apart, a multiple of 32, and zeros from k on. */
void ct_ip_dots(const struct ct_ip *p, const uint16_t *x, int64_t step,
                const float *w, const float *b, float *y);

#endif
