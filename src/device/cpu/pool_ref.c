/* pool_ref.c - pooling written as its definition; takes everything.
 *
 * One channel's plane at a time, in any layout: neighbouring positions are b
 * floats apart.  Stochastic pooling has no other implementation. */
#include <float.h>
#include <string.h>

#include "base/rng.h"
#include "device/cpu/loop.h"
#include "device/cpu/pool_impl.h"

/* Where channel c of image n begins, and the same in the pooled image. */
struct plane {
    int64_t b, x, y;
};

static struct plane plane_of(const struct ct_pool *p, int64_t i)
{
    int64_t b = ct_layout_block(p->layout, p->c);
    int64_t blocks = ct_layout_blocks(p->layout, p->c);
    int64_t n = i / p->c, c = i % p->c;

    return (struct plane){
        b, ct_layout_at(blocks, p->h * p->w, b, n, c, 0),
        ct_layout_at(blocks, p->out_h * p->out_w, b, n, c, 0)
    };
}

/* The planes below are those of real channels; the padding is set here. */
static void clear_padding(const struct ct_pool *p, int64_t positions, float *y)
{
    int64_t b = ct_layout_block(p->layout, p->c);
    int64_t full = p->c % b;

    if (full == 0)
        return;
    CT_FOR_ROWS (i, p->n * positions, b) {
        int64_t n = i / positions, blocks = ct_layout_blocks(p->layout, p->c);
        float *at = y + ((n + 1) * blocks * positions - positions +
                         i % positions) * b;

        for (int64_t l = full; l < b; l++)
            at[l] = 0;
    }
}

struct window {
    struct pool_span r, s; /* rows and columns */
};

static struct window window_of(const struct ct_pool *p, int64_t o)
{
    return (struct window){ pool_rows_of(p, o / p->out_w),
                            pool_columns_of(p, o % p->out_w) };
}

/* Every place v of window q, row by row. */
#define EACH_VALUE(p, q, v)                                                  \
    for (int64_t h = (q).r.from; h < (q).r.to; h++)                          \
        for (int64_t v = h * (p)->w + (q).s.from;                            \
             v < h * (p)->w + (q).s.to; v++)

static enum ct_status ref_max(const struct ct_pool *p, const float *x, float *y,
                              int32_t *at)
{
    CT_FOR_ROWS (k, p->n * p->c, p->h * p->w) {
        struct plane a = plane_of(p, k);
        const float *from = x + a.x;

        for (int64_t o = 0; o < p->out_h * p->out_w; o++) {
            struct window q = window_of(p, o);
            float best = -FLT_MAX;
            int32_t arg = -1;

            EACH_VALUE (p, q, v)
                if (from[v * a.b] > best) {
                    best = from[v * a.b];
                    arg  = (int32_t)v;
                }
            y[a.y + o * a.b]  = best;
            at[a.y + o * a.b] = arg;
        }
    }
    clear_padding(p, p->out_h * p->out_w, y);
    return CT_OK;
}

static void clear(int64_t n, float *x)
{
    CT_FOR_EACH (i, n)
        x[i] = 0;
}

static enum ct_status ref_max_backward(const struct ct_pool *p, const float *dy,
                                       const int32_t *at, float *dx)
{
    int64_t b = ct_layout_block(p->layout, p->c);

    clear(pool_planes(p) * p->h * p->w * b, dx);
    CT_FOR_ROWS (k, p->n * p->c, p->h * p->w) {
        struct plane a = plane_of(p, k);

        for (int64_t o = 0; o < p->out_h * p->out_w; o++)
            if (at[a.y + o * b] >= 0)
                dx[a.x + at[a.y + o * b] * b] += dy[a.y + o * b];
    }
    return CT_OK;
}

static enum ct_status ref_average(const struct ct_pool *p, const float *x,
                                  float *y)
{
    CT_FOR_ROWS (k, p->n * p->c, p->h * p->w) {
        struct plane a = plane_of(p, k);
        const float *from = x + a.x;

        for (int64_t o = 0; o < p->out_h * p->out_w; o++) {
            struct window q = window_of(p, o);
            float sum = 0, size = (float)(q.r.size * q.s.size);

            EACH_VALUE (p, q, v)
                sum += from[v * a.b];
            y[a.y + o * a.b] = size > 0 ? sum / size : 0;
        }
    }
    clear_padding(p, p->out_h * p->out_w, y);
    return CT_OK;
}

