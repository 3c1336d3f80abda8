/* group_norm.cu - GroupNorm on a GPU; formulas as in group_norm.c.  A group is
 * a channel of channels.h. */
#include "device/cuda/channel_kernels.h"
#include "layers/cuda/slots.h"
#include "layers/group_norm.h"

struct groups {
    float  *stats;
    int64_t n, length;
    float   eps;

    __device__ float *stat(int row) const { return stats + row * n; }
};

struct moments {
    struct groups g;
    const float  *x;

    __device__ float load(int64_t q) const { return x[q * g.length]; }
    __device__ void add(float first, float a, float, float *s, float *t) const
    {
        const float d = a - first;

        *s += d;
        *t += d * d;
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        const double d   = s / (double)g.length;
        const double var = fmax(t / (double)g.length - d * d, 0.0);

        g.stat(MEAN)[q]     = (float)(load(q) + d);
        g.stat(VARIANCE)[q] = (float)var;
        g.stat(INVERSE)[q]  = 1 / sqrtf((float)var + g.eps);
    }
};

struct normalise {
    struct groups g;

    __device__ float2 load(int64_t q) const
    {
        return make_float2(g.stat(MEAN)[q], g.stat(INVERSE)[q]);
    }
    __device__ float operator()(const float2 &k, float x) const
    {
        return (x - k.x) * k.y;
    }
};

/* Sums of dy and dy (x - mean). */
struct slopes {
    struct groups g;

    __device__ float load(int64_t q) const { return g.stat(MEAN)[q]; }
    __device__ void add(float mean, float dy, float x, float *s,
                        float *t) const
    {
        *s += dy;
        *t += dy * (x - mean);
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        const double v    = g.stat(INVERSE)[q];
        const double part = -v / (double)g.length;

        g.stat(OFFSET)[q] = (float)(part * s);
        g.stat(SLOPE)[q]  = (float)(part * v * v * t);
    }
};

struct spread {
    struct groups g;

    __device__ float4 load(int64_t q) const
    {
        return make_float4(g.stat(INVERSE)[q], g.stat(SLOPE)[q],
                           g.stat(MEAN)[q], g.stat(OFFSET)[q]);
    }
    __device__ float operator()(const float4 &k, float dy, float x) const
    {
        return k.x * dy + (k.y * (x - k.z) + k.w);
    }
};

static struct groups groups_of(const struct group_norm *s)
{
    return { ct_data(s->stats), s->rows.c, s->rows.inner, s->eps };
}

extern "C" enum ct_status ct_cuda_group_norm_forward(struct ct_layer *l,
                                                     const struct ct_io *io)
{
    const struct group_norm *s = (const struct group_norm *)l->state;
    const struct groups g      = groups_of(s);
    const struct ct_view v     = { 1, g.n, g.length };
    const float *x             = ct_data(io->bottom[0]);

    if (g.n * g.length == 0)
        return CT_OK;
    CT_TRY(ct_channel_sum(l->dev, v, moments{ g, x }, x, (float *)NULL));
    return ct_channel_map(l->dev, v, normalise{ g }, ct_data(io->top[0]),
                          s->kept ? ct_data(s->kept) : (float *)NULL, x);
}

extern "C" enum ct_status ct_cuda_group_norm_backward(struct ct_layer *l,
                                                      const struct ct_io *io)
{
    const struct group_norm *s = (const struct group_norm *)l->state;
    const struct groups g      = groups_of(s);
    const struct ct_view v     = { 1, g.n, g.length };
    const float *kept = s->kept ? ct_data(s->kept) : NULL;
    const float *x    = kept ? kept : ct_data(io->bottom[0]);
    const float *dy   = ct_diff(io->top[0]);

    if (!io->want_grad[0] || g.n * g.length == 0)
        return CT_OK;
    CT_TRY(ct_channel_sum(l->dev, v, slopes{ g }, dy, x));
    return ct_channel_map(l->dev, v, spread{ g }, ct_diff(io->bottom[0]),
                          (float *)NULL, dy, x);
}
