/* pooling.c - Caffe type "Pooling": each window of an image as one value.
 *
 *     x: n c h w      y: n c oh ow      oh = ceil((h + 2 pad - kernel) /
 *                                                 stride) + 1, same for ow
 *
 *     MAX         the largest value; a second top gets its place in the
 *                 channel's plane (row w + column) as a float
 *     AVE         the mean over the window, zeros of the padding included
 *     STOCHASTIC  TRAIN: a value drawn in proportion to its size;
 *                 TEST: their mean, weighted by themselves
 *
 * `round_mode: FLOOR`, or the forks' `ceil_mode: false`, rounds down.  With
 * padding, a last window that starts beyond the image and its padding is
 * dropped.  global_pooling takes the image as the one window.
 *
 * Backward writes dx and reads neither x nor y.  Behind a convolution that has
 * absorbed a ReLU, a GPU forgets the places of maxima that are not above 0: dx
 * is 0 where the ReLU would make it so, and its sums over channels, which are
 * the gradient of the convolution's bias, are those of the dy that have a
 * place.  A mean masks dx on its way, and dx is read again for the sums.
 *
 * On a GPU maxima absorb a ReLU behind them: those that are not above 0 become
 * 0 and have no place.
 *
 * Deviations from Caffe: AVE gives 0, not NaN, for a window without any
 * position (stride > kernel), and STOCHASTIC runs on the CPU, and backward in
 * the TEST phase too. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "device/impl.h"
#include "device/layout.h"
#include "device/pool.h"
#include "layers/common.h"
#include "layers/conv_base.h"
#include "layers/cuda/slots.h"
#include "layers/deal.h"
#include "layers/pooling.h"
#include "proto/params.h"

#define METHOD(m) CAFFE__POOLING_PARAMETER__POOL_METHOD__##m

static enum ct_status refuse(const struct ct_layer *l, const char *what)
{
    return ct_fail(CT_EINVAL, "layer %s: %s", l->name, what);
}

/* What Caffe accepts as a description of one window. */
static enum ct_status pooling_check(const struct ct_layer *l,
                                    const Caffe__PoolingParameter *p)
{
    bool both = p->has_kernel_h && p->has_kernel_w;

    if (p->global_pooling) {
        if (p->has_kernel_size || p->has_kernel_h || p->has_kernel_w)
            return refuse(l, "global_pooling takes the image as its window: "
                             "leave out kernel_size, kernel_h and kernel_w");
    } else if (p->has_kernel_size == both) {
        return refuse(l, both ? "give kernel_size or kernel_h and kernel_w, "
                                "not both"
                              : "give kernel_size, or both kernel_h and "
                                "kernel_w");
    }
    if ((p->has_pad_h || p->has_pad_w) &&
        (p->has_pad || !p->has_pad_h || !p->has_pad_w))
        return refuse(l, "give pad, or both pad_h and pad_w, not a mix");
    if ((p->has_stride_h || p->has_stride_w) &&
        (p->has_stride || !p->has_stride_h || !p->has_stride_w))
        return refuse(l, "give stride, or both stride_h and stride_w, not a "
                         "mix");
    if (p->has_ceil_mode && p->has_round_mode &&
        p->ceil_mode !=
            (p->round_mode == CAFFE__POOLING_PARAMETER__ROUND_MODE__CEIL))
        return refuse(l, "round_mode and ceil_mode contradict each other: "
                         "give one");
    return CT_OK;
}

static enum ct_status pooling_check_sizes(const struct ct_layer *l,
                                          const Caffe__PoolingParameter *p,
                                          const struct ct_pool *w)
{
    bool padded = w->pad_h > 0 || w->pad_w > 0;

    if (w->stride_h < 1 || w->stride_w < 1)
        return refuse(l, "stride must be positive");
    if (p->global_pooling)
        return padded || w->stride_h > 1 || w->stride_w > 1
                   ? refuse(l, "global_pooling takes pad 0 and stride 1")
                   : CT_OK;
    if (w->kernel_h < 1 || w->kernel_w < 1)
        return refuse(l, "the kernel must be at least 1 x 1");
    if (padded && p->pool == METHOD(STOCHASTIC))
        return refuse(l, "padding is for MAX and AVE pooling only");
    if (padded && (w->pad_h >= w->kernel_h || w->pad_w >= w->kernel_w))
        return refuse(l, "the padding must be smaller than the kernel");
    return CT_OK;
}

