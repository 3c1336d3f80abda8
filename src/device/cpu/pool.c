/* pool.c - the shape of a pooled image, and which implementation runs. */
#include "device/pool.h"

#include "device/cpu/pool_impl.h"

#ifdef CT_HAVE_ONEDNN
/* oneDNN turns plain images round to bring channels together, which pays for
 * maxima while they are small. */
static bool onednn_forward(const void *op)
{
    const struct ct_pool *p = op;

    if (p->average)
        return (p->layout == CT_PLAIN || p->layout == CT_NHWC) &&
               !pool_overhangs(p);
    return p->layout == CT_PLAIN && p->h * p->w <= 64 * 64;
}

static bool onednn_backward(const void *op)
{
    const struct ct_pool *p = op;

    return p->average || p->layout == CT_NHWC;
}
#endif

/* Fastest first, as bench/impls measures them; the last takes everything. */
static const struct ct_impl_choice order[CT_PASSES][6] = {
    [CT_FORWARD] = {
#ifdef CT_HAVE_ONEDNN
        { &ct_pool_onednn.head, onednn_forward },
#endif
        { &ct_pool_blocked.head, NULL },
        { &ct_pool_rows.head, NULL },
#ifdef CT_HAVE_ONEDNN
        { &ct_pool_onednn.head, NULL },
#endif
        { &ct_pool_ref.head, NULL },
    },
    [CT_BACKWARD] = {
#ifdef CT_HAVE_ONEDNN
        { &ct_pool_onednn.head, onednn_backward },
#endif
        { &ct_pool_blocked.head, NULL },
        { &ct_pool_rows.head, NULL },
#ifdef CT_HAVE_ONEDNN
        { &ct_pool_onednn.head, NULL },
#endif
        { &ct_pool_ref.head, NULL },
    },
};

static int64_t windows(int64_t room, int64_t stride, bool floor)
{
    int64_t n = room / stride, rest = room % stride;

    if (floor)
        return n - (rest < 0) + 1;
    return n + (rest > 0) + 1;
}

void ct_pool_shape(struct ct_pool *p, bool floor)
{
    p->out_h = windows(p->h + 2 * p->pad_h - p->kernel_h, p->stride_h, floor);
    p->out_w = windows(p->w + 2 * p->pad_w - p->kernel_w, p->stride_w, floor);
    if (p->pad_h == 0 && p->pad_w == 0)
        return;
    if ((p->out_h - 1) * p->stride_h >= p->h + p->pad_h)
        p->out_h--;
    if ((p->out_w - 1) * p->stride_w >= p->w + p->pad_w)
        p->out_w--;
}

static const struct ct_impl_choice shorts[] = {
    { &ct_pool_bf16.head, NULL },
    { NULL, NULL },
};

enum ct_status ct_pool_choose(struct ct_pool *p)
{
    for (int i = 0; i < CT_PASSES; i++)
        CT_TRY(ct_impl_choose("pool", p->dtype == CT_BF16 ? shorts : order[i],
                              p, (enum ct_pass)i, &p->pass[i]));
    return CT_OK;
}

void ct_pool_fini(struct ct_pool *p)
{
    for (int i = 0; i < CT_PASSES; i++)
        ct_impl_fini(&p->pass[i]);
}

static const struct ct_pool_impl *impl(const struct ct_pool *p,
                                       enum ct_pass pass)
{
    return (const struct ct_pool_impl *)(const void *)p->pass[pass].impl;
}

enum ct_status ct_pool_max(const struct ct_pool *p, const float *x, float *y,
                           int32_t *at)
{
    return impl(p, CT_FORWARD)->max(p, x, y, at);
}

enum ct_status ct_pool_max_backward(const struct ct_pool *p, const float *dy,
                                    const int32_t *at, float *dx)
{
    return impl(p, CT_BACKWARD)->max_backward(p, dy, at, dx);
}

enum ct_status ct_pool_average(const struct ct_pool *p, const float *x,
                               float *y)
{
    return impl(p, CT_FORWARD)->average(p, x, y);
}

enum ct_status ct_pool_average_backward(const struct ct_pool *p,
                                        const float *dy, float *dx)
{
    return impl(p, CT_BACKWARD)->average_backward(p, dy, dx);
}
