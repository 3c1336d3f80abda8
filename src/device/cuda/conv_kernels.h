/* conv_kernels.h - kernels around convolution. */
#ifndef CT_DEVICE_CUDA_CONV_KERNELS_H
#define CT_DEVICE_CUDA_CONV_KERNELS_H

#include "device/conv.h"
#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Images cut into cells of s_h x s_w positions, and kernels likewise.  Inside,
 * a cell's values lie behind each other, channels innermost, and zeros fill
 * them up to `inside`:
 *
 *     image, row, column, (y, x, channel) of x[image, channel,
 *                          row s_h + y - pad_h, column s_w + x - pad_w]
 *
 * With cells of one position and inside == channels this is NHWC. */
struct ct_conv_cells {
    int64_t        batch, channels, height, width, pad_h, pad_w;
    enum ct_layout layout; /* of images outside */
    int64_t        s_h, s_w, inside;
    int64_t        rows, columns;                /* cells of an image */
    int64_t        outputs, k_h, k_w, kc_h, kc_w; /* of a kernel, and cells */
    int64_t        outputs_inside; /* zeros fill up those that are more */
};

CT_MUST_CHECK enum ct_status ct_cuda_conv_fold(
    const struct ct_device *d, const struct ct_conv_cells *f,
    enum ct_dtype from_type, const void *x, enum ct_dtype to_type, void *to);

/* Weights into cells: outputs_inside x kc_h x kc_w x inside. */
CT_MUST_CHECK enum ct_status ct_cuda_weights_in(const struct ct_device *d,
                                                const struct ct_conv_cells *f,
                                                const float *w,
                                                enum ct_dtype type, void *to);
/* dw += g, where g lies in cells (CT_NHWC) or as dw (CT_PLAIN). */
CT_MUST_CHECK enum ct_status ct_cuda_weights_add(const struct ct_device *d,
                                                 const struct ct_conv_cells *f,
                                                 enum ct_layout layout,
                                                 enum ct_dtype type,
                                                 const void *g, float *dw);

/* rows x groups x channels into groups x rows x channels, and back, with a
 * bias of groups x channels where b is not NULL, and a ReLU behind it.
 * Channels are a multiple of 8. */
CT_MUST_CHECK enum ct_status ct_cuda_conv_part(const struct ct_device *d,
                                               int64_t rows, int64_t groups,
                                               int64_t channels,
                                               enum ct_dtype type,
                                               const void *x, void *to);
CT_MUST_CHECK enum ct_status ct_cuda_conv_join(const struct ct_device *d,
                                               int64_t rows, int64_t groups,
                                               int64_t channels,
                                               enum ct_dtype type,
                                               const void *x, const float *b,
                                               bool relu, void *to);

/* Rows of `channels` into rows of `wide`, the rest zeros, and back, with a bias
 * where b is not NULL, and a ReLU behind it. */
CT_MUST_CHECK enum ct_status ct_cuda_conv_widen(const struct ct_device *d,
                                                int64_t rows,
                                                int64_t channels, int64_t wide,
                                                enum ct_dtype type,
                                                const void *x, void *to);
CT_MUST_CHECK enum ct_status ct_cuda_conv_narrow(const struct ct_device *d,
                                                 int64_t rows,
                                                 int64_t channels,
                                                 int64_t wide,
                                                 enum ct_dtype type,
                                                 const void *x, const float *b,
                                                 bool relu, void *to);

/* y = y + b where b is not NULL, then with `relu` y = max(y, 0). */
CT_MUST_CHECK enum ct_status ct_cuda_conv_finish(
    const struct ct_device *d, const struct ct_bias_desc *desc, const float *b,
    bool relu, void *y);
/* As ct_bias_backward() and ct_bias_mask(). */
CT_MUST_CHECK enum ct_status ct_cuda_conv_bias_backward(
    const struct ct_device *d, const struct ct_bias_desc *desc, const void *dy,
    float *db);
CT_MUST_CHECK enum ct_status ct_cuda_conv_mask(const struct ct_device *d,
                                               const struct ct_bias_desc *desc,
                                               const void *y, void *dy,
                                               float *db);

/* to[i] += the sum over all shares of part[share n + i], in the same order each
 * time. */
CT_MUST_CHECK enum ct_status ct_cuda_join(const struct ct_device *d, int n,
                                          int shares, const float *part,
                                          float *to);

#ifdef __cplusplus
}
#endif
#endif
