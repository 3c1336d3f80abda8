/* access.c - joining peers, for bindings. */
#include "cortado/dist.h"

enum ct_status ct_dist_open(const char *reduce, const char *road, bool overlap,
                            int guard_interval, struct ct_dist **out)
{
    const struct ct_dist_options options = {
        .reduce         = reduce,
        .road           = road,
        .no_overlap     = !overlap,
        .guard_interval = guard_interval,
    };

    return ct_dist_create(&options, out);
}
