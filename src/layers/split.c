/* split.c - one bottom for several readers, Caffe type "Split"; any shape.
 * Nets insert it where a blob is used more than once.
 *
 *     y_i = x      dx = dy_0 + dy_1 + ...
 *
 * Tops are views of the bottom.  A top without a diff is one that nobody
 * writes a gradient to, and counts as zero. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "layers/chunks.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"

static enum ct_status split_reshape(struct ct_layer *l, const struct ct_io *io)
{
    (void)l;
    for (int i = 0; i < io->n_top; i++)
        CT_TRY(ct_reshape(io->top[i], io->bottom[0]->shape));
    return CT_OK;
}

static enum ct_status split_forward(struct ct_layer *l, const struct ct_io *io)
{
    if (ct_chunks_any(io))
        return ct_chunks_forward(l, io, split_forward);
    for (int i = 0; i < io->n_top; i++)
        CT_TRY(ct_copy(l->dev, ct_elements(io->bottom[0]),
                       ct_data(io->bottom[0]), ct_data(io->top[i])));
    return CT_OK;
}

/* dx of [from, to), added up while it is in the cache. */
CT_SIMD static void split_sum(const struct ct_io *io, int64_t from,
                              int64_t to)
{
    float *dx        = ct_diff(io->bottom[0]);
    const float *old = NULL; /* the only one so far */
    int n            = 0;

    for (int t = 0; t < io->n_top; t++) {
        const float *dy = ct_diff(io->top[t]);

        if (!dy)
            continue;
        n++;
        if (n == 1)
            old = dy;
        else if (n == 2)
            for (int64_t i = from; i < to; i++)
                dx[i] = old[i] + dy[i];
        else
            for (int64_t i = from; i < to; i++)
                dx[i] += dy[i];
    }
    if (n < 2)
        for (int64_t i = from; i < to; i++)
            dx[i] = old ? old[i] : 0;
}

static enum ct_status split_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const int64_t n = ct_elements(io->bottom[0]);

    if (ct_chunks_any(io) && io->want_grad[0] && io->n_top == 2 &&
        ct_diff(io->top[0]) && ct_diff(io->top[1])) {
        ct_gather_shorts(n, ct_diff(io->top[0]), ct_diff(io->top[1]), NULL, 1,
                         ct_diff(io->bottom[0]));
        return CT_OK;
    }
    if (ct_chunks_any(io))
        return ct_chunks_backward(l, io, split_backward);
    (void)l;
    if (io->want_grad[0])
        CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK)
            split_sum(io, c * CT_CHUNK, ct_chunk_end(c, n));
    return CT_OK;
}

static bool split_accepts(const struct ct_layer *l, const struct ct_io *io,
                          enum ct_layout layout)
{
    (void)layout;
    return !ct_layer_shorts(l) || ct_chunks_take(io->n_bottom, io->n_top);
}

const struct ct_layer_type ct_layer_split = {
    .name     = "Split",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_AT_LEAST(1),
    .flags    = CT_LAYER_ALIAS_DATA | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP |
                CT_LAYER_SAME_LAYOUT | CT_LAYER_LEAVES_DIFF |
                CT_LAYER_BY_ITEM | CT_LAYER_BF16,
    .reshape  = split_reshape,
    .forward  = { split_forward, CT_CUDA_FN(split_forward) },
    .backward = { split_backward, CT_CUDA_FN(split_backward) },
    .accepts  = split_accepts,
};
