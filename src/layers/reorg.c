/* reorg.c - positions become channels, YOLO's type "Reorg".
 *
 * x: N x C x H x W    y: N x C s^2 x H/s x W/s, or with `reverse`
 * N x C/s^2 x H s x W s; s is `stride`.
 *
 * The order is darknet's.  Let q(i) be the place of value i of C x H x W when
 * channel k is spread over image k mod C/s^2 of C/s^2 x H s x W s, at row and
 * column k / (C/s^2) of each s x s block:
 *
 *     y[i] = x[q(i)]              with `reverse`: y[q(i)] = x[i]
 *
 * where an item of y is read in the order of its memory.  So without `reverse`
 * neighbours do not end up behind each other, as in the space-to-depth of other
 * frameworks; published weights expect that.  C is a multiple of s^2, H and W
 * of s.  Backward OVERWRITES dx. */
#include "layers/reorg.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status reorg_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__ReorgParameter *p = ct_reorg_param(l->param);
    struct reorg *r                = l->state;

    (void)io;
    if (p->stride == 0 || p->stride > 1024)
        return ct_fail(CT_EINVAL, "layer %s: stride is %u, and must be 1 to "
                       "1024", l->name, p->stride);
    r->stride  = p->stride;
    r->reverse = p->reverse;
    return CT_OK;
}

static enum ct_status reorg_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_shape *x = &io->bottom[0]->shape;
    struct reorg *r          = l->state;
    const int64_t s          = r->stride;

    if (x->n_axes != 4)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom must be images, N x C "
                       "x H x W, not %d axes", l->name, x->n_axes);
    r->c = x->dim[1];
    r->h = x->dim[2];
    r->w = x->dim[3];
    if (r->c % (s * s) != 0)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " channels are no "
                       "multiple of stride %" PRId64 " squared", l->name, r->c,
                       s);
    if (r->reverse)
        return ct_reshape(io->top[0], CT_SHAPE(x->dim[0], r->c / (s * s),
                                               r->h * s, r->w * s));
    if (r->h % s != 0 || r->w % s != 0)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " x %" PRId64
                       " positions are no multiples of stride %" PRId64,
                       l->name, r->h, r->w, s);
    return ct_reshape(io->top[0], CT_SHAPE(x->dim[0], r->c * s * s, r->h / s,
                                           r->w / s));
}

/* to[i] = from[q(i)], or to[q(i)] = from[i], item by item. */
static void reorg_move(const struct reorg *r, int64_t n, bool spread,
                       const float *from, float *to)
{
    const int64_t item = r->c * r->h * r->w, row = r->w;

    CT_FOR_ROWS (k, n * r->c * r->h, row) {
        const int64_t first = k * row / item * item;

        for (int64_t i = k * row; i < (k + 1) * row; i++) {
            const int64_t at = first + reorg_wide(r, i - first);

            if (spread)
                to[at] = from[i];
            else
                to[i] = from[at];
        }
    }
}

static enum ct_status reorg_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct reorg *r = l->state;

    reorg_move(r, io->bottom[0]->shape.dim[0], r->reverse,
               ct_data(io->bottom[0]), ct_data(io->top[0]));
    return CT_OK;
}

static enum ct_status reorg_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct reorg *r = l->state;

    if (io->want_grad[0])
        reorg_move(r, io->bottom[0]->shape.dim[0], !r->reverse,
                   ct_diff(io->top[0]), ct_diff(io->bottom[0]));
    return CT_OK;
}

const struct ct_layer_type ct_layer_reorg = {
    .name       = "Reorg",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct reorg),
    .setup      = reorg_setup,
    .reshape    = reorg_reshape,
    .forward    = { reorg_forward, CT_CUDA_FN(reorg_forward) },
    .backward   = { reorg_backward, CT_CUDA_FN(reorg_backward) },
};
