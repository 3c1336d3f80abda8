/* softmax_ops.c - which implementation of softmax runs. */
#include "device/softmax_ops.h"

#include <stddef.h>

#include "device/cpu/softmax_impl.h"

#ifdef CT_HAVE_ONEDNN
/* Rows that fill few vectors. */
static bool onednn_faster(const void *op)
{
    const struct ct_softmax *p = op;

    return p->inner == 1 && p->c <= 32;
}
#endif

/* Fastest first, as bench/impls measures them; ours takes everything. */
static const struct ct_impl_choice order[] = {
#ifdef CT_HAVE_ONEDNN
    { &ct_softmax_onednn.head, onednn_faster },
#endif
    { &ct_softmax_ref.head, NULL },
#ifdef CT_HAVE_ONEDNN
    { &ct_softmax_onednn.head, NULL },
#endif
    { NULL, NULL },
};

enum ct_status ct_softmax_choose(struct ct_softmax *p, int64_t outer,
                                 int64_t c, int64_t inner)
{
    p->outer = outer;
    p->c     = c;
    p->inner = inner;
    for (int i = 0; i < CT_PASSES; i++)
        CT_TRY(ct_impl_choose("softmax", order, p, (enum ct_pass)i,
                              &p->pass[i]));
    return CT_OK;
}

void ct_softmax_fini(struct ct_softmax *p)
{
    for (int i = 0; i < CT_PASSES; i++)
        ct_impl_fini(&p->pass[i]);
}

static const struct ct_softmax_impl *impl(const struct ct_softmax *p,
                                          enum ct_pass pass)
{
    return (const struct ct_softmax_impl *)(const void *)p->pass[pass].impl;
}

enum ct_status ct_softmax_forward(const struct ct_softmax *p, const float *x,
                                  float *y)
{
    return impl(p, CT_FORWARD)->forward(p, x, y);
}

enum ct_status ct_softmax_backward(const struct ct_softmax *p, const float *y,
                                   const float *dy, float *dx)
{
    return impl(p, CT_BACKWARD)->backward(p, y, dy, dx);
}
