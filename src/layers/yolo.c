/* yolo.c - what RegionLoss and Yolov3 do alike, on the CPU. */
#include "layers/yolo.h"

#include <inttypes.h>

#include "device/cpu/loop.h"

enum ct_status yolo_setup(struct ct_layer *l, struct yolo *y)
{
    for (int i = 0; i < 2 * y->n_anchors; i++)
        if (!(y->anchor[i] > 0))
            return ct_fail(CT_EINVAL, "layer %s: bias %d is %g, and must be "
                           "greater than 0", l->name, i,
                           (double)y->anchor[i]);
    for (int64_t i = 0; i < y->num; i++)
        if (y->mask[i] < 0 || y->mask[i] >= y->n_anchors)
            return ct_fail(CT_EINVAL, "layer %s: mask %" PRId64 " is %d, and "
                           "there are %d anchors (two biases each)", l->name,
                           i, y->mask[i], y->n_anchors);
    CT_TRY(ct_layer_add_scratch(l, &y->act));
    return ct_layer_add_scratch(l, &y->delta);
}

enum ct_status yolo_reshape(const struct ct_layer *l, const struct ct_io *io,
                            struct yolo *y)
{
    const struct ct_shape *x = &io->bottom[0]->shape;
    const int64_t want       = y->num * (YOLO_CLASS + y->classes);

    if (x->n_axes != 4 || x->dim[1] != want)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 0 must be N x %" PRId64
                       " x H x W: %" PRId64 " anchors with 5 values and %"
                       PRId64 " classes", l->name, want, y->num, y->classes);
    y->n = x->dim[0];
    y->h = x->dim[2];
    y->w = x->dim[3];
    if (io->bottom[1]->shape.n_axes < 1 ||
        io->bottom[1]->shape.dim[0] != y->n ||
        ct_count(io->bottom[1], 1, CT_END) % 5 != 0)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 1 must be N x T x 5: "
                       "label, x, y, width, height", l->name);
    y->truths = ct_count(io->bottom[1], 1, CT_END) / 5;
    CT_TRY(ct_reshape(y->act, *x));
    CT_TRY(ct_reshape(y->delta, *x));
    return ct_reshape(io->top[0], CT_SCALAR);
}

static enum ct_status yolo_check(const struct ct_layer *l,
                                 const struct yolo *y, const float *truth)
{
    struct yolo_box box;
    int64_t label;

    for (int64_t b = 0; b < y->n; b++)
        for (int64_t t = 0; yolo_truth(y, truth, b, t, &box, &label); t++)
            if (label < 0)
                return ct_fail(CT_EINVAL, "layer %s: box %" PRId64 " of image "
                               "%" PRId64 " has label %g; labels are 0 to %"
                               PRId64, l->name, t, b,
                               (double)truth[(b * y->truths + t) * 5],
                               y->classes - 1);
    return CT_OK;
}

enum ct_status yolo_forward(const struct ct_layer *l, const struct ct_io *io,
                            const struct yolo *y, bool early)
{
    const float *x = ct_data(io->bottom[0]), *truth = ct_data(io->bottom[1]);
    const int64_t cells = y->h * y->w;
    float *act = ct_data(y->act), *delta = ct_data(y->delta);
    double sum = 0;

    CT_TRY(yolo_check(l, y, truth));
    CT_FOR_ROWS (i, y->n * y->num * cells, 64 * (YOLO_CLASS + y->classes))
        yolo_empty(y, x, truth, i / cells / y->num, i / cells % y->num,
                   i % cells, early, act, delta);
    for (int64_t b = 0; b < y->n; b++)
        yolo_fill(y, truth, b, act, delta);
    CT_SUM_EACH (i, io->bottom[0]->count, sum)
        sum += (double)(delta[i] * delta[i]);
    ct_data(io->top[0])[0] =
        (float)(sum / (double)(y->n > 1 ? y->n : 1));
    return CT_OK;
}
