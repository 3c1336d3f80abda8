/* exp.h - what a Exp layer keeps; see exp.c. */
#ifndef CT_LAYERS_EXP_H
#define CT_LAYERS_EXP_H

#include "cortado/layer.h"

struct exp_layer {
    float inner, outer; /* y = outer e^(inner x) */
};

#endif
