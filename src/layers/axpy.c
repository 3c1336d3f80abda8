/* axpy.c - channels scaled and added, type "Axpy" of SENet.
 *
 *     f = a x + y      a: n x c (x 1 ...)   x, y, f: n x c x ...
 *
 *     da = sum of df x over each channel    dx = a df    dy = df
 *
 * Bottoms are a, x and y.
 * Hu et al., "Squeeze-and-excitation networks", 2017. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/axpy.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"

enum { A, X, Y };

static enum ct_status axpy_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_shape *a = &io->bottom[A]->shape;
    const struct ct_shape *x = &io->bottom[X]->shape;
    const struct ct_shape *y = &io->bottom[Y]->shape;
    struct axpy *s = l->state;
    char one[256], two[256];

    if (!ct_shape_equal(x, y))
        return ct_fail(CT_ESHAPE, "layer %s: bottom 1 is %s, bottom 2 is %s, "
                       "and they must be alike", l->name,
                       ct_shape_text(x, one, sizeof(one)),
                       ct_shape_text(y, two, sizeof(two)));
    if (x->n_axes < 2 || a->n_axes < 2 || a->dim[0] != x->dim[0] ||
        a->dim[1] != x->dim[1] || ct_shape_count(a, 2, CT_END) != 1)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 0 is %s, and must have one "
                       "value for each channel of bottom 1, %s", l->name,
                       ct_shape_text(a, one, sizeof(one)),
                       ct_shape_text(x, two, sizeof(two)));
    s->rows  = ct_shape_count(x, 0, 2);
    s->inner = ct_shape_count(x, 2, CT_END);
    return ct_reshape(io->top[0], *x);
}

static enum ct_status axpy_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct axpy *s = l->state;
    const int64_t inner = s->inner;
    const float *a = ct_data(io->bottom[A]), *x = ct_data(io->bottom[X]);
    const float *y = ct_data(io->bottom[Y]);
    float *f = ct_data(io->top[0]);

    CT_FOR_ROWS (r, s->rows, inner)
        for (int64_t i = r * inner; i < (r + 1) * inner; i++)
            f[i] = a[r] * x[i] + y[i];
    return CT_OK;
}

static enum ct_status axpy_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct axpy *s = l->state;
    const int64_t inner = s->inner;
    const float *a = ct_data(io->bottom[A]), *x = ct_data(io->bottom[X]);
    const float *df = ct_diff(io->top[0]);
    float *da = io->want_grad[A] ? ct_diff(io->bottom[A]) : NULL;
    float *dx = io->want_grad[X] ? ct_diff(io->bottom[X]) : NULL;

    CT_FOR_ROWS (r, s->rows, inner) {
        const int64_t from = r * inner, to = from + inner;
        double sum = 0;

        if (da) {
            CT_SUM_ROW (i, inner, sum, df[from + i] * x[from + i]);
            da[r] = (float)sum;
        }
        if (dx)
            for (int64_t i = from; i < to; i++)
                dx[i] = a[r] * df[i];
    }
    if (io->want_grad[Y])
        return ct_copy(l->dev, io->top[0]->count, df, ct_diff(io->bottom[Y]));
    return CT_OK;
}

const struct ct_layer_type ct_layer_axpy = {
    .name       = "Axpy",
    .bottoms    = CT_EXACTLY(3),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_TOP,
    .state_size = sizeof(struct axpy),
    .reshape    = axpy_reshape,
    .forward    = { axpy_forward, CT_CUDA_FN(axpy_forward) },
    .backward   = { axpy_backward, CT_CUDA_FN(axpy_backward) },
};
