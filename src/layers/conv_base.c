/* conv_base.c - the common part of the convolution family.
 *
 * Axes before `axis` flatten into the batch, `axis` is channels, the others
 * are spatial.  Sizes may be given once for all spatial axes, once an axis, or
 * with two of them as _h and _w. */
#include "layers/conv_base.h"

#include <inttypes.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "device/conv_ahead.h"
#include "device/recording.h"
#include "layers/batch_norm.h"
#include "layers/common.h"
#include "proto/params.h"

/* One of kernel, stride, pad, dilation as the prototxt has it. */
struct sizes {
    const char     *name, *short_name; /* "kernel_size", "kernel" */
    size_t          n;
    const uint32_t *value;
    bool            has_h, has_w;
    uint32_t        h, w;
    uint32_t        if_absent, least;
};

static enum ct_status sizes_read(const struct ct_layer *l,
                                 const struct sizes *s, int n_axes,
                                 int64_t *out)
{
    bool two = s->has_h || s->has_w;

    if (two && s->n > 0)
        return ct_fail(CT_EINVAL, "layer %s: give %s or %s_h and %s_w, not "
                       "both", l->name, s->name, s->short_name, s->short_name);
    if (two && n_axes != 2)
        return ct_fail(CT_EINVAL, "layer %s: %s_h and %s_w are for 2 spatial "
                       "axes, and here are %d; give %s", l->name,
                       s->short_name, s->short_name, n_axes, s->name);
    if (s->n > 1 && s->n != (size_t)n_axes)
        return ct_fail(CT_EINVAL, "layer %s: %s is given %zu times for %d "
                       "spatial axes; give it once or once an axis", l->name,
                       s->name, s->n, n_axes);
    for (int i = 0; i < n_axes; i++) {
        uint32_t v = two          ? (i == 0 ? s->h : s->w)
                     : s->n == 0  ? s->if_absent
                     : s->n == 1  ? s->value[0]
                                  : s->value[i];

        if (v < s->least)
            return ct_fail(CT_EINVAL, "layer %s: %s is zero along spatial "
                           "axis %d; it must be at least %u", l->name,
                           s->name, i, (unsigned)s->least);
        if (v > INT32_MAX)
            return ct_fail(CT_EINVAL, "layer %s: %s %u is too large", l->name,
                           s->name, (unsigned)v);
        out[i] = v;
    }
    return CT_OK;
}

enum ct_status ct_conv_read_window(const struct ct_layer *l,
                                   const struct ct_blob *bottom, int *axis,
                                   struct ct_conv_desc *d)
{
    const Caffe__ConvolutionParameter *p = ct_convolution_param(l->param);
    const struct sizes kernel = {
        "kernel_size", "kernel", p->n_kernel_size, p->kernel_size,
        p->has_kernel_h, p->has_kernel_w, p->kernel_h, p->kernel_w, 0, 1
    };
    const struct sizes stride = {
        "stride", "stride", p->n_stride, p->stride,
        p->has_stride_h, p->has_stride_w, p->stride_h, p->stride_w, 1, 1
    };
    const struct sizes pad = {
        "pad", "pad", p->n_pad, p->pad,
        p->has_pad_h, p->has_pad_w, p->pad_h, p->pad_w, 0, 0
    };
    const struct sizes dilation = {
        "dilation", "dilation", p->n_dilation, p->dilation,
        false, false, 0, 0, 1, 0
    };

    CT_TRY(ct_layer_axis(l, bottom, p->axis, axis));
    d->n_spatial = bottom->shape.n_axes - *axis - 1;
    CT_TRY(sizes_read(l, &kernel, d->n_spatial, d->kernel));
    CT_TRY(sizes_read(l, &stride, d->n_spatial, d->stride));
    CT_TRY(sizes_read(l, &pad, d->n_spatial, d->pad));
    CT_TRY(sizes_read(l, &dilation, d->n_spatial, d->dilation));
    if (p->engine == CAFFE__CONVOLUTION_PARAMETER__ENGINE__CUDNN)
        CT_INFO("layer %s: engine CUDNN is taken for DEFAULT", l->name);
    return CT_OK;
}

