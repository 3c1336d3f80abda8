/* define_windows.c - definitions of layers that slide a window over images. */
#include <math.h>
#include <string.h>

#include "define.h"
#include "proto/params.h"

/* Kernel, padding, stride and dilation of axis a (0: height, 1: width). */
struct window {
    int64_t kernel[2], pad[2], stride[2], dilation[2], in[2], out[2];
};

static int64_t listed(const uint32_t *list, size_t n, int a, uint32_t other)
{
    return n == 0 ? other : list[n == 1 ? 0 : a];
}

static struct window conv_window(const Caffe__ConvolutionParameter *p,
                                 const struct tensor *x,
                                 const struct tensor *y)
{
    struct window w;

    for (int a = 0; a < 2; a++) {
        w.kernel[a]   = listed(p->kernel_size, p->n_kernel_size, a,
                               a ? p->kernel_w : p->kernel_h);
        w.pad[a]      = listed(p->pad, p->n_pad, a, a ? p->pad_w : p->pad_h);
        w.stride[a]   = listed(p->stride, p->n_stride, a,
                               a ? (p->has_stride_w ? p->stride_w : 1)
                                 : (p->has_stride_h ? p->stride_h : 1));
        w.dilation[a] = listed(p->dilation, p->n_dilation, a, 1);
        w.in[a]       = define_dim(x, 2 + a);
        w.out[a]      = define_dim(y, 2 + a);
    }
    return w;
}

/* The input place of tap (i, j) at output (r, c); false: in the padding. */
static bool place(const struct window *w, int64_t r, int64_t c, int64_t i,
                  int64_t j, int64_t *at)
{
    const int64_t y = r * w->stride[0] + i * w->dilation[0] - w->pad[0];
    const int64_t x = c * w->stride[1] + j * w->dilation[1] - w->pad[1];

    *at = y * w->in[1] + x;
    return y >= 0 && y < w->in[0] && x >= 0 && x < w->in[1];
}

/* y from x; or, for the transposed one, each x spread over y.  Channels of the
 * strided side ("small") are `ks` of n_small, the others `kb` of n_big. */
static void convolve(const struct definition *d, int b, bool transposed,
                     int64_t groups)
{
    const Caffe__ConvolutionParameter *p = ct_convolution_param(d->param);
    const struct tensor *x = &d->bottom[b];
    struct tensor *y       = &d->top[b];
    const struct tensor *big = transposed ? y : x, *small = transposed ? x : y;
    const struct window w    = conv_window(p, big, small);
    const int64_t nb = define_dim(big, 1), ns = define_dim(small, 1);
    const int64_t taps = w.kernel[0] * w.kernel[1];
    const int64_t pb = w.in[0] * w.in[1], ps = w.out[0] * w.out[1];

    for (int64_t i = 0; i < y->n; i++)
        y->v[i] = p->bias_term
                      ? d->blob[1].v[i / define_count(y, 2, 99) %
                                     define_dim(y, 1)] : 0;
    for (int64_t n = 0; n < define_dim(x, 0); n++)
        for (int64_t s = 0; s < ns * ps; s++)
            for (int64_t t = 0; t < nb / groups * taps; t++) {
                const int64_t ks = s / ps, g = ks / (ns / groups);
                const int64_t kb = g * (nb / groups) + t / taps;
                const int64_t tap = t % taps, o = s % ps;
                const double f = d->blob->v[ks * (nb / groups) * taps + t];
                int64_t at;

                if (!place(&w, o / w.out[1], o % w.out[1],
                           tap / w.kernel[1], tap % w.kernel[1], &at))
                    continue;
                if (transposed)
                    y->v[(n * nb + kb) * pb + at] +=
                        f * x->v[n * ns * ps + s];
                else
                    y->v[n * ns * ps + s] +=
                        f * x->v[(n * nb + kb) * pb + at];
            }
}

static void convolution(const struct definition *d)
{
    for (int b = 0; b < d->n_bottom; b++)
        convolve(d, b, false, ct_convolution_param(d->param)->group);
}

static void depthwise(const struct definition *d)
{
    convolve(d, 0, false, define_dim(d->bottom, 1));
}

