/* eltwise.c - bottoms of one shape combined, Caffe type "Eltwise".
 *
 *     SUM   y = c_0 x_0 + c_1 x_1 + ...    dx_i = c_i dy
 *     PROD  y = x_0 x_1 ...                dx_i = dy times the other x
 *     MAX   y = max(x_0, x_1, ...)         dx_i = dy where x_i won, else 0
 *
 * c is coeff, 1 unless given, and only SUM uses it.  Among equal values bottom
 * 1 wins over bottom 0 and both over later ones, as in Caffe.  The product's
 * gradient is always the stable one: with `stable_prod_grad: false` Caffe
 * divides y by x_i, the same number where x_i is not 0.
 *
 * All bottoms are combined a chunk at a time, so that each is read from memory
 * once and y is written once.
 *
 * SUM absorbs a ReLU behind it: y = max(sum, 0), and dy counts where y > 0.
 * It absorbs a Split behind that, too: dy is the sum of the diffs of its tops.
 * Its dx_0, where c_0 is 1, may lie where a dy lies, and all dx in one place
 * where all c are 1. */
#include "cortado/layer.h"

#include <string.h>

#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "layers/chunks.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/eltwise.h"
#include "proto/params.h"

enum { SUM  = CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__SUM,
       PROD = CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__PROD,
       MAX  = CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__MAX };

bool ct_layer_is_plain_sum(const struct ct_layer *l)
{
    const Caffe__EltwiseParameter *p = ct_eltwise_param(l->param);

    if (strcmp(l->type->name, "Eltwise") != 0 || l->param->n_bottom != 2 ||
        (int)p->operation != SUM)
        return false;
    for (size_t i = 0; i < p->n_coeff; i++)
        if (p->coeff[i] != 1)
            return false;
    return true;
}

static enum ct_status eltwise_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__EltwiseParameter *p = ct_eltwise_param(l->param);
    struct eltwise *e = l->state;

    e->op = (int)p->operation;
    if (p->n_coeff && p->n_coeff != (size_t)io->n_bottom)
        return ct_fail(CT_EINVAL, "layer %s: %d bottoms take %d coeff values, "
                       "not %zu", l->name, io->n_bottom, io->n_bottom,
                       p->n_coeff);
    if (p->n_coeff && e->op == PROD)
        return ct_fail(CT_EINVAL, "layer %s: a product takes no coeff; use "
                       "operation SUM, or leave it out", l->name);
    if (e->op == MAX)
        CT_TRY(ct_layer_add_scratch(l, &e->winner));
    if (e->op != PROD)
        l->flags |= CT_LAYER_NO_BOTTOM; /* sums and winners need no data */
    if (e->op == SUM && (p->n_coeff == 0 || p->coeff[0] == 1)) {
        l->flags |= CT_LAYER_PASSES_DIFF | CT_LAYER_ONE_DIFF;
        for (size_t i = 0; i < p->n_coeff; i++)
            if (p->coeff[i] != 1)
                l->flags &= ~(unsigned)CT_LAYER_ONE_DIFF;
    }
    return CT_OK;
}

static enum ct_status eltwise_reshape(struct ct_layer *l,
                                      const struct ct_io *io)
{
    struct eltwise *e = l->state;
    const struct ct_shape *first = &io->bottom[0]->shape;
    char a[256], b[256];

    for (int i = 1; i < io->n_bottom; i++)
        if (!ct_shape_equal(&io->bottom[i]->shape, first))
            return ct_fail(CT_ESHAPE, "layer %s: bottom 0 is %s, bottom %d is "
                           "%s, and they must be alike", l->name,
                           ct_shape_text(first, a, sizeof(a)), i,
                           ct_shape_text(&io->bottom[i]->shape, b, sizeof(b)));
    if (e->winner)
        CT_TRY(ct_reshape(e->winner, ct_any_layout(first)));
    return ct_layer_same_shape(l, io);
}

static enum ct_status eltwise_forward(struct ct_layer *l,
                                      const struct ct_io *io);
static enum ct_status eltwise_backward(struct ct_layer *l,
                                       const struct ct_io *io);

