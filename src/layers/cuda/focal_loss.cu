/* focal_loss.cu - FocalLoss on a GPU; formulas and shapes as in focal_loss.c.
 */
#include "layers/cuda/loss_kernels.h"
#include "layers/cuda/softmax_kernels.h"
#include "layers/focal_loss.h"

struct focus {
    struct ct_loss loss;
    struct focal   f;
    bool           each;
    int64_t        classes, inner;
    const float   *x, *t, *p; /* p NULL with `each` */

    __device__ int64_t first(int64_t i) const
    {
        return i / inner * classes * inner + i % inner;
    }
    __device__ float operator()(int64_t i, bool *counts) const
    {
        const int64_t k = ct_label_class(t[i], classes);
        float slope;

        *counts = !ct_label_ignored(loss, t[i]);
        if (!*counts)
            return 0;
        if (each)
            return focal_score(&f, x[i], t[i], &slope);
        return k < 0 ? NAN : focal_term(&f, p[first(i) + k * inner]);
    }
};

__global__ static void focus_grad(int64_t n, struct focus g,
                                  const float *weight, const float *z,
                                  float *dx)
{
    CT_TURN();
    const float scale = *weight / *z;

    CT_KERNEL_EACH (i, n) {
        const bool counts   = !ct_label_ignored(g.loss, g.t[i]);
        const int64_t k     = ct_label_class(g.t[i], g.classes);
        const int64_t first = g.first(i);
        float slope         = 0;

        if (g.each) {
            if (counts)
                focal_score(&g.f, g.x[i], g.t[i], &slope);
            dx[i] = scale * slope;
            continue;
        }
        if (counts)
            slope = k < 0 ? NAN
                          : scale * focal_slope(&g.f,
                                                g.p[first + k * g.inner]);
        for (int64_t c = 0; c < g.classes; c++)
            dx[first + c * g.inner] =
                slope * ((c == k ? 1 : 0) - g.p[first + c * g.inner]);
    }
}

static struct focus focus_of(const struct focal_loss *s,
                             const struct ct_io *io)
{
    return { s->loss, s->f, s->each, s->classes, s->inner,
             ct_data(io->bottom[0]), ct_data(io->bottom[1]),
             s->prob ? ct_data(s->prob) : NULL };
}

extern "C" enum ct_status ct_cuda_focal_loss_forward(struct ct_layer *l,
                                                     const struct ct_io *io)
{
    const struct focal_loss *s = (const struct focal_loss *)l->state;

    if (!s->each)
        CT_TRY(ct_softmax_run(l->dev, s->outer, s->classes, s->inner,
                              ct_data(io->bottom[0]), ct_data(s->prob)));
    return ct_loss_run(l->dev, s->outer * s->inner, focus_of(s, io),
                       ct_loss_fixed(&s->loss, s->outer, s->inner),
                       ct_data(s->z), ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_focal_loss_backward(struct ct_layer *l,
                                                      const struct ct_io *io)
{
    const struct focal_loss *s = (const struct focal_loss *)l->state;
    const int64_t n            = s->outer * s->inner;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, focus_grad, n, focus_of(s, io),
                     (const float *)ct_diff(io->top[0]),
                     (const float *)ct_data(s->z), ct_diff(io->bottom[0]));
}
