/* eltwise.h - what an Eltwise layer keeps; see eltwise.c. */
#ifndef CT_LAYERS_ELTWISE_H
#define CT_LAYERS_ELTWISE_H

#include "cortado/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ELTWISE_LIST = 16 }; /* arrays that a GPU takes at once */

struct eltwise {
    int             op;
    struct ct_blob *winner; /* MAX: an int32_t a value, the bottom it is of */
    bool            relu, split; /* absorbed */
};

/* Whether a layer adds two bottoms as they are. */
bool ct_layer_is_plain_sum(const struct ct_layer *l);

#ifdef __cplusplus
}
#endif
#endif