static enum ct_status ref_average_backward(const struct ct_pool *p,
                                           const float *dy, float *dx)
{
    clear(pool_planes(p) * p->h * p->w * ct_layout_block(p->layout, p->c), dx);
    CT_FOR_ROWS (k, p->n * p->c, p->h * p->w) {
        struct plane a = plane_of(p, k);
        float *to = dx + a.x;

        for (int64_t o = 0; o < p->out_h * p->out_w; o++) {
            struct window q = window_of(p, o);

            EACH_VALUE (p, q, v)
                to[v * a.b] += dy[a.y + o * a.b] / (float)(q.r.size * q.s.size);
        }
    }
    return CT_OK;
}

void ct_pool_stochastic(const struct ct_pool *p, uint64_t key, uint64_t first,
                        const float *x, float *y, int32_t *at)
{
    CT_FOR_ROWS (k, p->n * p->c, p->h * p->w) {
        struct plane a = plane_of(p, k);
        const float *from = x + a.x;
        uint64_t element = (uint64_t)(k % p->c * p->out_h * p->out_w);

        for (int64_t o = 0; o < p->out_h * p->out_w; o++) {
            struct window q = window_of(p, o);
            float sum = 0, goal, value = 0;
            int32_t arg = -1;

            EACH_VALUE (p, q, v)
                sum += from[v * a.b];
            goal = sum * ct_uniform(key, first + (uint64_t)(k / p->c),
                                    element + (uint64_t)o);
            sum  = 0;
            EACH_VALUE (p, q, v) {
                sum += from[v * a.b];
                if (arg < 0 && sum >= goal) {
                    arg   = (int32_t)v;
                    value = from[v * a.b];
                }
            }
            y[a.y + o * a.b]  = value;
            at[a.y + o * a.b] = arg;
        }
    }
    clear_padding(p, p->out_h * p->out_w, y);
}

static float expected(const struct ct_pool *p, struct window q, int64_t b,
                      const float *x, float *sum)
{
    float squares = 0;

    EACH_VALUE (p, q, v) {
        *sum += x[v * b];
        squares += x[v * b] * x[v * b];
    }
    return *sum > 0 ? squares / *sum : 0;
}

void ct_pool_expected(const struct ct_pool *p, const float *x, float *y)
{
    CT_FOR_ROWS (k, p->n * p->c, p->h * p->w) {
        struct plane a = plane_of(p, k);

        for (int64_t o = 0; o < p->out_h * p->out_w; o++) {
            float sum = 0;

            y[a.y + o * a.b] = expected(p, window_of(p, o), a.b, x + a.x, &sum);
        }
    }
    clear_padding(p, p->out_h * p->out_w, y);
}

/* d (sum x^2 / sum x) / dx_v = (2 x_v - y) / sum x. */
void ct_pool_expected_backward(const struct ct_pool *p, const float *x,
                               const float *dy, float *dx)
{
    clear(pool_planes(p) * p->h * p->w * ct_layout_block(p->layout, p->c), dx);
    CT_FOR_ROWS (k, p->n * p->c, p->h * p->w) {
        struct plane a = plane_of(p, k);
        const float *from = x + a.x;

        for (int64_t o = 0; o < p->out_h * p->out_w; o++) {
            struct window q = window_of(p, o);
            float sum = 0, y = expected(p, q, a.b, from, &sum);

            if (sum > 0)
                EACH_VALUE (p, q, v)
                    dx[a.x + v * a.b] += dy[a.y + o * a.b] / sum *
                                         (2 * from[v * a.b] - y);
        }
    }
}

const struct ct_pool_impl ct_pool_ref = {
    .head             = { .name = "ref" },
    .max              = ref_max,
    .max_backward     = ref_max_backward,
    .average          = ref_average,
    .average_backward = ref_average_backward,
};