CT_SIMD static void sum_chunk(const Caffe__EltwiseParameter *p,
                              const struct ct_io *io, int64_t from,
                              int64_t to)
{
    const float *a = ct_data(io->bottom[0]), *b = ct_data(io->bottom[1]);
    const float ca = p->n_coeff ? p->coeff[0] : 1;
    const float cb = p->n_coeff ? p->coeff[1] : 1;
    float *y = ct_data(io->top[0]);

    for (int64_t i = from; i < to; i++)
        y[i] = ca * a[i] + cb * b[i];
    for (int k = 2; k < io->n_bottom; k++) {
        const float *x = ct_data(io->bottom[k]);
        const float c  = p->n_coeff ? p->coeff[k] : 1;

        for (int64_t i = from; i < to; i++)
            y[i] += c * x[i];
    }
}

CT_SIMD static void relu_chunk(float *y, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        y[i] = y[i] < 0 ? 0 : y[i]; /* NaN stays */
}

CT_SIMD static void prod_chunk(const struct ct_io *io, int64_t from,
                               int64_t to)
{
    const float *a = ct_data(io->bottom[0]), *b = ct_data(io->bottom[1]);
    float *y = ct_data(io->top[0]);

    for (int64_t i = from; i < to; i++)
        y[i] = a[i] * b[i];
    for (int k = 2; k < io->n_bottom; k++) {
        const float *x = ct_data(io->bottom[k]);

        for (int64_t i = from; i < to; i++)
            y[i] *= x[i];
    }
}

CT_SIMD static void max_chunk(const struct ct_io *io, int32_t *winner,
                              int64_t from, int64_t to)
{
    const float *a = ct_data(io->bottom[0]), *b = ct_data(io->bottom[1]);
    float *y = ct_data(io->top[0]);

    for (int64_t i = from; i < to; i++) {
        winner[i] = a[i] > b[i] ? 0 : 1;
        y[i]      = a[i] > b[i] ? a[i] : b[i];
    }
    for (int k = 2; k < io->n_bottom; k++) {
        const float *x = ct_data(io->bottom[k]);

        for (int64_t i = from; i < to; i++) {
            winner[i] = x[i] > y[i] ? k : winner[i];
            y[i]      = x[i] > y[i] ? x[i] : y[i];
        }
    }
}

/* The usual sum, of two bottoms of bfloat16, in one pass over memory. */
CT_INLINE void sum_of_shorts(int64_t n, float ca, const uint16_t *a, float cb,
                             const uint16_t *b, bool relu, uint16_t *y)
{
    CT_SIMD_EACH (i, n) {
        const float v = ca * ct_widen(a[i]) + cb * ct_widen(b[i]);

        y[i] = ct_narrow(relu && v < 0 ? 0 : v); /* NaN stays */
    }
}

CT_SIMD static void sum_shorts(int64_t n, float ca, const uint16_t *a, float cb,
                               const uint16_t *b, bool relu, uint16_t *y)
{
    if (relu)
        sum_of_shorts(n, ca, a, cb, b, true, y);
    else
        sum_of_shorts(n, ca, a, cb, b, false, y);
}

static enum ct_status forward_shorts(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const Caffe__EltwiseParameter *p = ct_eltwise_param(l->param);
    const struct eltwise *e = l->state;
    const uint16_t *a = ct_bf16(ct_data(io->bottom[0]));
    const uint16_t *b = ct_bf16(ct_data(io->bottom[1]));
    uint16_t *y = ct_bf16_out(ct_data(io->top[0]));
    const int64_t n = ct_elements(io->top[0]);

    if (e->op != SUM || io->n_bottom != 2)
        return ct_chunks_forward(l, io, eltwise_forward);
    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK) {
        const int64_t from = c * CT_CHUNK;

        sum_shorts(ct_chunk_end(c, n) - from, p->n_coeff ? p->coeff[0] : 1,
                   a + from, p->n_coeff ? p->coeff[1] : 1, b + from, e->relu,
                   y + from);
    }
    for (int t = 1; t < io->n_top; t++)
        ct_copy_values(io->top[0], ct_data(io->top[0]), ct_data(io->top[t]));
    return CT_OK;
}

