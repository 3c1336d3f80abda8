/* conv.c - checks a convolution and hands it to the first implementation that
 * accepts it. */
#include "device/conv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "device/conv_impl.h"
#include "device/cpu/conv_tune.h"
#include "device/impl.h"

/* Fastest first, on each kind of device; the last one accepts everything. */
static const struct ct_conv_impl *const cpu_impls[] = {
    &ct_conv_amx,
#ifdef CT_HAVE_ONEDNN
#ifdef __x86_64__
    &ct_conv_bf16,
    &ct_conv_quarters,
    &ct_conv_few,
#endif
    &ct_conv_cached,
    &ct_conv_winograd,
    &ct_conv_tiles,
    &ct_conv_onednn,
#endif
    &ct_conv_float32,
    &ct_conv_gemm,
    &ct_conv_ref,
    NULL,
};
static const struct ct_conv_impl *const cuda_impls[] = {
#ifdef CT_HAVE_CUDA
    &ct_conv_cudnn,
    &ct_conv_whole,
    &ct_conv_apart,
    &ct_conv_strided,
    &ct_conv_fold,
    &ct_conv_wide,
    &ct_conv_direct,
    &ct_conv_slabs,
    &ct_conv_patch,
    &ct_conv_cuda_ref,
#endif
    NULL,
};

bool ct_conv_desc_equal(const struct ct_conv_desc *a,
                        const struct ct_conv_desc *b)
{
    for (int i = 0; i < a->n_spatial && i < b->n_spatial; i++)
        if (a->in[i] != b->in[i] || a->kernel[i] != b->kernel[i] ||
            a->stride[i] != b->stride[i] || a->pad[i] != b->pad[i] ||
            a->dilation[i] != b->dilation[i])
            return false;
    return a->n_spatial == b->n_spatial && a->batch == b->batch &&
           a->in_channels == b->in_channels &&
           a->out_channels == b->out_channels && a->group == b->group &&
           a->has_bias == b->has_bias && a->sum == b->sum &&
           a->relu == b->relu && a->packed == b->packed &&
           a->moments == b->moments && a->ends == b->ends &&
           a->untuned == b->untuned && a->forward_only == b->forward_only &&
           a->transposed == b->transposed &&
           a->src_layout == b->src_layout && a->dst_layout == b->dst_layout &&
           a->src_type == b->src_type && a->dst_type == b->dst_type;
}

int64_t ct_conv_out(const struct ct_conv_desc *d, int axis)
{
    int64_t extent = d->dilation[axis] * (d->kernel[axis] - 1) + 1;
    int64_t room   = d->in[axis] + 2 * d->pad[axis] - extent;

    return room < 0 ? 0 : room / d->stride[axis] + 1;
}

double ct_conv_macs(const struct ct_conv_desc *d)
{
    double macs = (double)d->batch * (double)d->out_channels *
                  (double)(d->in_channels / d->group);

    for (int i = 0; i < d->n_spatial; i++)
        macs *= (double)(d->kernel[i] * ct_conv_out(d, i));
    return macs;
}

bool ct_conv_finishes(const struct ct_device *dev)
{
    return dev->kind == CT_CPU;
}

/* *product *= factor; false: it leaves the range. */
static bool grow(int64_t *product, int64_t factor)
{
    return !__builtin_mul_overflow(*product, factor, product) &&
           *product <= INT64_MAX / (int64_t)sizeof(double);
}

/* Whether input, output and weights can be counted. */
static bool conv_fits(const struct ct_conv_desc *d)
{
    int64_t in = 1, out = 1, weights = 1;
    bool fits = grow(&in, d->batch) && grow(&in, d->in_channels) &&
                grow(&out, d->batch) && grow(&out, d->out_channels) &&
                grow(&weights, d->in_channels) &&
                grow(&weights, d->out_channels);

    for (int i = 0; i < d->n_spatial && fits; i++)
        fits = grow(&in, d->in[i]) && grow(&out, ct_conv_out(d, i)) &&
               grow(&weights, d->kernel[i]);
    return fits;
}

