/* embed.h - what a Embed layer keeps; see embed.c. */
#ifndef CT_LAYERS_EMBED_H
#define CT_LAYERS_EMBED_H

#include "cortado/layer.h"

enum { EMBED_WEIGHT, EMBED_BIAS }; /* its blobs */

struct embed {
    int64_t m, n, k; /* indices, num_output, input_dim */
    bool    has_bias;
};

#endif
