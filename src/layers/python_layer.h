/* python_layer.h - what a solver asks about layers whose code is Python. */
#ifndef CT_LAYERS_PYTHON_LAYER_H
#define CT_LAYERS_PYTHON_LAYER_H

#include "cortado/layer.h"

/* Whether such a layer finds its place in the data when it is told how many
 * batches were drawn; true for all other types. */
bool ct_python_finds_place(const struct ct_layer *l);

#endif
