/* pool_rows.c - pooling of plain images, a row of windows at a time.
 *
 * The rows of the windows are first merged, column by column, into one line of
 * pad_w + w values (a vector loop over the width), then the columns of each
 * window.  In the merged line the border stands as values that do not count,
 * so the second step needs no cases, and it works on whole vectors: it makes
 * up to 16 windows more than there are, which nobody looks at. */
#include <float.h>

#include "device/cpu/loop.h"
#include "device/cpu/pool_impl.h"
#include "device/cpu/simd.h"

enum { LINE = 2048, VECTOR = 16 };

/* Windows of a row, made up to whole vectors and one: the compiler leaves the
 * last one of a loop with strided loads to scalar code. */
static int64_t made_up(const struct ct_pool *p)
{
    return (p->out_w + VECTOR - 1) / VECTOR * VECTOR + 1;
}

/* The line reaches from the left border to the end of the last window. */
static int64_t line_length(const struct ct_pool *p)
{
    int64_t windows = (made_up(p) - 1) * p->stride_w + p->kernel_w;
    int64_t image   = p->pad_w + p->w;

    return windows > image ? windows : image;
}

static bool rows_takes(const void *op)
{
    const struct ct_pool *p = op;

    return p->layout == CT_PLAIN && line_length(p) <= LINE;
}

/* best[j], arg[j] over the columns of window j.  Equal values go to the one
 * that comes first in the image, which may be in a later column. */
CT_INLINE void across_max(int64_t n, int64_t kernel, int64_t stride,
                          const float *line, const int32_t *place, float *best,
                          int32_t *arg)
{
    CT_SIMD_EACH (j, n) {
        best[j] = line[j * stride];
        arg[j]  = place[j * stride];
    }
    for (int64_t k = 1; k < kernel; k++)
        CT_SIMD_EACH (j, n) {
            float v    = line[j * stride + k];
            int32_t at = place[j * stride + k];
            int more   = (v > best[j]) | ((v == best[j]) & (at < arg[j]));

            best[j] = more ? v : best[j];
            arg[j]  = more ? at : arg[j];
        }
}

/* Takes n columns of a row whose first place is `first` into best and arg. */
CT_INLINE void merge_row(int64_t n, const float *row, int64_t first,
                         float *best, int32_t *arg)
{
    CT_SIMD_EACH (v, n) {
        int more = row[v] > best[v];

        best[v] = more ? row[v] : best[v];
        arg[v]  = more ? (int32_t)(first + v) : arg[v];
    }
}

/* The largest value of each column over rows [from, to), and its place. */
CT_INLINE void down_max(const struct ct_pool *p, const float *x, int64_t from,
                        int64_t to, float *best, int32_t *arg)
{
    const int64_t last = p->w - VECTOR;

    CT_SIMD_EACH (v, p->w) {
        best[v] = -FLT_MAX;
        arg[v]  = -1;
    }
    for (int64_t h = from; h < to; h++) {
        const float *row    = x + h * p->w;
        const int64_t first = h * p->w;

        if (last < 0) {
            merge_row(p->w, row, first, best, arg);
            continue;
        }
        /* The last vector takes some columns twice, which does no harm. */
        merge_row(p->w / VECTOR * VECTOR, row, first, best, arg);
        if (p->w % VECTOR)
            merge_row(VECTOR, row + last, first + last, best + last,
                      arg + last);
    }
}

CT_SIMD static void plane_max(const struct ct_pool *p, const float *x,
                              float *y, int32_t *at)
{
    const int64_t length = line_length(p), n = made_up(p), k = p->kernel_w;
    const size_t bytes = (size_t)p->out_w * sizeof(*y);
    float line[LINE], best[LINE + VECTOR];
    int32_t place[LINE], arg[LINE + VECTOR];

    CT_SIMD_EACH (v, length) {
        line[v]  = -FLT_MAX;
        place[v] = -1;
    }
    for (int64_t i = 0; i < p->out_h; i++, y += p->out_w, at += p->out_w) {
        const struct pool_span r = pool_rows_of(p, i);

        down_max(p, x, r.from, r.to, line + p->pad_w, place + p->pad_w);
        /* Constant strides let the compiler use vectors. */
        if (p->stride_w == 2)
            across_max(n, k, 2, line, place, best, arg);
        else if (p->stride_w == 1)
            across_max(n, k, 1, line, place, best, arg);
        else
            across_max(p->out_w, k, p->stride_w, line, place, best, arg);
        memcpy(y, best, bytes);
        memcpy(at, arg, bytes);
    }
}

CT_INLINE void across_sum(int64_t n, int64_t kernel, int64_t stride,
                          const float *line, float *y)
{
    CT_SIMD_EACH (j, n)
        y[j] = line[j * stride];
    for (int64_t k = 1; k < kernel; k++)
        CT_SIMD_EACH (j, n)
            y[j] += line[j * stride + k];
}

