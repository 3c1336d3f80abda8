/* inner_product.cu - the fully connected layer on a GPU; formulas and shapes as
 * in layers/inner_product.c.
 *
 * In the 16-bit precisions the factors of products are rounded to 16 bits,
 * each once a pass, unless they are small; blobs, weights and gradients stay
 * float32.  The gradients
 * of W and b run in the side lane, beside that of x. */
#include "device/cuda/elementwise.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

extern "C" {
#include "device/cuda/conv_kernels.h"
#include "device/recording.h"
#include "layers/inner_product.h"
}

enum { WEIGHT, BIAS };

static const struct inner_product *state_of(const struct ct_layer *l)
{
    return (const struct inner_product *)l->state;
}

static enum ct_dtype factor_type(const struct ct_layer *l)
{
    return state_of(l)->rounds ? ct_device_dtype(l->dev) : CT_F32;
}

/* n floats as a factor; where that is short, it was or is rounded now. */
static enum ct_status factor(const struct ct_layer *l, int which, bool now,
                             const float *from, int64_t n, const void **out)
{
    const struct inner_product *s = state_of(l);
    const struct ct_blob *to      = s->rounds ? s->shorts[which] : NULL;

    *out = to ? ct_data(to) : from;
    return to && now ? ct_cuda_convert(l->dev, n, CT_F32, from, factor_type(l),
                                       ct_data(to))
                     : CT_OK;
}

template <typename T>
__global__ static void shorten(int64_t n_x, const float *x, T *short_x,
                               int64_t n_w, const float *w, T *short_w)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n_x + n_w) {
        const bool is_x = i < n_x;
        const int64_t j = is_x ? i : i - n_x;

        ct_store((is_x ? short_x : short_w) + j, (is_x ? x : w)[j]);
    }
}

/* x and W as factors, both rounded in one launch. */
static enum ct_status factors(const struct ct_layer *l, const struct ct_io *io,
                              const void **x, const void **w)
{
    const struct inner_product *s = state_of(l);
    const int64_t n_x = s->ip.m * s->ip.k, n_w = s->ip.n * s->ip.k;

    CT_TRY(factor(l, CT_IP_X, false, ct_data(io->bottom[0]), n_x, x));
    CT_TRY(factor(l, CT_IP_W, false, ct_data(l->blob[WEIGHT]), n_w, w));
    if (!s->rounds || n_x + n_w == 0)
        return CT_OK;
    CT_BY_TYPE(factor_type(l), T,
               return CT_LAUNCH(l->dev, n_x + n_w, shorten<T>, n_x,
                                (const float *)ct_data(io->bottom[0]),
                                (T *)(void *)*x, n_w,
                                (const float *)ct_data(l->blob[WEIGHT]),
                                (T *)(void *)*w));
}

extern "C" enum ct_status ct_cuda_inner_product_forward(struct ct_layer *l,
                                                        const struct ct_io *io)
{
    const struct inner_product *s = state_of(l);
    const struct ct_ip *p         = &s->ip;
    struct ct_cuda_gemm g         = {};
    const void *x, *w;

    CT_TRY(factors(l, io, &x, &w));
    g.ta     = CT_N;
    g.tb     = p->transpose ? CT_N : CT_T;
    g.m      = p->m;
    g.n      = p->n;
    g.k      = p->k;
    g.lda    = p->k;
    g.ldb    = p->transpose ? p->n : p->k;
    g.ldc    = p->n;
    g.a_type = g.b_type = factor_type(l);
    g.bias   = p->has_bias ? ct_data(l->blob[BIAS]) : NULL;
    g.relu   = s->relu;
    return ct_cuda_gemm_run(l->dev, &g, 1, x, w, 0, ct_data(io->top[0]));
}

