/* batch_norm.cu - BatchNorm on a GPU, with the Scale, the sum and the ReLU
 * behind it where it absorbed them; formulas and blobs as in batch_norm.c. */
#include "layers/batch_norm.h"
#include "device/conv.h"
#include "device/cuda/channel_kernels.h"
#include "device/cuda/gathered.h"
#include "device/cuda/vector.h"
#include "layers/cuda/slots.h"
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
    bool         merged; /* sums over ranks come in between */

    __device__ float *stat(int row) const { return stats + row * channels; }
    __device__ void scales(int64_t q) const
    {
        const float v = 1 / sqrtf(stat(BATCH_VAR)[q] + eps);

        stat(INVERSE)[q]  = v;
        stat(FACTOR_V)[q] = factor ? v * factor[q] : v;
    }
    /* What follows from the statistics of a batch: scales, running sums. */
    __device__ void keep(int64_t q) const
    {
        const float more = m > 1 ? (float)(m / (m - 1)) : 1;
        const float mu   = stat(BATCH_MEAN)[q];
        const float v    = more * stat(BATCH_VAR)[q];

        scales(q);
        if (dmean) {
            dmean[q] += mu;
            dvar[q] += v;
            return;
        }
        mean[q] = fraction * mean[q] + mu;
        var[q]  = fraction * var[q] + v;
        if (q == 0)
            *total = fraction * *total + 1;
    }
    /* What dx needs of the sums s of e and t of e (x - mean). */
    __device__ void slopes(int64_t q, double s, double t) const
    {
        const double v = stat(INVERSE)[q], f = stat(FACTOR_V)[q];

        stat(SLOPE)[q]  = global ? 0 : (float)(-f * v * v * t / m);
        stat(OFFSET)[q] = global ? 0 : (float)(-f * s / m);
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

        n.stat(BATCH_MEAN)[q] = (float)(load(q) + d);
        n.stat(BATCH_VAR)[q]  = (float)var;
        if (!n.merged)
            n.keep(q);
    }
};

/* The same of sums that are there (ct_moments): a block a channel.  A slot has
 * differences from a value of its own; double takes them to those from 0. */
__global__ static void __launch_bounds__(CT_BLOCK)
    moments_of_slots(struct norm n, int64_t slots, const float4 *part)
{
    CT_TURN();
    const int64_t q = blockIdx.x;
    double s = 0, t = 0;

    for (int64_t i = threadIdx.x; i < slots; i += CT_BLOCK) {
        const float4 v     = part[q * slots + i];
        const double first = v.y;

        s += v.x * first + v.z;
        t += (v.x * first + 2.0 * v.z) * first + v.w;
    }
    s = ct_block_sum(s) / n.m;
    t = ct_block_sum(t) / n.m;
    if (threadIdx.x > 0)
        return;
    n.stat(BATCH_MEAN)[q] = (float)s;
    n.stat(BATCH_VAR)[q]  = (float)fmax(t - s * s, 0.0);
    if (!n.merged)
        n.keep(q);
}

__global__ static void keep_stats(struct norm n)
{
    CT_TURN();
    CT_KERNEL_EACH (q, n.channels)
        n.keep(q);
}

/* Of a batch of nothing, as on the CPU. */
__global__ static void keep_no_stats(struct norm n)
{
    CT_TURN();
    CT_KERNEL_EACH (q, n.channels) {
        n.stat(BATCH_MEAN)[q] = 0;
        n.stat(BATCH_VAR)[q]  = 0;
        if (!n.merged)
            n.keep(q);
    }
}

