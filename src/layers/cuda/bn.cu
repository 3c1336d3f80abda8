/* bn.cu - BN on a GPU; formulas, blobs and dialects as in bn.c. */
#include "layers/bn.h"
#include "device/cuda/channel_kernels.h"
#include "layers/cuda/slots.h"
#include "layers/merge.h"

/* Where everything of a channel is; gradients and tops may be NULL. */
struct norm {
    float         *stats;
    int64_t        channels, inner;
    const float   *scale, *shift;
    float         *running, *spread;   /* running statistics */
    float         *drunning, *dspread; /* what a pass adds to; or NULL */
    float         *dscale, *dshift;
    float         *top_mean, *top_var;
    enum bn_source source;
    bool           runs, merged;
    float          keeps, eps;
    double         m;

    __device__ float *stat(int row) const { return stats + row * channels; }
    /* What follows from mean and variance. */
    __device__ void follow(int64_t q) const
    {
        const float mu = stat(MEAN)[q], var = stat(VARIANCE)[q];
        const float v  = source == BN_NONE ? 1 : 1 / sqrtf(var + eps);

        stat(INVERSE)[q] = v;
        stat(FACTOR)[q]  = v * scale[q];
        if (top_mean)
            top_mean[q] = mu;
        if (top_var)
            top_var[q] = var;
        if (!runs)
            return;
        if (drunning) {
            drunning[q] += mu;
            dspread[q] += var;
            return;
        }
        running[q] = keeps * running[q] + (1 - keeps) * mu;
        spread[q]  = keeps * spread[q] + (1 - keeps) * var;
    }
    /* What dx needs of the sums of dy and of dy (x - mean). */
    __device__ void slopes(int64_t q, double sum, double dot) const
    {
        const double v = stat(INVERSE)[q], f = stat(FACTOR)[q];
        const bool all = source == BN_BATCH;

        stat(OFFSET)[q] = all ? (float)(-f * sum / m) : 0;
        stat(SLOPE)[q]  = all ? (float)(-f * v * v * dot / m) : 0;
    }
};

__global__ static void follow(struct norm n)
{
    CT_TURN();
    CT_KERNEL_EACH (q, n.channels)
        n.follow(q);
}

__global__ static void given(struct norm n)
{
    CT_TURN();
    CT_KERNEL_EACH (q, n.channels) {
        const bool none = n.source == BN_NONE;

        n.stat(MEAN)[q]     = none ? 0 : n.running[q];
        n.stat(VARIANCE)[q] = none ? 1 : n.spread[q];
        n.follow(q);
    }
}

__global__ static void merged_slopes(struct norm n)
{
    CT_TURN();
    CT_KERNEL_EACH (q, n.channels)
        n.slopes(q, n.stat(OFFSET)[q], n.stat(SLOPE)[q]);
}

/* Deviations from the channel's first value: small, so that their squares lose
 * nothing. */
struct moments {
    struct norm  n;
    const float *x;

    __device__ float load(int64_t q) const { return x[q * n.inner]; }
    __device__ void add(float first, float a, float, float *s, float *t) const
    {
        const float d = a - first;

        *s += d;
        *t += d * d;
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        const double d = s / n.m;

        n.stat(MEAN)[q]     = (float)(load(q) + d);
        n.stat(VARIANCE)[q] = (float)fmax(t / n.m - d * d, 0.0);
        if (!n.merged)
            n.follow(q);
    }
};

struct normalise {
    struct norm n;

    __device__ float3 load(int64_t q) const
    {
        return make_float3(n.stat(MEAN)[q], n.stat(FACTOR)[q], n.shift[q]);
    }
    __device__ float operator()(const float3 &k, float x) const
    {
        return (x - k.x) * k.y + k.z;
    }
};

struct slopes {
    struct norm n;

    __device__ float load(int64_t q) const { return n.stat(MEAN)[q]; }
    __device__ void add(float mean, float dy, float x, float *s,
                        float *t) const
    {
        *s += dy;
        *t += dy * (x - mean);
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        if (n.dscale)
            n.dscale[q] += (float)(n.stat(INVERSE)[q] * t);
        if (n.dshift)
            n.dshift[q] += (float)s;
        if (!n.merged) {
            n.slopes(q, s, t);
            return;
        }
        n.stat(SLOPE)[q]  = (float)t;
        n.stat(OFFSET)[q] = (float)s;
    }
};

struct spread {
    struct norm n;

    __device__ float4 load(int64_t q) const
    {
        return make_float4(n.stat(FACTOR)[q], n.stat(SLOPE)[q],
                           n.stat(MEAN)[q], n.stat(OFFSET)[q]);
    }
    __device__ float operator()(const float4 &k, float dy, float x) const
    {
        return k.x * dy + (k.y * (x - k.z) + k.w);
    }
};

