/* pool_impl.h - what an implementation of pooling provides, and the window
 * arithmetic that all of them share.  The contracts are pool.h's. */
#ifndef CT_DEVICE_CPU_POOL_IMPL_H
#define CT_DEVICE_CPU_POOL_IMPL_H

#include "device/layout.h"
#include "device/pool.h"

struct ct_pool_impl {
    struct ct_impl head; /* first; the description is a struct ct_pool */
    enum ct_status (*max)(const struct ct_pool *p, const float *x, float *y,
                          int32_t *at);
    enum ct_status (*max_backward)(const struct ct_pool *p, const float *dy,
                                   const int32_t *at, float *dx);
    enum ct_status (*average)(const struct ct_pool *p, const float *x,
                              float *y);
    enum ct_status (*average_backward)(const struct ct_pool *p,
                                       const float *dy, float *dx);
};

extern const struct ct_pool_impl ct_pool_blocked, ct_pool_rows, ct_pool_ref;
extern const struct ct_pool_impl ct_pool_bf16;
#ifdef CT_HAVE_ONEDNN
extern const struct ct_pool_impl ct_pool_onednn;
#endif

/* One axis of one window: the part inside the image, [from, to), which may be
 * empty, and `size`, the extent inside the padded image. */
struct pool_span {
    int64_t from, to, size;
};

static inline struct pool_span pool_span(int64_t i, int64_t in, int64_t kernel,
                                         int64_t stride, int64_t pad)
{
    int64_t from = i * stride - pad, to = from + kernel;
    struct pool_span s;

    to     = to < in + pad ? to : in + pad;
    s.size = to > from ? to - from : 0;
    s.to   = to < in ? to : in;
    s.from = from > 0 ? from : 0;
    s.to   = s.to > s.from ? s.to : s.from;
    return s;
}

static inline struct pool_span pool_rows_of(const struct ct_pool *p, int64_t i)
{
    return pool_span(i, p->h, p->kernel_h, p->stride_h, p->pad_h);
}

static inline struct pool_span pool_columns_of(const struct ct_pool *p,
                                               int64_t j)
{
    return pool_span(j, p->w, p->kernel_w, p->stride_w, p->pad_w);
}

/* The size of a window that is known to reach into the image. */
static inline int64_t pool_size_of(const struct ct_pool *p, int64_t i,
                                   int64_t j)
{
    int64_t h = p->h + 2 * p->pad_h - i * p->stride_h;
    int64_t w = p->w + 2 * p->pad_w - j * p->stride_w;

    return (h < p->kernel_h ? h : p->kernel_h) *
           (w < p->kernel_w ? w : p->kernel_w);
}

/* The windows [from, to) along one axis that cover position `at`; moves on
 * from the windows of an earlier position. */
static inline void pool_cover(int64_t at, int64_t out, int64_t kernel,
                              int64_t stride, int64_t pad, int64_t *from,
                              int64_t *to)
{
    while (*to < out && *to * stride - pad <= at)
        ++*to;
    while (*from < *to && *from * stride - pad + kernel <= at)
        ++*from;
}

/* How far the last window reaches beyond the image; negative: values are left
 * over. */
static inline int64_t pool_beyond(int64_t in, int64_t out, int64_t kernel,
                                  int64_t stride, int64_t pad)
{
    return (out - 1) * stride + kernel - in - pad;
}

/* Whether windows reach beyond a padding. */
static inline bool pool_overhangs(const struct ct_pool *p)
{
    int64_t h = pool_beyond(p->h, p->out_h, p->kernel_h, p->stride_h,
                            p->pad_h);
    int64_t w = pool_beyond(p->w, p->out_w, p->kernel_w, p->stride_w,
                            p->pad_w);

    return (p->pad_h > 0 || p->pad_w > 0) && (h > p->pad_h || w > p->pad_w);
}

/* Planes of b channels in the whole array. */
static inline int64_t pool_planes(const struct ct_pool *p)
{
    return p->n * ct_layout_blocks(p->layout, p->c);
}

#endif
