/* lrn_impl.h - what an implementation of LRN provides, and the power that all
 * of them take.  The contracts are lrn.h's. */
#ifndef CT_DEVICE_CPU_LRN_IMPL_H
#define CT_DEVICE_CPU_LRN_IMPL_H

#include <math.h>

#include "device/cpu/simd.h"
#include "device/layout.h"
#include "device/lrn_ops.h"

struct ct_lrn_impl {
    struct ct_impl head; /* first; the description is a struct ct_lrn */
    enum ct_status (*forward)(const struct ct_lrn *p, const float *x,
                              float *y);
    enum ct_status (*backward)(const struct ct_lrn *p, const float *x,
                               const float *dy, float *scratch, float *dx);
};

extern const struct ct_lrn_impl ct_lrn_blocked, ct_lrn_plain, ct_lrn_ref;
extern const struct ct_lrn_impl ct_lrn_bf16;
#ifdef CT_HAVE_ONEDNN
extern const struct ct_lrn_impl ct_lrn_onednn;
#endif

/* a of the formulas. */
static inline float lrn_a(const struct ct_lrn *p)
{
    return p->alpha / (float)(p->within ? p->size * p->size : p->size);
}

/* s^-beta.  With the usual beta, 0.75, known at compile time it is made of
 * square roots, which have vector instructions. */
CT_INLINE float lrn_power(float s, float beta)
{
    if (__builtin_constant_p(beta) && beta == 0.75f) {
        float root = sqrtf(s);

        return 1 / (root * sqrtf(root));
    }
    return powf(s, -beta);
}

/* y = x s^-beta over a row, for s = k + a q. */
CT_INLINE void lrn_row_of(int64_t n, float a, float k, float beta,
                          const float *x, const float *q, float *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = x[i] * lrn_power(k + a * q[i], beta);
}

CT_INLINE void lrn_row(int64_t n, float a, float k, float beta, const float *x,
                       const float *q, float *y)
{
    if (beta == 0.75f)
        lrn_row_of(n, a, k, 0.75f, x, q, y);
    else
        lrn_row_of(n, a, k, beta, x, q, y);
}

/* The two parts of the gradient that need no window:
 * kept = dy s^-beta and ratio = dy x s^(-beta-1). */
CT_INLINE void lrn_row_parts_of(int64_t n, float a, float k, float beta,
                                const float *x, const float *dy,
                                const float *q, float *kept, float *ratio)
{
    CT_SIMD_EACH (i, n) {
        float s = k + a * q[i], v = dy[i] * lrn_power(s, beta);

        kept[i]  = v;
        ratio[i] = v * x[i] / s;
    }
}

CT_INLINE void lrn_row_parts(int64_t n, float a, float k, float beta,
                             const float *x, const float *dy, const float *q,
                             float *kept, float *ratio)
{
    if (beta == 0.75f)
        lrn_row_parts_of(n, a, k, 0.75f, x, dy, q, kept, ratio);
    else
        lrn_row_parts_of(n, a, k, beta, x, dy, q, kept, ratio);
}

#endif