static enum ct_status conv_check(const struct ct_conv_desc *d)
{
    if (d->n_spatial < 0 || d->n_spatial > CT_CONV_MAX)
        return ct_fail(CT_EINVAL, "a convolution has 0 to %d spatial axes",
                       CT_CONV_MAX);
    if (d->batch < 0 || d->in_channels < 1 || d->out_channels < 1 ||
        d->group < 1)
        return ct_fail(CT_EINVAL, "a convolution has at least one channel and "
                       "one group");
    if (d->in_channels % d->group || d->out_channels % d->group)
        return ct_fail(CT_EINVAL, "group %" PRId64 " does not divide %" PRId64
                       " input and %" PRId64 " output channels", d->group,
                       d->in_channels, d->out_channels);
    for (int i = 0; i < d->n_spatial; i++) {
        if (d->kernel[i] < 1 || d->stride[i] < 1 || d->dilation[i] < 0 ||
            d->pad[i] < 0 || d->in[i] < 0)
            return ct_fail(CT_EINVAL, "spatial axis %d of a convolution has a "
                           "size that makes no sense", i);
        if (ct_conv_out(d, i) < 1)
            return ct_fail(CT_ESHAPE, "the kernel spans %" PRId64 " along "
                           "spatial axis %d, the padded input only %" PRId64,
                           d->dilation[i] * (d->kernel[i] - 1) + 1, i,
                           d->in[i] + 2 * d->pad[i]);
    }
    return conv_fits(d) ? CT_OK
                        : ct_fail(CT_ESHAPE, "a convolution with more values "
                                  "than memory can have");
}

/* CT_ENOTSUP, without a text: the next one may. */
static enum ct_status conv_try(struct ct_conv *c,
                               const struct ct_conv_impl *impl)
{
    enum ct_status st;

    if (!ct_conv_may(c, impl))
        return CT_ENOTSUP;
    c->impl = impl;
    st      = impl->create(c);
    if (st == CT_OK)
        return CT_OK;
    impl->destroy(c);
    c->impl  = NULL;
    c->state = NULL;
    return st;
}

static enum ct_status conv_choose(struct ct_conv *c)
{
    const struct ct_conv_impl *const *impls =
        c->dev->kind == CT_CPU ? cpu_impls : cuda_impls;
    struct ct_conv_choice best = { 0 };
    enum ct_status st          = CT_ENOTSUP;

    if (c->dev->kind == CT_CPU && ct_conv_known(c, impls, &best)) {
        st = conv_try(c, best.impl);
        if (st == CT_OK && best.other) {
            st = ct_conv_set_other(c, &best);
            st = st == CT_ENOTSUP ? CT_OK : st;
        }
        if (st == CT_ENOTSUP) /* measured on a CPU that could */
            snprintf(c->why, sizeof(c->why), "first that takes it");
    }
    for (int i = 0; impls[i] && st == CT_ENOTSUP; i++)
        if (ct_impl_allowed("conv", impls[i]->name))
            st = conv_try(c, impls[i]);
    if (st != CT_ENOTSUP)
        return st;
    return ct_fail(CT_ENOTSUP, "nothing here runs this convolution%s",
                   ct_impl_hint());
}

enum ct_status ct_conv_create(const struct ct_device *dev,
                              const struct ct_conv_desc *desc,
                              struct ct_workspace *work,
                              struct ct_conv **out)
{
    struct ct_conv *c;
    enum ct_status st;

    CT_TRY(conv_check(desc));
    CT_ASSERT(ct_conv_finishes(dev) || !(desc->sum || desc->packed));
    CT_TRY(ct_alloc(1, sizeof(*c), "convolution", &c));
    c->dev         = dev;
    c->desc        = *desc;
    c->work        = work ? work : &c->own;
    c->in_spatial  = 1;
    c->out_spatial = 1;
    c->taps        = 1;
    c->in_group    = desc->in_channels / desc->group;
    c->out_group   = desc->out_channels / desc->group;
    for (int i = 0; i < desc->n_spatial; i++) {
        c->out[i] = ct_conv_out(desc, i);
        c->in_spatial *= desc->in[i];
        c->out_spatial *= c->out[i];
        c->taps *= desc->kernel[i];
    }
    st = conv_choose(c);
    if (st != CT_OK) {
        ct_conv_destroy(c);
        return st;
    }
    *out = c;
    return CT_OK;
}

void ct_conv_destroy(struct ct_conv *c)
{
    if (!c)
        return;
    ct_conv_drop_other(c);
    if (c->impl)
        c->impl->destroy(c);
    ct_workspace_fini(&c->own);
    ct_free(c->plain);
    ct_free(c);
}

