/* pool.c - the shape of a pooled image, and which implementation runs. */
#include "device/pool.h"

#include "device/cpu/pool_impl.h"
#include "device/impl.h"

/* In order of preference; the last one takes everything. */
static const struct ct_pool_impl *const impls[] = {
    &ct_pool_blocked,
    &ct_pool_rows,
    &ct_pool_ref,
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

enum ct_status ct_pool_choose(struct ct_pool *p)
{
    for (size_t i = 0; i < sizeof(impls) / sizeof(impls[0]); i++)
        if (ct_impl_allowed("pool", impls[i]->name) && impls[i]->takes(p)) {
            p->impl = impls[i];
            return CT_OK;
        }
    return ct_fail(CT_ENOTSUP, "no implementation of pooling is left%s",
                   ct_impl_hint());
}

const char *ct_pool_impl_name(const struct ct_pool *p)
{
    return p->impl->name;
}

void ct_pool_max(const struct ct_pool *p, const float *x, float *y,
                 int32_t *at)
{
    p->impl->max(p, x, y, at);
}

void ct_pool_max_backward(const struct ct_pool *p, const float *dy,
                          const int32_t *at, float *dx)
{
    p->impl->max_backward(p, dy, at, dx);
}

void ct_pool_average(const struct ct_pool *p, const float *x, float *y)
{
    p->impl->average(p, x, y);
}

void ct_pool_average_backward(const struct ct_pool *p, const float *dy,
                              float *dx)
{
    p->impl->average_backward(p, dy, dx);
}
