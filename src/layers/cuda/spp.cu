/* spp.cu - spatial pyramid pooling on a GPU; shapes as in spp.c.
 *
 * Windows of a level lie side by side, so that a pixel is in one of them at
 * most: its gradient is the sum over the levels. */
#include <float.h>

#include "device/cuda/kernel.h"
#include "layers/cuda/slots.h"
#include "layers/spp.h"

struct level {
    int     kh, kw, ph, pw, oh, ow;
    int64_t at; /* of this level's part in a row of y */
};

struct pyramid {
    int          n_levels;
    int          h, w;
    int64_t      n, c, width;
    struct level level[SPP_LEVELS];
};

struct span {
    int from, to, size; /* in the image; size with padding */
};

__device__ static inline struct span span_of(int i, int in, int kernel,
                                             int pad)
{
    const int from = i * kernel - pad;
    const int to   = min(from + kernel, in + pad);
    struct span s;

    s.size = max(to - from, 0);
    s.from = max(from, 0);
    s.to   = max(min(to, in), s.from);
    return s;
}

/* MAX writes places; AVE, where `at` is NULL, the mean. */
__global__ static void spp_forward(struct pyramid p, int i, const float *x,
                                   float *y, int32_t *at)
{
    CT_TURN();
    const struct level v = p.level[i];

    CT_KERNEL_EACH (o, p.n * p.c * v.oh * v.ow) {
        const int64_t plane = o / v.ow / v.oh, n = plane / p.c;
        const int64_t to =
            n * p.width + v.at + (o - n * p.c * v.oh * v.ow);
        const struct span r = span_of((int)(o / v.ow % v.oh), p.h, v.kh, v.ph);
        const struct span s = span_of((int)(o % v.ow), p.w, v.kw, v.pw);
        const float *from   = x + plane * p.h * p.w;
        float best = -FLT_MAX, sum = 0;
        int32_t arg = -1;

        for (int a = r.from; a < r.to; a++)
            for (int b = s.from; b < s.to; b++) {
                const float f = from[(int64_t)a * p.w + b];

                sum += f;
                if (f > best) {
                    best = f;
                    arg  = a * p.w + b;
                }
            }
        if (at) {
            y[to]  = best;
            at[to] = arg;
        } else {
            y[to] = r.size * s.size > 0
                        ? sum / ((float)r.size * (float)s.size) : 0;
        }
    }
}

__global__ static void spp_backward(struct pyramid p, const float *dy,
                                    const int32_t *at, float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, p.n * p.c * p.h * p.w) {
        const int w = (int)(i % p.w), h = (int)(i / p.w % p.h);
        const int64_t plane = i / p.w / p.h;
        float sum = 0;

        for (int k = 0; k < p.n_levels; k++) {
            const struct level v = p.level[k];
            const int a = (h + v.ph) / v.kh, b = (w + v.pw) / v.kw;
            const int64_t from = plane / p.c * p.width + v.at +
                                 ((plane % p.c * v.oh) + a) * v.ow + b;

            if (a >= v.oh || b >= v.ow)
                continue;
            if (!at)
                sum += dy[from] /
                       ((float)span_of(a, p.h, v.kh, v.ph).size *
                        (float)span_of(b, p.w, v.kw, v.pw).size);
            else if (at[from] == h * p.w + w)
                sum += dy[from];
        }
        dx[i] = sum;
    }
}

static struct pyramid pyramid_of(const struct spp *s, const struct ct_io *io)
{
    const struct ct_shape *x = &io->bottom[0]->shape;
    struct pyramid p         = {};

    p.n_levels = s->height;
    p.n        = x->dim[0];
    p.c        = x->dim[1];
    p.h        = (int)x->dim[2];
    p.w        = (int)x->dim[3];
    p.width    = s->width;
    for (int i = 0, before = 0; i < s->height; i++) {
        const struct ct_pool *v = &s->level[i];

        p.level[i] = { (int)v->kernel_h, (int)v->kernel_w, (int)v->pad_h,
                       (int)v->pad_w, (int)v->out_h, (int)v->out_w, before };
        before += (int)(v->c * v->out_h * v->out_w);
    }
    return p;
}

static int32_t *places(const struct spp *s)
{
    return s->at ? (int32_t *)ct_data(s->at) : NULL;
}

extern "C" enum ct_status ct_cuda_spp_forward(struct ct_layer *l,
                                              const struct ct_io *io)
{
    const struct spp *s    = (const struct spp *)l->state;
    const struct pyramid p = pyramid_of(s, io);

    for (int i = 0; io->top[0]->count > 0 && i < p.n_levels; i++)
        CT_TRY(CT_LAUNCH(l->dev, p.n * p.c * p.level[i].oh * p.level[i].ow,
                         spp_forward, p, i,
                         (const float *)ct_data(io->bottom[0]),
                         ct_data(io->top[0]), places(s)));
    return CT_OK;
}

extern "C" enum ct_status ct_cuda_spp_backward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    const struct spp *s = (const struct spp *)l->state;
    const int64_t n     = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, spp_backward, pyramid_of(s, io),
                     (const float *)ct_diff(io->top[0]),
                     (const int32_t *)places(s), ct_diff(io->bottom[0]));
}
