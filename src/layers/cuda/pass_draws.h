/* pass_draws.h - the random draws of a pass in kernels: the same as the CPU's,
 * by the pass number that a captured step reads from the device. */
#ifndef CT_LAYERS_CUDA_PASS_DRAWS_H
#define CT_LAYERS_CUDA_PASS_DRAWS_H

#include "layers/cuda/slots.h"

extern "C" {
#include "layers/deal.h"
}

struct draws {
    uint64_t        key, pass;
    const uint64_t *pass_on_device;
    struct ct_deal  deal;

    /* ct_deal_row() of a pass with so many rows. */
    __device__ uint64_t first(int64_t rows) const
    {
        const uint64_t now = pass_on_device ? *pass_on_device : pass;

        return ct_deal_number_row(deal, now, (uint64_t)rows);
    }
};

static inline struct draws draws_of(const struct ct_layer *l)
{
    return { l->key, l->run->pass, l->run->pass_on_device, ct_deal_of(l) };
}

#endif
