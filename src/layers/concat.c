/* concat.c - bottoms joined along one axis, Caffe type "Concat".
 *
 *     bottoms ... x c_i x ...  ->  top ... x (c_0 + c_1 + ...) x ...
 *
 * All other dimensions are the same.  `axis` counts from either end;
 * concat_dim is its old name and takes no negative values.  A single bottom is
 * passed on.
 *
 * On a GPU, in precisions whose nets are NHWC, it absorbs a Split behind it: dy
 * is the sum of the diffs of its tops.  Where bottoms come from convolutions
 * that have absorbed a ReLU, it masks their diffs for them, and adds up the
 * gradients of their biases, in the pass that it takes over these diffs
 * anyway. */
#include "cortado/layer.h"

#include <string.h>

#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/impl.h"
#include "device/layout.h"
#include "layers/common.h"
#include "layers/concat.h"
#include "layers/conv_base.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status concat_axis(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__ConcatParameter *p = ct_concat_param(l->param);
    struct concat *c = l->state;
    int axis = p->axis;

    if (p->has_axis && p->has_concat_dim)
        return ct_fail(CT_EINVAL, "layer %s: give axis or concat_dim, not "
                       "both", l->name);
    if (p->has_concat_dim)
        axis = p->concat_dim < CT_MAX_AXES ? (int)p->concat_dim : CT_MAX_AXES;
    return ct_layer_axis(l, io->bottom[0], axis, &c->axis);
}

static enum ct_status concat_reshape(struct ct_layer *l,
                                     const struct ct_io *io)
{
    struct concat *c = l->state;
    struct ct_shape y = io->bottom[0]->shape;
    char a[256], b[256];

    CT_TRY(concat_axis(l, io));
    for (int i = 1; i < io->n_bottom; i++) {
        struct ct_shape x = io->bottom[i]->shape;
        int64_t more = c->axis < x.n_axes ? x.dim[c->axis] : 0;

        if (c->axis < x.n_axes)
            x.dim[c->axis] = y.dim[c->axis];
        if (!ct_shape_equal(&x, &y))
            return ct_fail(CT_ESHAPE, "layer %s: bottoms differ in more than "
                           "axis %d: bottom 0 is %s, bottom %d is %s", l->name,
                           c->axis, ct_shape_text(&io->bottom[0]->shape, a,
                                                  sizeof(a)), i,
                           ct_shape_text(&io->bottom[i]->shape, b, sizeof(b)));
        y.dim[c->axis] += more;
    }
    if (c->axis == 0)
        l->flags &= ~(unsigned)CT_LAYER_BY_ITEM;
    c->whole = l->dev->kind == CT_CUDA && ct_device_prefers_nhwc(l->dev) &&
               ct_impl_allowed("concat", "whole");
    c->outer = ct_shape_count(&y, 0, c->axis);
    c->inner = ct_shape_count(&y, c->axis + 1, CT_END);
    return ct_reshape(io->top[0], y);
}

/* How rows of bfloat16 in NHWC lie: bottoms are joined along channels at each
 * position, or one behind the other.  Sizes in values. */
static void concat_shorts(const struct concat *c, const struct ct_io *io,
                          bool forward)
{
    const struct ct_blob *top = io->top[0];
    const int64_t places = c->axis == 1 ? top->shape.dim[0] *
                                              ct_count(top, 2, CT_END)
                                        : 1;
    const int64_t step = top->count / (places ? places : 1);
    int64_t at         = 0;

    for (int i = 0; i < io->n_bottom; i++) {
        const struct ct_blob *b = io->bottom[i];
        const int64_t width     = b->count / (places ? places : 1);
        const size_t bytes      = (size_t)width * sizeof(uint16_t);
        uint16_t *x = ct_bf16_out(forward ? ct_data(b) : ct_diff(b));
        uint16_t *y = ct_bf16_out(forward ? ct_data(top) : ct_diff(top)) + at;

        if (forward)
            CT_FOR_ROWS (r, places, width)
                memcpy(y + r * step, x + r * width, bytes);
        else if (io->want_grad[i])
            CT_FOR_ROWS (r, places, width)
                memcpy(x + r * width, y + r * step, bytes);
        at += width;
    }
}

