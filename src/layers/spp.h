/* spp.h - what a SPP layer keeps; see spp.c. */
#ifndef CT_LAYERS_SPP_H
#define CT_LAYERS_SPP_H

#include "cortado/layer.h"
#include "device/pool.h"

enum { SPP_LEVELS = 16 }; /* at most */

struct spp {
    struct ct_pool  level[SPP_LEVELS]; /* of one image */
    int             height;
    int64_t         width; /* of y's rows */
    struct ct_blob *at;    /* places, 32-bit integers in a float blob */
    struct ct_blob *part;  /* one image's gradient from one level */
};

#endif
