/* lrn.h - what a LRN layer keeps; see lrn.c. */
#ifndef CT_LAYERS_LRN_H
#define CT_LAYERS_LRN_H

#include "cortado/layer.h"
#include "device/lrn_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lrn {
    struct ct_lrn   lrn;
    struct ct_blob *scratch;
    bool            near; /* on a GPU: CORTADO_IMPL allows it */
    /* A convolution that has absorbed a ReLU and writes `top`, the bottom;
     * borrowed, or NULL. */
    struct ct_layer      *writer;
    const struct ct_blob *top;
    bool masks; /* the last backward pass masked dx for it */
};

/* Whether dx is to be masked by the sign of x. */
bool lrn_masks(const struct ct_layer *l, const struct ct_io *io);
/* It is: adds up the gradient of the writer's bias, which then need not look at
 * dx for either. */
CT_MUST_CHECK enum ct_status lrn_masked(const struct ct_layer *l,
                                        const struct ct_io *io);

#ifdef __cplusplus
}
#endif

#endif
