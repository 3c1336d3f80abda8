/* accuracy.h - what a Accuracy layer keeps; see accuracy.c. */
#ifndef CT_LAYERS_ACCURACY_H
#define CT_LAYERS_ACCURACY_H

#include "cortado/layer.h"
#include "layers/loss.h"

struct accuracy {
    struct ct_loss  labels; /* for ignore_label */
    int64_t         outer, classes, inner, top_k;
    struct ct_blob *right;  /* 1 or 0 a position */
    struct ct_blob *seen;   /* how often each class is the label */
};

#endif