static void deconvolution(const struct definition *d)
{
    for (int b = 0; b < d->n_bottom; b++)
        convolve(d, b, true, ct_convolution_param(d->param)->group);
}

static void im2col(const struct definition *d)
{
    const struct window w = conv_window(ct_convolution_param(d->param),
                                        d->bottom, d->top);
    const int64_t taps = w.kernel[0] * w.kernel[1];
    const int64_t ps = w.out[0] * w.out[1], pb = w.in[0] * w.in[1];

    for (int64_t i = 0; i < d->top->n; i++) {
        const int64_t o = i % ps, row = i / ps; /* row: n, c, tap */
        int64_t at;

        d->top->v[i] = place(&w, o / w.out[1], o % w.out[1],
                             row % taps / w.kernel[1],
                             row % taps % w.kernel[1], &at)
                           ? d->bottom->v[row / taps * pb + at] : 0;
    }
}

/* ---- pooling ---- */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of one plane: the window at (r, c), clipped as Caffe clips it. */
static double pool_one(const double *x, const struct window *w, int64_t r,
                       int64_t c, bool average)
{
    const int64_t y0 = r * w->stride[0] - w->pad[0];
    const int64_t x0 = c * w->stride[1] - w->pad[1];
    const int64_t y1 = smaller(y0 + w->kernel[0], w->in[0] + w->pad[0]);
    const int64_t x1 = smaller(x0 + w->kernel[1], w->in[1] + w->pad[1]);
    const double size = (double)((y1 - y0) * (x1 - x0));
    double sum = 0, most = -INFINITY;

    for (int64_t i = y0; i < y1; i++)
        for (int64_t j = x0; j < x1; j++)
            if (i >= 0 && j >= 0 && i < w->in[0] && j < w->in[1]) {
                sum += x[i * w->in[1] + j] / size;
                most = fmax(most, x[i * w->in[1] + j]);
            }
    return average ? sum : most;
}

static void pooling(const struct definition *d)
{
    const Caffe__PoolingParameter *p = ct_pooling_param(d->param);
    const struct tensor *x = d->bottom;
    struct window w;

    for (int a = 0; a < 2; a++) {
        w.in[a]     = define_dim(x, 2 + a);
        w.out[a]    = define_dim(d->top, 2 + a);
        w.kernel[a] = p->global_pooling  ? w.in[a]
                      : p->kernel_size   ? p->kernel_size
                      : a                ? p->kernel_w
                                         : p->kernel_h;
        w.pad[a]    = p->has_pad ? p->pad : a ? p->pad_w : p->pad_h;
        w.stride[a] = p->has_stride_h ? (a ? p->stride_w : p->stride_h)
                                      : p->stride;
    }
    for (int64_t i = 0; i < d->top->n; i++) {
        const int64_t o = i % (w.out[0] * w.out[1]);

        d->top->v[i] = pool_one(
            x->v + i / (w.out[0] * w.out[1]) * w.in[0] * w.in[1], &w,
            o / w.out[1], o % w.out[1],
            p->pool == CAFFE__POOLING_PARAMETER__POOL_METHOD__AVE);
    }
    if (d->n_top > 1) /* where the maxima were; nothing computes with it */
        memcpy(d->top[1].v, d->seen_top[1].v,
               (size_t)d->top[1].n * sizeof(double));
}

static void spp(const struct definition *d)
{
    const Caffe__SPPParameter *p = ct_spp_param(d->param);
    const struct tensor *x = d->bottom;
    const int64_t c = define_dim(x, 1), plane = define_count(x, 2, 99);
    int64_t to = 0;

    for (int64_t n = 0; n < define_dim(x, 0); n++)
        for (unsigned level = 0; level < p->pyramid_height; level++) {
            const int64_t bins = (int64_t)1 << level;
            struct window w;

            for (int a = 0; a < 2; a++) {
                w.in[a]     = define_dim(x, 2 + a);
                w.kernel[a] = (w.in[a] + bins - 1) / bins;
                w.stride[a] = w.kernel[a];
                w.pad[a]    = (w.kernel[a] * bins - w.in[a] + 1) / 2;
            }
            for (int64_t k = 0; k < c * bins * bins; k++)
                d->top->v[to++] = pool_one(
                    x->v + (n * c + k / (bins * bins)) * plane, &w,
                    k / bins % bins, k % bins,
                    p->pool == CAFFE__SPPPARAMETER__POOL_METHOD__AVE);
        }
}

