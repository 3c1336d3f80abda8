/* dropout.c - units left out at random, Caffe type "Dropout"; any shape, may
 * work in place.
 *
 *     TRAIN  y = x m / (1 - p)      dx = dy m / (1 - p)
 *     TEST   y = x                  dx = dy
 *
 * p is dropout_ratio and m is 0 with probability p, else 1.  m of a value is
 * a pure function of the layer, the sample's number in the whole training run
 * and the value's place in the sample, as the shape counts: the same in any
 * layout, on any device, for any number of threads, and for any number of ranks
 * that share the batch.
 *
 * p = 0 is taken and keeps everything, as Caffe's release builds do. */
#include "cortado/layer.h"

#include <math.h>

#include "base/rng.h"
#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/layout.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/deal.h"
#include "layers/dropout.h"
#include "layers/in_parts.h"
#include "proto/params.h"

static enum ct_status dropout_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct dropout *d = l->state;

    (void)io;
    d->ratio = ct_dropout_param(l->param)->dropout_ratio;
    if (!(d->ratio >= 0 && d->ratio < 1))
        return ct_fail(CT_EINVAL, "layer %s: dropout_ratio is %g, and must be "
                       "at least 0 and less than 1", l->name,
                       (double)d->ratio);
    d->scale     = 1 / (1 - d->ratio);
    d->threshold = (uint32_t)ceilf(d->ratio * 0x1p24f) << 8;
    if (l->phase == CAFFE__PHASE__TRAIN)
        CT_TRY(ct_layer_add_scratch(l, &d->mask));
    return CT_OK;
}

static enum ct_status dropout_reshape(struct ct_layer *l,
                                      const struct ct_io *io)
{
    struct dropout *d    = l->state;
    struct ct_shape mask = ct_any_layout(&io->bottom[0]->shape);

    d->n_samples = ct_shape_legacy(&io->bottom[0]->shape, 0);
    mask.dim[0]  = (mask.dim[0] + 3) / 4; /* four bytes to a float */
    if (d->mask)
        CT_TRY(ct_reshape(d->mask, mask));
    return ct_layer_same_shape(l, io);
}

/* The mask of values [from, to) of one sample; from is a multiple of 4. */
static void dropout_draw(const struct ct_layer *l, uint64_t sample,
                         int64_t from, int64_t to, uint8_t *mask)
{
    const struct dropout *d = l->state;

    for (int64_t i = from; i < to; i += 4) {
        struct ct_philox p = ct_philox(l->key, sample, (uint64_t)i / 4);

        for (int64_t j = i; j < i + 4 && j < to; j++)
            mask[j] = p.v[j - i] >= d->threshold;
    }
}

/* The mask of a whole sample whose channels lie in blocks. */
static void dropout_draw_blocks(const struct ct_layer *l, uint64_t sample,
                                const struct ct_blob *y, uint8_t *mask)
{
    const struct dropout *d   = l->state;
    const enum ct_layout lies = y->data.layout;
    const int64_t c           = y->shape.dim[1];
    const int64_t inner       = ct_count(y, 2, CT_END);
    const int64_t block       = ct_layout_block(lies, c);

    for (int64_t i = 0; i < c * inner; i += 4) {
        struct ct_philox p = ct_philox(l->key, sample, (uint64_t)i / 4);

        for (int64_t j = i; j < i + 4 && j < c * inner; j++)
            mask[ct_layout_at(ct_layout_blocks(lies, c), inner, block, 0,
                              j / inner, j % inner)] =
                p.v[j - i] >= d->threshold;
    }
}

/* Values [from, to) of bfloat16. */
CT_SIMD static void scale_shorts(int64_t from, int64_t to, float scale,
                                 const uint8_t *mask, const float *x, float *y)
{
    const uint16_t *source = ct_bf16(x);
    uint16_t *target       = ct_bf16_out(y);

    CT_SIMD_FROM (i, from, to)
        target[i] = ct_narrow(ct_widen(source[i]) * (mask[i] ? scale : 0));
}

