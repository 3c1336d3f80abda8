/* focal_loss.h - what a FocalLoss layer keeps, and its terms; see
 * focal_loss.c. */
#ifndef CT_LAYERS_FOCAL_LOSS_H
#define CT_LAYERS_FOCAL_LOSS_H

#include <float.h>
#include <math.h>

#include "base/rng.h"
#include "cortado/layer.h"
#include "device/softmax_ops.h"
#include "layers/loss.h"

/* a, g and b of the formulas. */
struct focal {
    float alpha, gamma, beta;
    bool  linear;
};

struct focal_loss {
    struct ct_loss    loss;
    struct focal      f;
    bool              each; /* a target for each score: the logistic form */
    struct ct_softmax softmax;
    int64_t           outer, classes, inner; /* classes is 1 with `each` */
    struct ct_blob   *prob;  /* p; NULL with `each` */
    struct ct_blob   *z;     /* the normaliser, one value */
};

/* The term of a label with probability p, and its slope times p. */
CT_HOST_DEVICE static inline float focal_term(const struct focal *f, float p)
{
    const float q = p < FLT_MIN ? FLT_MIN : p;

    return -f->alpha * powf(1 - q, f->gamma) * logf(q);
}

CT_HOST_DEVICE static inline float focal_slope(const struct focal *f, float p)
{
    const float q    = p < FLT_MIN ? FLT_MIN : p;
    const float rest = 1 - q > 0 ? 1 - q : 0;
    const float turn = rest > 0 || f->gamma >= 1
                           ? f->gamma * q * powf(rest, f->gamma - 1) * logf(q)
                           : 0;

    return f->alpha * (turn - powf(rest, f->gamma));
}

/* log(1 + e^x), and the logistic function. */
CT_HOST_DEVICE static inline float focal_softplus(float x)
{
    return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
}

CT_HOST_DEVICE static inline float focal_logistic(float x)
{
    const float e = expf(-fabsf(x));

    return (x >= 0 ? 1 : e) / (1 + e);
}

/* One side of a score's term: the target is on x's side (log p) or, with -x,
 * on the other; `by` is its weight.  Adds to the slope by x. */
CT_HOST_DEVICE static inline float focal_side(const struct focal *f, float x,
                                              float by, float *slope)
{
    const float s = f->linear ? f->gamma * x + f->beta : x;
    const float log_p = -focal_softplus(-s), q = focal_logistic(-s);

    if (f->linear) {
        *slope = -by * q;
        return -by * log_p / f->gamma;
    }
    /* The derivative of -(1 - p)^g log p by x, p (1 - p) p'. */
    *slope = by * powf(q, f->gamma) *
             (f->gamma * (1 - q) * log_p - q);
    return -by * powf(q, f->gamma) * log_p;
}

/* The term of score x with target t, and its derivative by x. */
CT_HOST_DEVICE static inline float focal_score(const struct focal *f, float x,
                                               float t, float *slope)
{
    float with, against;
    const float yes = focal_side(f, x, f->alpha * t, &with);
    const float no  = focal_side(f, -x, (1 - f->alpha) * (1 - t), &against);

    *slope = with - against;
    return yes + no;
}

#endif
