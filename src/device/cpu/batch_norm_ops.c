/* batch_norm_ops.c - which implementation of batch normalisation runs. */
#include "device/batch_norm_ops.h"

#include "device/cpu/batch_norm_impl.h"

#ifdef CT_HAVE_ONEDNN
/* In place ours is faster: what it keeps and what it writes over is still in a
 * cache.  It walks blocks of single positions slowly. */
static bool onednn_faster(const void *op)
{
    const struct ct_batch_norm *p = op;

    switch (p->view.layout) {
    case CT_PLAIN:
        return false;
    case CT_NHWC:
        return p->view.inner > 1;
    default:
        return !p->in_place || p->view.inner < 16;
    }
}
#endif

/* Fastest first, as bench/impls measures them; ours takes everything. */
static const struct ct_impl_choice order[] = {
#ifdef CT_HAVE_ONEDNN
    { &ct_batch_norm_onednn.head, onednn_faster },
#endif
    { &ct_batch_norm_ref.head, NULL },
#ifdef CT_HAVE_ONEDNN
    { &ct_batch_norm_onednn.head, NULL },
#endif
    { NULL, NULL },
};

enum ct_status ct_batch_norm_choose(struct ct_batch_norm *p)
{
    for (int i = 0; i < CT_PASSES; i++)
        CT_TRY(ct_impl_choose("norm", order, p, (enum ct_pass)i, &p->pass[i]));
    return CT_OK;
}

void ct_batch_norm_fini(struct ct_batch_norm *p)
{
    for (int i = 0; i < CT_PASSES; i++)
        ct_impl_fini(&p->pass[i]);
}

int64_t ct_batch_norm_scratch(const struct ct_batch_norm *p)
{
    return ct_channel_scratch(&p->view) + 3 * p->view.c;
}

static const struct ct_batch_norm_impl *impl(const struct ct_batch_norm *p,
                                             enum ct_pass pass)
{
    return (const struct ct_batch_norm_impl *)(const void *)p->pass[pass].impl;
}

enum ct_status ct_batch_norm_forward(const struct ct_batch_norm *p,
                                     const float *x, float *scratch,
                                     float *mean, float *var, float *y,
                                     float *kept)
{
    return impl(p, CT_FORWARD)->forward(p, x, scratch, mean, var, y, kept);
}

enum ct_status ct_batch_norm_backward(const struct ct_batch_norm *p,
                                      const float *x, const float *dy,
                                      const float *mean, const float *var,
                                      float *scratch, float *dx)
{
    return impl(p, CT_BACKWARD)->backward(p, x, dy, mean, var, scratch, dx);
}
