/* loss.cu - losses other than the softmax's on a GPU; formulas and shapes as
 * in their .c files. */
#include "layers/contrastive_loss.h"
#include "layers/cuda/loss_kernels.h"
#include "layers/cuda/softmax_kernels.h"
#include "layers/hinge_loss.h"
#include "layers/infogain_loss.h"
#include "layers/sigmoid_cross_entropy_loss.h"

#include "device/cuda/elementwise.h"

/* A loss of no rows is 0 over 1. */
static double rows_or_one(int64_t n)
{
    return n > 1 ? (double)n : 1;
}

struct squared {
    const float *a, *b;

    __device__ float operator()(int64_t i, bool *) const
    {
        const float d = a[i] - b[i];

        return d * d;
    }
};

/* (a - b) w / n */
struct difference {
    const float *weight;
    float        n;

    __device__ float operator()(float a, float b) const
    {
        return *weight / n * (a - b);
    }
};

extern "C" enum ct_status ct_cuda_euclidean_loss_forward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct squared f = { ct_data(io->bottom[0]),
                               ct_data(io->bottom[1]) };

    return ct_loss_run(l->dev, io->bottom[0]->count, f,
                       2 * rows_or_one(io->bottom[0]->shape.dim[0]), NULL,
                       ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_euclidean_loss_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct difference f = { ct_diff(io->top[0]),
                                  (float)io->bottom[0]->shape.dim[0] };
    const float *a = ct_data(io->bottom[0]), *b = ct_data(io->bottom[1]);
    const int64_t n = io->bottom[0]->count;

    if (io->want_grad[0])
        CT_TRY(ct_map(l->dev, n, f, ct_diff(io->bottom[0]), a, b));
    if (io->want_grad[1])
        CT_TRY(ct_map(l->dev, n, f, ct_diff(io->bottom[1]), b, a));
    return CT_OK;
}

/* square[i] = |a_i - b_i|^2, a warp a row. */
__global__ static void distances(int64_t n, int64_t width, const float *a,
                                 const float *b, float *square)
{
    CT_TURN();
    const int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);

    for (int64_t i = blockIdx.x * (int64_t)(blockDim.x / 32) +
                     threadIdx.x / 32;
         i < n; i += warps) {
        float sum = 0;

        for (int64_t j = i * width + threadIdx.x % 32; j < (i + 1) * width;
             j += 32)
            sum += (a[j] - b[j]) * (a[j] - b[j]);
        for (int o = 16; o > 0; o /= 2)
            sum += __shfl_xor_sync(~0u, sum, o);
        if (threadIdx.x % 32 == 0)
            square[i] = sum;
    }
}

struct pairs {
    float        margin;
    bool         legacy;
    const float *square, *alike;

    __device__ float operator()(int64_t i, bool *) const
    {
        const float gap =
            margin - (legacy ? square[i] : sqrtf(square[i]));

        if (truncf(alike[i]) != 0)
            return square[i];
        return gap <= 0 ? 0 : legacy ? gap : gap * gap;
    }
    /* k_i of contrastive_loss.c. */
    __device__ float slope(int64_t i) const
    {
        const float d   = sqrtf(square[i]);
        const float gap = margin - (legacy ? square[i] : d);

        if (truncf(alike[i]) != 0)
            return 1;
        return gap <= 0 ? 0 : legacy ? -1 : -gap / (d + 1e-4f);
    }
};

__global__ static void pairs_grad(int64_t n, int64_t width, struct pairs p,
                                  const float *weight, float by,
                                  const float *a, const float *b, float *da)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        da[i] = *weight / by * p.slope(i / width) * (a[i] - b[i]);
}

static struct pairs pairs_of(const struct contrastive_loss *c,
                             const struct ct_io *io)
{
    return { c->margin, c->legacy, ct_data(c->square),
             ct_data(io->bottom[2]) };
}

extern "C" enum ct_status ct_cuda_contrastive_loss_forward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct contrastive_loss *c =
        (const struct contrastive_loss *)l->state;

    if (c->n > 0)
        CT_TRY(CT_LAUNCH(l->dev, c->n * 32, distances, c->n, c->width,
                         (const float *)ct_data(io->bottom[0]),
                         (const float *)ct_data(io->bottom[1]),
                         ct_data(c->square)));
    return ct_loss_run(l->dev, c->n, pairs_of(c, io), 2 * rows_or_one(c->n),
                       NULL, ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_contrastive_loss_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct contrastive_loss *c =
        (const struct contrastive_loss *)l->state;
    const int64_t n = c->n * c->width;

    for (int side = 0; n > 0 && side < 2; side++) {
        const float *a = ct_data(io->bottom[side]);
        const float *b = ct_data(io->bottom[1 - side]);

        if (io->want_grad[side])
            CT_TRY(CT_LAUNCH(l->dev, n, pairs_grad, n, c->width,
                             pairs_of(c, io),
                             (const float *)ct_diff(io->top[0]), (float)c->n,
                             a, b, ct_diff(io->bottom[side])));
    }
    if (io->want_grad[2])
        return ct_clear_values(l->dev, c->n, CT_F32, ct_diff(io->bottom[2]));
    return CT_OK;
}