static enum ct_status eltwise_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const Caffe__EltwiseParameter *p = ct_eltwise_param(l->param);
    const struct eltwise *e = l->state;
    const int64_t n = ct_elements(io->top[0]);

    if (ct_chunks_any(io))
        return forward_shorts(l, io);
    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK) {
        const int64_t from = c * CT_CHUNK, to = ct_chunk_end(c, n);

        if (e->op == SUM)
            sum_chunk(p, io, from, to);
        else if (e->op == PROD)
            prod_chunk(io, from, to);
        else
            max_chunk(io, (int32_t *)ct_data(e->winner), from, to);
        if (e->relu)
            relu_chunk(ct_data(io->top[0]), from, to);
    }
    for (int t = 1; t < io->n_top; t++)
        if (ct_data(io->top[t]) != ct_data(io->top[0]))
            CT_TRY(ct_copy(l->dev, n, ct_data(io->top[0]),
                           ct_data(io->top[t])));
    return CT_OK;
}

/* dx of bottom k in [from, to). */
CT_SIMD static void grad_chunk(const struct ct_layer *l,
                               const struct ct_io *io, int k, int64_t from,
                               int64_t to)
{
    const Caffe__EltwiseParameter *p = ct_eltwise_param(l->param);
    const struct eltwise *e = l->state;
    const float *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[k]);

    if (e->op == SUM) {
        const float c  = p->n_coeff ? p->coeff[k] : 1;
        const float *y = ct_data(io->top[0]);

        if (e->relu)
            for (int64_t i = from; i < to; i++) {
                const float d = c * dy[i];

                dx[i] = y[i] > 0 ? d : 0;
            }
        else if (dx != dy)
            for (int64_t i = from; i < to; i++)
                dx[i] = c * dy[i];
    } else if (e->op == MAX) {
        const int32_t *winner = (const int32_t *)ct_data(e->winner);

        for (int64_t i = from; i < to; i++) {
            const float d = dy[i];

            dx[i] = winner[i] == k ? d : 0;
        }
    } else {
        for (int64_t i = from; i < to; i++)
            dx[i] = dy[i];
        for (int j = 0; j < io->n_bottom; j++) {
            const float *x = ct_data(io->bottom[j]);

            if (j == k)
                continue;
            for (int64_t i = from; i < to; i++)
                dx[i] *= x[i];
        }
    }
}

/* g = what counts of a + b; b may be NULL.  In one loop: memory is what takes
 * the time, and several arrays at once are read faster than one by one. */
CT_INLINE void gather(int64_t n, const float *a, const float *b,
                      const float *y, float *g)
{
    CT_SIMD_EACH (i, n) {
        const float d = b ? a[i] + b[i] : a[i];

        g[i] = !y || y[i] > 0 ? d : 0;
    }
}

CT_SIMD static void gather_chunk(int64_t n, const float *a, const float *b,
                                 const float *y, float *g)
{
    if (b && y)
        gather(n, a, b, y, g);
    else if (b)
        gather(n, a, b, NULL, g);
    else if (y)
        gather(n, a, NULL, y, g);
    else
        gather(n, a, NULL, NULL, g);
}

CT_SIMD static void scale_chunk(int64_t n, float c, const float *g, float *dx)
{
    CT_SIMD_EACH (i, n)
        dx[i] = c * g[i];
}

/* n values from `from` on of the sum of the tops' diffs, as far as it counts,
 * in `end`, which may lie where one of them lies.  Tops without a diff count
 * as zero. */
static void sum_tops(const struct eltwise *e, const struct ct_io *io,
                     int64_t from, int64_t n, float *end)
{
    const float *sum = NULL, *y = ct_data(io->top[0]) + from;
    float part[CT_CHUNK];
    int left = 0;

    for (int t = 0; t < io->n_top; t++)
        left += ct_diff(io->top[t]) != NULL;
    if (left == 0)
        memset(end, 0, (size_t)n * sizeof(*end));
    for (int t = 0; t < io->n_top && left; t++) {
        const float *dy = ct_diff(io->top[t]);

        if (!dy)
            continue;
        left--;
        if (left && !sum) {
            sum = dy + from;
            continue;
        }
        gather_chunk(n, dy + from, sum, left == 0 && e->relu ? y : NULL,
                     left ? part : end);
        sum = part;
    }
}

/* All dx in [from, to) where a Split is absorbed.  With PASSES_DIFF the sum is
 * dx of bottom 0. */
static void split_grad_chunk(const struct ct_layer *l, const struct ct_io *io,
                             int64_t from, int64_t to)
{
    const Caffe__EltwiseParameter *p = ct_eltwise_param(l->param);
    const bool first = (l->flags & CT_LAYER_PASSES_DIFF) && io->want_grad[0];
    float own[CT_CHUNK], *g = first ? ct_diff(io->bottom[0]) + from : own;

    sum_tops(l->state, io, from, to - from, g);
    for (int k = 0; k < io->n_bottom; k++) {
        float *dx = io->want_grad[k] ? ct_diff(io->bottom[k]) + from : g;

        if (dx != g)
            scale_chunk(to - from, p->n_coeff ? p->coeff[k] : 1, g, dx);
    }
}

