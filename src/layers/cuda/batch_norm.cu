/* batch_norm.cu - BatchNorm on a GPU, with the Scale and ReLU behind it where
 * it absorbed them; formulas and blobs as in batch_norm.c. */
#include "layers/batch_norm.h"
#include "layers/cuda/channels.h"
#include "layers/cuda/cuda.h"
#include "proto/params.h"

/* Where everything of a channel is; factor and bias may be NULL, as may the
 * gradients. */
struct norm {
    float       *stats;
    int64_t      channels, inner;
    float       *mean, *var, *total; /* the running sums */
    float       *dmean, *dvar;       /* what a pass adds to instead, or NULL */
    const float *factor, *bias;      /* of the Scale */
    float       *dfactor, *dbias;
    double       m;
    float        fraction, eps;
    bool         global;

    __device__ float *stat(int row) const { return stats + row * channels; }
    __device__ void scales(int64_t q) const
    {
        const float v = 1 / sqrtf(stat(BATCH_VAR)[q] + eps);

        stat(INVERSE)[q]  = v;
        stat(FACTOR_V)[q] = factor ? v * factor[q] : v;
    }
};

/* Deviations from the channel's first value: small, so that their squares lose
 * nothing. */
template <typename T>
struct moments {
    struct norm n;
    const T    *x;

    __device__ float load(int64_t q) const { return ct_load(x + q * n.inner); }
    __device__ void add(float first, float a, float, float *s, float *t) const
    {
        const float d = a - first;

        *s += d;
        *t += d * d;
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        const double d   = s / n.m;
        const double var = fmax(t / n.m - d * d, 0.0);
        const float more = n.m > 1 ? (float)(n.m / (n.m - 1)) : 1;
        const float mean = (float)(load(q) + d);

        n.stat(BATCH_MEAN)[q] = mean;
        n.stat(BATCH_VAR)[q]  = (float)var;
        n.scales(q);
        if (n.dmean) {
            n.dmean[q] += mean;
            n.dvar[q] += more * (float)var;
            return;
        }
        n.mean[q] = n.fraction * n.mean[q] + mean;
        n.var[q]  = n.fraction * n.var[q] + more * (float)var;
        if (q == 0)
            *n.total = n.fraction * *n.total + 1;
    }
};

__global__ static void global_stats(struct norm n)
{
    const float of = *n.total == 0 ? 0 : 1 / *n.total;

    CT_KERNEL_EACH (q, n.channels) {
        n.stat(BATCH_MEAN)[q] = of * n.mean[q];
        n.stat(BATCH_VAR)[q]  = of * n.var[q];
        n.scales(q);
    }
}

/* z = (x - shift) scale + bias; the same rounding wherever it is computed, so
 * that the gate is the same backward. */
struct gate {
    float shift, scale, bias;
    __device__ float of(float x) const
    {
        return fmaf(x - shift, scale, bias);
    }
};

__device__ static inline struct gate gate_of(const struct norm &n, int64_t q)
{
    struct gate g = { n.stat(BATCH_MEAN)[q], n.stat(FACTOR_V)[q],
                      n.bias ? n.bias[q] : 0 };
    return g;
}

template <bool RELU>
struct normalise {
    struct norm n;

    __device__ struct gate load(int64_t q) const { return gate_of(n, q); }
    __device__ float operator()(const struct gate &g, float x) const
    {
        const float z = g.of(x);

        return RELU && z <= 0 ? 0 : z;
    }
};

/* The sums of e and e (x - mean), and what follows from them. */
template <bool RELU>
struct slopes {
    struct norm n;

    __device__ struct gate load(int64_t q) const { return gate_of(n, q); }
    __device__ void add(const struct gate &g, float dy, float x, float *s,
                        float *t) const
    {
        const float e = RELU && !(g.of(x) > 0) ? 0 : dy;

        *s += e;
        *t += e * (x - g.shift);
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        const double v = n.stat(INVERSE)[q], f = n.stat(FACTOR_V)[q];

        if (n.dfactor)
            n.dfactor[q] += (float)(v * t);
        if (n.dbias)
            n.dbias[q] += (float)s;
        n.stat(SLOPE)[q]  = n.global ? 0 : (float)(-f * v * v * t / n.m);
        n.stat(OFFSET)[q] = n.global ? 0 : (float)(-f * s / n.m);
    }
};

struct line {
    struct gate g;
    float       slope, offset;
};

template <bool RELU>
struct spread {
    struct norm n;

    __device__ struct line load(int64_t q) const
    {
        struct line l = { gate_of(n, q), n.stat(SLOPE)[q], n.stat(OFFSET)[q] };
        return l;
    }
    __device__ float operator()(const struct line &l, float dy, float x) const
    {
        const float e = RELU && !(l.g.of(x) > 0) ? 0 : dy;

        return l.g.scale * e + (l.slope * (x - l.g.shift) + l.offset);
    }
};