/* max(0, 1 + s x), s = -1 at the label. */
struct hinge {
    int64_t      classes;
    bool         squared;
    const float *x, *t;

    __device__ bool is_label(int64_t i) const
    {
        return i % classes == ct_label_class(t[i / classes], classes);
    }
    __device__ float operator()(int64_t i, bool *) const
    {
        float m = is_label(i) ? 1 - x[i] : 1 + x[i];

        if (ct_label_class(t[i / classes], classes) < 0)
            return NAN;
        m = m < 0 ? 0 : m; /* keeps NaN */
        return squared ? m * m : m;
    }
};

__global__ static void hinge_grad(int64_t n, struct hinge h,
                                  const float *weight, float by, float *dx)
{
    CT_TURN();
    const float scale = *weight / by;

    CT_KERNEL_EACH (i, n) {
        const bool at = h.is_label(i);
        const float m = at ? 1 - h.x[i] : 1 + h.x[i];

        dx[i] = m > 0 ? (at ? -scale : scale) * (h.squared ? 2 * m : 1) : 0;
    }
}

static struct hinge hinge_of(const struct hinge_loss *h,
                             const struct ct_io *io)
{
    return { h->classes, h->squared, ct_data(io->bottom[0]),
             ct_data(io->bottom[1]) };
}

extern "C" enum ct_status ct_cuda_hinge_loss_forward(struct ct_layer *l,
                                                     const struct ct_io *io)
{
    const struct hinge_loss *h = (const struct hinge_loss *)l->state;

    return ct_loss_run(l->dev, h->n * h->classes, hinge_of(h, io),
                       rows_or_one(h->n), NULL, ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_hinge_loss_backward(struct ct_layer *l,
                                                      const struct ct_io *io)
{
    const struct hinge_loss *h = (const struct hinge_loss *)l->state;
    const int64_t n            = h->n * h->classes;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, hinge_grad, n, hinge_of(h, io),
                     (const float *)ct_diff(io->top[0]), (float)h->n,
                     ct_diff(io->bottom[0]));
}

/* -log of the label's probability, which has a floor. */
struct logistic {
    int64_t      classes;
    const float *p, *t;

    __device__ float floored(int64_t at) const
    {
        return p[at] < CT_LOG_FLOOR ? CT_LOG_FLOOR : p[at];
    }
    __device__ float operator()(int64_t i, bool *) const
    {
        const int64_t k = ct_label_class(t[i], classes);

        return k < 0 ? NAN : -logf(floored(i * classes + k));
    }
};

__global__ static void logistic_grad(int64_t n, struct logistic f,
                                     const float *weight, float by, float *dp)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        dp[i] = i % f.classes == ct_label_class(f.t[i / f.classes], f.classes)
                    ? -*weight / by / f.floored(i)
                    : 0;
}

extern "C" enum ct_status ct_cuda_multinomial_logistic_loss_forward(
    struct ct_layer *l, const struct ct_io *io)
{
    const int64_t n = io->bottom[0]->shape.dim[0];
    const struct logistic f = { ct_count(io->bottom[0], 1, CT_END),
                                ct_data(io->bottom[0]),
                                ct_data(io->bottom[1]) };

    return ct_loss_run(l->dev, n, f, rows_or_one(n), NULL,
                       ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_multinomial_logistic_loss_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const int64_t n = io->bottom[0]->count;
    const struct logistic f = { ct_count(io->bottom[0], 1, CT_END),
                                ct_data(io->bottom[0]),
                                ct_data(io->bottom[1]) };

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, logistic_grad, n, f,
                     (const float *)ct_diff(io->top[0]),
                     (float)io->bottom[0]->shape.dim[0],
                     ct_diff(io->bottom[0]));
}

/* sum over classes of -H[label] log q. */
struct infogain {
    struct ct_loss loss;
    int64_t        classes, inner;
    const float   *p, *t, *gain, *sums;

    __device__ float operator()(int64_t i, bool *counts) const
    {
        const int64_t k = ct_label_class(t[i], classes);
        const float *of = p + i / inner * classes * inner + i % inner;
        float term = 0;

        *counts = !ct_label_ignored(loss, t[i]);
        if (!*counts)
            return 0;
        if (k < 0)
            return NAN;
        for (int64_t c = 0; c < classes; c++) {
            const float q = of[c * inner];

            term -= gain[k * classes + c] *
                    logf(q < CT_LOG_FLOOR ? CT_LOG_FLOOR : q);
        }
        return term;
    }
};

