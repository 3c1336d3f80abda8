/* resample.c - images in another size, rows first and then columns.
 *
 * A value of the output is a weighted sum of inputs along each axis, with
 * s = input size / output size and x = (i + 1/2) s - 1/2:
 *
 *     NEAREST   the input at floor(i s)
 *     AREA      all inputs in [i s, (i + 1) s), each by the part of it that
 *               lies there; LINEAR for an image that grows either way
 *     CUBIC     4 inputs around x, Keys' kernel with a = -3/4
 *     LANCZOS4  8 inputs around x, sinc(t) sinc(t / 4), divided by their sum
 *
 * Pixels outside of the image are those of its edge. */
#include "data/resample.h"

#include <math.h>

enum { MOST_FIXED = 8 };

/* The inputs of one output along an axis: `n` of them from `first` on, which
 * may lie outside; weights are at `weight` in a list. */
struct tap {
    int    first, n;
    size_t weight;
};

struct axis {
    struct tap *tap; /* as many as outputs */
    float      *weight;
    int         from; /* inputs */
};

static float cubic(float t)
{
    const float a = -0.75f;

    t = fabsf(t);
    if (t <= 1)
        return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

static float lanczos(float t)
{
    const float x = 3.14159265f * t;

    if (fabsf(t) < 1e-6f)
        return 1;
    return fabsf(t) < 4 ? 4 * sinf(x) * sinf(x / 4) / (x * x) : 0;
}

static void tap_kernel(struct axis *a, struct tap *t, double scale, int i,
                       bool is_cubic)
{
    const float x = (float)((i + 0.5) * scale - 0.5);
    float sum     = 0;

    t->n     = is_cubic ? 4 : 8;
    t->first = (int)floorf(x) - t->n / 2 + 1;
    for (int k = 0; k < t->n; k++) {
        float at = x - (float)(t->first + k);
        float w  = is_cubic ? cubic(at) : lanczos(at);

        a->weight[t->weight + (size_t)k] = w;
        sum += w;
    }
    for (int k = 0; k < t->n; k++)
        a->weight[t->weight + (size_t)k] /= sum;
}

static void tap_area(struct axis *a, struct tap *t, double scale, int i)
{
    double begin = i * scale, end = begin + scale;

    end      = end > a->from ? a->from : end;
    t->first = (int)begin;
    t->n     = (int)ceil(end - 1e-9) - t->first;
    for (int k = 0; k < t->n; k++) {
        double lo = t->first + k, hi = lo + 1;

        lo = lo < begin ? begin : lo;
        hi = hi > end ? end : hi;
        a->weight[t->weight + (size_t)k] = (float)((hi - lo) / (end - begin));
    }
}

static void tap_nearest(struct axis *a, struct tap *t, double scale, int i)
{
    t->first             = (int)floor(i * scale);
    t->n                 = 1;
    a->weight[t->weight] = 1;
}

/* Weights that one output can have at most. */
static size_t most_weights(int from, int to)
{
    return (size_t)(from / to) + MOST_FIXED;
}

static void axis_fill(struct axis *a, int to,
                      Caffe__ResizeParameter__InterpMode mode)
{
    const double scale = (double)a->from / to;
    const size_t most  = most_weights(a->from, to);

    for (int i = 0; i < to; i++) {
        struct tap *t = &a->tap[i];

        t->weight = (size_t)i * most;
        if (mode == CAFFE__RESIZE_PARAMETER__INTERP_MODE__NEAREST)
            tap_nearest(a, t, scale, i);
        else if (mode == CAFFE__RESIZE_PARAMETER__INTERP_MODE__AREA)
            tap_area(a, t, scale, i);
        else
            tap_kernel(a, t, scale, i,
                       mode == CAFFE__RESIZE_PARAMETER__INTERP_MODE__CUBIC);
    }
}

static inline int inside(int at, int n)
{
    return at < 0 ? 0 : at < n ? at : n - 1;
}

/* One row of the input at the output's width. */
static void row_make(const struct axis *a, const struct ct_image *im, int y,
                     int width, float *out)
{
    const size_t ch = (size_t)im->channels;
    const unsigned char *row = im->pixels + (size_t)y * (size_t)im->width * ch;

    for (int x = 0; x < width; x++, out += ch) {
        const struct tap *t = &a->tap[x];
        const float *w      = a->weight + t->weight;

        for (size_t c = 0; c < ch; c++)
            out[c] = 0;
        for (int k = 0; k < t->n; k++) {
            const unsigned char *p =
                row + (size_t)inside(t->first + k, im->width) * ch;

            for (size_t c = 0; c < ch; c++)
                out[c] += w[k] * (float)p[c];
        }
    }
}

/* Rows that are needed stay in a ring of `n_rows`; row y is at y mod n. */
static void columns_run(const struct axis *ax, const struct axis *ay,
                        const struct ct_image *im, float *ring, int n_rows,
                        struct ct_image *out)
{
    const size_t n = (size_t)out->width * (size_t)out->channels;
    float *sum     = ring + (size_t)n_rows * n;
    int made       = 0; /* rows of the input that were made */

    for (int y = 0; y < out->height; y++) {
        const struct tap *t = &ay->tap[y];
        unsigned char *to   = out->pixels + (size_t)y * n;

        if (made < inside(t->first, im->height))
            made = inside(t->first, im->height);
        for (; made <= inside(t->first + t->n - 1, im->height); made++)
            row_make(ax, im, made, out->width,
                     ring + (size_t)(made % n_rows) * n);
        for (size_t i = 0; i < n; i++)
            sum[i] = 0;
        for (int k = 0; k < t->n; k++) {
            const int at     = inside(t->first + k, im->height);
            const float *row = ring + (size_t)(at % n_rows) * n;
            const float w    = ay->weight[t->weight + (size_t)k];

            for (size_t i = 0; i < n; i++)
                sum[i] += w * row[i];
        }
        for (size_t i = 0; i < n; i++)
            to[i] = (unsigned char)(sum[i] <= 0     ? 0
                                    : sum[i] >= 255 ? 255
                                                    : lrintf(sum[i]));
    }
}

enum ct_status ct_image_resample(struct ct_codec *c,
                                 const struct ct_image *im, int width,
                                 int height,
                                 Caffe__ResizeParameter__InterpMode mode,
                                 struct ct_image *out)
{
    const bool shrinks = width <= im->width && height <= im->height;
    struct axis ax = { .from = im->width }, ay = { .from = im->height };
    size_t n_weights;
    int n_rows;

    if (mode == CAFFE__RESIZE_PARAMETER__INTERP_MODE__LINEAR ||
        (width == im->width && height == im->height) ||
        (mode == CAFFE__RESIZE_PARAMETER__INTERP_MODE__AREA && !shrinks))
        return ct_image_resize(c, im, width, height, out);
    CT_TRY(ct_image_size(out, width, height, im->channels));
    n_weights = most_weights(im->width, width) * (size_t)width +
                most_weights(im->height, height) * (size_t)height;
    n_rows    = (int)most_weights(im->height, height);
    CT_TRY(ct_room_grow(&c->taps, ((size_t)width + (size_t)height) *
                                          sizeof(struct tap) +
                                      n_weights * sizeof(float)));
    CT_TRY(ct_room_grow(&c->rows, ((size_t)n_rows + 1) * (size_t)width *
                                      (size_t)im->channels * sizeof(float)));
    ax.tap    = c->taps.ptr;
    ay.tap    = ax.tap + width;
    ax.weight = (float *)(ay.tap + height);
    ay.weight = ax.weight + most_weights(im->width, width) * (size_t)width;
    axis_fill(&ax, width, mode);
    axis_fill(&ay, height, mode);
    columns_run(&ax, &ay, im, c->rows.ptr, n_rows, out);
    return CT_OK;
}