static void lrn(const struct definition *d)
{
    const Caffe__LRNParameter *p = ct_lrn_param(d->param);
    const bool within =
        p->norm_region == CAFFE__LRNPARAMETER__NORM_REGION__WITHIN_CHANNEL;
    const struct tensor *x = d->bottom;
    const int64_t c = define_dim(x, 1), h = define_dim(x, 2);
    const int64_t w = define_dim(x, 3), half = p->local_size / 2;

    for (int64_t i = 0; i < x->n; i++) {
        const int64_t k = i / (h * w) % c, y = i / w % h, z = i % w;
        double sum = 0, size = p->local_size;

        for (int64_t a = -half; a <= half; a++)
            for (int64_t b = -half; b <= half; b++) {
                if (within && (y + a < 0 || y + a >= h || z + b < 0 ||
                               z + b >= w))
                    continue;
                if (!within && (b != 0 || k + a < 0 || k + a >= c))
                    continue;
                sum += pow(x->v[i + (within ? a * w + b : a * h * w)], 2);
            }
        if (within)
            size *= size;
        d->top->v[i] = x->v[i] * pow((within ? 1 : (double)p->k) +
                                     (double)p->alpha / size * sum,
                                     -(double)p->beta);
    }
}

/* ---- resizing ---- */

/* Where output i of n_out lies among n: as floats tell, as in Caffe.  Of 240
 * rows the last ones are known to 1e-5. */
static double resized(int64_t i, int64_t n, int64_t n_out)
{
    const float step = n_out > 1 ? (float)(n - 1) / (float)(n_out - 1) : 0;

    return (double)(step * (float)i);
}

static double between(const double *x, int64_t n, int64_t step, double at)
{
    const int64_t low = at >= (double)(n - 1) ? n - 1 : (int64_t)at;
    const double part = at - (double)low;

    return low + 1 < n ? x[low * step] * (1 - part) + x[(low + 1) * step] * part
                       : x[low * step];
}

static void interp(const struct definition *d)
{
    const Caffe__InterpParameter *p = ct_interp_param(d->param);
    const int64_t h = define_dim(d->bottom, 2), w = define_dim(d->bottom, 3);
    const int64_t oh = define_dim(d->top, 2), ow = define_dim(d->top, 3);
    const int64_t cut = -p->pad_beg;
    const int64_t rows = h + p->pad_beg + p->pad_end;
    const int64_t cols = w + p->pad_beg + p->pad_end;

    for (int64_t i = 0; i < d->top->n; i++) {
        const double *x = d->bottom->v + i / (oh * ow) * h * w + cut * w + cut;
        const double y  = resized(i / ow % oh, rows, oh);
        const int64_t low = y >= (double)(rows - 1) ? rows - 1 : (int64_t)y;
        const double z    = resized(i % ow, cols, ow);
        const double up   = between(x + low * w, cols, 1, z);

        d->top->v[i] = low + 1 < rows
                           ? up + (between(x + (low + 1) * w, cols, 1, z) -
                                   up) * (y - (double)low)
                           : up;
    }
}

static void upsample(const struct definition *d)
{
    const int64_t w = define_dim(d->bottom, 3), ow = define_dim(d->top, 3);
    const int64_t h = define_dim(d->bottom, 2), oh = define_dim(d->top, 2);
    const int64_t by = ct_upsample_param(d->param)->scale;

    for (int64_t i = 0; i < d->top->n; i++)
        d->top->v[i] = d->bottom->v[i / (oh * ow) * h * w +
                                    i / ow % oh / by * w + i % ow / by];
}

const struct define_entry define_windows[] = {
    { "Convolution", convolution },
    { "Deconvolution", deconvolution },
    { "DepthwiseConvolution", depthwise },
    { "ConvolutionDepthwise", depthwise },
    { "Im2col", im2col },
    { "Pooling", pooling },
    { "SPP", spp },
    { "LRN", lrn },
    { "Interp", interp },
    { "Upsample", upsample },
    { NULL, NULL },
};