static struct norm norm_of(const struct ct_layer *l, const struct ct_io *io)
{
    const struct bn *s = (const struct bn *)l->state;
    const bool has     = l->n_blob > RUNNING_VAR;
    struct norm n      = {};

    n.stats    = ct_data(s->stats);
    n.channels = s->channels;
    n.inner    = s->view.inner;
    n.scale    = ct_data(l->blob[SCALE]);
    n.shift    = ct_data(l->blob[SHIFT]);
    n.running  = has ? ct_data(l->blob[RUNNING_MEAN]) : NULL;
    n.spread   = has ? ct_data(l->blob[RUNNING_VAR]) : NULL;
    n.top_mean = io->n_top > 1 ? ct_data(io->top[1]) : NULL;
    n.top_var  = io->n_top > 2 ? ct_data(io->top[2]) : NULL;
    n.source   = s->source;
    n.runs     = s->runs;
    n.merged   = s->merged != NULL;
    n.keeps    = s->keeps;
    n.eps      = s->eps;
    n.m        = s->m;
    if (s->runs && l->run->share > 0) {
        n.drunning = ct_diff(l->blob[RUNNING_MEAN]);
        n.dspread  = ct_diff(l->blob[RUNNING_VAR]);
    }
    if (l->blob_wants_grad[SCALE])
        n.dscale = ct_diff(l->blob[SCALE]);
    if (l->blob_wants_grad[SHIFT])
        n.dshift = ct_diff(l->blob[SHIFT]);
    return n;
}

static struct ct_view view_of(const struct bn *s)
{
    return { s->view.n, s->view.c, s->view.inner };
}

/* Two rows of the statistics from `row` on: to the CPU, over ranks, back.  A
 * rank without samples has summed up nothing. */
static enum ct_status merge(struct ct_layer *l, int row)
{
    struct bn *s       = (struct bn *)l->state;
    const int64_t n    = s->channels;
    const size_t bytes = 2 * (size_t)n * sizeof(float);
    float *there       = ct_data(s->stats) + row * n;

    if (s->view.n * s->view.inner == 0)
        memset(s->here, 0, bytes);
    else
        CT_TRY(l->dev->ops->to_host(l->dev, bytes, there, s->here));
    if (row == MEAN)
        CT_TRY(ct_merge_moments(l, n, s->merged, &s->m, s->here,
                                s->here + n));
    else
        CT_TRY(ct_merge_sums(l, n, s->merged, s->here, s->here + n));
    return l->dev->ops->from_host(l->dev, bytes, s->here, there);
}

extern "C" enum ct_status ct_cuda_bn_forward(struct ct_layer *l,
                                             const struct ct_io *io)
{
    struct bn *s = (struct bn *)l->state;
    const float *x = ct_data(io->bottom[0]);
    struct norm n;

    s->m = (double)(s->view.n * s->view.inner);
    n    = norm_of(l, io);
    if (s->source == BN_BATCH)
        CT_TRY(ct_channel_sum(l->dev, view_of(s), moments{ n, x }, x,
                              (float *)NULL));
    else
        CT_TRY(CT_LAUNCH(l->dev, n.channels, given, n));
    if (s->merged) {
        CT_TRY(merge(l, MEAN));
        CT_TRY(CT_LAUNCH(l->dev, n.channels, follow, n));
    }
    return ct_channel_map(l->dev, view_of(s), normalise{ n },
                          ct_data(io->top[0]),
                          s->kept ? ct_data(s->kept) : (float *)NULL, x);
}

extern "C" enum ct_status ct_cuda_bn_backward(struct ct_layer *l,
                                              const struct ct_io *io)
{
    const struct bn *s  = (const struct bn *)l->state;
    const struct norm n = norm_of(l, io);
    const float *kept   = s->kept ? ct_data(s->kept) : NULL;
    const float *x      = kept ? kept : ct_data(io->bottom[0]);
    const float *dy     = ct_diff(io->top[0]);

    CT_TRY(ct_channel_sum(l->dev, view_of(s), slopes{ n }, dy, x));
    if (s->merged) {
        CT_TRY(merge(l, SLOPE));
        CT_TRY(CT_LAUNCH(l->dev, n.channels, merged_slopes, n));
    }
    if (!io->want_grad[0])
        return CT_OK;
    return ct_channel_map(l->dev, view_of(s), spread{ n },
                          ct_diff(io->bottom[0]), (float *)NULL, dy, x);
}
