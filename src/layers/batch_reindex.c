/* batch_reindex.c - a batch picked from another, Caffe type "BatchReindex".
 *
 *     y[i, ...] = x[index[i], ...]      dx[j] = sum of dy[i] with index[i] = j
 *
 * Bottom 0 is x, bottom 1 a list of indices, which may leave items out, repeat
 * them and change their order. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "layers/batch_reindex.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"

static enum ct_status reindex_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct batch_reindex *b = l->state;

    (void)io;
    return ct_layer_add_scratch(l, &b->index);
}

static enum ct_status reindex_reshape(struct ct_layer *l,
                                      const struct ct_io *io)
{
    struct batch_reindex *b = l->state;
    struct ct_shape y = io->bottom[0]->shape;

    if (y.n_axes < 1)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 0 is a scalar, and must "
                       "be a batch", l->name);
    if (io->bottom[1]->shape.n_axes != 1)
        return ct_fail(CT_ESHAPE, "layer %s: the list of indices has %d axes, "
                       "and must have one", l->name,
                       io->bottom[1]->shape.n_axes);
    y.dim[0] = io->bottom[1]->count;
    CT_TRY(ct_reshape(b->index, io->bottom[1]->shape));
    return ct_reshape(io->top[0], y);
}

static enum ct_status reindex_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct batch_reindex *b = l->state;
    const int64_t width = ct_count(io->bottom[0], 1, CT_END);
    const int64_t n = io->bottom[0]->shape.dim[0], m = io->bottom[1]->count;
    const float *x = ct_data(io->bottom[0]), *list = ct_data(io->bottom[1]);
    int32_t *index = (int32_t *)ct_data(b->index);
    float *y = ct_data(io->top[0]);

    for (int64_t i = 0; i < m; i++) {
        if (!(list[i] > -1 && list[i] < (float)n))
            return ct_fail(CT_EINVAL, "layer %s: index %g at %" PRId64
                           " is not in a batch of %" PRId64, l->name,
                           (double)list[i], i, n);
        index[i] = (int32_t)list[i];
    }
    CT_FOR_ROWS (i, m, width)
        memcpy(y + i * width, x + index[i] * width,
               (size_t)width * sizeof(*y));
    return CT_OK;
}

static enum ct_status reindex_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    const struct batch_reindex *b = l->state;
    const int64_t width = ct_count(io->bottom[0], 1, CT_END);
    const int32_t *index = (const int32_t *)ct_data(b->index);
    const float *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_TRY(ct_fill(l->dev, io->bottom[0]->count, 0, dx));
    for (int64_t i = 0; i < b->index->count; i++)
        CT_TRY(ct_axpy(l->dev, width, 1, dy + i * width,
                       dx + index[i] * width));
    return CT_OK;
}

const struct ct_layer_type ct_layer_batch_reindex = {
    .name       = "BatchReindex",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .no_grad    = 1 << 1,
    .state_size = sizeof(struct batch_reindex),
    .setup      = reindex_setup,
    .reshape    = reindex_reshape,
    .forward    = { reindex_forward, CT_CUDA_FN(batch_reindex_forward) },
    .backward   = { reindex_backward, CT_CUDA_FN(batch_reindex_backward) },
};