__global__ static void global_stats(struct norm n)
{
    CT_TURN();
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

/* The same with a value of the blob that it is added to. */
template <bool RELU>
struct normalise_sum {
    struct norm n;

    __device__ struct gate load(int64_t q) const { return gate_of(n, q); }
    __device__ float operator()(const struct gate &g, float x, float a) const
    {
        const float z = g.of(x) + a;

        return RELU && z < 0 ? 0 : z; /* a NaN stays one */
    }
};

struct gates {
    struct gate one, other;
};

/* The same where that blob is another one that is normalised. */
template <bool RELU>
struct normalise_both {
    struct norm n, other;

    __device__ struct gates load(int64_t q) const
    {
        struct gates g = { gate_of(n, q), gate_of(other, q) };
        return g;
    }
    __device__ float operator()(const struct gates &g, float x, float a) const
    {
        const float z = g.one.of(x) + g.other.of(a);

        return RELU && z < 0 ? 0 : z;
    }
};

/* Any of both, and a byte for each pack of y: which values are above 0. */
template <typename T, typename F>
struct noted_sum : F {
    const T *y;
    uint8_t *above;
};

template <int K, typename T, typename F>
__device__ inline void ct_channel_note(const noted_sum<T, F> &f, const T *y,
                                       const ct_pack<K, T> &out)
{
    unsigned bits = 0;

#pragma unroll
    for (int k = 0; k < K; k++)
        bits |= (ct_load(out.v + k) > 0 ? 1u : 0u) << k;
    if (K == CT_VECTOR(T))
        f.above[(y - f.y) / K] = (uint8_t)bits;
}

/* What becomes of the sums of e and e (x - mean). */
struct slope_sums {
    struct norm n;

    __device__ void finish(int64_t q, double s, double t) const
    {
        if (n.dfactor)
            n.dfactor[q] += (float)(n.stat(INVERSE)[q] * t);
        if (n.dbias)
            n.dbias[q] += (float)s;
        if (!n.merged) {
            n.slopes(q, s, t);
            return;
        }
        n.stat(SLOPE)[q]  = (float)t;
        n.stat(OFFSET)[q] = (float)s;
    }
};

template <bool RELU>
struct slopes : slope_sums {

    __device__ struct gate load(int64_t q) const { return gate_of(n, q); }
    __device__ void add(const struct gate &g, float dy, float x, float *s,
                        float *t) const
    {
        const float e = RELU && !(g.of(x) > 0) ? 0 : dy;

        *s += e;
        *t += e * (x - g.shift);
    }
};

/* The same of an e that is there. */
struct slopes_of_sum : slope_sums {
    __device__ float load(int64_t q) const { return n.stat(BATCH_MEAN)[q]; }
    __device__ void add(float mean, float e, float x, float *s, float *t) const
    {
        *s += e;
        *t += e * (x - mean);
    }
};

/* The same of sums that are there (ct_conv_end): a block a channel. */
__global__ static void __launch_bounds__(CT_BLOCK)
    slopes_of_slots(struct slope_sums r, int64_t slots, const float2 *part)
{
    CT_TURN();
    const int64_t q = blockIdx.x;
    double s = 0, t = 0;

    for (int64_t i = threadIdx.x; i < slots; i += CT_BLOCK) {
        const float2 v = part[q * slots + i];

        s += v.x;
        t += v.y;
    }
    s = ct_block_sum(s);
    t = ct_block_sum(t);
    if (threadIdx.x == 0)
        r.finish(q, s, t);
}

__global__ static void merged_slopes(struct norm n)
{
    CT_TURN();
    CT_KERNEL_EACH (q, n.channels)
        n.slopes(q, n.stat(OFFSET)[q], n.stat(SLOPE)[q]);
}

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
    n.merged   = s->merged != NULL;
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

/* Rows `row` and the next one of the statistics: to the CPU, over ranks, and
 * back. */
typedef enum ct_status (*merge_fn)(const struct ct_layer *l, float *first,
                                   float *second);

static enum ct_status merge(const struct ct_layer *l, int row, merge_fn over)
{
    const struct batch_norm *s = (const struct batch_norm *)l->state;
    const size_t bytes         = 2 * (size_t)s->channels * sizeof(float);
    float *there               = ct_data(s->stats) + row * s->channels;

    CT_TRY(l->dev->ops->to_host(l->dev, bytes, there, s->here));
    CT_TRY(over(l, s->here, s->here + s->channels));
    return l->dev->ops->from_host(l->dev, bytes, s->here, there);
}

/* SLOPE comes before OFFSET. */
static enum ct_status merge_sums(const struct ct_layer *l, float *slope,
                                 float *offset)
{
    return batch_norm_merge_sums(l, offset, slope);
}

static enum ct_status merge_moments(const struct ct_layer *l)
{
    struct batch_norm *s = (struct batch_norm *)l->state;
    struct norm n;

    s->m = (double)(s->view.n * s->view.inner);
    CT_TRY(merge(l, BATCH_MEAN, batch_norm_merge_moments));
    n   = norm_of(l);
    n.m = s->m;
    return CT_LAUNCH(l->dev, n.channels, keep_stats, n);
}

static enum ct_status merge_slopes(const struct ct_layer *l)
{
    const struct batch_norm *s = (const struct batch_norm *)l->state;
    struct norm n = norm_of(l);

    if (s->view.n * s->view.inner == 0) /* nothing was summed up here */
        CT_TRY(ct_fill(l->dev, 2 * s->channels, 0,
                       ct_data(s->stats) + SLOPE * s->channels));
    CT_TRY(merge(l, SLOPE, merge_sums));
    n.m = s->m;
    return CT_LAUNCH(l->dev, n.channels, merged_slopes, n);
}

/* Means and variances of x, of which scales and running sums are made. */
template <typename T>
static enum ct_status find_stats(const struct ct_layer *l, const struct norm &n,
                                 const struct ct_view &v, const T *x)
{
    struct ct_moments there;

    if (n.global)
        return CT_LAUNCH(l->dev, n.channels, global_stats, n);
    if (v.outer * v.inner == 0)
        return CT_LAUNCH(l->dev, n.channels, keep_no_stats, n);
    if (batch_norm_moments(l, (const float *)x, &there))
        return CT_START(l->dev, (unsigned)n.channels, CT_BLOCK, 0,
                        moments_of_slots, n, there.slots,
                        (const float4 *)there.part);
    return ct_channel_sum(l->dev, v, moments<T>{ n, x }, x, (T *)NULL);
}

/* What a convolution behind the Split needs to end the gradient. */
static void tell_end(struct batch_norm *s, const struct ct_io *io,
                     const void *x)
{
    s->end.x     = x;
    s->end.above = ct_data(s->above);
    s->end.mean  = ct_data(s->stats) + BATCH_MEAN * s->channels;
    s->end.e     = ct_diff(io->bottom[1]);
    s->ended     = {};
    s->thinned   = 0;
    for (int t = 0; t < 2; t++)
        s->diff[t] = t < io->n_top ? ct_diff(io->top[t]) : NULL;
}

/* y = f(x, a), which is a sum that is cut off at 0. */
template <typename T, typename F>
static enum ct_status map_above(const struct ct_layer *l, const F &f, T *y,
                                T *kept, const T *x, const T *a)
{
    struct batch_norm *s   = (struct batch_norm *)l->state;
    const struct ct_view v = view_of(s);
    uint8_t *above         = (uint8_t *)ct_data(s->above);

    s->noted = above && s->relu && ct_channel_packs(&v, CT_VECTOR(T)) &&
               ct_aligned(y) && ct_aligned(kept) && ct_aligned(x) &&
               ct_aligned(a);
    if (s->noted)
        return ct_channel_map(l->dev, v, noted_sum<T, F>{ f, y, above }, y,
                              kept, x, a);
    return ct_channel_map(l->dev, v, f, y, kept, x, a);
}

/* y = z + a, perhaps above 0 alone. */
template <typename T>
static enum ct_status forward_sum(const struct ct_layer *l, T *y, T *kept,
                                  const T *x, const T *a)
{
    const struct batch_norm *s     = (const struct batch_norm *)l->state;
    const struct batch_norm *other =
        s->added ? (const struct batch_norm *)s->added->state : NULL;
    const struct norm n    = norm_of(l);
    const struct ct_view v = view_of(s);

    if (other && other->left) {
        const struct norm m = norm_of(s->added);
        const T *left       = (const T *)other->left;

        if (s->relu)
            return map_above(l, normalise_both<true>{ n, m }, y, kept, x,
                             left);
        return ct_channel_map(l->dev, v, normalise_both<false>{ n, m }, y,
                              kept, x, left);
    }
    if (s->relu)
        return map_above(l, normalise_sum<true>{ n }, y, kept, x, a);
    return ct_channel_map(l->dev, v, normalise_sum<false>{ n }, y, kept, x, a);
}

/* Whether the layer that adds y to its own z makes it, of x as it lies. */
static bool leaves(const struct batch_norm *s)
{
    const struct batch_norm *by;

    if (!s->adder || (s->kept && ct_data(s->kept)))
        return false;
    by = (const struct batch_norm *)s->adder->state;
    return by->view.n == s->view.n && by->view.c == s->view.c &&
           by->view.inner == s->view.inner &&
           by->view.layout == s->view.layout &&
           by->view.dtype == s->view.dtype;
}

template <typename T>
static enum ct_status forward(const struct ct_layer *l, const struct ct_io *io)
{
    struct batch_norm *s   = (struct batch_norm *)l->state;
    const struct norm n    = norm_of(l);
    const struct ct_view v = view_of(s);
    const T *x = (const T *)ct_data(io->bottom[0]);
    T *y = (T *)ct_data(io->top[0]);
    T *kept = s->kept ? (T *)ct_data(s->kept) : NULL;

    CT_TRY(find_stats(l, n, v, x));
    if (s->merged)
        CT_TRY(merge_moments(l));
    s->left = leaves(s) ? x : NULL;
    if (s->left)
        return CT_OK;
    if (s->sum)
        tell_end(s, io, kept ? kept : x);
    if (s->sum)
        return forward_sum(l, y, kept, x, (const T *)ct_data(io->bottom[1]));
    if (s->relu)
        return ct_channel_map(l->dev, v, normalise<true>{ n }, y, kept, x);
    return ct_channel_map(l->dev, v, normalise<false>{ n }, y, kept, x);
}

/* The same e and sums, of gradients that readers with a stride have left. */
template <typename T, typename M>
static enum ct_status gather_thin(const struct ct_layer *l,
                                  const struct gathered<T, M> &all, const T *x)
{
    struct batch_norm *s  = (struct batch_norm *)l->state;
    const struct ct_view v = { s->view.n * ct_thin_size(s->in[0],
                                                        s->stride[0]) *
                                   ct_thin_size(s->in[1], s->stride[1]),
                               s->view.c, 1 };
    const struct ct_thin at = ct_thin_of(s->view.n, v.c, s->in, s->stride);
    const int n = (all.dy ? 1 : 0) + (all.dy2 ? 1 : 0);

    if (s->thinned != n)
        return ct_fail(CT_EINTERNAL, "layer %s: one gradient of %d is thin",
                       l->name, n);
    s->thinned = 0;
    return ct_channel_sum_from(l->dev, v, slopes_of_sum{ { norm_of(l) } },
                               gathered_thin<T, M>{ all, at }, x);
}

/* The gradient behind a sum, and its sums. */
template <typename T, typename M>
static enum ct_status gather_by(const struct ct_layer *l,
                                const struct gathered<T, M> &all, const T *x)
{
    const struct batch_norm *s = (const struct batch_norm *)l->state;

    if (s->thinned > 0)
        return gather_thin(l, all, x);
    return ct_channel_sum_from(l->dev, view_of(s),
                               slopes_of_sum{ { norm_of(l) } }, all, x);
}

/* The gradient behind a sum, and its sums; perhaps they are there already. */
template <typename T>
static enum ct_status gather(const struct ct_layer *l, const struct ct_io *io,
                             const T *x)
{
    struct batch_norm *s   = (struct batch_norm *)l->state;
    const struct norm n    = norm_of(l);
    const struct ct_moments ended = s->ended;
    const T *second = io->n_top > 1 ? (const T *)ct_diff(io->top[1]) : NULL;
    T *e            = (T *)ct_diff(io->bottom[1]);
    const T *dy     = (const T *)ct_diff(io->top[0]);
    const T *y      = s->relu ? (const T *)ct_data(io->top[0]) : NULL;

    s->ended = {};
    if (ended.part)
        return CT_START(l->dev, (unsigned)n.channels, CT_BLOCK, 0,
                        slopes_of_slots, slope_sums{ n }, ended.slots,
                        (const float2 *)ended.part);
    if (s->noted && s->relu)
        return gather_by(l, gathered<T, by_bits<T>>{
            dy, second, { (const uint8_t *)ct_data(s->above) }, e }, x);
    return gather_by(l, gathered<T, by_values<T>>{ dy, second, { y }, e }, x);
}

/* Behind a sum: its other bottom's gradient is e, of which dx is made. */
template <typename T>
static enum ct_status backward_of_sum(const struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct batch_norm *s = (const struct batch_norm *)l->state;
    const struct norm n        = norm_of(l);
    const struct ct_view v     = view_of(s);
    const float *kept = s->kept ? ct_data(s->kept) : NULL;
    const T *x = (const T *)(kept ? kept : ct_data(io->bottom[0]));
    const T *e = (const T *)ct_diff(io->bottom[1]);

    CT_TRY(gather(l, io, x));
    if (!io->want_grad[0])
        return CT_OK;
    if (s->merged)
        CT_TRY(merge_slopes(l));
    return ct_channel_map(l->dev, v, spread<false>{ n },
                          (T *)ct_diff(io->bottom[0]), (T *)NULL, e, x);
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
    CT_TRY(ct_channel_sum(l->dev, v, slopes<RELU>{ { n } }, dy, x));
    if (!io->want_grad[0])
        return CT_OK;
    if (s->merged)
        CT_TRY(merge_slopes(l));
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

    if (s->sum)
        CT_BY_TYPE(io->bottom[0]->data.dtype, T,
                   return backward_of_sum<T>(l, io));
    if (!io->want_grad[0] && !s->scale)
        return CT_OK;
    if (s->relu)
        CT_BY_TYPE(io->bottom[0]->data.dtype, T,
                   return (backward<true, T>(l, io)));
    CT_BY_TYPE(io->bottom[0]->data.dtype, T,
               return (backward<false, T>(l, io)));
}
