/* registry.c - the table of layer types, made from layers.def. */
#include <string.h>

#include "cortado/layer.h"

#define CT_LAYER(file) extern const struct ct_layer_type ct_layer_##file;
#include "layers/layers.def"
#undef CT_LAYER

static const struct ct_layer_type *const types[] = {
#define CT_LAYER(file) &ct_layer_##file,
#include "layers/layers.def"
#undef CT_LAYER
};

int ct_layer_n_types(void)
{
    return (int)(sizeof(types) / sizeof(types[0]));
}

const struct ct_layer_type *ct_layer_at(int i)
{
    return types[i];
}

const struct ct_layer_type *ct_layer_find(const char *name)
{
    for (int i = 0; i < ct_layer_n_types(); i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}
