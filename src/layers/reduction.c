/* reduction.c - the trailing axes reduced to a number, Caffe type
 * "Reduction".
 *
 *     SUM    y = c sum x          dx = c dy
 *     ASUM   y = c sum |x|        dx = c dy sign(x)
 *     SUMSQ  y = c sum x^2        dx = 2 c dy x
 *     MEAN   y = c sum x / n      dx = c dy / n
 *
 * Axes from `axis` on, n values together, are reduced; the top has the axes
 * before it, none for axis 0.  c is coeff.  Sums are taken in double; the mean
 * of nothing is 0. */
#include "cortado/layer.h"

#include <math.h>

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/reduction.h"
#include "proto/params.h"

enum { SUM   = CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUM,
       ASUM  = CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__ASUM,
       SUMSQ = CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUMSQ,
       MEAN  = CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__MEAN };

static enum ct_status reduction_reshape(struct ct_layer *l,
                                        const struct ct_io *io)
{
    const Caffe__ReductionParameter *p = ct_reduction_param(l->param);
    const struct ct_blob *x = io->bottom[0];
    struct reduction *r = l->state;
    struct ct_shape y = x->shape;

    CT_TRY(ct_layer_axis(l, x, p->axis, &y.n_axes));
    r->op    = (int)p->operation;
    r->rows  = ct_count(x, 0, y.n_axes);
    r->n     = ct_count(x, y.n_axes, CT_END);
    r->coeff = r->op == MEAN && r->n > 0 ? p->coeff / (float)r->n : p->coeff;
    return ct_reshape(io->top[0], y);
}

static double reduce(int op, const float *x, int64_t n)
{
    double sum = 0;

    if (op == ASUM)
        CT_SUM_ROW (i, n, sum, fabsf(x[i]));
    else if (op == SUMSQ)
        CT_SUM_ROW (i, n, sum, (double)x[i] * (double)x[i]);
    else
        CT_SUM_ROW (i, n, sum, x[i]);
    return sum;
}

static enum ct_status reduction_forward(struct ct_layer *l,
                                        const struct ct_io *io)
{
    const struct reduction *r = l->state;
    const int64_t n = r->n;
    const float *x = ct_data(io->bottom[0]);
    float *y = ct_data(io->top[0]);

    CT_FOR_ROWS (row, r->rows, n)
        y[row] = (float)(reduce(r->op, x + row * n, n) * (double)r->coeff);
    return CT_OK;
}

static enum ct_status reduction_backward(struct ct_layer *l,
                                         const struct ct_io *io)
{
    const struct reduction *r = l->state;
    const int64_t n = r->n;
    const float *x = ct_data(io->bottom[0]), *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_FOR_ROWS (row, r->rows, n) {
        const float c    = r->coeff * dy[row];
        const int64_t to = (row + 1) * n;

        if (r->op == ASUM)
            for (int64_t i = row * n; i < to; i++)
                dx[i] = x[i] > 0 ? c : x[i] < 0 ? -c : 0;
        else if (r->op == SUMSQ)
            for (int64_t i = row * n; i < to; i++)
                dx[i] = 2 * c * x[i];
        else
            for (int64_t i = row * n; i < to; i++)
                dx[i] = c;
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_reduction = {
    .name       = "Reduction",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_TOP,
    .state_size = sizeof(struct reduction),
    .reshape    = reduction_reshape,
    .forward    = { reduction_forward, CT_CUDA_FN(reduction_forward) },
    .backward   = { reduction_backward, CT_CUDA_FN(reduction_backward) },
};
