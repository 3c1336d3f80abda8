/* conv_trial.h - what a way through a pass of a convolution takes. */
#ifndef CT_DEVICE_CUDA_CONV_TRIAL_H
#define CT_DEVICE_CUDA_CONV_TRIAL_H

#include "device/cuda/conv_way.h"

/* Arrays to measure on; all lie in one block. */
struct ct_trial {
    void  *block;
    void  *x, *y, *inside, *work;
    float *w, *b;
    struct ct_conv_end end; /* where that of a block is asked for */
    size_t room; /* of a plan in `work` */
};

/* The caller frees `block`.  CT_ENOMEM: there is no room to measure. */
CT_MUST_CHECK enum ct_status ct_trial_make(const struct ct_conv *c,
                                           const struct ct_conv_way *way,
                                           struct ct_trial *t);

/* Milliseconds: of one run to see how slow it is, then, unless that is far
 * beyond `best`, of as many as make sure.  Where sums are asked for and the
 * way leaves none, with a pass for them.  `event`: two. */
CT_MUST_CHECK enum ct_status ct_trial_time(const struct ct_conv *c,
                                           const struct ct_conv_way *way,
                                           const struct ct_conv_plan *plan,
                                           const struct ct_trial *t,
                                           const cudaEvent_t *event,
                                           float best, float *ms);

#endif
