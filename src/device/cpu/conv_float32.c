/* conv_float32.c - convolution of bfloat16 arrays by way of float32.
 *
 * For what oneDNN has no kernel for, and where float32 has a faster one.  The
 * arrays are converted to plain floats and back, in the workspace; the best
 * implementation for those does the work, in memory of its own. */
#include "base/mem.h"
#include "device/conv_impl.h"

static enum ct_status float32_create(struct ct_conv *c)
{
    struct ct_conv_desc d = c->desc;
    size_t x, y;

    if (!ct_conv_is_short(&d))
        return CT_ENOTSUP;
    d.src_type = d.dst_type = CT_F32;
    d.src_layout = d.dst_layout = CT_PLAIN;
    x = (size_t)(d.batch * d.in_channels * c->in_spatial) * sizeof(float);
    y = (size_t)(d.batch * d.out_channels * c->out_spatial) * sizeof(float);
    CT_TRY(ct_conv_create(c->dev, &d, NULL, (struct ct_conv **)&c->state));
    return ct_workspace_need(c->work, x + y + 2 * CT_ALIGN);
}

static void float32_destroy(struct ct_conv *c)
{
    ct_conv_destroy(c->state);
}

/* Room for x, and behind it for y. */
static float *room(const struct ct_conv *c, bool src)
{
    const int64_t n    = c->desc.batch * c->desc.in_channels * c->in_spatial;
    const int64_t line = CT_ALIGN / sizeof(float);

    return c->work->ptr + (src ? 0 : (n + line - 1) / line * line);
}

static enum ct_status convert(const struct ct_conv *c, bool src, bool in,
                              const float *from, float *to)
{
    const struct ct_conv_desc *d = &c->desc;
    const enum ct_layout layout  = src ? d->src_layout : d->dst_layout;
    const enum ct_dtype type     = src ? d->src_type : d->dst_type;

    return c->dev->ops->convert(
        c->dev, d->batch, src ? d->in_channels : d->out_channels,
        src ? c->in_spatial : c->out_spatial, in ? layout : CT_PLAIN,
        in ? type : CT_F32, from, in ? CT_PLAIN : layout, in ? CT_F32 : type,
        to);
}

static enum ct_status float32_pack(struct ct_conv *c, const float *w,
                                   bool *kept)
{
    return ct_conv_pack(c->state, w, kept);
}

static enum ct_status float32_forward(struct ct_conv *c, const float *x,
                                      const float *w, const float *b, float *y)
{
    CT_TRY(convert(c, true, true, x, room(c, true)));
    if (c->desc.sum)
        CT_TRY(convert(c, false, true, y, room(c, false)));
    CT_TRY(ct_conv_forward(c->state, room(c, true), w, b, room(c, false)));
    return convert(c, false, false, room(c, false), y);
}

static enum ct_status float32_backward_data(struct ct_conv *c, const float *w,
                                            const float *dy, float *dx)
{
    CT_TRY(convert(c, false, true, dy, room(c, false)));
    CT_TRY(ct_conv_backward_data(c->state, w, room(c, false), room(c, true)));
    return convert(c, true, false, room(c, true), dx);
}

static enum ct_status float32_backward_weights(struct ct_conv *c,
                                               const float *x,
                                               const float *dy, float *dw,
                                               float *db)
{
    CT_TRY(convert(c, true, true, x, room(c, true)));
    CT_TRY(convert(c, false, true, dy, room(c, false)));
    if (c->write)
        return ct_conv_write_weights(c->state, room(c, true), room(c, false),
                                     dw, db);
    return ct_conv_backward_weights(c->state, room(c, true), room(c, false),
                                    dw, db);
}

const struct ct_conv_impl ct_conv_float32 = {
    .name             = "float32",
    .shorts           = true,
    .create           = float32_create,
    .destroy          = float32_destroy,
    .pack             = float32_pack,
    .forward          = float32_forward,
    .backward_data    = float32_backward_data,
    .writes           = true,
    .backward_weights = float32_backward_weights,
};
