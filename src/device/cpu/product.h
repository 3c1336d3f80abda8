/* product.h - the small matrix product that Winograd's convolution is made of.
 *
 *     c (8 x 32) = sum over k of  a_k (8) b_k (32)      or +=
 *
 * b and c are rows of 32 floats, 64-byte aligned.  For CPUs with AVX-512. */
#ifndef CT_DEVICE_CPU_PRODUCT_H
#define CT_DEVICE_CPU_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

enum { CT_PRODUCT_ROWS = 8, CT_PRODUCT_COLUMNS = 32 };

bool ct_product_runs(void); /* on this CPU */

/* a_k's rows are `step` floats apart, and the a_k next to each other. */
void ct_product_rows(int64_t n, const float *a, int64_t step, const float *b,
                     bool add, float *c);
/* a_k's rows are next to each other, and the a_k `step` floats apart. */
void ct_product_columns(int64_t n, const float *a, int64_t step,
                        const float *b, bool add, float *c);

#endif
