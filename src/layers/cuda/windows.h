/* windows.h - where the windows of pooling lie, on a GPU; for .cu files alone.
 *
 * An array is planes x positions x lanes: image and channel with one lane in
 * the plain layout, images with a lane a channel in NHWC.  A thread makes K
 * neighbouring lanes of one position. */
#ifndef CT_LAYERS_CUDA_WINDOWS_H
#define CT_LAYERS_CUDA_WINDOWS_H

#include "device/cuda/divide.h"
#include "device/cuda/kernel.h"
#include "device/pool.h"

struct shape {
    int64_t planes, lanes;
    int     h, w, oh, ow, kh, kw, sh, sw, ph, pw;
    int     x_line, y_line; /* values of a row of images, and of outputs */
    /* Of the array that threads are dealt out over: packs of lanes, columns
     * and rows. */
    struct ct_divider packs, columns, rows;
    struct ct_divider step_h, step_w; /* strides */
};

enum { LARGE = 1 << 28 }; /* more than any image */

static int small(int64_t v)
{
    return (int)(v < LARGE ? v : LARGE);
}

/* Threads are dealt out over the output (else over the input), k lanes each. */
static struct shape shape_of(const struct ct_pool *p, bool output, int k)
{
    const bool nhwc = p->layout == CT_NHWC;
    const int64_t h = output ? p->out_h : p->h, w = output ? p->out_w : p->w;
    const int64_t n = p->n * p->c * h * w / k;
    const int64_t lanes = nhwc ? p->c : 1;

    return { nhwc ? p->n : p->n * p->c, lanes,
             small(p->h), small(p->w), small(p->out_h), small(p->out_w),
             small(p->kernel_h), small(p->kernel_w), small(p->stride_h),
             small(p->stride_w), small(p->pad_h), small(p->pad_w),
             (int)(p->w * lanes), (int)(p->out_w * lanes),
             ct_divider_of(lanes / k, n), ct_divider_of(w, n),
             ct_divider_of(h, n), ct_divider_of(small(p->stride_h), INT32_MAX),
             ct_divider_of(small(p->stride_w), INT32_MAX) };
}

/* A thread's position (row r, column c), and its lanes. */
struct place {
    int64_t plane, lane;
    int     r, c;
};

template <int K>
__device__ static inline struct place place_of(const struct shape &p,
                                               int64_t i)
{
    struct place a;
    int64_t rest;

    i       = ct_divide(p.packs, i, &rest);
    a.lane  = rest * K;
    i       = ct_divide(p.columns, i, &rest);
    a.c     = (int)rest;
    a.plane = ct_divide(p.rows, i, &rest);
    a.r     = (int)rest;
    return a;
}

/* Along one axis: [from, to) inside the image, and the size with padding. */
struct span {
    int from, to, size;
};

__device__ static inline struct span span_of(int i, int in, int kernel,
                                             int stride, int pad)
{
    const int from = i * stride - pad;
    int to         = from + kernel;
    struct span s;

    to     = min(to, in + pad);
    s.size = max(to - from, 0);
    s.from = max(min(from, in), 0);
    s.to   = max(min(to, in), s.from);
    return s;
}

/* Where position (r, c) of an image or of outputs lies in its plane, given the
 * values of a row. */
__device__ static inline int64_t offset_of(const struct shape &p, int line,
                                           int r, int c)
{
    return (int64_t)r * line + (int64_t)c * (int)p.lanes;
}

/* The windows [from, to) that hold position i of an axis. */
__device__ static inline struct span holders(int i, int out, int kernel,
                                             const struct ct_divider &stride,
                                             int pad)
{
    struct span s;

    s.from = i + pad < kernel ? 0
                              : ct_quotient(stride, i + pad - kernel) + 1;
    s.to   = min(ct_quotient(stride, i + pad) + 1, out);
    s.size = 0;
    return s;
}

template <typename I>
__device__ static inline I code(const struct shape &p, int i, int j, int r,
                                int c)
{
    if (sizeof(I) == 1)
        return (I)((r - (i * p.sh - p.ph)) * p.kw + c - (j * p.sw - p.pw));
    return (I)(r * p.w + c);
}

template <typename I>
__device__ static inline int decode(const struct shape &p, int i, int j, I at)
{
    if (at == (I)-1)
        return -1;
    if (sizeof(I) == 1)
        return (i * p.sh - p.ph + at / p.kw) * p.w + j * p.sw - p.pw +
               at % p.kw;
    return (int)at;
}

#endif
