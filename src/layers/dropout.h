/* dropout.h - what a Dropout layer keeps; see dropout.c. */
#ifndef CT_LAYERS_DROPOUT_H
#define CT_LAYERS_DROPOUT_H

#include "cortado/layer.h"

struct dropout {
    float           ratio, scale;
    uint32_t        threshold; /* of words: below it ct_uniform() < ratio */
    int64_t         n_samples;
    struct ct_blob *mask;      /* one byte a value: 1 keeps it */
};

#endif