/* group, num_output and what they divide. */
static enum ct_status channels_read(const struct ct_layer *l,
                                    struct ct_conv_layer *s)
{
    const Caffe__ConvolutionParameter *p = ct_convolution_param(l->param);
    bool depthwise = s->kind == CT_CONV_DEPTHWISE;

    s->num_output = p->num_output;
    if (depthwise && !p->has_num_output)
        s->num_output = s->channels;
    s->desc.group = depthwise ? s->channels : p->group;
    s->has_bias   = p->bias_term;
    if (s->num_output == 0)
        return ct_fail(CT_EINVAL, "layer %s: num_output is zero", l->name);
    if (s->num_output > INT32_MAX)
        return ct_fail(CT_EINVAL, "layer %s: num_output %" PRId64 " is too "
                       "large", l->name, s->num_output);
    if (s->channels == 0)
        return ct_fail(CT_ESHAPE, "layer %s: bottom has no channels", l->name);
    if (depthwise && p->group != 1 && p->group != s->channels)
        return ct_fail(CT_EINVAL, "layer %s: %s has one group a channel, "
                       "%" PRId64 ", not %u; use type Convolution", l->name,
                       l->type->name, s->channels, (unsigned)p->group);
    if (s->desc.group == 0)
        return ct_fail(CT_EINVAL, "layer %s: group is zero", l->name);
    if (s->channels % s->desc.group || s->num_output % s->desc.group)
        return ct_fail(CT_EINVAL, "layer %s: group %" PRId64 " must divide "
                       "the %" PRId64 " channels of the bottom and num_output "
                       "%" PRId64, l->name, s->desc.group, s->channels,
                       s->num_output);
    return CT_OK;
}

enum ct_status ct_conv_layer_setup(struct ct_layer *l, const struct ct_io *io,
                                   enum ct_conv_kind kind)
{
    const Caffe__ConvolutionParameter *p = ct_convolution_param(l->param);
    struct ct_conv_layer *s = l->state;
    struct ct_conv_desc *d  = &s->desc;
    struct ct_shape w;

    s->kind = kind;
    CT_TRY(ct_conv_read_window(l, io->bottom[0], &s->axis, d));
    s->channels = io->bottom[0]->shape.dim[s->axis];
    CT_TRY(channels_read(l, s));
    d->in_channels  = s->channels;
    d->out_channels = s->num_output;
    d->has_bias     = s->has_bias;
    if (kind == CT_CONV_TRANSPOSED) {
        d->in_channels  = s->num_output;
        d->out_channels = s->channels;
        d->has_bias     = false; /* it belongs to the object's input */
    }
    w = CT_SHAPE(d->out_channels, d->in_channels / d->group);
    for (int i = 0; i < d->n_spatial; i++)
        w.dim[w.n_axes++] = d->kernel[i];
    CT_TRY(ct_layer_add_blob(l, w, p->weight_filler));
    if (s->has_bias)
        CT_TRY(ct_layer_add_blob(l, CT_SHAPE(s->num_output), p->bias_filler));
    s->n_conv = io->n_bottom;
    return ct_alloc((size_t)s->n_conv, sizeof(struct ct_conv *),
                    "convolutions", &s->conv);
}

/* The bottoms against what setup saw. */
static enum ct_status bottoms_check(const struct ct_layer *l,
                                    const struct ct_io *io)
{
    const struct ct_conv_layer *s = l->state;
    const struct ct_shape *x      = &io->bottom[0]->shape;

    if (x->n_axes != s->axis + 1 + s->desc.n_spatial)
        return ct_fail(CT_ESHAPE, "layer %s: bottom has %d axes, and had %d "
                       "when the layer was made", l->name, x->n_axes,
                       s->axis + 1 + s->desc.n_spatial);
    if (x->dim[s->axis] != s->channels)
        return ct_fail(CT_ESHAPE, "layer %s: bottom has %" PRId64
                       " channels, weights take %" PRId64, l->name,
                       x->dim[s->axis], s->channels);
    for (int i = 1; i < io->n_bottom; i++)
        if (!ct_shape_equal(x, &io->bottom[i]->shape))
            return ct_fail(CT_ESHAPE, "layer %s: bottom %d has another shape "
                           "than bottom 0; they share the weights and must "
                           "be alike", l->name, i);
    for (int i = 0; i < io->n_bottom; i++)
        if (s->axis != 1 && (io->bottom[i]->data.layout != CT_PLAIN ||
                             io->top[i]->data.layout != CT_PLAIN))
            return ct_fail(CT_EINTERNAL, "layer %s: only axis 1 can be "
                           "blocked", l->name);
    return CT_OK;
}

