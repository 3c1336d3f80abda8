/* smooth_l1_loss.h - what SmoothL1Loss and SmoothL1LossOHEM have in common;
 * see smooth_l1_loss.c. */
#ifndef CT_LAYERS_SMOOTH_L1_LOSS_H
#define CT_LAYERS_SMOOTH_L1_LOSS_H

#include <math.h>

#include "base/rng.h"
#include "cortado/layer.h"

struct smooth_l1_loss {
    float   sigma2;
    int     inside, outside;        /* their bottoms; 0: there is none */
    int64_t outer, channels, inner; /* of bottom 0 */
    float   normalizer;
};

/* f and its slope. */
CT_HOST_DEVICE static inline float smooth_l1(float d, float sigma2)
{
    const float size = fabsf(d);

    return size < 1 / sigma2 ? 0.5f * sigma2 * d * d : size - 0.5f / sigma2;
}

CT_HOST_DEVICE static inline float smooth_l1_slope(float d, float sigma2)
{
    return fabsf(d) < 1 / sigma2 ? sigma2 * d : d > 0 ? 1 : d < 0 ? -1 : d;
}

/* Bottoms are alike, and the view of bottom 0 is kept. */
CT_MUST_CHECK enum ct_status smooth_l1_shape(const struct ct_layer *l,
                                             const struct ct_io *io);
CT_MUST_CHECK enum ct_status smooth_l1_forward(struct ct_layer *l,
                                               const struct ct_io *io);
CT_MUST_CHECK enum ct_status smooth_l1_backward(struct ct_layer *l,
                                                const struct ct_io *io);
#endif