/* y[j] = sum[j] over the size of window j of a row of windows. */
CT_INLINE void divide(const struct ct_pool *p, struct pool_span r,
                      const float *sum, float *y)
{
    const float full = r.size ? 1 / (float)(r.size * p->kernel_w) : 0;

    for (int64_t j = 0; j < p->out_w; j++) {
        const int64_t size = r.size * pool_columns_of(p, j).size;

        y[j] = size == r.size * p->kernel_w ? sum[j] * full
               : size > 0                   ? sum[j] / (float)size
                                            : 0;
    }
}

CT_SIMD static void plane_average(const struct ct_pool *p, const float *x,
                                  float *y)
{
    const int64_t length = line_length(p), n = made_up(p), k = p->kernel_w;
    float line[LINE], made[LINE + VECTOR];
    float *sum = line + p->pad_w;

    CT_SIMD_EACH (v, length)
        line[v] = 0;
    for (int64_t i = 0; i < p->out_h; i++, y += p->out_w) {
        const struct pool_span r = pool_rows_of(p, i);

        CT_SIMD_EACH (v, p->w)
            sum[v] = 0;
        for (int64_t h = r.from; h < r.to; h++)
            CT_SIMD_EACH (v, p->w)
                sum[v] += x[h * p->w + v];
        if (p->stride_w == 2)
            across_sum(n, k, 2, line, made);
        else if (p->stride_w == 1)
            across_sum(n, k, 1, line, made);
        else
            across_sum(p->out_w, k, p->stride_w, line, made);
        divide(p, r, made, y);
    }
}

CT_SIMD static void plane_max_backward(const struct ct_pool *p,
                                       const float *dy, const int32_t *at,
                                       float *dx)
{
    CT_SIMD_EACH (v, p->h * p->w)
        dx[v] = 0;
    for (int64_t o = 0; o < p->out_h * p->out_w; o++)
        if (at[o] >= 0)
            dx[at[o]] += dy[o];
}

CT_SIMD static void plane_average_backward(const struct ct_pool *p,
                                           const float *dy, float *dx)
{
    const int64_t length = line_length(p);
    float line[LINE];

    CT_SIMD_EACH (v, p->h * p->w)
        dx[v] = 0;
    for (int64_t i = 0; i < p->out_h; i++, dy += p->out_w) {
        struct pool_span r = pool_rows_of(p, i);

        CT_SIMD_EACH (v, length)
            line[v] = 0;
        for (int64_t j = 0; j < p->out_w; j++) {
            int64_t size = r.size * pool_columns_of(p, j).size;
            float part   = size ? dy[j] / (float)size : 0;

            for (int64_t k = 0; k < p->kernel_w; k++)
                line[j * p->stride_w + k] += part;
        }
        for (int64_t h = r.from; h < r.to; h++)
            CT_SIMD_EACH (v, p->w)
                dx[h * p->w + v] += line[p->pad_w + v];
    }
}

static enum ct_status rows_max(const struct ct_pool *p, const float *x,
                               float *y, int32_t *at)
{
    const int64_t in = p->h * p->w, out = p->out_h * p->out_w;

    CT_FOR_ROWS (k, p->n * p->c, in)
        plane_max(p, x + k * in, y + k * out, at + k * out);
    return CT_OK;
}

static enum ct_status rows_max_backward(const struct ct_pool *p,
                                        const float *dy, const int32_t *at,
                                        float *dx)
{
    const int64_t in = p->h * p->w, out = p->out_h * p->out_w;

    CT_FOR_ROWS (k, p->n * p->c, in)
        plane_max_backward(p, dy + k * out, at + k * out, dx + k * in);
    return CT_OK;
}

static enum ct_status rows_average(const struct ct_pool *p, const float *x,
                                   float *y)
{
    const int64_t in = p->h * p->w, out = p->out_h * p->out_w;

    CT_FOR_ROWS (k, p->n * p->c, in)
        plane_average(p, x + k * in, y + k * out);
    return CT_OK;
}

static enum ct_status rows_average_backward(const struct ct_pool *p,
                                            const float *dy, float *dx)
{
    const int64_t in = p->h * p->w, out = p->out_h * p->out_w;

    CT_FOR_ROWS (k, p->n * p->c, in)
        plane_average_backward(p, dy + k * out, dx + k * in);
    return CT_OK;
}

const struct ct_pool_impl ct_pool_rows = {
    .head             = { .name = "rows", .takes = rows_takes },
    .max              = rows_max,
    .max_backward     = rows_max_backward,
    .average          = rows_average,
    .average_backward = rows_average_backward,
};
