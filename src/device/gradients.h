/* gradients.h - what a step's gradients say, found and kept on a GPU.
 *
 * In float16 small gradients vanish, so losses are multiplied by a scale
 * before backward, and gradients divided by it in the update.  A scale that is
 * too large shows as a gradient that is not finite: then the update is left
 * out and the scale halved; after many good steps it is doubled.  Clipping
 * needs the norm of all gradients, which the same pass finds.
 *
 * All of it is decided on the device, so a step waits for nothing and can be
 * replayed; the host hears of it steps later. */
#ifndef CT_DEVICE_GRADIENTS_H
#define CT_DEVICE_GRADIENTS_H

#include "cortado/device.h"

enum { CT_LOSS_SCALE_GOOD_STEPS = 1000 }; /* until the scale is doubled */
/* Where it starts: few gradients are too large for it, or vanish. */
#define CT_LOSS_SCALE_FIRST 4096.0f

/* On the device; kernels of the update read factor and skip. */
struct ct_gradient_state {
    float   loss_scale; /* of the next backward pass */
    float   factor;     /* makes gradients the ones to use: clipped, unscaled */
    int32_t skip;       /* not finite: no update */
    int32_t n_good;     /* steps since the scale changed */
    int32_t n_skipped;
    float   clip;       /* the part of factor that clipping made; 1: none */
    double  norm;       /* of all gradients, unscaled */
};

struct ct_gradients;

/* `loss_scale` 0: losses are not scaled, and every step is taken. */
CT_MUST_CHECK enum ct_status ct_gradients_create(const struct ct_device *d,
                                                 float loss_scale,
                                                 struct ct_gradients **out);
void ct_gradients_destroy(struct ct_gradients *g); /* takes NULL */

/* Looks at n gradients.  They are sums over ranks: `mean` makes them means.
 * Their norm is brought down to `clip`, unless that is negative. */
CT_MUST_CHECK enum ct_status ct_gradients_judge(struct ct_gradients *g,
                                                int64_t n, const float *x,
                                                float mean, float clip);

/* On the device, for kernels. */
const struct ct_gradient_state *ct_gradients_state(
    const struct ct_gradients *g);

/* The state as it is; waits. */
CT_MUST_CHECK enum ct_status ct_gradients_get(const struct ct_gradients *g,
                                              struct ct_gradient_state *out);
CT_MUST_CHECK enum ct_status ct_gradients_put(
    struct ct_gradients *g, const struct ct_gradient_state *state);

/* Notes the state of this step for later.  Once a step: *old, where *any, is
 * that of an earlier step, in order, and *old_step what was said of it. */
CT_MUST_CHECK enum ct_status ct_gradients_note(struct ct_gradients *g,
                                               int step,
                                               struct ct_gradient_state *old,
                                               int *old_step, bool *any);
/* The next that was noted and not read; waits for it. */
CT_MUST_CHECK enum ct_status ct_gradients_noted(struct ct_gradients *g,
                                                struct ct_gradient_state *old,
                                                int *old_step, bool *any);

#endif
