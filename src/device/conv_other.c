/* conv_other.c - a convolution some of whose passes another implementation
 * runs: the fastest one forward need not be so for gradients. */
#include "base/mem.h"
#include "device/conv_impl.h"

void ct_conv_drop_other(struct ct_conv *c)
{
    struct ct_conv *o = c->other;

    c->other = NULL;
    if (!o)
        return;
    o->impl->destroy(o);
    ct_free(o->plain);
    ct_free(o);
}

enum ct_status ct_conv_set_other(struct ct_conv *c,
                                 const struct ct_conv_choice *choice)
{
    struct ct_conv *o;
    enum ct_status st;

    if (!ct_conv_may(c, choice->other))
        return CT_ENOTSUP;
    CT_TRY(ct_alloc(1, sizeof(*o), "convolution", &o));
    *o       = *c;
    o->impl  = choice->other;
    o->state = NULL;
    o->plain = NULL;
    o->other = NULL;
    c->other = o;
    st       = o->impl->create(o);
    if (st != CT_OK)
        ct_conv_drop_other(c);
    for (int i = 0; i < CT_CONV_PASSES; i++)
        c->others[i] = choice->others[i];
    return st;
}
