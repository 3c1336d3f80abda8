/* upsample.h - what a Upsample layer keeps; see upsample.c. */
#ifndef CT_LAYERS_UPSAMPLE_H
#define CT_LAYERS_UPSAMPLE_H

#include "cortado/layer.h"

struct upsample {
    int64_t planes, h, w, h_out, w_out;
    int64_t scale_h, scale_w;
    bool    sized; /* by upsample_h and upsample_w */
};

#endif
