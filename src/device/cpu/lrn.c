/* lrn.c - which implementation of LRN runs. */
#include "device/lrn.h"

#include "device/cpu/lrn_impl.h"
#include "device/impl.h"

/* In order of preference; the last one takes everything. */
static const struct ct_lrn_impl *const impls[] = {
    &ct_lrn_blocked,
    &ct_lrn_plain,
    &ct_lrn_ref,
};

enum ct_status ct_lrn_choose(struct ct_lrn *p)
{
    for (size_t i = 0; i < sizeof(impls) / sizeof(impls[0]); i++)
        if (ct_impl_allowed("lrn", impls[i]->name) && impls[i]->takes(p)) {
            p->impl = impls[i];
            return CT_OK;
        }
    return ct_fail(CT_ENOTSUP, "no implementation of LRN is left%s",
                   ct_impl_hint());
}

const char *ct_lrn_impl_name(const struct ct_lrn *p)
{
    return p->impl->name;
}

int64_t ct_lrn_scratch(const struct ct_lrn *p)
{
    int64_t b = ct_layout_block(p->layout, p->c);

    if (!p->within)
        return 0;
    return p->n * ct_layout_blocks(p->layout, p->c) * b * p->h * p->w;
}

void ct_lrn_forward(const struct ct_lrn *p, const float *x, float *y)
{
    p->impl->forward(p, x, y);
}

void ct_lrn_backward(const struct ct_lrn *p, const float *x, const float *dy,
                     float *scratch, float *dx)
{
    p->impl->backward(p, x, dy, scratch, dx);
}
