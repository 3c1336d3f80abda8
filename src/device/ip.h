/* ip.h - the inner product: a matrix of rows times weights.
 *
 *     y = x W^T + 1 b^T        x: m x k   W: n x k   b: n   y: m x n
 *
 * `transpose`: W is stored k x n.  `add`: y += x W^T, without a bias.  `relu`,
 * on the CPU: y = max(y, 0) at the end, where NaN stays.
 * `overwrite`, which may change at any time: gradients of W and b are written,
 * not added.
 * Matrices are plain.  Nothing is allocated after ct_ip_choose().
 *
 * With `packed` many passes of a kind, forward or backward to x, share weights:
 * ct_ip_pack() before them may bring these into another order. */
#ifndef CT_DEVICE_IP_H
#define CT_DEVICE_IP_H

#include "cortado/device.h"
#include "device/impl.h"

/* Zero it first.  It owns what its implementations keep: end with fini. */
struct ct_ip {
    const struct ct_device *dev;
    int64_t                 m, n, k;
    bool has_bias, transpose, add, relu, packed, overwrite;
    struct ct_impl_pass     pass[CT_WEIGHTED_PASSES]; /* ct_ip_choose()'s */
    float                  *ones; /* m, where the CPU is not the device */
};

/* Choose implementations, once the other fields are set, and again when they
 * change. */
CT_MUST_CHECK enum ct_status ct_ip_choose(struct ct_ip *p);
/* Choose one for this pass, where the others are not wanted. */
CT_MUST_CHECK enum ct_status ct_ip_choose_pass(struct ct_ip *p,
                                               enum ct_pass pass);
void ct_ip_fini(struct ct_ip *p);

/* With `packed`: w is what the following passes of this kind have. */
CT_MUST_CHECK enum ct_status ct_ip_pack(const struct ct_ip *p,
                                        enum ct_pass pass, const float *w);

/* b is NULL unless has_bias. */
CT_MUST_CHECK enum ct_status ct_ip_forward(const struct ct_ip *p,
                                           const float *x, const float *w,
                                           const float *b, float *y);
/* dx = dy W */
CT_MUST_CHECK enum ct_status ct_ip_backward_data(const struct ct_ip *p,
                                                 const float *w,
                                                 const float *dy, float *dx);
/* dW += dy^T x, db += the sum of dy's rows; either may be NULL. */
CT_MUST_CHECK enum ct_status ct_ip_backward_weights(const struct ct_ip *p,
                                                    const float *x,
                                                    const float *dy, float *dw,
                                                    float *db);

#endif
