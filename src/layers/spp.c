/* spp.c - Caffe type "SPP": spatial pyramid pooling.
 *
 *     x: n c h w     y: n x (c + 4 c + 16 c + ...), pyramid_height parts
 *
 * Part i is x pooled (`pool`: MAX or AVE) into 2^i x 2^i bins and flattened:
 * kernel = stride = ceil(h / bins), pad = half of what bins kernels reach
 * beyond the image, rounded up.  So y has one width for images of every size.
 * With pyramid_height 1 the top is n c 1 1, as in Caffe.
 * He et al., "Spatial pyramid pooling in deep convolutional networks". */
#include "cortado/layer.h"

#include <inttypes.h>

#include "device/pool.h"
#include "layers/cuda/slots.h"
#include "layers/spp.h"
#include "proto/params.h"

#define METHOD(m) CAFFE__SPPPARAMETER__POOL_METHOD__##m

static enum ct_status spp_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__SPPParameter *p = ct_spp_param(l->param);
    struct spp *s = l->state;

    (void)io;
    if (p->pyramid_height < 1 || p->pyramid_height > SPP_LEVELS)
        return ct_fail(CT_EINVAL, "layer %s: pyramid_height must be 1 to %d, "
                       "not %u", l->name, SPP_LEVELS, p->pyramid_height);
    if (p->pool == METHOD(STOCHASTIC))
        return ct_fail(CT_ENOTSUP, "layer %s: SPP pools by MAX or AVE, not "
                       "STOCHASTIC", l->name);
    s->height = (int)p->pyramid_height;
    CT_TRY(ct_layer_add_scratch(l, &s->part));
    return p->pool == METHOD(MAX) ? ct_layer_add_scratch(l, &s->at) : CT_OK;
}

/* Kernel and padding along one axis for 2^level bins. */
static void spp_bins(int64_t in, int level, int64_t *kernel, int64_t *pad)
{
    int64_t bins = (int64_t)1 << level;

    *kernel = (in + bins - 1) / bins;
    *pad    = (*kernel * bins - in + 1) / 2;
}

static enum ct_status spp_level(const struct ct_layer *l,
                                const struct ct_shape *x, int level,
                                struct ct_pool *p)
{
    ct_pool_fini(p);
    *p = (struct ct_pool){ .n = 1, .c = x->dim[1], .h = x->dim[2],
                           .w = x->dim[3], .layout = CT_PLAIN };
    p->average = ct_spp_param(l->param)->pool == METHOD(AVE);
    spp_bins(p->h, level, &p->kernel_h, &p->pad_h);
    spp_bins(p->w, level, &p->kernel_w, &p->pad_w);
    p->stride_h = p->kernel_h;
    p->stride_w = p->kernel_w;
    if ((p->pad_h || p->pad_w) &&
        (p->pad_h >= p->kernel_h || p->pad_w >= p->kernel_w))
        return ct_fail(CT_ESHAPE, "layer %s: a %" PRId64 " x %" PRId64
                       " image is too small for %d x %d bins: lower "
                       "pyramid_height", l->name, p->h, p->w, 1 << level,
                       1 << level);
    ct_pool_shape(p, false);
    return ct_pool_choose(p);
}

static enum ct_status spp_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct spp *s = l->state;
    const struct ct_shape *x = &io->bottom[0]->shape;

    if (x->n_axes != 4)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom must have 4 axes (num, "
                       "channels, height, width), not %d", l->name, x->n_axes);
    if (x->dim[2] < 1 || x->dim[3] < 1 || x->dim[2] * x->dim[3] > INT32_MAX)
        return ct_fail(CT_ESHAPE, "layer %s: a %" PRId64 " x %" PRId64
                       " image cannot be pooled", l->name, x->dim[2],
                       x->dim[3]);
    s->width = 0;
    for (int i = 0; i < s->height; i++) {
        CT_TRY(spp_level(l, x, i, &s->level[i]));
        s->width += x->dim[1] * s->level[i].out_h * s->level[i].out_w;
    }
    CT_TRY(ct_reshape(s->part, CT_SHAPE(ct_count(io->bottom[0], 1, CT_END))));
    if (s->at)
        CT_TRY(ct_reshape(s->at, CT_SHAPE(x->dim[0] * s->width)));
    return ct_reshape(io->top[0], s->height == 1
                                      ? CT_SHAPE(x->dim[0], x->dim[1], 1, 1)
                                      : CT_SHAPE(x->dim[0], s->width));
}

/* Where row n's part for level i begins in y, and in `at`. */
static int64_t spp_part(const struct spp *s, int64_t n, int i)
{
    int64_t at = n * s->width;

    while (--i >= 0)
        at += s->level[i].c * s->level[i].out_h * s->level[i].out_w;
    return at;
}

static enum ct_status spp_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct spp *s = l->state;
    const struct ct_blob *x = io->bottom[0];
    int32_t *places = s->at ? (int32_t *)(void *)ct_data(s->at) : NULL;

    for (int64_t n = 0; n < x->shape.dim[0]; n++)
        for (int i = 0; i < s->height; i++) {
            const float *from = ct_data(x) + n * ct_count(x, 1, CT_END);
            int64_t to = spp_part(s, n, i);

            if (places)
                CT_TRY(ct_pool_max(&s->level[i], from,
                                   ct_data(io->top[0]) + to, places + to));
            else
                CT_TRY(ct_pool_average(&s->level[i], from,
                                       ct_data(io->top[0]) + to));
        }
    return CT_OK;
}

/* One level's gradient at a time goes to `part` and is added up in dx. */
static enum ct_status spp_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct spp *s = l->state;
    const struct ct_blob *x = io->bottom[0];
    const int64_t image = ct_count(x, 1, CT_END);
    int32_t *places = s->at ? (int32_t *)(void *)ct_data(s->at) : NULL;

    if (!io->want_grad[0])
        return CT_OK;
    for (int64_t n = 0; n < x->shape.dim[0]; n++)
        for (int i = 0; i < s->height; i++) {
            int64_t from = spp_part(s, n, i);
            const float *dy = ct_diff(io->top[0]) + from;
            float *dx = ct_diff(x) + n * image;
            float *to = i == 0 ? dx : ct_data(s->part);

            if (places)
                CT_TRY(ct_pool_max_backward(&s->level[i], dy, places + from,
                                            to));
            else
                CT_TRY(ct_pool_average_backward(&s->level[i], dy, to));
            if (i > 0)
                CT_TRY(ct_axpy(l->dev, image, 1, to, dx));
        }
    return CT_OK;
}

static void spp_teardown(struct ct_layer *l)
{
    struct spp *s = l->state;

    for (int i = 0; i < SPP_LEVELS; i++)
        ct_pool_fini(&s->level[i]);
}

const struct ct_layer_type ct_layer_spp = {
    .name       = "SPP",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct spp),
    .setup      = spp_setup,
    .reshape    = spp_reshape,
    .forward    = { spp_forward, CT_CUDA_FN(spp_forward) },
    .backward   = { spp_backward, CT_CUDA_FN(spp_backward) },
    .teardown   = spp_teardown,
};
