/* nothing.h - empty functions that complete the table of a kind of
 * synchronisation. */
#ifndef CT_DIST_NOTHING_H
#define CT_DIST_NOTHING_H

#include "solver/exchange.h"

static inline enum ct_status dist_none(struct ct_exchange *x, int i)
{
    (void)x, (void)i;
    return CT_OK;
}

static inline enum ct_status dist_none_updated(struct ct_exchange *x, int iter,
                                               float rate)
{
    (void)x, (void)iter, (void)rate;
    return CT_OK;
}

static inline bool dist_always_ready(struct ct_exchange *x, int param)
{
    (void)x, (void)param;
    return true;
}

static inline enum ct_status dist_none_keep(struct ct_exchange *x,
                                            const struct ct_keep *keep)
{
    (void)x, (void)keep;
    return CT_OK;
}

static inline enum ct_status dist_none_serve(struct ct_exchange *x, int end,
                                             int *iter)
{
    (void)x;
    *iter = end;
    return CT_OK;
}

#endif
