/* impl.c - chooses implementations. */
#include "device/impl.h"

const char *ct_impl_hint(void)
{
    return ct_impl_asked() ? "; CORTADO_IMPL forces one" : "";
}

void ct_impl_fini(struct ct_impl_pass *p)
{
    if (p->impl && p->impl->destroy && p->state)
        p->impl->destroy(p->state);
    *p = (struct ct_impl_pass){ 0 };
}

enum ct_status ct_impl_try(const struct ct_impl *impl, const void *op,
                           enum ct_pass pass, struct ct_impl_pass *out)
{
    enum ct_status st = CT_OK;

    ct_impl_fini(out);
    if (impl->takes && !impl->takes(op))
        return CT_ENOTSUP;
    out->impl = impl;
    if (impl->create)
        st = impl->create(op, pass, &out->state);
    if (st != CT_OK)
        ct_impl_fini(out);
    return st;
}

enum ct_status ct_impl_choose(const char *operation,
                              const struct ct_impl_choice *list,
                              const void *op, enum ct_pass pass,
                              struct ct_impl_pass *out)
{
    for (; list->impl; list++) {
        enum ct_status st;

        if (!ct_impl_allowed(operation, list->impl->name) ||
            (list->when && !list->when(op)))
            continue;
        st = ct_impl_try(list->impl, op, pass, out);
        if (st == CT_OK && list->when && list->impl->slow &&
            list->impl->slow(out->state))
            continue;
        if (st != CT_ENOTSUP)
            return st;
    }
    return ct_fail(CT_ENOTSUP, "no implementation of %s is left%s", operation,
                   ct_impl_hint());
}