/* dW += dy^T x, or stored transposed x^T dy. */
static enum ct_status weight_gradient(const struct ct_layer *l, const void *x,
                                      const void *dy)
{
    const struct ct_ip *p = &state_of(l)->ip;
    const bool t          = p->transpose;
    struct ct_cuda_gemm g = {};

    g.ta     = CT_T;
    g.tb     = CT_N;
    g.m      = t ? p->k : p->n;
    g.n      = t ? p->n : p->k;
    g.k      = p->m;
    g.lda    = g.m;
    g.ldb    = g.ldc = g.n;
    g.a_type = g.b_type = factor_type(l);
    return ct_cuda_gemm_run(l->dev, &g, 1, t ? x : dy, t ? dy : x, 1,
                            ct_diff(l->blob[WEIGHT]));
}

static enum ct_status bottom_gradient(const struct ct_layer *l,
                                      const struct ct_io *io, const void *w,
                                      const void *dy)
{
    const struct ct_ip *p = &state_of(l)->ip;
    struct ct_cuda_gemm g = {};

    g.ta     = CT_N;
    g.tb     = p->transpose ? CT_T : CT_N;
    g.m      = p->m;
    g.n      = p->k;
    g.k      = p->n;
    g.lda    = p->n;
    g.ldb    = p->transpose ? p->n : p->k;
    g.ldc    = p->k;
    g.a_type = g.b_type = factor_type(l);
    return ct_cuda_gemm_run(l->dev, &g, 1, dy, w, 0, ct_diff(io->bottom[0]));
}

/* dy = 0 where y is not above it; `s`, where not NULL, gets dy as a factor. */
template <typename T>
__global__ static void gate(int64_t n, const float *y, float *dy, T *s)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const float d = y[i] > 0 ? dy[i] : 0;

        dy[i] = d;
        if (s)
            ct_store(s + i, d);
    }
}

static enum ct_status gradient_in(const struct ct_layer *l,
                                  const struct ct_io *io, const void **out)
{
    const struct inner_product *s = state_of(l);
    const int64_t n               = s->ip.m * s->ip.n;
    float *dy                     = ct_diff(io->top[0]);

    CT_TRY(factor(l, CT_IP_DY, !s->relu, dy, n, out));
    if (!s->relu || n == 0)
        return CT_OK;
    CT_BY_TYPE(factor_type(l), T,
               return CT_LAUNCH(l->dev, n, gate<T>, n,
                                (const float *)ct_data(io->top[0]), dy,
                                *out == dy ? (T *)NULL : (T *)(void *)*out));
}

static enum ct_status blob_gradients(const struct ct_layer *l,
                                     const struct ct_io *io, const void *x,
                                     const void *dy)
{
    const struct ct_ip *p          = &state_of(l)->ip;
    const struct ct_bias_desc bias = { p->m, p->n, 1, CT_NHWC, CT_F32 };

    if (l->blob_wants_grad[WEIGHT])
        CT_TRY(weight_gradient(l, x, dy));
    if (!p->has_bias || !l->blob_wants_grad[BIAS])
        return CT_OK;
    return ct_cuda_conv_bias_backward(l->dev, &bias, ct_diff(io->top[0]),
                                      ct_diff(l->blob[BIAS]));
}

extern "C" enum ct_status ct_cuda_inner_product_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_ip *p = &state_of(l)->ip;
    const bool aside      = l->run->aside && io->want_grad[0] &&
                       (l->flags & CT_LAYER_ASIDE);
    const void *x, *w, *dy;

    CT_TRY(factor(l, CT_IP_X, false, ct_data(io->bottom[0]), p->m * p->k,
                  &x));
    CT_TRY(factor(l, CT_IP_W, false, ct_data(l->blob[WEIGHT]), p->n * p->k,
                  &w));
    CT_TRY(gradient_in(l, io, &dy));
    if (aside)
        CT_TRY(ct_side_begin(l->dev));
    CT_TRY(blob_gradients(l, io, x, dy));
    if (aside)
        CT_TRY(ct_side_end(l->dev));
    return io->want_grad[0] ? bottom_gradient(l, io, w, dy) : CT_OK;
}
