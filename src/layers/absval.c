/* absval.c - the absolute value, Caffe type "AbsVal"; any shape.
 *
 *     y = |x|      dx = dy sign(x), with sign(0) = 0
 *
 * Cannot work in place: |x| has forgotten the sign. */
#include "cortado/layer.h"

#include <math.h>

#include "device/cpu/loop.h"
#include "layers/chunks.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"

static enum ct_status absval_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const float *x = ct_data(io->bottom[0]);
    float *y       = ct_data(io->top[0]);

    if (ct_chunks_any(io))
        return ct_chunks_forward(l, io, absval_forward);
    (void)l;
    CT_FOR_EACH (i, ct_elements(io->top[0]))
        y[i] = fabsf(x[i]);
    return CT_OK;
}

static enum ct_status absval_backward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const float *x = ct_data(io->bottom[0]), *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (ct_chunks_any(io))
        return ct_chunks_backward(l, io, absval_backward);
    (void)l;
    if (io->want_grad[0])
        CT_FOR_EACH (i, ct_elements(io->top[0])) {
            const float d = dy[i];

            dx[i] = x[i] > 0 ? d : x[i] < 0 ? -d : 0;
        }
    return CT_OK;
}

const struct ct_layer_type ct_layer_absval = {
    .name     = "AbsVal",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT | CT_LAYER_BY_ITEM |
                CT_LAYER_BF16,
    .reshape  = ct_layer_same_shape,
    .forward  = { absval_forward, CT_CUDA_FN(absval_forward) },
    .backward = { absval_backward, CT_CUDA_FN(absval_backward) },
};
