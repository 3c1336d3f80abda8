/* im2col.h - what an Im2col layer keeps; see im2col.c. */
#ifndef CT_LAYERS_IM2COL_H
#define CT_LAYERS_IM2COL_H

#include "cortado/layer.h"
#include "device/cpu/conv_im2col.h"

struct im2col {
    struct ct_conv_desc desc; /* the window; channels and batch unused */
    struct ct_im2col    map;  /* borrows desc */
    int                 axis;
    int64_t             n, taps;
};

#endif
