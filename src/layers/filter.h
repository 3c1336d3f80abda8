/* filter.h - what a Filter layer keeps; see filter.c. */
#ifndef CT_LAYERS_FILTER_H
#define CT_LAYERS_FILTER_H

#include "cortado/layer.h"

struct filter {
    int64_t         n_chosen;
    /* On the host, for tops on a GPU: the selector, and the same places. */
    float          *selector;
    int32_t        *place;
    struct ct_blob *chosen; /* an int32_t an item: its place in tops, or -1 */
};

#endif
