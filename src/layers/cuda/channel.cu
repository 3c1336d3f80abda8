/* channel.cu - Scale, Bias and PReLU on a GPU; formulas, blobs and shapes as in
 * scale.c, bias.c and prelu.c. */
#include "layers/bias.h"
#include "device/cuda/channel_kernels.h"
#include "layers/cuda/slots.h"
#include "layers/prelu.h"
#include "layers/scale.h"
#include "proto/params.h"

/* y = x s_q + b_q; C is the type of the second bottom, or of a blob. */
template <typename C>
struct affine {
    const C     *scale;
    const float *bias; /* NULL: 0 */

    __device__ float2 load(int64_t q) const
    {
        return make_float2(ct_load(scale + q), bias ? bias[q] : 0);
    }
    __device__ float operator()(const float2 &k, float x) const
    {
        return x * k.x + k.y;
    }
};

template <typename C>
struct shifted {
    const C *bias;

    __device__ float load(int64_t q) const { return ct_load(bias + q); }
    __device__ float operator()(float b, float x) const { return x + b; }
};

/* Where sums over a channel go: written to a bottom, ADDED to blobs.  Each
 * may be NULL. */
template <typename C>
struct target {
    C     *bottom;
    float *blob;

    __device__ void take(int64_t q, double v) const
    {
        if (bottom)
            ct_store(bottom + q, (float)v);
        if (blob)
            blob[q] += (float)v;
    }
};

/* Sums of dy and of dy x. */
template <typename C>
struct grads {
    struct target<C> sum, dot;

    __device__ int load(int64_t) const { return 0; }
    __device__ void add(int, float dy, float x, float *s, float *t) const
    {
        *s += dy;
        *t += dy * x;
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        sum.take(q, s);
        dot.take(q, t);
    }
};

/* The array as its coefficients see it; NHWC only with one a channel. */
static enum ct_status view_of(const struct ct_layer *l,
                              const struct ct_repeat *r, struct ct_view *out)
{
    const struct ct_channels *v = &r->view;
    const bool nhwc             = v->layout == CT_NHWC;

    if (!r->direct)
        return ct_fail(CT_ENOTSUP, "layer %s: coefficients over other axes "
                       "than channels take a plain layout", l->name);
    *out = { nhwc ? v->n * v->inner : v->n, v->c, nhwc ? 1 : v->inner };
    return CT_OK;
}

template <typename T, typename C>
static enum ct_status scale_forward(const struct ct_layer *l,
                                    const struct ct_io *io, const C *factor)
{
    const struct scale *s = (const struct scale *)l->state;
    const float *bias     = s->bias < 0 ? NULL : ct_data(l->blob[s->bias]);
    const bool keep = s->kept && (io->n_bottom > 1 || l->blob_wants_grad[0]);
    struct ct_view v = {};

    CT_TRY(view_of(l, &s->repeat, &v));
    return ct_channel_map(l->dev, v, affine<C>{ factor, bias },
                          (T *)ct_data(io->top[0]),
                          keep ? (T *)ct_data(s->kept) : (T *)NULL,
                          (const T *)ct_data(io->bottom[0]));
}

extern "C" enum ct_status ct_cuda_scale_forward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    CT_BY_TYPE(io->bottom[0]->data.dtype, T, {
        if (io->n_bottom > 1)
            return scale_forward<T>(l, io, (const T *)ct_data(io->bottom[1]));
        return scale_forward<T>(l, io, ct_data(l->blob[0]));
    });
}

template <typename T, typename C>
static enum ct_status scale_backward(const struct ct_layer *l,
                                     const struct ct_io *io, const C *factor,
                                     struct target<C> to)
{
    const struct scale *s = (const struct scale *)l->state;
    const float *kept = s->kept ? ct_data(s->kept) : NULL;
    const T *x  = (const T *)(kept ? kept : ct_data(io->bottom[0]));
    const T *dy = (const T *)ct_diff(io->top[0]);
    const bool of_scale = to.bottom || to.blob;
    struct target<C> sum = { NULL, NULL };
    struct ct_view v = {};

    if (s->bias >= 0 && l->blob_wants_grad[s->bias])
        sum.blob = ct_diff(l->blob[s->bias]);
    CT_TRY(view_of(l, &s->repeat, &v));
    if (of_scale || sum.blob)
        CT_TRY(ct_channel_sum(l->dev, v, grads<C>{ sum, to }, dy,
                              of_scale ? x : (const T *)NULL));
    if (!io->want_grad[0])
        return CT_OK;
    return ct_channel_map(l->dev, v, affine<C>{ factor, NULL },
                          (T *)ct_diff(io->bottom[0]), (T *)NULL, dy);
}

