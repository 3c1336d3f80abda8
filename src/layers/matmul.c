/* matmul.c - products of matrices, the forks' type "MatMul".
 *
 *     C = op(A) op(B)      op(A): m x k   op(B): k x n   C: m x n
 *     dA = dC op(B)^T      dB = op(A)^T dC, transposed back where op transposes
 *
 * Matrices are the last two axes of bottom 0 (A) and 1 (B); the axes before
 * them are the same in both, and each of their indices has its own product.
 * op transposes with transpose_a, transpose_b.  Backward OVERWRITES dA and dB.
 */
#include "cortado/layer.h"

#include <inttypes.h>

#include "layers/common.h"
#include "proto/params.h"

struct matmul {
    int64_t           items, m, n, k;
    enum ct_transpose ta, tb;
};

static enum ct_status matmul_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__MatMulParameter *p = ct_matmul_param(l->param);
    struct matmul *s                = l->state;

    (void)io;
    s->ta = p->transpose_a ? CT_T : CT_N;
    s->tb = p->transpose_b ? CT_T : CT_N;
    return CT_OK;
}

static enum ct_status matmul_reshape(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct ct_shape *a = &io->bottom[0]->shape;
    const struct ct_shape *b = &io->bottom[1]->shape;
    const int rows = a->n_axes - 2, columns = a->n_axes - 1;
    struct matmul *s  = l->state;
    struct ct_shape c = *a;

    if (a->n_axes < 2 || a->n_axes != b->n_axes)
        return ct_fail(CT_ESHAPE, "layer %s: bottoms need the same number of "
                       "axes, at least 2, and have %d and %d", l->name,
                       a->n_axes, b->n_axes);
    for (int i = 0; i < rows; i++)
        if (a->dim[i] != b->dim[i])
            return ct_fail(CT_ESHAPE, "layer %s: axis %d is %" PRId64 " in "
                           "bottom 0 and %" PRId64 " in bottom 1", l->name, i,
                           a->dim[i], b->dim[i]);
    s->m = a->dim[s->ta == CT_T ? columns : rows];
    s->k = a->dim[s->ta == CT_T ? rows : columns];
    s->n = b->dim[s->tb == CT_T ? rows : columns];
    if (b->dim[s->tb == CT_T ? columns : rows] != s->k)
        return ct_fail(CT_ESHAPE, "layer %s: rows of bottom 0 have %" PRId64
                       " values, columns of bottom 1 %" PRId64, l->name, s->k,
                       b->dim[s->tb == CT_T ? columns : rows]);
    s->items       = ct_count(io->bottom[0], 0, rows);
    c.dim[rows]    = s->m;
    c.dim[columns] = s->n;
    return ct_reshape(io->top[0], c);
}

static enum ct_status matmul_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct matmul *s = l->state;
    const float *a = ct_data(io->bottom[0]), *b = ct_data(io->bottom[1]);
    float *c = ct_data(io->top[0]);

    for (int64_t i = 0; i < s->items; i++)
        CT_TRY(ct_gemm(l->dev, s->ta, s->tb, s->m, s->n, s->k, 1,
                       a + i * s->m * s->k, b + i * s->k * s->n, 0,
                       c + i * s->m * s->n));
    return CT_OK;
}

static enum ct_status matmul_backward_a(const struct ct_layer *l,
                                        const float *b, const float *dc,
                                        float *da)
{
    const struct matmul *s = l->state;

    if (s->ta == CT_T)
        return ct_gemm(l->dev, s->tb, CT_T, s->k, s->m, s->n, 1, b, dc, 0, da);
    return ct_gemm(l->dev, CT_N, s->tb == CT_T ? CT_N : CT_T, s->m, s->k, s->n,
                   1, dc, b, 0, da);
}

static enum ct_status matmul_backward_b(const struct ct_layer *l,
                                        const float *a, const float *dc,
                                        float *db)
{
    const struct matmul *s = l->state;

    if (s->tb == CT_T)
        return ct_gemm(l->dev, CT_T, s->ta, s->n, s->k, s->m, 1, dc, a, 0, db);
    return ct_gemm(l->dev, s->ta == CT_T ? CT_N : CT_T, CT_N, s->k, s->n, s->m,
                   1, a, dc, 0, db);
}

static enum ct_status matmul_backward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct matmul *s = l->state;
    const float *a = ct_data(io->bottom[0]), *b = ct_data(io->bottom[1]);
    const float *dc = ct_diff(io->top[0]);

    for (int64_t i = 0; i < s->items; i++) {
        const int64_t at_a = i * s->m * s->k, at_b = i * s->k * s->n;
        const int64_t at_c = i * s->m * s->n;

        if (io->want_grad[0])
            CT_TRY(matmul_backward_a(l, b + at_b, dc + at_c,
                                     ct_diff(io->bottom[0]) + at_a));
        if (io->want_grad[1])
            CT_TRY(matmul_backward_b(l, a + at_a, dc + at_c,
                                     ct_diff(io->bottom[1]) + at_b));
    }
    return CT_OK;
}

static double matmul_macs(const struct ct_layer *l, const struct ct_io *io)
{
    const struct matmul *s = l->state;

    (void)io;
    return (double)s->items * (double)s->m * (double)s->n * (double)s->k;
}

const struct ct_layer_type ct_layer_matmul = {
    .name       = "MatMul",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_TOP,
    .state_size = sizeof(struct matmul),
    .setup      = matmul_setup,
    .reshape    = matmul_reshape,
    .forward    = CT_EVERY_DEVICE(matmul_forward),
    .backward   = CT_EVERY_DEVICE(matmul_backward),
    .macs       = matmul_macs,
};
