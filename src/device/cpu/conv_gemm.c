/* conv_gemm.c - convolution as a matrix product, one sample and group a time.
 *
 *     y = W col        W: out_group x (in_group taps)      col: see im2col
 *     col = W^T dy     dW += dy col^T
 *
 * A kernel of one tap that visits every position needs no columns: x itself
 * is the matrix.  Plain layouts only. */
#include <inttypes.h>

#include "base/mem.h"
#include "device/conv_impl.h"
#include "device/cpu/conv_im2col.h"

struct gemm_state {
    struct ct_im2col im2col; /* of one group */
    bool             direct; /* no columns: x is the matrix */
};

static bool gemm_is_pointwise(const struct ct_conv_desc *d)
{
    for (int i = 0; i < d->n_spatial; i++)
        if (d->kernel[i] != 1 || d->stride[i] != 1 || d->pad[i] != 0)
            return false;
    return true;
}

static enum ct_status gemm_create(struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;
    struct gemm_state *g;
    size_t bytes;

    if (d->src_layout != CT_PLAIN || d->dst_layout != CT_PLAIN)
        return CT_ENOTSUP;
    CT_TRY(ct_alloc(1, sizeof(*g), "convolution by gemm", &g));
    c->state = g;
    ct_im2col_init(&g->im2col, d, c->in_group);
    g->direct = gemm_is_pointwise(d);
    if (g->direct)
        return CT_OK;
    if (!ct_mul_fits((size_t)(c->in_group * c->taps),
                     (size_t)c->out_spatial * sizeof(float), &bytes))
        return ct_fail(CT_ENOMEM, "im2col columns are too large");
    return ct_workspace_need(c->work, bytes);
}

static void gemm_destroy(struct ct_conv *c)
{
    ct_free(c->state);
}

/* The parts of the arrays that one sample and group use. */
static int64_t x_at(const struct ct_conv *c, int64_t i)
{
    return i * c->in_group * c->in_spatial;
}

static int64_t y_at(const struct ct_conv *c, int64_t i)
{
    return i * c->out_group * c->out_spatial;
}

static int64_t w_at(const struct ct_conv *c, int64_t i)
{
    return i % c->desc.group * c->out_group * c->in_group * c->taps;
}

static const float *columns(const struct ct_conv *c, const float *x)
{
    const struct gemm_state *g = c->state;

    if (g->direct)
        return x;
    ct_im2col(&g->im2col, x, c->work->ptr);
    return c->work->ptr;
}

static enum ct_status gemm_forward(struct ct_conv *c, const float *x,
                                   const float *w, const float *b, float *y)
{
    const struct ct_bias_desc bias = { c->desc.batch, c->desc.out_channels,
                                       c->out_spatial, CT_PLAIN, CT_F32 };

    for (int64_t i = 0; i < c->desc.batch * c->desc.group; i++)
        CT_TRY(ct_gemm(c->dev, CT_N, CT_N, c->out_group, c->out_spatial,
                       c->in_group * c->taps, 1, w + w_at(c, i),
                       columns(c, x + x_at(c, i)), c->desc.sum ? 1 : 0,
                       y + y_at(c, i)));
    if (b)
        CT_TRY(ct_bias_forward(c->dev, &bias, b, y));
    if (c->desc.relu)
        ct_conv_relu(c, y);
    return CT_OK;
}

static enum ct_status gemm_backward_data(struct ct_conv *c, const float *w,
                                         const float *dy, float *dx)
{
    const struct gemm_state *g = c->state;

    for (int64_t i = 0; i < c->desc.batch * c->desc.group; i++) {
        float *to = g->direct ? dx + x_at(c, i) : c->work->ptr;

        CT_TRY(ct_gemm(c->dev, CT_T, CT_N, c->in_group * c->taps,
                       c->out_spatial, c->out_group, 1, w + w_at(c, i),
                       dy + y_at(c, i), 0, to));
        if (!g->direct)
            ct_col2im(&g->im2col, to, dx + x_at(c, i));
    }
    return CT_OK;
}

static enum ct_status gemm_backward_weights(struct ct_conv *c, const float *x,
                                            const float *dy, float *dw,
                                            float *db)
{
    for (int64_t i = 0; i < c->desc.batch * c->desc.group; i++)
        CT_TRY(ct_gemm(c->dev, CT_N, CT_T, c->out_group,
                       c->in_group * c->taps, c->out_spatial, 1,
                       dy + y_at(c, i), columns(c, x + x_at(c, i)), 1,
                       dw + w_at(c, i)));
    return ct_conv_bias_gradient(c, dy, db);
}

const struct ct_conv_impl ct_conv_gemm = {
    .name             = "gemm",
    .create           = gemm_create,
    .destroy          = gemm_destroy,
    .forward          = gemm_forward,
    .backward_data    = gemm_backward_data,
    .backward_weights = gemm_backward_weights,
};