static enum ct_status pooling_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__PoolingParameter *p = ct_pooling_param(l->param);
    struct pooling *s = l->state;

    CT_TRY(pooling_check(l, p));
    s->strips = ct_impl_allowed("plain", "strips");
    s->global = p->global_pooling;
    s->floor  = p->has_ceil_mode
                    ? !p->ceil_mode
                    : p->round_mode ==
                          CAFFE__POOLING_PARAMETER__ROUND_MODE__FLOOR;
    s->pool.kernel_h = p->has_kernel_size ? p->kernel_size : p->kernel_h;
    s->pool.kernel_w = p->has_kernel_size ? p->kernel_size : p->kernel_w;
    s->pool.pad_h    = p->has_pad_h ? p->pad_h : p->pad;
    s->pool.pad_w    = p->has_pad_w ? p->pad_w : p->pad;
    s->pool.stride_h = p->has_stride_h ? p->stride_h : p->stride;
    s->pool.stride_w = p->has_stride_w ? p->stride_w : p->stride;
    s->pool.average  = p->pool == METHOD(AVE);
    CT_TRY(pooling_check_sizes(l, p, &s->pool));
    if (p->pool != METHOD(MAX) && io->n_top > 1)
        return refuse(l, "only MAX pooling has a second top");
    if (p->pool == METHOD(STOCHASTIC))
        l->flags &= ~(unsigned)CT_LAYER_BY_ITEM;
    if (p->pool == METHOD(STOCHASTIC) && l->phase == CAFFE__PHASE__TEST)
        CT_TRY(ct_layer_add_scratch(l, &s->kept));
    else if (p->pool != METHOD(AVE))
        CT_TRY(ct_layer_add_scratch(l, &s->at));
    return CT_OK;
}

static enum ct_status pooling_reshape(struct ct_layer *l,
                                      const struct ct_io *io)
{
    struct pooling *s = l->state;
    const struct ct_shape *x = &io->bottom[0]->shape;
    struct ct_shape y;

    if (x->n_axes != 4)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom must have 4 axes (num, "
                       "channels, height, width), not %d", l->name, x->n_axes);
    s->pool.n      = x->dim[0];
    s->pool.c      = x->dim[1];
    s->pool.h      = x->dim[2];
    s->pool.w      = x->dim[3];
    s->pool.layout = io->bottom[0]->data.layout;
    s->pool.dtype  = io->bottom[0]->data.dtype;
    if (s->global) {
        s->pool.kernel_h = s->pool.h;
        s->pool.kernel_w = s->pool.w;
    }
    ct_pool_shape(&s->pool, s->floor);
    if (s->pool.out_h < 0 || s->pool.out_w < 0 ||
        s->pool.h * s->pool.w > INT32_MAX)
        return ct_fail(CT_ESHAPE, "layer %s: a %" PRId64 " x %" PRId64
                       " image cannot be pooled by a %" PRId64 " x %" PRId64
                       " kernel", l->name, s->pool.h, s->pool.w,
                       s->pool.kernel_h, s->pool.kernel_w);
    y = CT_SHAPE(s->pool.n, s->pool.c, s->pool.out_h, s->pool.out_w);
    for (int i = 0; i < io->n_top; i++)
        CT_TRY(ct_reshape(io->top[i], y));
    if (io->top[0]->data.layout != s->pool.layout)
        return ct_fail(CT_ENOTSUP, "layer %s: top and bottom need one layout",
                       l->name);
    if (s->at)
        CT_TRY(ct_reshape(s->at, CT_SHAPE(ct_elements(io->top[0]))));
    if (s->kept)
        CT_TRY(ct_reshape(s->kept, CT_SHAPE(ct_elements(io->bottom[0]))));
    return ct_pool_choose(&s->pool);
}

/* The second top: places as floats, in whatever layout that top has. */
static void pooling_mask(const struct ct_pool *p, const int32_t *at,
                         const struct ct_blob *top)
{
    const int64_t b  = ct_layout_block(p->layout, p->c);
    const int64_t tb = ct_layout_block(top->data.layout, p->c);
    const int64_t plane = p->out_h * p->out_w;
    float *y = ct_data(top);

    if (top->data.layout == p->layout) {
        CT_FOR_EACH (i, ct_elements(top))
            y[i] = (float)at[i];
        return;
    }
    CT_FOR_ROWS (i, p->n * p->c, plane) {
        int64_t n = i / p->c, c = i % p->c;

        for (int64_t j = 0; j < plane; j++)
            y[ct_layout_at(ct_layout_blocks(top->data.layout, p->c), plane, tb,
                           n, c, j)] =
                (float)at[ct_layout_at(ct_layout_blocks(p->layout, p->c),
                                       plane, b, n, c, j)];
    }
}

