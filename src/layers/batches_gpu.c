/* batches_gpu.c - batches for a net on a GPU.
 *
 *     workers --> pinned host memory --copy stream--> GPU --kernel--> top
 *
 * Samples that are bytes, all of one size, go over as they are, with the crop
 * and the mirror that were drawn for each; the transform is a kernel.  Others
 * go over as the values that the CPU makes of them.  While the net works on
 * one batch, the next is copied.  CORTADO_IMPL=feed:values sends values. */
#include "layers/batches.h"

#include "data/augment.h"
#include "device/impl.h"
#include "layers/hand_over.h"
#include "proto/params.h"

/* The mean image, or a value a channel. */
static enum ct_status send_mean(struct ct_batches *b,
                                const struct ct_device *d)
{
    const struct ct_transform *t = b->transform;
    const int channels           = b->size.channels;
    size_t n = t->mean ? (size_t)t->mean_channels * (size_t)t->mean_height *
                             (size_t)t->mean_width
                       : (size_t)channels;

    CT_TRY(d->ops->alloc(d, n * sizeof(float), "mean", &b->mean));
    if (t->mean)
        return d->ops->from_host(d, n * sizeof(float), t->mean, b->mean);
    for (int c = 0; c < channels && t->n_values; c++)
        CT_TRY(d->ops->from_host(
            d, sizeof(float), &t->param->mean_value[t->n_values > 1 ? c : 0],
            (float *)b->mean + c));
    return CT_OK;
}

static enum ct_status start(struct ct_layer *l)
{
    struct ct_batches *b      = l->state;
    const struct ct_device *d = l->run->device;

    b->config.gpu = d;
    if (!b->size.is_float && b->size.channels > 0 &&
        !ct_augment_wanted(b->transform) && ct_impl_allowed("feed", "bytes"))
        b->config.raw_bytes = ct_pixels_bytes(&b->size);
    if (!b->staging) {
        CT_TRY(ct_staging_create(d, &b->staging));
        if (b->config.raw_bytes)
            CT_TRY(send_mean(b, d));
    }
    return ct_prefetch_create(&b->config, &b->prefetch);
}

/* Samples of which only some are bytes become values after all. */
static enum ct_status settle(const struct ct_batches *b,
                             const struct ct_batch *batch)
{
    const struct ct_crop *window = (const void *)batch->window->ptr;
    const int64_t each = ct_shape_count(&batch->shape, 1, CT_END);
    struct ct_pixels in = b->size;

    for (int64_t i = 0; i < batch->shape.dim[0]; i++) {
        if (!window[i].is_raw)
            continue;
        in.ptr = (const char *)batch->raw->ptr +
                 (size_t)i * b->config.raw_bytes;
        CT_TRY(ct_transform_apply(b->transform, &in, &window[i],
                                  batch->data->ptr + i * each));
    }
    return CT_OK;
}

static bool is_raw(const struct ct_batch *batch)
{
    return batch->n_raw == batch->shape.dim[0];
}

/* Takes the next batch and starts to copy it. */
static enum ct_status send(struct ct_batches *b)
{
    const struct ct_batch *batch;
    size_t n;

    /* What next() takes back was sent before the last one. */
    CT_TRY(ct_staging_wait(b->staging, 1));
    CT_TRY(ct_prefetch_next(b->prefetch, &batch));
    n          = (size_t)batch->shape.dim[0];
    b->span[0] = (struct ct_span){
        batch->label->ptr,
        (size_t)ct_shape_count(&batch->label_shape, 0, CT_END) *
            sizeof(float),
        NULL
    };
    if (is_raw(batch)) {
        b->span[1] = (struct ct_span){ batch->raw->ptr,
                                       n * b->config.raw_bytes, NULL };
        b->span[2] = (struct ct_span){ batch->window->ptr,
                                       n * sizeof(struct ct_crop), NULL };
    } else {
        if (batch->n_raw > 0)
            CT_TRY(settle(b, batch));
        b->span[1] = (struct ct_span){
            batch->data->ptr,
            (size_t)ct_shape_count(&batch->shape, 0, CT_END) * sizeof(float),
            NULL
        };
    }
    CT_TRY(ct_staging_send(b->staging, is_raw(batch) ? 3 : 2, b->span));
    b->sent = batch;
    return CT_OK;
}

static enum ct_status put_pixels(const struct ct_batches *b,
                                 const struct ct_device *d,
                                 struct ct_blob *top)
{
    const struct ct_transform *t  = b->transform;
    const struct ct_pixel_batch p = {
        .n           = top->shape.dim[0],
        .channels    = b->size.channels,
        .height      = b->size.height,
        .width       = b->size.width,
        .planar      = b->size.planar,
        .out_height  = (int)top->shape.dim[2],
        .out_width   = (int)top->shape.dim[3],
        .scale       = t->param->scale,
        .x           = b->span[1].there,
        .window      = b->span[2].there,
        .mean        = t->mean ? b->mean : NULL,
        .mean_height = t->mean_height,
        .mean_width  = t->mean_width,
        .values      = b->mean,
    };

    return ct_pixels_transform(d, &p, top->data.layout, top->data.dtype,
                               ct_data(top));
}

static enum ct_status put(struct ct_batches *b, const struct ct_device *d,
                          struct ct_blob *data, struct ct_blob *label)
{
    CT_TRY(ct_staging_take(b->staging));
    if (is_raw(b->sent))
        CT_TRY(put_pixels(b, d, data));
    else
        CT_TRY(ct_top_put(data, b->span[1].there));
    if (label)
        CT_TRY(ct_top_put(label, b->span[0].there));
    return ct_staging_done(b->staging);
}

enum ct_status ct_batches_forward_to(struct ct_layer *l,
                                     const struct ct_io *io,
                                     struct ct_blob *const *top)
{
    struct ct_batches *b      = l->state;
    const struct ct_device *d = l->run->device;

    if (!b->prefetch)
        CT_TRY(start(l));
    if (!b->sent)
        CT_TRY(send(b));
    b->shape = b->sent->shape;
    CT_TRY(ct_top_follow(io->top[0], b->shape));
    CT_TRY(ct_top_follow(top[0], b->shape));
    if (io->n_top > 1)
        CT_TRY(ct_top_follow(top[1], b->sent->label_shape));
    CT_TRY(put(b, d, top[0], io->n_top > 1 ? top[1] : NULL));
    b->sent = NULL;
    /* A batch that cannot be had is an error when its turn comes, which next()
     * repeats then. */
    if (!b->alone && ct_prefetch_ready(b->prefetch) && send(b) != CT_OK)
        b->sent = NULL;
    return CT_OK;
}