/* The top's shape; fills the sizes that d takes from the bottom. */
static enum ct_status top_shape(const struct ct_layer *l,
                                const struct ct_shape *x,
                                struct ct_conv_desc *d, struct ct_shape *y)
{
    const struct ct_conv_layer *s = l->state;
    int first                     = s->axis + 1;

    *y              = *x;
    y->dim[s->axis] = s->num_output;
    d->batch        = ct_shape_count(x, 0, s->axis);
    for (int i = 0; i < d->n_spatial; i++) {
        int64_t extent = d->dilation[i] * (d->kernel[i] - 1) + 1;
        int64_t in     = x->dim[first + i];

        if (s->kind == CT_CONV_TRANSPOSED) {
            if (in < 1 || in > INT32_MAX)
                return ct_fail(CT_ESHAPE, "layer %s: bottom has %" PRId64
                               " positions along axis %d", l->name, in,
                               first + i);
            d->in[i] = d->stride[i] * (in - 1) + extent - 2 * d->pad[i];
            y->dim[first + i] = d->in[i];
        } else {
            d->in[i]          = in;
            y->dim[first + i] = ct_conv_out(d, i);
        }
        if (y->dim[first + i] < 1)
            return ct_fail(CT_ESHAPE, "layer %s: nothing is left along axis "
                           "%d: the bottom has %" PRId64 ", the kernel spans "
                           "%" PRId64 ", pad is %" PRId64, l->name, first + i,
                           in, extent, d->pad[i]);
    }
    return CT_OK;
}

static void conv_drop(struct ct_conv_layer *s, int i)
{
    struct ct_conv *old = s->conv[i];

    s->conv[i] = NULL;
    for (int j = 0; j < s->n_conv; j++)
        if (s->conv[j] == old)
            return;
    ct_conv_destroy(old);
}

/* The object of bottom i: the old one, a neighbour's, or a new one. */
static enum ct_status conv_pick(struct ct_layer *l, int i,
                                const struct ct_conv_desc *d)
{
    struct ct_conv_layer *s = l->state;
    enum ct_status st;

    if (s->conv[i] && ct_conv_desc_equal(d, ct_conv_description(s->conv[i])))
        return CT_OK;
    conv_drop(s, i);
    s->fold.made = false;
    for (int j = 0; j < i; j++)
        if (ct_conv_desc_equal(d, ct_conv_description(s->conv[j]))) {
            s->conv[i] = s->conv[j];
            return CT_OK;
        }
    st = ct_conv_create(l->dev, d, l->run->work, &s->conv[i]);
    return st == CT_OK ? CT_OK : ct_fail_in(st, "layer %s", l->name);
}

/* The object without a stride, of the positions that are read. */
static enum ct_status thin_pick(struct ct_layer *l)
{
    struct ct_conv_layer *s = l->state;
    struct ct_conv_desc d   = *ct_conv_description(s->conv[0]);
    enum ct_status st;

    for (int i = 0; i < d.n_spatial; i++) {
        d.in[i]     = ct_conv_out(&d, i);
        d.stride[i] = 1;
    }
    d.moments = d.ends = false;
    if (s->thin && s->thin_conv &&
        ct_conv_desc_equal(&d, ct_conv_description(s->thin_conv)))
        return CT_OK;
    ct_conv_destroy(s->thin_conv);
    s->thin_conv = NULL;
    if (!s->thin)
        return CT_OK;
    st = ct_conv_create(l->dev, &d, l->run->work, &s->thin_conv);
    return st == CT_OK ? CT_OK : ct_fail_in(st, "layer %s", l->name);
}

static bool in_tiles(const struct ct_layer *l)
{
    return l->blob[CT_CONV_WEIGHT]->data.layout == CT_TILES16;
}