__global__ static void infogain_rows(int64_t classes, const float *gain,
                                     float *sums)
{
    CT_TURN();
    CT_KERNEL_EACH (k, classes) {
        double sum = 0;

        for (int64_t c = 0; c < classes; c++)
            sum += gain[k * classes + c];
        sums[k] = (float)sum;
    }
}

__global__ static void infogain_grad(int64_t n, struct infogain g,
                                     const float *weight, const float *z,
                                     float *dx)
{
    CT_TURN();
    const float scale = *weight / *z;

    CT_KERNEL_EACH (i, n) {
        const int64_t line = i / g.inner, c = line % g.classes;
        const float label  = g.t[line / g.classes * g.inner + i % g.inner];
        const int64_t k    = ct_label_class(label, g.classes);

        dx[i] = ct_label_ignored(g.loss, label) ? 0
                : k < 0 ? NAN
                        : scale * (g.p[i] * g.sums[k] -
                                   g.gain[k * g.classes + c]);
    }
}

static struct infogain infogain_of(const struct infogain_loss *g,
                                   const struct ct_io *io)
{
    return { g->loss, g->classes, g->inner,
             ct_data(g->prob ? g->prob : io->top[1]), ct_data(io->bottom[1]),
             ct_data(g->gain ? g->gain : io->bottom[2]), ct_data(g->sums) };
}

/* The normaliser is kept behind the terms. */
static float *infogain_z(const struct infogain_loss *g)
{
    return ct_data(g->terms) + g->outer * g->inner;
}

extern "C" enum ct_status ct_cuda_infogain_loss_forward(struct ct_layer *l,
                                                        const struct ct_io *io)
{
    const struct infogain_loss *g = (const struct infogain_loss *)l->state;

    CT_TRY(ct_softmax_run(l->dev, g->outer, g->classes, g->inner,
                          ct_data(io->bottom[0]),
                          ct_data(g->prob ? g->prob : io->top[1])));
    return ct_loss_run(l->dev, g->outer * g->inner, infogain_of(g, io),
                       ct_loss_fixed(&g->loss, g->outer, g->inner),
                       infogain_z(g), ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_infogain_loss_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct infogain_loss *g = (const struct infogain_loss *)l->state;
    const struct infogain f       = infogain_of(g, io);
    const int64_t n               = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    CT_TRY(CT_LAUNCH(l->dev, g->classes, infogain_rows, g->classes, f.gain,
                     ct_data(g->sums)));
    return CT_LAUNCH(l->dev, n, infogain_grad, n, f,
                     (const float *)ct_diff(io->top[0]),
                     (const float *)infogain_z(g), ct_diff(io->bottom[0]));
}

struct crossed {
    struct ct_loss loss;
    const float   *x, *t;

    __device__ float operator()(int64_t i, bool *counts) const
    {
        *counts = !ct_label_ignored(loss, t[i]);
        return *counts ? log1pf(expf(-fabsf(x[i]))) + fmaxf(x[i], 0) -
                             x[i] * t[i]
                       : 0;
    }
};

struct crossed_grad {
    struct ct_loss loss;
    const float   *weight, *z;

    __device__ float operator()(float x, float t) const
    {
        const float e = expf(-fabsf(x));

        return ct_label_ignored(loss, t)
                   ? 0
                   : *weight / *z * ((x >= 0 ? 1 : e) / (1 + e) - t);
    }
};

extern "C" enum ct_status ct_cuda_sigmoid_cross_entropy_loss_forward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct sigmoid_cross_entropy_loss *s =
        (const struct sigmoid_cross_entropy_loss *)l->state;
    const struct crossed f = { s->loss, ct_data(io->bottom[0]),
                               ct_data(io->bottom[1]) };
    const int64_t n = io->bottom[0]->count;
    const int64_t outer = io->bottom[0]->shape.dim[0];

    return ct_loss_run(l->dev, n, f,
                       ct_loss_fixed(&s->loss, outer, outer ? n / outer : 0),
                       ct_data(s->terms), ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_sigmoid_cross_entropy_loss_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct sigmoid_cross_entropy_loss *s =
        (const struct sigmoid_cross_entropy_loss *)l->state;
    const struct crossed_grad f = { s->loss, ct_diff(io->top[0]),
                                    ct_data(s->terms) };

    if (!io->want_grad[0])
        return CT_OK;
    return ct_map(l->dev, io->bottom[0]->count, f, ct_diff(io->bottom[0]),
                  (const float *)ct_data(io->bottom[0]),
                  (const float *)ct_data(io->bottom[1]));
}
