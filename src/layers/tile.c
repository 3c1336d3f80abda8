/* tile.c - copies of a bottom side by side on one axis, Caffe type "Tile".
 *
 *     bottom d_0 .. d_a .. d_n  ->  top d_0 .. (tiles d_a) .. d_n
 *
 * dx is the sum over the copies. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/tile.h"
#include "proto/params.h"

static enum ct_status tile_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__TileParameter *p = ct_tile_param(l->param);
    struct tile *t = l->state;

    (void)io;
    if (!p->has_tiles || p->tiles <= 0)
        return ct_fail(CT_EINVAL, "layer %s: give tile_param { tiles: ... }, "
                       "greater than 0", l->name);
    t->tiles = p->tiles;
    return CT_OK;
}

static enum ct_status tile_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__TileParameter *p = ct_tile_param(l->param);
    const struct ct_blob *x = io->bottom[0];
    struct tile *t = l->state;
    struct ct_shape y = x->shape;
    int axis;

    CT_TRY(ct_layer_axis(l, x, p->axis, &axis));
    t->outer = ct_count(x, 0, axis);
    t->inner = ct_count(x, axis, CT_END);
    y.dim[axis] *= t->tiles;
    if (ct_reshape(io->top[0], y) != CT_OK)
        return ct_fail_in(CT_ESHAPE, "layer %s", l->name);
    return CT_OK;
}

static enum ct_status tile_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct tile *t = l->state;
    const float *x = ct_data(io->bottom[0]);
    float *y = ct_data(io->top[0]);

    CT_FOR_ROWS (r, t->outer * t->tiles, t->inner)
        memcpy(y + r * t->inner, x + r / t->tiles * t->inner,
               (size_t)t->inner * sizeof(*y));
    return CT_OK;
}

static enum ct_status tile_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct tile *t = l->state;
    const int64_t inner = t->inner;
    const float *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_FOR_ROWS (r, t->outer, inner * t->tiles) {
        float *to         = dx + r * inner;
        const float *from = dy + r * inner * t->tiles;

        memcpy(to, from, (size_t)inner * sizeof(*to));
        for (int64_t k = 1; k < t->tiles; k++)
            for (int64_t i = 0; i < inner; i++)
                to[i] += from[k * inner + i];
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_tile = {
    .name       = "Tile",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct tile),
    .setup      = tile_setup,
    .reshape    = tile_reshape,
    .forward    = { tile_forward, CT_CUDA_FN(tile_forward) },
    .backward   = { tile_backward, CT_CUDA_FN(tile_backward) },
};