/* Whether bottom k's gradient lies where that of a later bottom does. */
static bool is_written(const struct ct_io *io, int k)
{
    for (int j = k + 1; j < io->n_bottom; j++)
        if (io->want_grad[j] &&
            ct_diff(io->bottom[j]) == ct_diff(io->bottom[k]))
            return true;
    return false;
}

/* The usual sum's, of one dy or two.  Bottom 0 comes last: its dx may lie where
 * a dy lies. */
static enum ct_status backward_shorts(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const Caffe__EltwiseParameter *p = ct_eltwise_param(l->param);
    const struct eltwise *e = l->state;
    const float *y = e->relu ? ct_data(io->top[0]) : NULL;
    const float *dy[2] = { NULL, NULL };
    int n = 0;

    for (int t = 0; t < io->n_top; t++)
        if (ct_diff(io->top[t]) && n++ < 2)
            dy[n - 1] = ct_diff(io->top[t]);
    if (e->op != SUM || n < 1 || n > 2)
        return ct_chunks_backward(l, io, eltwise_backward);
    for (int k = io->n_bottom - 1; k >= 0; k--)
        if (io->want_grad[k] && !is_written(io, k))
            ct_gather_shorts(ct_elements(io->top[0]), dy[0], dy[1], y,
                             p->n_coeff ? p->coeff[k] : 1,
                             ct_diff(io->bottom[k]));
    return CT_OK;
}

static enum ct_status eltwise_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    const struct eltwise *e = l->state;
    const int64_t n = ct_elements(io->top[0]);

    if (ct_chunks_any(io))
        return backward_shorts(l, io);
    if (e->split) {
        CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK)
            split_grad_chunk(l, io, c * CT_CHUNK, ct_chunk_end(c, n));
        return CT_OK;
    }
    CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK)
        for (int k = 0; k < io->n_bottom; k++)
            if (io->want_grad[k])
                grad_chunk(l, io, k, c * CT_CHUNK, ct_chunk_end(c, n));
    return CT_OK;
}

static bool eltwise_absorb(struct ct_layer *l, const struct ct_layer *next)
{
    struct eltwise *e = l->state;

    if (next && (e->op != SUM || e->split))
        return false;
    if (next && strcmp(next->type->name, "Split") == 0) {
        const size_t most = ct_layer_shorts(l) ? (size_t)CT_CHUNK_BLOBS
                                               : (size_t)ELTWISE_LIST;

        e->split = next->param->n_top <= most ||
                   (l->dev->kind == CT_CPU && !ct_layer_shorts(l));
        return e->split;
    }
    if (next && (e->relu || strcmp(next->type->name, "ReLU") != 0 ||
                 ct_relu_param(next->param)->negative_slope != 0))
        return false;
    e->relu  = next != NULL;
    e->split = false;
    /* Backward reads the sign of y. */
    l->flags = e->relu ? l->flags & ~(unsigned)CT_LAYER_NO_TOP
                       : l->flags | CT_LAYER_NO_TOP;
    return true;
}

/* Winners belong to a place; see chunks.h. */
static bool eltwise_accepts(const struct ct_layer *l, const struct ct_io *io,
                            enum ct_layout layout)
{
    const struct eltwise *e = l->state;

    (void)layout;
    return !ct_layer_shorts(l) ||
           (e->op != MAX && ct_chunks_take(io->n_bottom, io->n_top));
}

const struct ct_layer_type ct_layer_eltwise = {
    .name       = "Eltwise",
    .bottoms    = CT_AT_LEAST(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT | CT_LAYER_BY_ITEM |
                CT_LAYER_BF16,
    .state_size = sizeof(struct eltwise),
    .setup      = eltwise_setup,
    .reshape    = eltwise_reshape,
    .forward    = { eltwise_forward, CT_CUDA_FN(eltwise_forward) },
    .backward   = { eltwise_backward, CT_CUDA_FN(eltwise_backward) },
    .accepts    = eltwise_accepts,
    .absorb     = eltwise_absorb,
};
