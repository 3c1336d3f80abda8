/* image.cu - Upsample, Interp, ROIPooling and SPP on a GPU; formulas and
 * shapes as in their .c files.  Gradients are gathered: a pixel looks for the
 * outputs that it went into, in their order. */
#include <float.h>
#include <limits.h>

#include "device/cuda/elementwise.h"
#include "layers/cuda/slots.h"
#include "layers/interp.h"
#include "layers/roi_pooling.h"
#include "layers/spp.h"
#include "layers/upsample.h"

/* The input row or column that output i repeats. */
__device__ static inline int64_t up_from(const struct upsample &u, int64_t i,
                                         int64_t n, int64_t n_out,
                                         int64_t scale)
{
    return u.sized ? i * n / n_out : i / scale;
}

/* The first output that repeats input i. */
__device__ static inline int64_t up_first(const struct upsample &u, int64_t i,
                                          int64_t n, int64_t n_out,
                                          int64_t scale)
{
    const int64_t to = u.sized ? (i * n_out + n - 1) / n : i * scale;

    return to < n_out ? to : n_out;
}

__global__ static void up_forward(int64_t n, struct upsample u, const float *x,
                                  float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t w = i % u.w_out, r = i / u.w_out;
        const int64_t from =
            (r / u.h_out * u.h +
             up_from(u, r % u.h_out, u.h, u.h_out, u.scale_h)) * u.w +
            up_from(u, w, u.w, u.w_out, u.scale_w);

        y[i] = x[from];
    }
}

__global__ static void up_backward(int64_t n, struct upsample u,
                                   const float *dy, float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t w = i % u.w, h = i / u.w % u.h, p = i / u.w / u.h;
        const int64_t h1 = up_first(u, h + 1, u.h, u.h_out, u.scale_h);
        const int64_t w1 = up_first(u, w + 1, u.w, u.w_out, u.scale_w);
        float sum = 0;

        for (int64_t a = up_first(u, h, u.h, u.h_out, u.scale_h); a < h1; a++)
            for (int64_t b = up_first(u, w, u.w, u.w_out, u.scale_w); b < w1;
                 b++)
                sum += dy[(p * u.h_out + a) * u.w_out + b];
        dx[i] = sum;
    }
}

/* Un-pooling: y holds which input goes where, the last of several; then the
 * inputs.  A mask that is not in the image makes its first value NaN. */
__global__ static void unpool_owners(int64_t n, int64_t plane, int64_t out,
                                     const float *mask, int32_t *owner)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t first = i / plane * out;

        if (mask[i] >= 0 && mask[i] < (float)out)
            atomicMax(owner + first + (int64_t)mask[i], (int32_t)(i % plane));
        else
            atomicMax(owner + first, INT_MAX);
    }
}

__global__ static void unpool(int64_t n, int64_t plane, int64_t out,
                              const float *x, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int32_t from = __float_as_int(y[i]);

        y[i] = from < 0           ? 0
               : from == INT_MAX  ? NAN
                                  : x[i / out * plane + from];
    }
}

__global__ static void unpool_grad(int64_t n, int64_t plane, int64_t out,
                                   const float *mask, const float *dy,
                                   float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        dx[i] = mask[i] >= 0 && mask[i] < (float)out
                    ? dy[i / plane * out + (int64_t)mask[i]]
                    : NAN;
}

extern "C" enum ct_status ct_cuda_upsample_forward(struct ct_layer *l,
                                                   const struct ct_io *io)
{
    const struct upsample *u = (const struct upsample *)l->state;
    const int64_t plane = u->h * u->w, out = u->h_out * u->w_out;
    const int64_t n = io->top[0]->count, m = io->bottom[0]->count;
    const float *x = ct_data(io->bottom[0]);
    float *y = ct_data(io->top[0]);

    if (n == 0)
        return CT_OK;
    if (io->n_bottom == 1)
        return CT_LAUNCH(l->dev, n, up_forward, n, *u, x, y);
    CT_TRY(ct_cuda_check(l->dev, cudaMemsetAsync(y, 0xff, (size_t)n *
                                                 sizeof(*y),
                                                 ct_cuda_stream(l->dev)),
                         "clear"));
    if (m > 0)
        CT_TRY(CT_LAUNCH(l->dev, m, unpool_owners, m, plane, out,
                         (const float *)ct_data(io->bottom[1]),
                         (int32_t *)y));
    return CT_LAUNCH(l->dev, n, unpool, n, plane, out, x, y);
}

extern "C" enum ct_status ct_cuda_upsample_backward(struct ct_layer *l,
                                                    const struct ct_io *io)
{
    const struct upsample *u = (const struct upsample *)l->state;
    const int64_t n          = io->bottom[0]->count;
    const float *dy          = ct_diff(io->top[0]);
    float *dx                = ct_diff(io->bottom[0]);

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    if (io->n_bottom == 1)
        return CT_LAUNCH(l->dev, n, up_backward, n, *u, dy, dx);
    return CT_LAUNCH(l->dev, n, unpool_grad, n, u->h * u->w,
                     u->h_out * u->w_out,
                     (const float *)ct_data(io->bottom[1]), dy, dx);
}

