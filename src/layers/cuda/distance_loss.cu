/* distance_loss.cu - losses that are distances, on a GPU: SmoothL1Loss (and
 * its OHEM), L1Loss and CenterLoss; formulas and shapes as in their .c files.
 */
#include "layers/center_loss.h"
#include "layers/cuda/loss_kernels.h"
#include "layers/l1_loss.h"
#include "layers/smooth_l1_loss.h"

struct smooth {
    const float *a, *b, *inside, *outside; /* weights may be NULL */
    float        sigma2;

    __device__ float difference(int64_t i) const
    {
        const float d = a[i] - b[i];

        return inside ? d * inside[i] : d;
    }
    __device__ float operator()(int64_t i, bool *) const
    {
        const float f = smooth_l1(difference(i), sigma2);

        return outside ? outside[i] * f : f;
    }
};

static struct smooth smooth_of(const struct smooth_l1_loss *s,
                               const struct ct_io *io)
{
    return { ct_data(io->bottom[0]), ct_data(io->bottom[1]),
             s->inside ? ct_data(io->bottom[s->inside]) : NULL,
             s->outside ? ct_data(io->bottom[s->outside]) : NULL, s->sigma2 };
}

__global__ static void smooth_positions(int64_t n, int64_t channels,
                                        int64_t inner, struct smooth f,
                                        float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t first = i / inner * channels * inner + i % inner;
        float sum = 0;

        for (int64_t c = 0; c < channels; c++)
            sum += smooth_l1(f.difference(first + c * inner), f.sigma2);
        y[i] = sum;
    }
}

__global__ static void smooth_grad(int64_t n, struct smooth f,
                                   const float *weight, float by, float *dx)
{
    CT_TURN();
    const float scale = *weight / by;

    CT_KERNEL_EACH (i, n)
        dx[i] = scale * (f.inside ? f.inside[i] : 1) *
                (f.outside ? f.outside[i] : 1) *
                smooth_l1_slope(f.difference(i), f.sigma2);
}

extern "C" enum ct_status ct_cuda_smooth_l1_loss_forward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct smooth_l1_loss *s = (const struct smooth_l1_loss *)l->state;
    const struct smooth f          = smooth_of(s, io);
    const int64_t n                = s->outer * s->inner;

    CT_TRY(ct_loss_run(l->dev, io->bottom[0]->count, f, (double)s->normalizer,
                       NULL, ct_data(io->top[0])));
    if (io->n_top < 2 || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, smooth_positions, n, s->channels, s->inner, f,
                     ct_data(io->top[1]));
}

extern "C" enum ct_status ct_cuda_smooth_l1_loss_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct smooth_l1_loss *s = (const struct smooth_l1_loss *)l->state;
    const struct smooth f          = smooth_of(s, io);
    const int64_t n                = io->bottom[0]->count;

    for (int side = 0; n > 0 && side < 2; side++)
        if (io->want_grad[side])
            CT_TRY(CT_LAUNCH(l->dev, n, smooth_grad, n, f,
                             (const float *)ct_diff(io->top[0]),
                             side == 0 ? s->normalizer : -s->normalizer,
                             ct_diff(io->bottom[side])));
    return CT_OK;
}

struct absolute {
    struct l1_values v;
    float            times;

    __device__ float operator()(int64_t i, bool *counts) const
    {
        float term;

        *counts = l1_term(&v, i, &term);
        return times * term;
    }
};

__global__ static void absolute_grad(int64_t n, struct absolute f,
                                     const float *weight, const float *z,
                                     float sign, float *dx)
{
    CT_TURN();
    const float scale = sign * *weight * f.times / *z;

    CT_KERNEL_EACH (i, n) {
        const int64_t first = i / f.v.inner * f.v.channels * f.v.inner +
                              i % f.v.inner;
        const float square = f.v.lengths ? l1_square(&f.v, i) : 0;

        for (int64_t c = 0; c < f.v.channels; c++)
            dx[first + c * f.v.inner] =
                scale * l1_slope(&f.v, first + c * f.v.inner, square);
    }
}

