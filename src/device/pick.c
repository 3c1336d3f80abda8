/* pick.c - which GPU a rank takes. */
#include "device/pick.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static enum ct_status read_list(const char *list, int *found, int *n)
{
    char *end;

    *n = 0;
    for (const char *at = list; *at; at = end + (*end == ',')) {
        long id = strtol(at, &end, 10);

        if (end == at || (*end && *end != ',') || id < 0 || id > 1 << 20)
            return ct_fail(CT_EINVAL, "--gpu=%s: give numbers with commas "
                           "between them, or 'all'", list);
        if (*n == MOST)
            return ct_fail(CT_EINVAL, "--gpu=%s: these are more than %d GPUs",
                           list, MOST);
        found[(*n)++] = (int)id;
    }
    return CT_OK;
}

enum ct_status ct_gpu_pick(const char *list, int n_here, int k, int *id,
                           int *n)
{
    const bool all = strcmp(list, "all") == 0;
    int found[MOST];

    *n = n_here;
    if (!all)
        CT_TRY(read_list(list, found, n));
    if (*n == 0 || n_here == 0)
        return ct_fail(CT_ENOTFOUND, "--gpu=%s: there is no GPU here, or this "
                       "build has no GPU support; leave the flag out to run "
                       "on the CPU", list);
    *id = all ? k % *n : found[k % *n];
    return CT_OK;
}
