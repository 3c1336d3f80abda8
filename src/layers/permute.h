/* permute.h - what a Permute layer keeps; see permute.c. */
#ifndef CT_LAYERS_PERMUTE_H
#define CT_LAYERS_PERMUTE_H

#include "cortado/layer.h"

struct permute {
    bool    same; /* as they lie in the bottom */
    bool    nhwc; /* the order is 0 2 3 1 */
    int     n_axes;
    int64_t dim[CT_MAX_AXES];  /* of the top */
    int64_t step[CT_MAX_AXES]; /* in the bottom, for one along a top axis */
};

#endif