enum ct_status ct_conv_layer_reshape(struct ct_layer *l,
                                     const struct ct_io *io)
{
    struct ct_conv_layer *s = l->state;
    struct ct_shape y;

    CT_TRY(bottoms_check(l, io));
    CT_TRY(top_shape(l, &io->bottom[0]->shape, &s->desc, &y));
    s->desc.untuned    = l->run->share > 0; /* same bits on any machine */
    s->desc.transposed = s->kind == CT_CONV_TRANSPOSED;
    s->desc.moments    = s->moments && !s->desc.untuned && io->n_top == 1;
    s->desc.ends = s->end && !s->desc.untuned && io->n_top == 1;
    s->desc.forward_only =
        l->run->forward_only && s->kind != CT_CONV_TRANSPOSED;
    if (s->kind != CT_CONV_TRANSPOSED) {
        s->desc.has_bias = s->has_bias || ct_fold_any(&s->fold);
        s->desc.sum      = s->sum;
        s->desc.relu     = s->relu;
        s->desc.packed   = l->run->fixed_params && l->run->forward_only &&
                         io->n_top == 1 && ct_conv_finishes(l->dev);
    }
    for (int i = 0; i < io->n_top; i++) {
        struct ct_conv_desc d = s->desc;
        enum ct_layout bottom = io->bottom[i]->data.layout;
        enum ct_layout top    = io->top[i]->data.layout;
        enum ct_status st     = ct_reshape(io->top[i], y);

        if (st != CT_OK)
            return ct_fail_in(st, "layer %s", l->name);
        d.src_layout = s->kind == CT_CONV_TRANSPOSED ? top : bottom;
        d.dst_layout = s->kind == CT_CONV_TRANSPOSED ? bottom : top;
        d.src_type   = s->kind == CT_CONV_TRANSPOSED
                           ? io->top[i]->data.dtype
                           : io->bottom[i]->data.dtype;
        d.dst_type   = s->kind == CT_CONV_TRANSPOSED
                           ? io->bottom[i]->data.dtype
                           : io->top[i]->data.dtype;
        CT_TRY(conv_pick(l, i, &d));
        CT_TRY(ct_conv_set_tiles(s->conv[i], in_tiles(l)));
    }
    return s->thin || s->thin_conv ? thin_pick(l) : CT_OK;
}

enum ct_status ct_conv_layer_tune(struct ct_layer *l)
{
    struct ct_conv_layer *s = l->state;

    for (int i = 0; i < s->n_conv; i++)
        if (s->conv[i])
            CT_TRY(ct_conv_tune(s->conv[i]));
    s->fold.made = false;
    return CT_OK;
}

bool ct_conv_layer_rests(const struct ct_layer *l)
{
    const struct ct_conv_layer *s = l->state;

    for (int i = 0; i < s->n_conv; i++)
        if (!s->conv[i] || !ct_conv_takes_tiles(s->conv[i]))
            return false;
    return s->n_conv > 0 && !s->desc.packed;
}

struct ct_conv_layer *ct_conv_layer_of(struct ct_layer *l)
{
    return l->type->forward[CT_CPU] == ct_conv_layer_forward ? l->state : NULL;
}

float *ct_conv_layer_diff(const struct ct_layer *l, int i)
{
    return i < l->n_blob && l->blob_wants_grad[i] ? ct_diff(l->blob[i]) : NULL;
}

enum ct_status ct_conv_layer_ahead(struct ct_layer *l, enum ct_pass pass,
                                   bool begins)
{
    const struct ct_conv_layer *s = l->state;
    const float *w = begins && !s->desc.packed
                         ? ct_data(l->blob[CT_CONV_WEIGHT])
                         : NULL;

    for (int i = 0; i < s->n_conv; i++)
        if (s->conv[i])
            CT_TRY(ct_conv_weights_ahead(s->conv[i], pass, w));
    return CT_OK;
}

