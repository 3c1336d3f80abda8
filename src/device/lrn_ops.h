/* lrn_ops.h - local response normalization, on the CPU.
 *
 *     s = k + a sum over the window of x^2        y = x s^-beta
 *     dx = dy s^-beta - 2 a beta x sum over the window of dy x s^(-beta-1)
 *
 *     across channels   the window is `size` channels, a = alpha / size
 *     within a channel  it is size x size positions,   a = alpha / size^2
 *
 * Windows are centred, so size is odd, and cut off at the borders without
 * changing a.  All arrays have one layout and are overwritten; dx is neither
 * x nor dy.  s is made again in the backward pass: adding a few squares costs
 * less than keeping them in memory. */
#ifndef CT_DEVICE_LRN_OPS_H
#define CT_DEVICE_LRN_OPS_H

#include "cortado/device.h"
#include "device/impl.h"

/* Channels of a window that bfloat16 has across channels, at most. */
enum { CT_LRN_BF16_MOST = 65 };

/* Zero it first.  It owns what its implementations keep: end with fini. */
struct ct_lrn {
    int64_t        n, c, h, w, size;
    float          alpha, beta, k;
    bool           within; /* a channel; otherwise across channels */
    enum ct_layout layout;
    enum ct_dtype  dtype; /* of the arrays; CT_BF16 is for NHWC */
    struct ct_impl_pass pass[CT_PASSES]; /* ct_lrn_choose()'s */
};

/* Choose implementations, once all other fields are set, and again when they
 * change. */
CT_MUST_CHECK enum ct_status ct_lrn_choose(struct ct_lrn *p);
void ct_lrn_fini(struct ct_lrn *p);

/* Floats that the backward pass needs besides its arrays. */
int64_t ct_lrn_scratch(const struct ct_lrn *p);

CT_MUST_CHECK enum ct_status ct_lrn_forward(const struct ct_lrn *p,
                                            const float *x, float *y);
CT_MUST_CHECK enum ct_status ct_lrn_backward(const struct ct_lrn *p,
                                             const float *x, const float *dy,
                                             float *scratch, float *dx);

#endif