static void dropout_blocks(const struct ct_layer *l, const struct ct_io *io,
                           uint64_t first, uint8_t *mask)
{
    const struct dropout *d = l->state;
    const int64_t n_samples = io->top[0]->shape.dim[0];
    const int64_t per       = ct_elements(io->top[0]) / n_samples;
    const float *x = ct_data(io->bottom[0]), scale = d->scale;
    const bool shorts = io->top[0]->data.dtype == CT_BF16;
    float *y = ct_data(io->top[0]);

    CT_FOR_ROWS (s, n_samples, per) {
        dropout_draw_blocks(l, first + (uint64_t)s, io->top[0],
                            mask + s * per);
        if (shorts)
            scale_shorts(s * per, (s + 1) * per, scale, mask, x, y);
        for (int64_t i = s * per; i < (s + 1) * per && !shorts; i++)
            y[i] = x[i] * (mask[i] ? scale : 0);
    }
}

/* `first` is the number of the first sample in the training run. */
static enum ct_status dropout_from(const struct ct_layer *l,
                                   const struct ct_io *io, uint64_t first)
{
    const struct dropout *d = l->state;
    const int64_t n = ct_elements(io->top[0]);
    const int64_t n_samples = d->n_samples;
    const int64_t per = n_samples > 0 ? n / n_samples : 0;
    const int64_t chunks = ct_chunks(per);
    const float *x = ct_data(io->bottom[0]), scale = d->scale;
    float *y = ct_data(io->top[0]);
    uint8_t *mask;

    if (l->phase != CAFFE__PHASE__TRAIN) {
        ct_copy_values(io->top[0], x, y);
        return CT_OK;
    }
    mask = (uint8_t *)ct_data(d->mask);
    if (n > 0 && io->top[0]->data.layout != CT_PLAIN) {
        dropout_blocks(l, io, first, mask);
        return CT_OK;
    }
    CT_FOR_ROWS (r, n_samples * chunks, CT_CHUNK) {
        const int64_t s = r / chunks, c = r % chunks;
        const int64_t end = ct_chunk_end(c, per);

        dropout_draw(l, first + (uint64_t)s, c * CT_CHUNK, end,
                     mask + s * per);
        for (int64_t i = s * per + c * CT_CHUNK; i < s * per + end; i++)
            y[i] = x[i] * (mask[i] ? scale : 0);
    }
    return CT_OK;
}

static enum ct_status dropout_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct dropout *d = l->state;

    return dropout_from(l, io, ct_deal_row(l, d->n_samples));
}

static enum ct_status dropout_part(struct ct_layer *l, const struct ct_io *io,
                                   int64_t first)
{
    const struct dropout *of = l->twin->state;

    return dropout_from(l, io,
                        ct_deal_row(l, of->n_samples) + (uint64_t)first);
}

const struct ct_parts *dropout_parts(const struct ct_layer *l)
{
    static const struct ct_parts parts = { NULL, NULL, dropout_part };

    return l->dev->kind == CT_CPU ? &parts : NULL;
}

static enum ct_status dropout_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    const struct dropout *d = l->state;
    const int64_t n  = ct_elements(io->top[0]);
    const float *dy  = ct_diff(io->top[0]), scale = d->scale;
    float *dx        = ct_diff(io->bottom[0]);
    const uint8_t *mask;

    if (!io->want_grad[0])
        return CT_OK;
    if (l->phase != CAFFE__PHASE__TRAIN) {
        ct_copy_values(io->top[0], dy, dx);
        return CT_OK;
    }
    mask = (const uint8_t *)ct_data(d->mask);
    if (io->top[0]->data.dtype == CT_BF16) {
        CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK)
            scale_shorts(c * CT_CHUNK, ct_chunk_end(c, n), scale, mask, dy,
                         dx);
        return CT_OK;
    }
    CT_FOR_EACH (i, n)
        dx[i] = dy[i] * (mask[i] ? scale : 0);
    return CT_OK;
}

const struct ct_layer_type ct_layer_dropout = {
    .name       = "Dropout",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP |
                  CT_LAYER_SAME_LAYOUT | CT_LAYER_KEEPS_SIGN | CT_LAYER_BF16,
    .state_size = sizeof(struct dropout),
    .setup      = dropout_setup,
    .reshape    = dropout_reshape,
    .forward    = { dropout_forward, CT_CUDA_FN(dropout_forward) },
    .backward   = { dropout_backward, CT_CUDA_FN(dropout_backward) },
};
