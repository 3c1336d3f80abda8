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

/* Whether the caller's array is what the convolution takes. */
static bool is_straight(const struct ct_conv *c, bool src)
{
    const struct ct_conv_desc *d = &c->desc;

    return (src ? d->src_type : d->dst_type) == CT_F32 &&
           (src ? d->src_layout : d->dst_layout) == CT_PLAIN;
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

/* The array as floats: itself, or converted. */
static enum ct_status come_in(const struct ct_conv *c, bool src,
                              const float *from, const float **out)
{
    *out = is_straight(c, src) ? from : room(c, src);
    return *out == from ? CT_OK : convert(c, src, true, from, room(c, src));
}

static float *goes_to(const struct ct_conv *c, bool src, float *to)
{
    return is_straight(c, src) ? to : room(c, src);
}

static enum ct_status go_out(const struct ct_conv *c, bool src, float *to)
{
    return is_straight(c, src) ? CT_OK
                               : convert(c, src, false, room(c, src), to);
}

static enum ct_status float32_forward(struct ct_conv *c, const float *x,
                                      const float *w, const float *b, float *y)
{
    const float *in, *old;

    CT_TRY(come_in(c, true, x, &in));
    if (c->desc.sum)
        CT_TRY(come_in(c, false, y, &old));
    CT_TRY(ct_conv_forward(c->state, in, w, b, goes_to(c, false, y)));
    return go_out(c, false, y);
}

static enum ct_status float32_backward_data(struct ct_conv *c, const float *w,
                                            const float *dy, float *dx)
{
    const float *in;

    CT_TRY(come_in(c, false, dy, &in));
    CT_TRY(ct_conv_backward_data(c->state, w, in, goes_to(c, true, dx)));
    return go_out(c, true, dx);
}

static enum ct_status float32_backward_weights(struct ct_conv *c,
                                               const float *x,
                                               const float *dy, float *dw,
                                               float *db)
{
    const float *in, *out;

    CT_TRY(come_in(c, true, x, &in));
    CT_TRY(come_in(c, false, dy, &out));
    if (c->write)
        return ct_conv_write_weights(c->state, in, out, dw, db);
    return ct_conv_backward_weights(c->state, in, out, dw, db);
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
