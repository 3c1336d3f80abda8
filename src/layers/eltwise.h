/* eltwise.h - what a Eltwise layer keeps; see eltwise.c. */
#ifndef CT_LAYERS_ELTWISE_H
#define CT_LAYERS_ELTWISE_H

#include "cortado/layer.h"

enum { ELTWISE_LIST = 16 }; /* arrays that a GPU takes at once */

struct eltwise {
    int             op;
    struct ct_blob *winner; /* MAX: an int32_t a value, the bottom it is of */
    bool            relu, split; /* absorbed */
};

#endif