/* Where output i of n_out lies among n inputs: after input `at` by `part`. */
struct between {
    int64_t at;
    float   part;
};

__device__ static inline float interp_step(int64_t n, int64_t n_out)
{
    return n_out > 1 ? (float)(n - 1) / (float)(n_out - 1) : 0;
}

/* Products are not joined with sums here, so that the CPU's places come. */
__device__ static inline struct between between_of(int64_t i, int64_t n,
                                                   int64_t n_out)
{
    const float place = __fmul_rn(interp_step(n, n_out), (float)i);
    struct between b;

    b.at   = (int64_t)place;
    b.part = place - (float)b.at;
    if (b.at >= n - 1) { /* the last one has no neighbour behind it */
        b.at   = n - 1;
        b.part = 0;
    }
    return b;
}

/* The share of input `k` in output i. */
__device__ static inline float share(int64_t i, int64_t k, int64_t n,
                                     int64_t n_out)
{
    const struct between b = between_of(i, n, n_out);

    return b.at == k ? 1 - b.part : b.at + 1 == k ? b.part : 0;
}

/* Outputs [from, to) that may lie next to input k; a few more do no harm. */
__device__ static inline longlong2 outputs(int64_t k, int64_t n,
                                           int64_t n_out)
{
    const float step = interp_step(n, n_out);
    int64_t from = 0, to = n_out;

    if (step > 0) {
        from = (int64_t)((float)(k - 1) / step) - 2;
        to   = (int64_t)((float)(k + 1) / step) + 3;
    }
    return make_longlong2(from > 0 ? from : 0, to < n_out ? to : n_out);
}

__global__ static void interp_forward(int64_t n, struct interp s,
                                      const float *x, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t w = i % s.w_out, h = i / s.w_out % s.h_out;
        const int64_t plane    = i / s.w_out / s.h_out;
        const struct between v = between_of(h, s.h, s.h_out);
        const struct between u = between_of(w, s.w, s.w_out);
        const float *a = x + (plane * s.h_in + v.at + s.crop) * s.w_in +
                         s.crop + u.at;
        const float *b     = v.part > 0 ? a + s.w_in : a;
        const int64_t next = u.part > 0 ? 1 : 0;

        y[i] = (1 - v.part) * ((1 - u.part) * a[0] + u.part * a[next]) +
               v.part * ((1 - u.part) * b[0] + u.part * b[next]);
    }
}

__global__ static void interp_backward(int64_t n, struct interp s,
                                       const float *dy, float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t w = i % s.w_in - s.crop;
        const int64_t h = i / s.w_in % s.h_in - s.crop;
        const float *from = dy + i / s.w_in / s.h_in * s.h_out * s.w_out;
        float sum = 0;

        if (h >= 0 && h < s.h && w >= 0 && w < s.w) {
            const longlong2 rows    = outputs(h, s.h, s.h_out);
            const longlong2 columns = outputs(w, s.w, s.w_out);

            for (int64_t a = rows.x; a < rows.y; a++) {
                const float down = share(a, h, s.h, s.h_out);

                for (int64_t b = columns.x; down != 0 && b < columns.y; b++)
                    sum += down * share(b, w, s.w, s.w_out) *
                           from[a * s.w_out + b];
            }
        }
        dx[i] = sum;
    }
}

extern "C" enum ct_status ct_cuda_interp_forward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    const struct interp *s = (const struct interp *)l->state;
    const int64_t n        = io->top[0]->count;

    return n ? CT_LAUNCH(l->dev, n, interp_forward, n, *s,
                         (const float *)ct_data(io->bottom[0]),
                         ct_data(io->top[0]))
             : CT_OK;
}

extern "C" enum ct_status ct_cuda_interp_backward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    const struct interp *s = (const struct interp *)l->state;
    const int64_t n        = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, interp_backward, n, *s,
                     (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}

/* A region; image -1 for one that no image has. */
struct region {
    int64_t image, x, y, height, width;
};

__device__ static inline struct region region_of(const struct roi_pooling &s,
                                                 const float *v)
{
    struct region r = { -1, 0, 0, 1, 1 };
    int64_t x2, y2;

    if (!(v[0] >= 0 && v[0] < (float)s.n))
        return r;
    for (int i = 1; i < 5; i++)
        if (!(fabsf(v[i] * s.scale) < 1e9f))
            return r;
    r.image = (int64_t)v[0];
    r.x     = (int64_t)roundf(v[1] * s.scale);
    r.y     = (int64_t)roundf(v[2] * s.scale);
    x2      = (int64_t)roundf(v[3] * s.scale);
    y2      = (int64_t)roundf(v[4] * s.scale);
    /* A region turned inside out is one pixel. */
    r.width  = x2 >= r.x ? x2 - r.x + 1 : 1;
    r.height = y2 >= r.y ? y2 - r.y + 1 : 1;
    return r;
}