enum ct_status ct_conv_tune(struct ct_conv *c)
{
    char why[sizeof(c->why)];

    if (c->dev->kind != CT_CPU || !ct_conv_measure(c, cpu_impls, why))
        return CT_OK;
    ct_conv_drop_other(c);
    c->impl->destroy(c);
    c->state = NULL;
    CT_TRY(conv_choose(c));
    memcpy(c->why, why, sizeof(why));
    return CT_OK;
}

const struct ct_conv_desc *ct_conv_description(const struct ct_conv *c)
{
    return &c->desc;
}

const char *ct_conv_why(const struct ct_conv *c)
{
    return c->why;
}

const char *ct_conv_impl_name(const struct ct_conv *c)
{
    return c->impl->name;
}

enum ct_status ct_conv_pack(struct ct_conv *c, const float *w, bool *kept)
{
    CT_ASSERT(c->desc.packed);
    *kept = c->desc.batch == 0;
    return c->desc.batch && c->impl->pack ? c->impl->pack(c, w, kept) : CT_OK;
}

enum ct_status ct_conv_forward(struct ct_conv *c, const float *x,
                               const float *w, const float *b, float *y)
{
    CT_ASSERT((b != NULL) == c->desc.has_bias);
    c = ct_conv_of(c, CT_CONV_FORWARD);
    return c->desc.batch ? c->impl->forward(c, x, ct_conv_plain(c, w), b, y)
                         : CT_OK;
}

bool ct_conv_moments(struct ct_conv *c, const float *y, struct ct_moments *out)
{
    c = ct_conv_of(c, CT_CONV_FORWARD);
    return c->desc.moments && c->desc.batch && c->impl->moments &&
           c->impl->moments(c, y, out);
}

enum ct_status ct_conv_backward_end(struct ct_conv *c, const float *w,
                                    const float *dy,
                                    const struct ct_conv_end *end,
                                    struct ct_moments *sums)
{
    *sums = (struct ct_moments){ NULL, 0 };
    c     = ct_conv_of(c, CT_CONV_DATA);
    return c->desc.ends && c->desc.batch && c->impl->backward_end
               ? c->impl->backward_end(c, w, dy, end, sums)
               : CT_OK;
}

enum ct_status ct_conv_backward_data(struct ct_conv *c, const float *w,
                                     const float *dy, float *dx)
{
    c = ct_conv_of(c, CT_CONV_DATA);
    return c->desc.batch
               ? c->impl->backward_data(c, ct_conv_plain(c, w), dy, dx)
               : CT_OK;
}

enum ct_status ct_conv_bias_gradient(const struct ct_conv *c, const float *dy,
                                     float *db)
{
    const struct ct_bias_desc bias = { c->desc.batch, c->desc.out_channels,
                                       c->out_spatial, c->desc.dst_layout,
                                       c->desc.dst_type };

    if (!db)
        return CT_OK;
    if (c->write)
        CT_TRY(ct_fill(c->dev, bias.channels, 0, db));
    return ct_bias_backward(c->dev, &bias, dy, db);
}

enum ct_status ct_conv_backward_weights(struct ct_conv *c, const float *x,
                                        const float *dy, float *dw, float *db)
{
    CT_ASSERT(!db || c->desc.has_bias);
    if (c->desc.batch == 0)
        return CT_OK;
    c = ct_conv_of(c, CT_CONV_WEIGHTS);
    if (dw && c->copies)
        return ct_conv_tiled_gradient(c, x, dy, dw, db);
    if (dw)
        return c->impl->backward_weights(c, x, dy, dw, db);
    return ct_conv_bias_gradient(c, dy, db);
}

enum ct_status ct_conv_write_weights(struct ct_conv *c, const float *x,
                                     const float *dy, float *dw, float *db)
{
    const int64_t n = c->desc.out_channels;
    enum ct_status st;

    c        = ct_conv_of(c, CT_CONV_WEIGHTS);
    c->write = dw && c->impl->writes && c->desc.batch;
    if (dw && !c->write)
        CT_TRY(ct_fill(c->dev, n * c->in_group * c->taps, 0, dw));
    if (db && !c->write)
        CT_TRY(ct_fill(c->dev, n, 0, db));
    st       = ct_conv_backward_weights(c, x, dy, dw, db);
    c->write = false;
    return st;
}
