/* lrn.c - Caffe type "LRN": local response normalization.
 *
 *     ACROSS_CHANNELS   y = x (k + alpha / size   sum x^2)^-beta
 *     WITHIN_CHANNEL    y = x (1 + alpha / size^2 sum x^2)^-beta
 *
 * x, y: n c h w.  The sums go over local_size channels, or over local_size x
 * local_size positions, around each value; outside there are zeros.  Within a
 * channel `k` is ignored, as in Caffe, which has no other way either.
 *
 * Backward reads x.  Behind a convolution that has absorbed a ReLU, where x is
 * its y, a GPU masks dx for it on the way. */
#include "cortado/layer.h"

#include "device/impl.h"
#include "device/lrn_ops.h"
#include "layers/common.h"
#include "layers/conv_base.h"
#include "layers/cuda/slots.h"
#include "layers/lrn.h"
#include "proto/params.h"

static enum ct_status lrn_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__LRNParameter *p = ct_lrn_param(l->param);
    struct lrn *s = l->state;

    (void)io;
    if (p->local_size % 2 == 0)
        return ct_fail(CT_EINVAL, "layer %s: local_size must be odd, not %u",
                       l->name, p->local_size);
    s->lrn.size   = p->local_size;
    s->lrn.alpha  = p->alpha;
    s->lrn.beta   = p->beta;
    s->lrn.within = p->norm_region ==
                    CAFFE__LRNPARAMETER__NORM_REGION__WITHIN_CHANNEL;
    s->lrn.k      = s->lrn.within ? 1 : p->k;
    s->near       = ct_impl_allowed("within", "near");
    return ct_layer_add_scratch(l, &s->scratch);
}

static enum ct_status lrn_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct lrn *s = l->state;
    const struct ct_shape *x = &io->bottom[0]->shape;

    if (x->n_axes != 4)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom must have 4 axes (num, "
                       "channels, height, width), not %d", l->name, x->n_axes);
    CT_TRY(ct_reshape(io->top[0], *x));
    if (io->top[0]->data.layout != io->bottom[0]->data.layout)
        return ct_fail(CT_ENOTSUP, "layer %s: top and bottom need one layout",
                       l->name);
    s->lrn.n      = x->dim[0];
    s->lrn.c      = x->dim[1];
    s->lrn.h      = x->dim[2];
    s->lrn.w      = x->dim[3];
    s->lrn.layout = io->bottom[0]->data.layout;
    s->lrn.dtype  = io->bottom[0]->data.dtype;
    CT_TRY(ct_lrn_choose(&s->lrn));
    return ct_reshape(s->scratch, CT_SHAPE(ct_lrn_scratch(&s->lrn)));
}

static enum ct_status lrn_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct lrn *s = l->state;

    return ct_lrn_forward(&s->lrn, ct_data(io->bottom[0]),
                          ct_data(io->top[0]));
}

static enum ct_status lrn_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct lrn *s = l->state;

    if (!io->want_grad[0])
        return CT_OK;
    return ct_lrn_backward(&s->lrn, ct_data(io->bottom[0]),
                           ct_diff(io->top[0]), ct_data(s->scratch),
                           ct_diff(io->bottom[0]));
}

static bool lrn_accepts(const struct ct_layer *l, const struct ct_io *io,
                        enum ct_layout layout)
{
    const struct lrn *s = l->state;

    (void)io, (void)layout;
    return !ct_layer_shorts(l) || s->lrn.within ||
           s->lrn.size <= CT_LRN_BF16_MOST;
}

static bool lrn_meet(struct ct_layer *l, int i, struct ct_layer *writer,
                     const struct ct_blob *top, bool last)
{
    struct lrn *s    = l->state;
    const bool takes = writer && l->dev->kind == CT_CUDA &&
                       writer->dev == l->dev && ct_conv_layer_of(writer) &&
                       (ct_impl_allowed("mask", "next") ||
                        ct_impl_allowed("mask", "all"));

    (void)i, (void)last;
    s->writer = takes ? writer : NULL;
    s->top    = takes ? top : NULL;
    return false;
}

bool lrn_masks(const struct ct_layer *l, const struct ct_io *io)
{
    const struct lrn *s = l->state;
    float *db;

    return s->writer && io->bottom[0] == s->top &&
           ct_conv_layer_masks(s->writer, &db);
}

enum ct_status lrn_masked(const struct ct_layer *l, const struct ct_io *io)
{
    const struct lrn *s            = l->state;
    const struct ct_bias_desc desc = { s->lrn.n, s->lrn.c, s->lrn.h * s->lrn.w,
                                       s->lrn.layout, s->lrn.dtype };
    float *db = NULL;

    if (ct_conv_layer_masks(s->writer, &db) && db)
        CT_TRY(ct_bias_backward(l->dev, &desc, ct_diff(io->bottom[0]), db));
    ct_conv_layer_masked(s->writer);
    return CT_OK;
}

static void lrn_teardown(struct ct_layer *l)
{
    struct lrn *s = l->state;

    ct_lrn_fini(&s->lrn);
}

const struct ct_layer_type ct_layer_lrn = {
    .name       = "LRN",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT | CT_LAYER_BY_ITEM |
                  CT_LAYER_BF16,
    .state_size = sizeof(struct lrn),
    .setup      = lrn_setup,
    .reshape    = lrn_reshape,
    .forward    = { lrn_forward, CT_CUDA_FN(lrn_forward) },
    .backward   = { lrn_backward, CT_CUDA_FN(lrn_backward) },
    .accepts    = lrn_accepts,
    .meet       = lrn_meet,
    .teardown   = lrn_teardown,
};
