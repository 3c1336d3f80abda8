/* pool.h - pooling over height and width, on the CPU.
 *
 *     x: n c h w    y: n c out_h out_w    at: like y, 32-bit
 *
 * Window (i, j) starts at (i stride_h - pad_h, j stride_w - pad_w) and is
 * cut off at the image.
 *
 *     max         y = the largest value, the first one where several are;
 *                 at = its place r w + s within the channel's plane, or -1
 *                 (and y = -FLT_MAX) where nothing compares
 *     average     y = the sum over the part inside the image, divided by the
 *                 size of the part inside the padded image; 0 where there is
 *                 none
 *     stochastic  y = a value drawn with probability x / sum x, at = its
 *                 place; or, not drawn, sum x^2 / sum x
 *
 * Of bfloat16, in NHWC, there are maxima and means.
 *
 * All arrays have one layout; padded channels of y and dx become zero.
 * Everything is overwritten; nothing is allocated after ct_pool_choose(). */
#ifndef CT_DEVICE_POOL_H
#define CT_DEVICE_POOL_H

#include "cortado/device.h"
#include "device/impl.h"

/* Zero it first.  It owns what its implementations keep: end with fini. */
struct ct_pool {
    int64_t        n, c, h, w;
    int64_t        kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    int64_t        out_h, out_w;
    enum ct_layout layout;
    enum ct_dtype  dtype;   /* of x, y and their gradients */
    bool           average; /* otherwise the largest value, or a drawn one */
    struct ct_impl_pass pass[CT_PASSES]; /* ct_pool_choose()'s */
};

/* Set out_h and out_w by Caffe's rule: round up (or down, with `floor`), and
 * with any padding drop a last window that would start outside the image and
 * its padding.  They may come out below 1, when the kernel does not fit. */
void ct_pool_shape(struct ct_pool *p, bool floor);

/* Choose implementations, once all other fields are set, and again when they
 * change.  Fails when the environment forces one that does not take this
 * description. */
CT_MUST_CHECK enum ct_status ct_pool_choose(struct ct_pool *p);
void ct_pool_fini(struct ct_pool *p);

CT_MUST_CHECK enum ct_status ct_pool_max(const struct ct_pool *p,
                                         const float *x, float *y,
                                         int32_t *at);
CT_MUST_CHECK enum ct_status ct_pool_max_backward(const struct ct_pool *p,
                                                  const float *dy,
                                                  const int32_t *at,
                                                  float *dx);
CT_MUST_CHECK enum ct_status ct_pool_average(const struct ct_pool *p,
                                             const float *x, float *y);
CT_MUST_CHECK enum ct_status ct_pool_average_backward(const struct ct_pool *p,
                                                      const float *dy,
                                                      float *dx);

/* The draw of output (c, i, j) of image k is ct_uniform(key, first + k,
 * (c out_h + i) out_w + j).  Its backward pass is ct_pool_max_backward(). */
void ct_pool_stochastic(const struct ct_pool *p, uint64_t key, uint64_t first,
                        const float *x, float *y, int32_t *at);
void ct_pool_expected(const struct ct_pool *p, const float *x, float *y);
void ct_pool_expected_backward(const struct ct_pool *p, const float *x,
                               const float *dy, float *dx);

#endif
