/* shuffle_channel.c - channels dealt out over groups, type "ShuffleChannel"
 * of ShuffleNet.
 *
 *     y[n, j g + i] = x[n, i c/g + j]      0 <= i < g, 0 <= j < c/g
 *
 * g is group and c the dimension of axis 1: the channels as a g x c/g matrix,
 * transposed.
 * Zhang et al., "ShuffleNet", 2017. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/shuffle_channel.h"
#include "proto/params.h"

static enum ct_status shuffle_reshape(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct ct_blob *x = io->bottom[0];
    struct shuffle_channel *s = l->state;

    if (x->shape.n_axes < 2)
        return ct_fail(CT_ESHAPE, "layer %s: ShuffleChannel takes a bottom of "
                       "at least 2 axes", l->name);
    s->group    = ct_shuffle_channel_param(l->param)->group;
    s->n        = x->shape.dim[0];
    s->channels = x->shape.dim[1];
    s->inner    = ct_count(x, 2, CT_END);
    if (s->group == 0 || s->channels % s->group != 0)
        return ct_fail(CT_EINVAL, "layer %s: %" PRId64 " channels do not "
                       "divide into %" PRId64 " groups", l->name, s->channels,
                       s->group);
    return ct_layer_same_shape(l, io);
}

/* x as rows x cols matrices of lines of `inner` values, transposed into y. */
static void shuffle(const struct shuffle_channel *s, int64_t rows,
                    int64_t cols, const float *x, float *y)
{
    CT_FOR_ROWS (r, s->n * s->channels, s->inner) {
        const int64_t n = r / s->channels, c = r % s->channels;
        const int64_t from = n * s->channels + c % rows * cols + c / rows;

        memcpy(y + r * s->inner, x + from * s->inner,
               (size_t)s->inner * sizeof(*y));
    }
}

static enum ct_status shuffle_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct shuffle_channel *s = l->state;

    shuffle(s, s->group, s->channels / s->group, ct_data(io->bottom[0]),
            ct_data(io->top[0]));
    return CT_OK;
}

static enum ct_status shuffle_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    const struct shuffle_channel *s = l->state;

    if (io->want_grad[0])
        shuffle(s, s->channels / s->group, s->group, ct_diff(io->top[0]),
                ct_diff(io->bottom[0]));
    return CT_OK;
}

const struct ct_layer_type ct_layer_shuffle_channel = {
    .name       = "ShuffleChannel",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct shuffle_channel),
    .reshape    = shuffle_reshape,
    .forward    = { shuffle_forward, CT_CUDA_FN(shuffle_channel_forward) },
    .backward   = { shuffle_backward, CT_CUDA_FN(shuffle_channel_backward) },
};