static int32_t *places(const struct pooling *s)
{
    return (int32_t *)(void *)ct_data(s->at);
}

static enum ct_status pooling_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct pooling *s = l->state;
    const float *x = ct_data(io->bottom[0]);
    float *y = ct_data(io->top[0]);

    switch (ct_pooling_param(l->param)->pool) {
    case METHOD(AVE):
        return ct_pool_average(&s->pool, x, y);
    case METHOD(STOCHASTIC):
        if (s->kept) {
            ct_pool_expected(&s->pool, x, y);
            return ct_copy(l->dev, ct_elements(io->bottom[0]), x,
                           ct_data(s->kept));
        }
        ct_pool_stochastic(&s->pool, l->key,
                           ct_deal_row(l, s->pool.n), x, y, places(s));
        return CT_OK;
    default:
        CT_TRY(ct_pool_max(&s->pool, x, y, places(s)));
        if (io->n_top > 1)
            pooling_mask(&s->pool, places(s), io->top[1]);
        return CT_OK;
    }
}

static enum ct_status pooling_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    const struct pooling *s = l->state;
    const float *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    if (s->at)
        return ct_pool_max_backward(&s->pool, dy, places(s), dx);
    if (!s->kept)
        return ct_pool_average_backward(&s->pool, dy, dx);
    ct_pool_expected_backward(&s->pool, ct_data(s->kept), dy, dx);
    return CT_OK;
}

/* Draws and their means are made of floats. */
static bool pooling_accepts(const struct ct_layer *l, const struct ct_io *io,
                            enum ct_layout layout)
{
    (void)io, (void)layout;
    return !ct_layer_shorts(l) ||
           ct_pooling_param(l->param)->pool != METHOD(STOCHASTIC);
}

static bool pooling_absorb(struct ct_layer *l, const struct ct_layer *next)
{
    struct pooling *s = l->state;

    if (next && (s->relu || l->dev->kind != CT_CUDA ||
                 ct_pooling_param(l->param)->pool != METHOD(MAX) ||
                 strcmp(next->type->name, "ReLU") != 0 ||
                 ct_relu_param(next->param)->negative_slope != 0 ||
                 !ct_impl_allowed("clamp", "pool")))
        return false;
    s->relu = next != NULL;
    return true;
}

/* Whether its kind may mask dx for a convolution before it. */
static bool may_mask(const struct ct_layer *l)
{
    switch (ct_pooling_param(l->param)->pool) {
    case METHOD(MAX):
        return ct_impl_allowed("mask", "next") ||
               ct_impl_allowed("mask", "all");
    case METHOD(AVE):
        return ct_impl_allowed("mask", "all");
    default:
        return false;
    }
}

/* A second top shows all places. */
static bool pooling_meet(struct ct_layer *l, int i, struct ct_layer *writer,
                         const struct ct_blob *top, bool last)
{
    struct pooling *s = l->state;
    const bool takes  = writer && l->dev->kind == CT_CUDA &&
                       writer->dev == l->dev && l->param->n_top == 1 &&
                       ct_conv_layer_of(writer) && may_mask(l);

    (void)i, (void)last;
    s->writer = takes ? writer : NULL;
    s->top    = takes ? top : NULL;
    return false;
}

bool pooling_masks(const struct ct_layer *l, const struct ct_io *io,
                   float **db)
{
    const struct pooling *s = l->state;

    *db = NULL;
    return s->writer && io->bottom[0] == s->top &&
           ct_conv_layer_masks(s->writer, db);
}

void pooling_masked(const struct ct_layer *l)
{
    const struct pooling *s = l->state;

    ct_conv_layer_masked(s->writer);
}

static void pooling_teardown(struct ct_layer *l)
{
    struct pooling *s = l->state;

    ct_pool_fini(&s->pool);
}

const struct ct_layer_type ct_layer_pooling = {
    .name       = "Pooling",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_BETWEEN(1, 2),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT |
                  CT_LAYER_EXACT | CT_LAYER_BY_ITEM | CT_LAYER_BF16,
    .state_size = sizeof(struct pooling),
    .setup      = pooling_setup,
    .reshape    = pooling_reshape,
    .forward    = { pooling_forward, CT_CUDA_FN(pooling_forward) },
    .backward   = { pooling_backward, CT_CUDA_FN(pooling_backward) },
    .accepts    = pooling_accepts,
    .absorb     = pooling_absorb,
    .meet       = pooling_meet,
    .teardown   = pooling_teardown,
};
