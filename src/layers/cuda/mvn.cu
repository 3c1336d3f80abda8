/* mvn.cu - MVN on a GPU; formulas as in mvn.c.  A row is a channel of
 * channels.h. */
#include "device/cuda/channel_kernels.h"
#include "layers/cuda/slots.h"
#include "layers/mvn.h"
#include "proto/params.h"

struct rows {
    float  *stats;
    int64_t n, length;
    float   eps;
    bool    scaled; /* normalize_variance */

    __device__ float *stat(int row) const { return stats + row * n; }
};

struct moments {
    struct rows  r;
    const float *x;

    __device__ float load(int64_t q) const { return x[q * r.length]; }
    __device__ void add(float first, float a, float, float *s, float *t) const
    {
        const float d = a - first;

        *s += d;
        *t += d * d;
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        const double d   = s / (double)r.length;
        const double var = fmax(t / (double)r.length - d * d, 0.0);

        r.stat(MEAN)[q]     = (float)(load(q) + d);
        r.stat(VARIANCE)[q] = (float)var;
        r.stat(INVERSE)[q]  = r.scaled ? 1 / (sqrtf((float)var) + r.eps) : 1;
    }
};

struct normalise {
    struct rows r;

    __device__ float2 load(int64_t q) const
    {
        return make_float2(r.stat(MEAN)[q], r.stat(INVERSE)[q]);
    }
    __device__ float operator()(const float2 &k, float x) const
    {
        return (x - k.x) * k.y;
    }
};

/* Sums of dy and dy y. */
struct slopes {
    struct rows r;

    __device__ int load(int64_t) const { return 0; }
    __device__ void add(int, float dy, float y, float *s, float *t) const
    {
        *s += dy;
        *t += dy * y;
    }
    __device__ void finish(int64_t q, double s, double t) const
    {
        const double part = r.stat(INVERSE)[q] / (double)r.length;

        r.stat(OFFSET)[q] = (float)(-part * s);
        r.stat(SLOPE)[q]  = r.scaled ? (float)(-part * t) : 0;
    }
};

struct spread {
    struct rows r;

    __device__ float3 load(int64_t q) const
    {
        return make_float3(r.stat(INVERSE)[q], r.stat(SLOPE)[q],
                           r.stat(OFFSET)[q]);
    }
    __device__ float operator()(const float3 &k, float dy, float y) const
    {
        return k.x * dy + (k.y * y + k.z);
    }
};

static struct rows rows_of(const struct ct_layer *l)
{
    const Caffe__MVNParameter *p = ct_mvn_param(l->param);
    const struct mvn *s          = (const struct mvn *)l->state;

    return { ct_data(s->stats), s->rows.c, s->rows.inner, p->eps,
             (bool)p->normalize_variance };
}

extern "C" enum ct_status ct_cuda_mvn_forward(struct ct_layer *l,
                                              const struct ct_io *io)
{
    const struct rows r    = rows_of(l);
    const struct ct_view v = { 1, r.n, r.length };
    const float *x         = ct_data(io->bottom[0]);

    CT_TRY(ct_channel_sum(l->dev, v, moments{ r, x }, x, (float *)NULL));
    return ct_channel_map(l->dev, v, normalise{ r }, ct_data(io->top[0]),
                          (float *)NULL, x);
}

extern "C" enum ct_status ct_cuda_mvn_backward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    const struct rows r    = rows_of(l);
    const struct ct_view v = { 1, r.n, r.length };
    const float *y = ct_data(io->top[0]), *dy = ct_diff(io->top[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_TRY(ct_channel_sum(l->dev, v, slopes{ r }, dy, y));
    return ct_channel_map(l->dev, v, spread{ r }, ct_diff(io->bottom[0]),
                          (float *)NULL, dy, y);
}