extern "C" enum ct_status ct_cuda_scale_backward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    CT_BY_TYPE(io->bottom[0]->data.dtype, T, {
        if (io->n_bottom > 1)
            return scale_backward<T>(
                l, io, (const T *)ct_data(io->bottom[1]),
                target<T>{ io->want_grad[1] ? (T *)ct_diff(io->bottom[1])
                                            : NULL, NULL });
        return scale_backward<T>(
            l, io, (const float *)ct_data(l->blob[0]),
            target<float>{ NULL, l->blob_wants_grad[0] ? ct_diff(l->blob[0])
                                                       : NULL });
    });
}

template <typename T, typename C>
static enum ct_status bias_forward(const struct ct_layer *l,
                                   const struct ct_io *io, const C *bias)
{
    const struct bias *s = (const struct bias *)l->state;
    struct ct_view v = {};

    CT_TRY(view_of(l, &s->repeat, &v));
    return ct_channel_map(l->dev, v, shifted<C>{ bias },
                          (T *)ct_data(io->top[0]), (T *)NULL,
                          (const T *)ct_data(io->bottom[0]));
}

extern "C" enum ct_status ct_cuda_bias_forward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    CT_BY_TYPE(io->bottom[0]->data.dtype, T, {
        if (io->n_bottom > 1)
            return bias_forward<T>(l, io, (const T *)ct_data(io->bottom[1]));
        return bias_forward<T>(l, io, (const float *)ct_data(l->blob[0]));
    });
}

template <typename T, typename C>
static enum ct_status bias_backward(const struct ct_layer *l,
                                    const struct ct_io *io,
                                    struct target<C> to)
{
    const struct bias *s = (const struct bias *)l->state;
    const T *dy          = (const T *)ct_diff(io->top[0]);
    struct ct_view v = {};

    CT_TRY(view_of(l, &s->repeat, &v));
    if (to.bottom || to.blob)
        CT_TRY(ct_channel_sum(l->dev, v,
                              grads<C>{ to, target<C>{ NULL, NULL } }, dy,
                              (const T *)NULL));
    if (!io->want_grad[0])
        return CT_OK;
    return ct_copy_values(l->dev, ct_elements(io->top[0]),
                          io->top[0]->diff.dtype, dy,
                          ct_diff(io->bottom[0]));
}

extern "C" enum ct_status ct_cuda_bias_backward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    CT_BY_TYPE(io->bottom[0]->data.dtype, T, {
        if (io->n_bottom > 1)
            return bias_backward<T>(
                l, io, target<T>{ io->want_grad[1]
                                      ? (T *)ct_diff(io->bottom[1]) : NULL,
                                  NULL });
        return bias_backward<T>(
            l, io, target<float>{ NULL, l->blob_wants_grad[0]
                                            ? ct_diff(l->blob[0]) : NULL });
    });
}

struct prelu_map {
    const float *slope;

    __device__ float load(int64_t q) const { return slope[q]; }
    __device__ float operator()(float a, float x) const
    {
        return x > 0 ? x : a * x;
    }
    __device__ float operator()(float a, float dy, float x) const
    {
        return x > 0 ? dy : a * dy;
    }
};

struct prelu_sum {
    float *dslope;

    __device__ int load(int64_t) const { return 0; }
    __device__ void add(int, float dy, float x, float *s, float *) const
    {
        *s += x > 0 ? 0 : dy * x;
    }
    __device__ void finish(int64_t q, double s, double) const
    {
        dslope[q] += (float)s;
    }
};

/* A shared slope is that of one channel, which has all values. */
static struct ct_view prelu_view(const struct prelu *r)
{
    if (r->shared)
        return { 1, 1, r->n * r->channels * r->inner };
    return { r->n, r->channels, r->inner };
}

extern "C" enum ct_status ct_cuda_prelu_forward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    const struct prelu *r = (const struct prelu *)l->state;

    return ct_channel_map(l->dev, prelu_view(r),
                          prelu_map{ ct_data(l->blob[0]) },
                          ct_data(io->top[0]),
                          r->kept ? ct_data(r->kept) : (float *)NULL,
                          (const float *)ct_data(io->bottom[0]));
}

extern "C" enum ct_status ct_cuda_prelu_backward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    const struct prelu *r = (const struct prelu *)l->state;
    const float *x  = ct_data(r->kept ? r->kept : io->bottom[0]);
    const float *dy = ct_diff(io->top[0]);

    if (l->blob_wants_grad[0])
        CT_TRY(ct_channel_sum(l->dev, prelu_view(r),
                              prelu_sum{ ct_diff(l->blob[0]) }, dy, x));
    if (!io->want_grad[0])
        return CT_OK;
    return ct_channel_map(l->dev, prelu_view(r),
                          prelu_map{ ct_data(l->blob[0]) },
                          ct_diff(io->bottom[0]), (float *)NULL, dy, x);
}