extern "C" enum ct_status ct_cuda_l1_loss_forward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    const struct l1_loss *s = (const struct l1_loss *)l->state;
    const struct absolute f = { l1_values_of(s, io), s->times };
    const double rows       = s->outer > 1 ? (double)s->outer : 1;

    return ct_loss_run(l->dev, s->n_terms, f, s->counts ? 0 : rows,
                       ct_data(s->z), ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_l1_loss_backward(struct ct_layer *l,
                                                   const struct ct_io *io)
{
    const struct l1_loss *s = (const struct l1_loss *)l->state;
    const struct absolute f = { l1_values_of(s, io), s->times };
    const int64_t n         = s->outer * s->inner;

    for (int side = 0; n > 0 && side < io->n_bottom; side++)
        if (io->want_grad[side])
            CT_TRY(CT_LAUNCH(l->dev, n, absolute_grad, n, f,
                             (const float *)ct_diff(io->top[0]),
                             (const float *)ct_data(s->z),
                             side == 0 ? 1.0f : -1.0f,
                             ct_diff(io->bottom[side])));
    return CT_OK;
}

/* Distances from the centre of the label; NaN where there is none. */
struct centered {
    int64_t      width, classes;
    bool         absolute;
    const float *x, *t, *c;

    __device__ float difference(int64_t i) const
    {
        const int64_t k = ct_label_class(t[i / width], classes);

        return k < 0 ? NAN : x[i] - c[k * width + i % width];
    }
    __device__ float slope(int64_t i) const
    {
        const float d = difference(i);

        return !absolute ? d : d > 0 ? 1 : d < 0 ? -1 : d;
    }
    __device__ float operator()(int64_t i, bool *) const
    {
        const float d = difference(i);

        return absolute ? fabsf(d) : 0.5f * d * d;
    }
};

static struct centered centered_of(const struct ct_layer *l,
                                   const struct ct_io *io)
{
    const struct center_loss *s = (const struct center_loss *)l->state;

    return { s->width, s->classes, s->absolute, ct_data(io->bottom[0]),
             ct_data(io->bottom[1]), ct_data(l->blob[0]) };
}

__global__ static void centered_grad(int64_t n, struct centered f,
                                     const float *weight, float by, float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        dx[i] = *weight / by * f.slope(i);
}

/* The first sample of a class moves its centre, for all of them. */
__global__ static void center_step(int64_t rows, struct centered f, float *dc)
{
    CT_TURN();
    CT_KERNEL_EACH (i, rows * f.width) {
        const int64_t row = i / f.width, j = i % f.width;
        const int64_t k   = ct_label_class(f.t[row], f.classes);
        bool first = k >= 0;
        float sum = 0, count = 0;

        for (int64_t r = 0; first && r < row; r++)
            first = ct_label_class(f.t[r], f.classes) != k;
        for (int64_t r = row; first && r < rows; r++)
            if (ct_label_class(f.t[r], f.classes) == k) {
                sum += f.slope(r * f.width + j);
                count++;
            }
        if (first)
            dc[k * f.width + j] -= sum / (1 + count);
    }
}

extern "C" enum ct_status ct_cuda_center_loss_forward(struct ct_layer *l,
                                                      const struct ct_io *io)
{
    const struct center_loss *s = (const struct center_loss *)l->state;

    return ct_loss_run(l->dev, s->rows * s->width, centered_of(l, io),
                       s->rows > 1 ? (double)s->rows : 1, NULL,
                       ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_center_loss_backward(struct ct_layer *l,
                                                       const struct ct_io *io)
{
    const struct center_loss *s = (const struct center_loss *)l->state;
    const struct centered f     = centered_of(l, io);
    const int64_t n             = s->rows * s->width;

    if (n > 0 && l->blob_wants_grad[0])
        CT_TRY(CT_LAUNCH(l->dev, n, center_step, s->rows, f,
                         ct_diff(l->blob[0])));
    if (n == 0 || !io->want_grad[0])
        return CT_OK;
    return CT_LAUNCH(l->dev, n, centered_grad, n, f,
                     (const float *)ct_diff(io->top[0]), (float)s->rows,
                     ct_diff(io->bottom[0]));
}
