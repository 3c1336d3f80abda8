/* lrn_ops.c - which implementation of LRN runs. */
#include "device/lrn_ops.h"

#include "device/cpu/lrn_impl.h"

#ifdef CT_HAVE_ONEDNN
static bool onednn_forward(const void *op)
{
    const struct ct_lrn *p = op;

    return !p->within || p->layout != CT_PLAIN;
}

/* Across channels it is as fast as ours, but needs memory for a workspace. */
static bool onednn_backward(const void *op)
{
    const struct ct_lrn *p = op;

    return p->within && p->layout != CT_PLAIN;
}
#endif

/* Fastest first, as bench/impls measures them; the last takes everything. */
static const struct ct_impl_choice order[CT_PASSES][6] = {
    [CT_FORWARD] = {
#ifdef CT_HAVE_ONEDNN
        { &ct_lrn_onednn.head, onednn_forward },
#endif
        { &ct_lrn_blocked.head, NULL },
        { &ct_lrn_plain.head, NULL },
#ifdef CT_HAVE_ONEDNN
        { &ct_lrn_onednn.head, NULL },
#endif
        { &ct_lrn_ref.head, NULL },
    },
    [CT_BACKWARD] = {
#ifdef CT_HAVE_ONEDNN
        { &ct_lrn_onednn.head, onednn_backward },
#endif
        { &ct_lrn_blocked.head, NULL },
        { &ct_lrn_plain.head, NULL },
#ifdef CT_HAVE_ONEDNN
        { &ct_lrn_onednn.head, NULL },
#endif
        { &ct_lrn_ref.head, NULL },
    },
};

static const struct ct_impl_choice shorts[] = {
    { &ct_lrn_bf16.head, NULL },
    { NULL, NULL },
};

enum ct_status ct_lrn_choose(struct ct_lrn *p)
{
    for (int i = 0; i < CT_PASSES; i++)
        CT_TRY(ct_impl_choose("lrn", p->dtype == CT_BF16 ? shorts : order[i],
                              p, (enum ct_pass)i, &p->pass[i]));
    return CT_OK;
}

void ct_lrn_fini(struct ct_lrn *p)
{
    for (int i = 0; i < CT_PASSES; i++)
        ct_impl_fini(&p->pass[i]);
}

int64_t ct_lrn_scratch(const struct ct_lrn *p)
{
    int64_t b = ct_layout_block(p->layout, p->c);

    if (!p->within)
        return 0;
    return p->n * ct_layout_blocks(p->layout, p->c) * b * p->h * p->w;
}

static const struct ct_lrn_impl *impl(const struct ct_lrn *p,
                                      enum ct_pass pass)
{
    return (const struct ct_lrn_impl *)(const void *)p->pass[pass].impl;
}

enum ct_status ct_lrn_forward(const struct ct_lrn *p, const float *x, float *y)
{
    return impl(p, CT_FORWARD)->forward(p, x, y);
}

enum ct_status ct_lrn_backward(const struct ct_lrn *p, const float *x,
                               const float *dy, float *scratch, float *dx)
{
    return impl(p, CT_BACKWARD)->backward(p, x, dy, scratch, dx);
}
