/* terms.c - the letters of the formulas. */
#include "comm/coll/terms.h"

#include <math.h>

struct ct_terms ct_terms(const struct ct_links *links,
                         const struct ct_place *place, double bytes)
{
    struct ct_terms t = { .a = links->alpha, .b = links->beta,
                          .c = links->gamma, .la = links->local_alpha,
                          .lb = links->local_beta, .P = place->size,
                          .L = place->n_local, .H = place->n_hosts,
                          .S = bytes };

    if (t.L > 1 && t.H == 1) {
        t.a = t.la;
        t.b = t.lb;
    }
    return t;
}

double ct_levels(double n)
{
    return ceil(log2(n));
}