static enum ct_status concat_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct concat *c = l->state;
    const int64_t step = ct_count(io->top[0], c->axis, CT_END);
    float *y = ct_data(io->top[0]);

    if (io->top[0]->data.dtype == CT_BF16) {
        concat_shorts(c, io, true);
        return CT_OK;
    }
    for (int i = 0; i < io->n_bottom; i++) {
        int64_t width = io->bottom[i]->shape.dim[c->axis] * c->inner;

        ct_copy_rows(c->outer, width, ct_data(io->bottom[i]), width, y, step);
        y += width;
    }
    return CT_OK;
}

static enum ct_status concat_backward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct concat *c = l->state;
    const int64_t step = ct_count(io->top[0], c->axis, CT_END);
    const float *dy = ct_diff(io->top[0]);

    if (io->top[0]->data.dtype == CT_BF16) {
        concat_shorts(c, io, false);
        return CT_OK;
    }
    for (int i = 0; i < io->n_bottom; i++) {
        int64_t width = io->bottom[i]->shape.dim[c->axis] * c->inner;

        if (io->want_grad[i])
            ct_copy_rows(c->outer, width, dy, step, ct_diff(io->bottom[i]),
                         width);
        dy += width;
    }
    return CT_OK;
}

/* Whole blocks of channels lie in a row in every layout; a GPU also joins the
 * rows of NHWC, and the CPU those of bfloat16. */
static bool concat_accepts(const struct ct_layer *l, const struct ct_io *io,
                           enum ct_layout layout)
{
    const struct concat *c = l->state;

    for (int i = 0; i < io->n_bottom; i++)
        if (io->bottom[i]->shape.dim[1] %
            ct_layout_block(layout, io->bottom[i]->shape.dim[1]))
            return false;
    return c->axis < 2 && (layout != CT_NHWC || l->dev->kind == CT_CUDA ||
                           ct_layer_shorts(l));
}

static bool concat_absorb(struct ct_layer *l, const struct ct_layer *next)
{
    const struct concat *c = l->state;

    return !next || (c->whole && strcmp(next->type->name, "Split") == 0 &&
                     next->param->n_top <= CONCAT_TOPS);
}

/* A bottom that had to be converted is a copy of the writer's top. */
bool ct_concat_masks(const struct ct_layer *l, const struct ct_io *io, int i,
                     float **db)
{
    const struct concat *c = l->state;

    *db = NULL;
    return i < CONCAT_WRITERS && c->writer[i].conv && io->want_grad[i] &&
           io->bottom[i] == c->writer[i].top &&
           ct_conv_layer_masks(c->writer[i].conv, db);
}

void ct_concat_masked(const struct ct_layer *l, int i)
{
    const struct concat *c = l->state;

    ct_conv_layer_masked(c->writer[i].conv);
}

static bool concat_meet(struct ct_layer *l, int i, struct ct_layer *writer,
                        const struct ct_blob *top, bool last)
{
    struct concat *c = l->state;
    const bool takes = writer && c->whole && writer->dev == l->dev &&
                       ct_conv_layer_of(writer);

    (void)last;
    if (i < CONCAT_WRITERS)
        c->writer[i] = takes ? (struct concat_writer){ writer, top }
                             : (struct concat_writer){ NULL, NULL };
    return false;
}

const struct ct_layer_type ct_layer_concat = {
    .name       = "Concat",
    .bottoms    = CT_AT_LEAST(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT |
                  CT_LAYER_BY_ITEM | CT_LAYER_BF16,
    .state_size = sizeof(struct concat),
    .reshape    = concat_reshape,
    .forward    = { concat_forward, CT_CUDA_FN(concat_forward) },
    .backward   = { concat_backward, CT_CUDA_FN(concat_backward) },
    .accepts    = concat_accepts,
    .absorb     = concat_absorb,
    .meet       = concat_meet,
};
