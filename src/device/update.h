/* update.h - one step of an optimizer over whole arenas, on a GPU.
 *
 * The rules are those of solver/apply.c.  All parameters go in one launch: a
 * table says for each run of the arena which rate and decay hold there. */
#ifndef CT_DEVICE_UPDATE_H
#define CT_DEVICE_UPDATE_H

#include "device/gradients.h"

enum ct_update_rule {
    CT_UPDATE_SGD,
    CT_UPDATE_NESTEROV,
    CT_UPDATE_ADAGRAD,
    CT_UPDATE_RMSPROP,
    CT_UPDATE_ADADELTA,
    CT_UPDATE_ADAM,
    CT_UPDATE_ADAMW
};

/* One parameter. */
struct ct_update_run {
    int64_t first, n;    /* floats of the arena; n 0: it stays as it is */
    float   rate;        /* lr times lr_mult, times layer-wise rates */
    float   l2, l1, momentum;
};

/* What all parameters share in one step. */
struct ct_update_step {
    float scale; /* of gradients */
    float momentum2, delta, rms_decay;
    float correction; /* Adam: sqrt(1 - b2^t) / (1 - b1^t) */
};

struct ct_update; /* tables on the device */

/* For `n` runs that lie where `runs` says; rates and decays may change. */
CT_MUST_CHECK enum ct_status ct_update_create(const struct ct_device *d,
                                              enum ct_update_rule rule, int n,
                                              const struct ct_update_run *runs,
                                              struct ct_update **out);
void ct_update_destroy(struct ct_update *u); /* takes NULL */

/* The step's numbers, for launch(). */
CT_MUST_CHECK enum ct_status ct_update_set(struct ct_update *u,
                                           const struct ct_update_run *runs,
                                           const struct ct_update_step *step);
/* `state`: what was found of these gradients; NULL: they are used as is. */
CT_MUST_CHECK enum ct_status ct_update_launch(
    struct ct_update *u, const struct ct_gradient_state *state, float *w,
    const float *g, float *h0, float *h1);

#endif