/* Global statistics alone: dx = v dy. */
struct by_inverse {
    struct norm n;

    __device__ float load(int64_t q) const { return n.stat(FACTOR_V)[q]; }
    __device__ float operator()(float v, float dy) const { return v * dy; }
};

static struct norm norm_of(const struct ct_layer *l)
{
    const Caffe__BatchNormParameter *p = ct_batch_norm_param(l->param);
    const struct batch_norm *s   = (const struct batch_norm *)l->state;
    const struct ct_layer *scale = s->scale;
    struct norm n = {};

    n.stats    = ct_data(s->stats);
    n.channels = s->channels;
    n.inner    = s->view.layout == CT_NHWC ? 1 : s->view.inner;
    n.mean     = ct_data(l->blob[MEAN]);
    n.var      = ct_data(l->blob[VARIANCE]);
    n.total    = ct_data(l->blob[FACTOR]);
    n.m        = (double)(s->view.n * s->view.inner);
    n.fraction = p->moving_average_fraction;
    n.eps      = p->eps;
    n.global   = s->global;
    if (l->run->share > 0 && l->phase == CAFFE__PHASE__TRAIN) {
        n.dmean = ct_diff(l->blob[MEAN]);
        n.dvar  = ct_diff(l->blob[VARIANCE]);
    }
    if (scale) {
        n.factor = ct_data(scale->blob[0]);
        n.bias   = scale->n_blob > 1 ? ct_data(scale->blob[1]) : NULL;
        if (scale->blob_wants_grad[0])
            n.dfactor = ct_diff(scale->blob[0]);
        if (scale->n_blob > 1 && scale->blob_wants_grad[1])
            n.dbias = ct_diff(scale->blob[1]);
    }
    return n;
}

static struct ct_view view_of(const struct batch_norm *s)
{
    const struct ct_channels *v = &s->view;
    const bool nhwc             = v->layout == CT_NHWC;

    return { nhwc ? v->n * v->inner : v->n, v->c, nhwc ? 1 : v->inner };
}

template <typename T>
static enum ct_status forward(const struct ct_layer *l, const struct ct_io *io)
{
    const struct batch_norm *s = (const struct batch_norm *)l->state;
    const struct norm n        = norm_of(l);
    const struct ct_view v     = view_of(s);
    const T *x = (const T *)ct_data(io->bottom[0]);
    T *y = (T *)ct_data(io->top[0]);
    T *kept = s->kept ? (T *)ct_data(s->kept) : NULL;

    if (s->global)
        CT_TRY(CT_LAUNCH(l->dev, n.channels, global_stats, n));
    else
        CT_TRY(ct_channel_sum(l->dev, v, moments<T>{ n, x }, x, (T *)NULL));
    if (s->relu)
        return ct_channel_map(l->dev, v, normalise<true>{ n }, y, kept, x);
    return ct_channel_map(l->dev, v, normalise<false>{ n }, y, kept, x);
}

template <bool RELU, typename T>
static enum ct_status backward(const struct ct_layer *l,
                               const struct ct_io *io)
{
    const struct batch_norm *s = (const struct batch_norm *)l->state;
    const struct norm n        = norm_of(l);
    const struct ct_view v     = view_of(s);
    const float *kept = s->kept ? ct_data(s->kept) : NULL;
    const T *x  = (const T *)(kept ? kept : ct_data(io->bottom[0]));
    const T *dy = (const T *)ct_diff(io->top[0]);
    T *dx       = (T *)ct_diff(io->bottom[0]);

    if (s->global && !s->scale && !RELU)
        return ct_channel_map(l->dev, v, by_inverse{ n }, dx, (T *)NULL, dy);
    CT_TRY(ct_channel_sum(l->dev, v, slopes<RELU>{ n }, dy, x));
    if (!io->want_grad[0])
        return CT_OK;
    return ct_channel_map(l->dev, v, spread<RELU>{ n }, dx, (T *)NULL, dy, x);
}

extern "C" enum ct_status ct_cuda_batch_norm_forward(struct ct_layer *l,
                                                     const struct ct_io *io)
{
    CT_BY_TYPE(io->bottom[0]->data.dtype, T, return forward<T>(l, io));
}

extern "C" enum ct_status ct_cuda_batch_norm_backward(struct ct_layer *l,
                                                      const struct ct_io *io)
{
    const struct batch_norm *s = (const struct batch_norm *)l->state;

    if (!io->want_grad[0] && !s->scale)
        return CT_OK;
    if (s->relu)
        CT_BY_TYPE(io->bottom[0]->data.dtype, T,
                   return (backward<true, T>(l, io)));
    CT_BY_TYPE(io->bottom[0]->data.dtype, T,
               return (backward<false, T>(l, io)));
}
