/* conv_im2col.h - the windows of one plain sample as the rows of a matrix.
 *
 *     col[(c, k), p] = x[c, s p + d k - pad]        zero outside x
 *
 * Rows run over channels and kernel taps k, columns over output positions p.*/
#ifndef CT_DEVICE_CPU_CONV_IM2COL_H
#define CT_DEVICE_CPU_CONV_IM2COL_H

#include "device/conv.h"

struct ct_im2col {
    const struct ct_conv_desc *desc; /* borrowed */
    int64_t channels, in_spatial, out_spatial, taps;
    int64_t out[CT_CONV_MAX];
};

/* Reads the spatial fields of `d`, which outlives m. */
void ct_im2col_init(struct ct_im2col *m, const struct ct_conv_desc *d,
                    int64_t channels);

/* `col` is channels * taps x out_spatial, overwritten. */
void ct_im2col(const struct ct_im2col *m, const float *x, float *col);

/* x[c, i] = the sum of the values in `col` that ct_im2col takes from there. */
void ct_col2im(const struct ct_im2col *m, const float *col, float *x);

#endif