enum ct_status ct_conv_layer_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    struct ct_conv_layer *s = l->state;
    const float *w, *b;

    s->masked = false;
    CT_TRY(ct_conv_layer_weights(l, &w, &b));
    if (s->sum && ct_data(io->bottom[1]) != ct_data(io->top[0]))
        ct_copy_values(io->top[0], ct_data(io->bottom[1]),
                       ct_data(io->top[0]));
    for (int i = 0; i < io->n_top; i++) {
        CT_TRY(ct_conv_set_tiles(s->conv[i], in_tiles(l)));
        CT_TRY(ct_conv_forward(s->conv[i], ct_data(io->bottom[i]), w, b,
                               ct_data(io->top[i])));
    }
    return CT_OK;
}

static enum ct_status backward_data(struct ct_layer *l, int i, const float *dy,
                                    float *dx)
{
    struct ct_conv_layer *s = l->state;
    const float *w          = ct_data(l->blob[CT_CONV_WEIGHT]);
    struct ct_moments sums  = { NULL, 0 };
    struct ct_conv_end end;

    if (s->thin && batch_norm_takes_thin(s->thin)) {
        batch_norm_thinned(s->thin, s->desc.in);
        return ct_conv_backward_data(s->thin_conv, w, dy, dx);
    }
    if (s->end && batch_norm_end(s->end, dx, &end))
        CT_TRY(ct_conv_backward_end(s->conv[i], w, dy, &end, &sums));
    if (!sums.part)
        return ct_conv_backward_data(s->conv[i], w, dy, dx);
    batch_norm_ended(s->end, &sums);
    return CT_OK;
}

enum ct_status ct_conv_layer_backward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    struct ct_conv_layer *s = l->state;
    float *dw    = ct_conv_layer_diff(l, CT_CONV_WEIGHT);
    float *db    = s->masked ? NULL : ct_conv_layer_diff(l, CT_CONV_BIAS);
    bool write   = l->overwrites;
    bool masks   = s->relu && !s->masked;

    s->masked = false;

    for (int i = 0; i < io->n_top; i++, write = false) {
        const float *dy = ct_diff(io->top[i]), *x = ct_data(io->bottom[i]);
        /* Several tops add to the same gradients, so in one order. */
        const bool may   = l->run->aside && (l->flags & CT_LAYER_ASIDE) &&
                           io->n_top == 1;
        const bool aside = may && io->want_grad[i];

        CT_TRY(ct_conv_set_tiles(s->conv[i], in_tiles(l)));
        if (masks)
            CT_TRY(ct_conv_layer_mask(l, io->top[i], &db));
        if (may && !aside && dw && db) { /* beside the weights' alone */
            CT_TRY(ct_side_begin(l->dev));
            CT_TRY(ct_conv_backward_weights(s->conv[i], x, dy, NULL, db));
            CT_TRY(ct_side_end(l->dev));
            db = NULL;
        }
        if (aside)
            CT_TRY(ct_side_begin(l->dev));
        if (write)
            CT_TRY(ct_conv_write_weights(s->conv[i], x, dy, dw, db));
        else
            CT_TRY(ct_conv_backward_weights(s->conv[i], x, dy, dw, db));
        if (aside)
            CT_TRY(ct_side_end(l->dev));
        if (io->want_grad[i])
            CT_TRY(backward_data(l, i, dy, ct_diff(io->bottom[i])));
    }
    return CT_OK;
}

bool ct_conv_layer_accepts(const struct ct_layer *l, const struct ct_io *io,
                           enum ct_layout layout)
{
    const struct ct_conv_layer *s = l->state;

    (void)io, (void)layout;
    return s->axis == 1 && s->desc.n_spatial == 2;
}

const char *ct_conv_layer_describe(const struct ct_layer *l, const char **why)
{
    const struct ct_conv_layer *s = l->state;

    if (s->n_conv == 0 || !s->conv[0])
        return NULL;
    *why = ct_conv_why(s->conv[0]);
    return ct_conv_impl_name(s->conv[0]);
}

double ct_conv_layer_macs(const struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_conv_layer *s = l->state;

    return io->n_top * ct_conv_macs(&s->desc);
}

void ct_conv_layer_teardown(struct ct_layer *l)
{
    struct ct_conv_layer *s = l->state;

    for (int i = 0; s->conv && i < s->n_conv; i++)
        conv_drop(s, i);
    ct_conv_destroy(s->thin_conv);
    ct_free(s->conv);
    ct_fold_fini(&s->fold);
}
