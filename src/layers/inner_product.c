/* inner_product.c - the fully connected layer, Caffe type "InnerProduct".
 *
 *     y = x W^T + 1 b^T        x: m x k   W: n x k   b: n   y: m x n
 *
 * Bottom axes before `axis` flatten into m rows, the rest into k columns;
 * n is num_output.  With `transpose: true` W is stored k x n instead.
 * Backward ADDS to dW and db, because the solver clears them once per
 * iteration and iter_size sums several passes; it OVERWRITES dx.
 *
 * A W that no cache holds is read at the speed of memory only as the first
 * factor: y^T = W x^T is formed then, and turned round.                 */
#include "cortado/layer.h"

#include <inttypes.h>

#include "device/layout.h"
#include "proto/params.h"

enum { WEIGHT, BIAS };

struct inner_product {
    int64_t         m, n, k;
    int             axis;
    bool            has_bias, transpose;
    bool            w_first;     /* y^T is formed, with W the first factor */
    struct ct_blob *ones;        /* m ones: makes the bias a rank-1 gemm */
    struct ct_blob *turned;      /* y^T, n x m */
};

static enum ct_status ip_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__InnerProductParameter *p = ct_inner_product_param(l->param);
    struct inner_product *ip = l->state;

    if (p->num_output == 0)
        return ct_fail(CT_EINVAL, "layer %s: num_output is zero", l->name);
    CT_TRY(ct_axis(io->bottom[0], p->axis, &ip->axis));
    ip->n         = p->num_output;
    ip->k         = ct_count(io->bottom[0], ip->axis, CT_END);
    ip->has_bias  = p->bias_term;
    ip->transpose = p->transpose;
    CT_TRY(ct_layer_add_blob(l, ip->transpose ? CT_SHAPE(ip->k, ip->n)
                                              : CT_SHAPE(ip->n, ip->k),
                             p->weight_filler));
    if (ip->has_bias) {
        CT_TRY(ct_layer_add_blob(l, CT_SHAPE(ip->n), p->bias_filler));
        CT_TRY(ct_layer_add_scratch(l, &ip->ones));
    }
    return ct_layer_add_scratch(l, &ip->turned);
}

/* Few rows are gathered at no cost, and a small W stays in a cache. */
static bool ip_w_first(const struct ct_layer *l)
{
    const struct inner_product *ip = l->state;

    return l->dev->kind == CT_CPU && !ip->transpose && ip->m >= 16 &&
           ip->n * ip->k >= 1 << 20;
}

static enum ct_status ip_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct inner_product *ip = l->state;
    struct ct_shape y = io->bottom[0]->shape;
    int64_t k = ct_count(io->bottom[0], ip->axis, CT_END);

    if (k != ip->k)
        return ct_fail(CT_ESHAPE, "layer %s: bottom rows have %" PRId64
                       " values, weights take %" PRId64, l->name, k, ip->k);
    ip->m           = ct_count(io->bottom[0], 0, ip->axis);
    y.n_axes        = ip->axis + 1;
    y.dim[ip->axis] = ip->n;
    CT_TRY(ct_reshape(io->top[0], y));
    ip->w_first = ip_w_first(l);
    CT_TRY(ct_reshape(ip->turned, ip->w_first ? CT_SHAPE(ip->n, ip->m)
                                              : CT_SHAPE(0)));
    if (ip->has_bias) {
        CT_TRY(ct_reshape(ip->ones, CT_SHAPE(ip->m)));
        CT_TRY(ct_fill(l->dev, ip->m, 1, ct_data(ip->ones)));
    }
    return CT_OK;
}

static enum ct_status ip_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct inner_product *ip = l->state;
    const float *x = ct_data(io->bottom[0]), *w = ct_data(l->blob[WEIGHT]);
    float *y = ct_data(io->top[0]);

    if (ip->w_first) {
        CT_TRY(ct_gemm(l->dev, CT_N, CT_T, ip->n, ip->m, ip->k, 1, w, x, 0,
                       ct_data(ip->turned)));
        CT_TRY(ct_layout_convert(l->dev, 1, ip->n, ip->m, CT_PLAIN,
                                 ct_data(ip->turned), CT_NHWC, y));
    } else {
        CT_TRY(ct_gemm(l->dev, CT_N, ip->transpose ? CT_N : CT_T,
                       ip->m, ip->n, ip->k, 1, x, w, 0, y));
    }
    if (ip->has_bias)
        CT_TRY(ct_gemm(l->dev, CT_N, CT_N, ip->m, ip->n, 1,
                       1, ct_data(ip->ones), ct_data(l->blob[BIAS]), 1, y));
    return CT_OK;
}

/* dW = dy^T x: one outer product per row.  Stored transposed it is x^T dy. */
static enum ct_status ip_factors(struct ct_layer *l, const struct ct_io *io,
                                 int blob, struct ct_factors *out)
{
    const struct inner_product *ip = l->state;
    const float *x = ct_data(io->bottom[0]), *dy = ct_diff(io->top[0]);

    if (blob != WEIGHT)
        return CT_ENOTSUP;
    *out = ip->transpose ? (struct ct_factors){ x, dy, ip->m, ip->k, ip->n }
                         : (struct ct_factors){ dy, x, ip->m, ip->n, ip->k };
    return CT_OK;
}

static enum ct_status ip_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct inner_product *ip = l->state;
    const float *dy = ct_diff(io->top[0]), *w = ct_data(l->blob[WEIGHT]);
    struct ct_factors f;

    if (l->blob_wants_grad[WEIGHT]) {
        CT_TRY(ip_factors(l, io, WEIGHT, &f));
        CT_TRY(ct_gemm(l->dev, CT_T, CT_N, f.u_cols, f.v_cols, f.rows,
                       1, f.u, f.v, 1, ct_diff(l->blob[WEIGHT])));
    }
    if (ip->has_bias && l->blob_wants_grad[BIAS])
        CT_TRY(ct_gemm(l->dev, CT_T, CT_N, ip->n, 1, ip->m,
                       1, dy, ct_data(ip->ones), 1, ct_diff(l->blob[BIAS])));
    if (io->want_grad[0])
        CT_TRY(ct_gemm(l->dev, CT_N, ip->transpose ? CT_T : CT_N, ip->m, ip->k,
                       ip->n, 1, dy, w, 0, ct_diff(io->bottom[0])));
    return CT_OK;
}

static double ip_macs(const struct ct_layer *l, const struct ct_io *io)
{
    const struct inner_product *ip = l->state;

    (void)io;
    return (double)ip->m * (double)ip->n * (double)ip->k;
}

const struct ct_layer_type ct_layer_inner_product = {
    .name       = "InnerProduct",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_TOP,
    .state_size = sizeof(struct inner_product),
    .setup      = ip_setup,
    .reshape    = ip_reshape,
    .forward    = CT_EVERY_DEVICE(ip_forward),
    .backward   = CT_EVERY_DEVICE(ip_backward),
    .factors    = ip_factors,
    .macs       = ip_macs,
};
