/* impl.c - chooses implementations, and reads CORTADO_IMPL. */
#include "device/impl.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What stands behind `operation:`, up to *n characters; NULL: nothing. */
static const char *wanted(const char *operation, size_t *n)
{
    const char *item   = getenv("CORTADO_IMPL");
    size_t n_operation = strlen(operation);

    while (item && *item) {
        *n = strcspn(item, ",");
        if (*n > n_operation && item[n_operation] == ':' &&
            strncmp(item, operation, n_operation) == 0) {
            *n -= n_operation + 1;
            return item + n_operation + 1;
        }
        item += *n + (item[*n] == ',');
    }
    return NULL;
}

bool ct_impl_allowed(const char *operation, const char *name)
{
    const size_t n_name = strlen(name);
    size_t n;
    const char *want = wanted(operation, &n);
    const char *end  = want ? want + n : NULL;

    if (!want)
        return true;
    for (; want <= end; want += n + 1) { /* names with a + between them */
        n = strcspn(want, "+,");
        if (n == n_name && strncmp(want, name, n) == 0)
            return true;
    }
    return false;
}

int ct_impl_number(const char *operation)
{
    size_t n;
    const char *want = wanted(operation, &n);
    int number       = 0;

    for (size_t i = 0; want && i < n; i++) {
        if (want[i] < '0' || want[i] > '9' || number > INT32_MAX / 20)
            return 0;
        number = 10 * number + want[i] - '0';
    }
    return number;
}

bool ct_impl_forced(const char *operation)
{
    return !ct_impl_allowed(operation, "");
}

const char *ct_impl_hint(void)
{
    const char *forced = getenv("CORTADO_IMPL");

    return forced && *forced ? "; CORTADO_IMPL forces one" : "";
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
