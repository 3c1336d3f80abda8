/* test_slots.c - types that are listed as having CUDA functions use them.
 *
 * A type that is not listed runs on the CPU, and its net says so once. */
#include "cortado/layer.h"
#include "testing/test.h"

#define CT_CUDA_LAYER(type) extern const struct ct_layer_type ct_layer_##type;
#include "layers/cuda/layers.def"
#undef CT_CUDA_LAYER

TEST(slots, every_listed_type_runs_on_a_gpu)
{
    static const struct ct_layer_type *const types[] = {
#define CT_CUDA_LAYER(type) &ct_layer_##type,
#include "layers/cuda/layers.def"
#undef CT_CUDA_LAYER
    };

    if (!ct_layer_find("ReLU")->forward[CT_CUDA])
        test_skip("built without CUDA");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (!types[i]->forward[CT_CUDA] ||
            (types[i]->backward[CT_CPU] && !types[i]->backward[CT_CUDA]))
            FAIL("%s has CUDA functions and does not name them",
                 types[i]->name);
}
