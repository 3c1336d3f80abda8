/* inner_product.c - the fully connected layer on a GPU; formulas and shapes as
 * in layers/inner_product.c.
 *
 * In the 16-bit precisions the factors of products are rounded to 16 bits on
 * the way in; blobs, weights and gradients stay float32. */
#include "device/cuda/conv.h"
#include "layers/cuda/cuda.h"
#include "proto/params.h"

enum { WEIGHT, BIAS };

struct sizes {
    int64_t       m, n, k;
    bool          transpose; /* W is k x n */
    enum ct_dtype dtype;     /* of factors */
};

static struct sizes sizes_of(const struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__InnerProductParameter *p = ct_inner_product_param(l->param);
    const int64_t n                       = p->num_output;

    return (struct sizes){
        .m         = io->top[0]->count / n,
        .n         = n,
        .k         = l->blob[WEIGHT]->count / n,
        .transpose = p->transpose,
        .dtype     = ct_device_dtype(l->dev),
    };
}

/* Two factors as the product takes them, and what follows them in scratch. */
static enum ct_status factors(const struct ct_layer *l, enum ct_dtype dtype,
                              const float *a, int64_t n_a, const float *b,
                              int64_t n_b, const void **a_out,
                              const void **b_out)
{
    const size_t bytes = ((size_t)n_a * ct_dtype_bytes(dtype) + 255) / 256 *
                         256;
    void *at;

    *a_out = a;
    *b_out = b;
    if (dtype == CT_F32)
        return CT_OK;
    CT_TRY(ct_cuda_workspace(l->dev, bytes + (size_t)n_b *
                                                 ct_dtype_bytes(dtype), &at));
    *a_out = at;
    *b_out = (char *)at + bytes;
    CT_TRY(ct_cuda_convert(l->dev, n_a, CT_F32, a, dtype, at));
    return ct_cuda_convert(l->dev, n_b, CT_F32, b, dtype, (char *)at + bytes);
}

enum ct_status ct_cuda_inner_product_forward(struct ct_layer *l,
                                             const struct ct_io *io)
{
    const struct sizes s = sizes_of(l, io);
    const void *x, *w;

    CT_TRY(factors(l, s.dtype, ct_data(io->bottom[0]), s.m * s.k,
                   ct_data(l->blob[WEIGHT]), s.n * s.k, &x, &w));
    return ct_cuda_gemm_run(l->dev, &(struct ct_cuda_gemm){
        .ta = CT_N, .tb = s.transpose ? CT_N : CT_T,
        .m = s.m, .n = s.n, .k = s.k,
        .lda = s.k, .ldb = s.transpose ? s.n : s.k, .ldc = s.n,
        .a_type = s.dtype, .b_type = s.dtype,
        .bias = l->n_blob > BIAS ? ct_data(l->blob[BIAS]) : NULL,
    }, 1, x, w, 0, ct_data(io->top[0]));
}

/* dW += dy^T x, or stored transposed x^T dy. */
static enum ct_status weight_gradient(const struct ct_layer *l,
                                      const struct sizes *s, const void *x,
                                      const void *dy)
{
    const bool t = s->transpose;

    return ct_cuda_gemm_run(l->dev, &(struct ct_cuda_gemm){
        .ta = CT_T, .tb = CT_N,
        .m = t ? s->k : s->n, .n = t ? s->n : s->k, .k = s->m,
        .lda = t ? s->k : s->n, .ldb = t ? s->n : s->k,
        .ldc = t ? s->n : s->k,
        .a_type = s->dtype, .b_type = s->dtype,
    }, 1, t ? x : dy, t ? dy : x, 1, ct_diff(l->blob[WEIGHT]));
}

static enum ct_status bottom_gradient(const struct ct_layer *l,
                                      const struct ct_io *io,
                                      const struct sizes *s)
{
    const void *dy, *w;

    CT_TRY(factors(l, s->dtype, ct_diff(io->top[0]), s->m * s->n,
                   ct_data(l->blob[WEIGHT]), s->n * s->k, &dy, &w));
    return ct_cuda_gemm_run(l->dev, &(struct ct_cuda_gemm){
        .ta = CT_N, .tb = s->transpose ? CT_T : CT_N,
        .m = s->m, .n = s->k, .k = s->n,
        .lda = s->n, .ldb = s->transpose ? s->n : s->k, .ldc = s->k,
        .a_type = s->dtype, .b_type = s->dtype,
    }, 1, dy, w, 0, ct_diff(io->bottom[0]));
}

enum ct_status ct_cuda_inner_product_backward(struct ct_layer *l,
                                              const struct ct_io *io)
{
    const struct sizes s           = sizes_of(l, io);
    const struct ct_bias_desc bias = { s.m, s.n, 1, CT_NHWC, CT_F32 };
    const void *x, *dy;

    if (l->blob_wants_grad[WEIGHT]) {
        CT_TRY(factors(l, s.dtype, ct_data(io->bottom[0]), s.m * s.k,
                       ct_diff(io->top[0]), s.m * s.n, &x, &dy));
        CT_TRY(weight_gradient(l, &s, x, dy));
    }
    if (l->n_blob > BIAS && l->blob_wants_grad[BIAS])
        CT_TRY(ct_cuda_conv_bias_backward(l->dev, &bias, ct_diff(io->top[0]),
                                     ct_diff(l->blob[BIAS])));
    return io->want_grad[0] ? bottom_gradient(l, io, &s) : CT_OK;
}
