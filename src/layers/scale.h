/* scale.h - what a Scale layer keeps; see scale.c. */
#ifndef CT_LAYERS_SCALE_H
#define CT_LAYERS_SCALE_H

#include "cortado/layer.h"
#include "device/norm.h"

struct scale {
    struct ct_repeat repeat;
    int              bias; /* index of its blob, or -1 */
    struct ct_blob  *kept; /* x, in place */
    struct ct_blob  *sums; /* scratch, then sum and dot: one value per s */
};

#endif
