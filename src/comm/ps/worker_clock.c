/* worker_clock.c - one clock per worker. */
#include "comm/ps/worker_clock.h"

#include "base/mem.h"

enum ct_status ct_ps_clock_init(struct ct_ps_clock *c, int n, int64_t start)
{
    c->n = n;
    CT_TRY(ct_alloc((size_t)n, sizeof(*c->at), "clocks", &c->at));
    for (int i = 0; i < n; i++)
        c->at[i] = start;
    return CT_OK;
}

void ct_ps_clock_fini(struct ct_ps_clock *c)
{
    ct_free(c->at);
    *c = (struct ct_ps_clock){ 0 };
}

void ct_ps_clock_advance(struct ct_ps_clock *c, int worker, int64_t to)
{
    if (to > c->at[worker])
        c->at[worker] = to;
}

int64_t ct_ps_clock_least(const struct ct_ps_clock *c)
{
    int64_t least = c->at[0];

    for (int i = 1; i < c->n; i++)
        least = c->at[i] < least ? c->at[i] : least;
    return least;
}
