/* test_slots.c - which layer types have functions for a GPU. */
#include "cortado/layer.h"
#include "testing/test.h"

/* Sources, and what hands blobs to something outside of the net. */
static const char *const on_host[] = {
    "Data",       "DummyData",  "HDF5Data", "HDF5Output", "Im2col",
    "ImageData",  "MemoryData", "Python",   "WindowData",
};

static bool belongs_to_host(const struct ct_layer_type *t)
{
    for (size_t i = 0; i < sizeof(on_host) / sizeof(on_host[0]); i++)
        if (strcmp(t->name, on_host[i]) == 0)
            return true;
    return false;
}

TEST(slots, every_type_runs_on_a_gpu_but_those_of_the_host)
{
    if (!ct_layer_find("ReLU")->forward[CT_CUDA])
        test_skip("built without CUDA");
    for (int i = 0; i < ct_layer_n_types(); i++) {
        const struct ct_layer_type *t = ct_layer_at(i);
        const bool runs = t->forward[CT_CUDA] &&
                          (t->backward[CT_CUDA] || !t->backward[CT_CPU]);

        if (!belongs_to_host(t) && !runs)
            FAIL("%s has no function for a GPU", t->name);
    }
}
