/* neuron.h - layers that map each value by itself; for .cu files alone.
 *
 * One call a pass: f is given x (forward), or dy and what it names of x and y
 * (backward), as floats. */
#ifndef CT_LAYERS_CUDA_NEURON_H
#define CT_LAYERS_CUDA_NEURON_H

#include "device/cuda/elementwise.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

/* y = f(x) */
template <typename F>
static enum ct_status neuron_forward(const struct ct_layer *l,
                                     const struct ct_io *io, F f)
{
    const struct ct_tensor *x = &io->bottom[0]->data, *y = &io->top[0]->data;
    const int64_t n = ct_elements(io->top[0]);

    CT_BY_TYPE(x->dtype, T,
               return ct_map(l->dev, n, f, (T *)y->ptr, (const T *)x->ptr));
}

/* dx = f(dy, v ...) */
template <typename F, typename... V>
static enum ct_status neuron_backward(const struct ct_layer *l,
                                      const struct ct_io *io, F f,
                                      const V *...v)
{
    const struct ct_tensor *dx = &io->bottom[0]->diff;
    const struct ct_tensor *dy = &io->top[0]->diff;
    const int64_t n            = ct_elements(io->top[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_BY_TYPE(dy->dtype, T,
               return ct_map(l->dev, n, f, (T *)dx->ptr, (const T *)dy->ptr,
                             (const T *)v->ptr...));
}

static inline bool in_place(const struct ct_io *io)
{
    return ct_data(io->bottom[0]) == ct_data(io->top[0]);
}

#endif
