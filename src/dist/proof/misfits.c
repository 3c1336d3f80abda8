/* misfits.c - which processes of a view can train together.
 *
 * Into an elastic job a process may come that has another number of threads or
 * another kind of device than the others, and that cannot train with them
 * because of that.  Before it gets parameters, all ranks describe themselves,
 * and all compare each of them with rank 0, which has the parameters if any
 * rank has.  Who does not fit fails with the reason, and ends.  The others go
 * on in the next view. */
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "cortado/log.h"
#include "dist/engine.h"

/* Time in which a process that does not fit ends, before the others end the
 * view. */
static const double end_seconds = 1;

/* By all rules about facts, as if the job had these two. */
static enum ct_status judge(const struct ct_dist *d,
                            const struct dist_census *all, int rank)
{
    struct dist_seat pair[]       = { all->seat[0], all->seat[rank] };
    const struct dist_census both = { .n = 2, .seat = pair };
    struct dist_facts f           = *d->facts;
    struct dist_plan p;

    dist_census_facts(&both, &f);
    CT_TRY(dist_resolve(d->options, &f, &p));
    if (p.parts && pair[1].threads != pair[0].threads)
        return ct_fail(CT_EINVAL, "rank %d has another number of threads (%d) "
                       "than rank 0 (%d), which changes the last bits; every "
                       "rank must be started alike", rank, pair[1].threads,
                       pair[0].threads);
    return p.whole ? dist_census_check_rank(all, rank) : CT_OK;
}

static enum ct_status let_go(struct ct_dist *d, int rank)
{
    const struct timespec nap = { 0, 10000000 };
    const double end          = ct_now() + end_seconds;
    char why[512];

    snprintf(why, sizeof(why), "rank %d does not fit: %s", rank,
             ct_last_error());
    CT_WARN("Training goes on without a process that came: %s", why);
    while (ct_transport_check(d->view.all->transport) == CT_OK &&
           ct_now() < end)
        nanosleep(&nap, NULL);
    return ct_fail(CT_ECOMM, "%s", why);
}

enum ct_status dist_fit(struct ct_exchange *x, const struct ct_device *device)
{
    struct ct_dist *d = dist_of(x);
    struct dist_census all;
    enum ct_status st;

    if (d->view.size == 1)
        return CT_OK;
    CT_TRY(dist_census_meet(d, device, &all));
    st = judge(d, &all, d->view.rank);
    d->elastic.unfit = st != CT_OK;
    for (int r = 1; r < all.n && st == CT_OK; r++)
        if (judge(d, &all, r) != CT_OK)
            st = let_go(d, r);
    dist_census_fini(&all);
    return st;
}
