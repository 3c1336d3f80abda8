/* euclidean_loss.c - half the mean squared distance, Caffe type
 * "EuclideanLoss".
 *
 *     loss = sum (a - b)^2 / (2 N)      da = w (a - b) / N      db = -da
 *
 * a, b: N rows of the same width   w: top[0]'s loss weight
 * Either bottom may be asked for a gradient, which is OVERWRITTEN. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/loss.h"

static enum ct_status el_reshape(struct ct_layer *l, const struct ct_io *io)
{
    CT_TRY(ct_loss_reshape(l, io));
    if (io->bottom[0]->count != io->bottom[1]->count)
        return ct_fail(CT_ESHAPE, "layer %s: bottoms have %" PRId64 " and %"
                       PRId64 " values, which must be the same", l->name,
                       io->bottom[0]->count, io->bottom[1]->count);
    return CT_OK;
}

static enum ct_status el_forward(struct ct_layer *l, const struct ct_io *io)
{
    const float *a = ct_data(io->bottom[0]), *b = ct_data(io->bottom[1]);
    const int64_t n_rows = io->bottom[0]->shape.dim[0];
    double sum = 0;

    (void)l;
    CT_SUM_EACH (i, io->bottom[0]->count, sum) {
        float d = a[i] - b[i];

        sum += (double)(d * d);
    }
    ct_data(io->top[0])[0] = n_rows ? (float)(sum / (double)(2 * n_rows)) : 0;
    return CT_OK;
}

static enum ct_status el_backward(struct ct_layer *l, const struct ct_io *io)
{
    const float *a = ct_data(io->bottom[0]), *b = ct_data(io->bottom[1]);
    const float scale = ct_diff(io->top[0])[0] /
                        (float)io->bottom[0]->shape.dim[0];
    const int64_t n = io->bottom[0]->count;

    (void)l;
    if (io->want_grad[0]) {
        float *da = ct_diff(io->bottom[0]);

        CT_FOR_EACH (i, n)
            da[i] = scale * (a[i] - b[i]);
    }
    if (io->want_grad[1]) {
        float *db = ct_diff(io->bottom[1]);

        CT_FOR_EACH (i, n)
            db[i] = scale * (b[i] - a[i]);
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_euclidean_loss = {
    .name     = "EuclideanLoss",
    .bottoms  = CT_EXACTLY(2),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_LOSS | CT_LAYER_NO_TOP,
    .reshape  = el_reshape,
    .forward  = { el_forward, CT_CUDA_FN(euclidean_loss_forward) },
    .backward = { el_backward, CT_CUDA_FN(euclidean_loss_backward) },
};