/* Pixels [from, to) of bin i along one axis of n pixels. */
__device__ static inline longlong2 bin_of(int64_t i, int64_t first,
                                          int64_t length, int64_t n_bins,
                                          int64_t n)
{
    const float size = (float)length / (float)n_bins;
    int64_t from = first + (int64_t)floorf(__fmul_rn((float)i, size));
    int64_t to   = first + (int64_t)ceilf(__fmul_rn((float)(i + 1), size));

    from = from < 0 ? 0 : from > n ? n : from;
    to   = to < 0 ? 0 : to > n ? n : to;
    return make_longlong2(from, to);
}

__global__ static void roi_forward(int64_t n, struct roi_pooling s,
                                   const float *x, const float *rois, float *y,
                                   int32_t *argmax)
{
    CT_TURN();
    CT_KERNEL_EACH (o, n) {
        const int64_t j = o % s.pw, i = o / s.pw % s.ph;
        const int64_t c = o / s.pw / s.ph % s.c, r = o / s.pw / s.ph / s.c;
        const struct region g = region_of(s, rois + r * 5);
        const longlong2 h = bin_of(i, g.y, g.height, s.ph, s.h);
        const longlong2 w = bin_of(j, g.x, g.width, s.pw, s.w);
        const float *of = x + (g.image * s.c + c) * s.h * s.w;
        float best = h.x < h.y && w.x < w.y ? -FLT_MAX : 0;
        int32_t at = -1;

        for (int64_t a = h.x; g.image >= 0 && a < h.y; a++)
            for (int64_t b = w.x; b < w.y; b++)
                if (of[a * s.w + b] > best) {
                    best = of[a * s.w + b];
                    at   = (int32_t)(a * s.w + b);
                }
        y[o]      = g.image < 0 ? NAN : best;
        argmax[o] = at;
    }
}

/* Bins [from, to) of a region that may hold pixel `at`. */
__device__ static inline longlong2 bins_at(int64_t at, int64_t first,
                                           int64_t length, int64_t n_bins)
{
    const float size = (float)length / (float)n_bins;
    int64_t from     = (int64_t)floorf((float)(at - first) / size) - 2;
    int64_t to       = (int64_t)floorf((float)(at - first + 1) / size) + 3;

    from = from < 0 ? 0 : from;
    to   = to > n_bins ? n_bins : to;
    return make_longlong2(from, to);
}

__global__ static void roi_backward(int64_t n, struct roi_pooling s,
                                    const float *rois, const float *dy,
                                    const int32_t *argmax, float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t w = i % s.w, h = i / s.w % s.h;
        const int64_t c = i / s.w / s.h % s.c, image = i / s.w / s.h / s.c;
        float sum = 0;

        for (int64_t r = 0; r < s.rois; r++) {
            const struct region g = region_of(s, rois + r * 5);
            const int64_t first = (r * s.c + c) * s.ph * s.pw;
            longlong2 rows, columns;

            if (g.image != image)
                continue;
            rows    = bins_at(h, g.y, g.height, s.ph);
            columns = bins_at(w, g.x, g.width, s.pw);
            for (int64_t a = rows.x; a < rows.y; a++)
                for (int64_t b = columns.x; b < columns.y; b++)
                    if (argmax[first + a * s.pw + b] == h * s.w + w)
                        sum += dy[first + a * s.pw + b];
        }
        dx[i] = sum;
    }
}

extern "C" enum ct_status ct_cuda_roi_pooling_forward(struct ct_layer *l,
                                                      const struct ct_io *io)
{
    const struct roi_pooling *s = (const struct roi_pooling *)l->state;
    const int64_t n             = io->top[0]->count;

    return n ? CT_LAUNCH(l->dev, n, roi_forward, n, *s,
                         (const float *)ct_data(io->bottom[0]),
                         (const float *)ct_data(io->bottom[1]),
                         ct_data(io->top[0]), (int32_t *)ct_data(s->argmax))
             : CT_OK;
}

extern "C" enum ct_status ct_cuda_roi_pooling_backward(struct ct_layer *l,
                                                       const struct ct_io *io)
{
    const struct roi_pooling *s = (const struct roi_pooling *)l->state;
    const int64_t n             = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, roi_backward, n, *s,
                     (const float *)ct_data(io->bottom[1]),
                     (const float *)ct_diff(io->top[0]),
                     (const int32_t *)ct_data(s->argmax),
                     ct_diff(io->bottom[0]));
}
