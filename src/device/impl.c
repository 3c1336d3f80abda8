/* impl.c - reads CORTADO_IMPL. */
#include "device/impl.h"

#include <stdlib.h>
#include <string.h>

bool ct_impl_allowed(const char *operation, const char *name)
{
    const char *item   = getenv("CORTADO_IMPL");
    size_t n_operation = strlen(operation), n_name = strlen(name);

    while (item && *item) {
        size_t n = strcspn(item, ",");

        if (n > n_operation && item[n_operation] == ':' &&
            strncmp(item, operation, n_operation) == 0)
            return n == n_operation + 1 + n_name &&
                   strncmp(item + n_operation + 1, name, n_name) == 0;
        item += n + (item[n] == ',');
    }
    return true;
}

const char *ct_impl_hint(void)
{
    const char *forced = getenv("CORTADO_IMPL");

    return forced && *forced ? "; CORTADO_IMPL forces one" : "";
}
