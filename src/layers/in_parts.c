/* in_parts.c - which layers take a batch in parts; see in_parts.h. */
#include "layers/in_parts.h"

extern const struct ct_layer_type ct_layer_dropout, ct_layer_inner_product,
    ct_layer_softmax_with_loss;

static const struct {
    const struct ct_layer_type *type;
    const struct ct_parts *(*parts)(const struct ct_layer *l);
} types[] = {
    { &ct_layer_dropout, dropout_parts },
    { &ct_layer_inner_product, inner_product_parts },
    { &ct_layer_softmax_with_loss, softmax_with_loss_parts },
};

enum { N = sizeof(types) / sizeof(types[0]) };

const struct ct_parts *ct_layer_parts(const struct ct_layer *l)
{
    for (int i = 0; i < N; i++)
        if (l->type == types[i].type)
            return types[i].parts(l);
    return NULL;
}
