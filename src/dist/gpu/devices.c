/* devices.c - which devices the ranks of a job have, and what follows. */
#include <string.h>

#include "base/mem.h"
#include "base/pulse.h"
#include "cortado/log.h"
#include "dist/dist.h"
#include "dist/proof/census.h"

/* A line a rank, up to so many. */
enum { MOST_LINES = 64 };

struct meeting {
    const struct ct_device *mine;
    struct dist_census      census;
};

static enum ct_status meet_job(struct ct_comm *c, void *arg)
{
    struct meeting *m = arg;

    return dist_census_take(c, m->mine, &m->census);
}

static void say(const struct dist_census *s)
{
    for (int r = 0; r < s->n && r < MOST_LINES; r++) {
        const struct dist_seat *seat = &s->seat[r];
        const int other              = dist_census_shares(s, r);

        CT_INFO("Rank %d on %s: %s, %s", r, seat->host, seat->device,
                seat->model);
        if (other >= 0)
            CT_INFO("Ranks %d and %d share %s of %s", other, r, seat->device,
                    seat->host);
    }
    if (dist_census_unlike(s))
        CT_INFO("Unlike devices round differently: ranks are kept together, "
                "and not compared bit by bit");
}

/* What works on devices that are alike alone. */
static enum ct_status check_alike(const struct ct_dist *d,
                                  const struct dist_census *s)
{
    int n_cpu = 0;

    for (int r = 0; r < s->n; r++)
        n_cpu += strcmp(s->seat[r].device, "cpu") == 0;
    if (d->unlike && d->canonical.parts)
        return ct_fail(CT_EINVAL, "--canonical: ranks have unlike devices, "
                       "which round differently; use one kind");
    if (n_cpu > 0 && n_cpu < s->n && d->options->sync_bn)
        return ct_fail(CT_EINVAL, "--sync_bn: on a GPU gradients leave when "
                       "the pass is queued, on a CPU during it, so the two "
                       "cannot share statistics; use one kind of device");
    return CT_OK;
}

enum ct_status dist_devices_meet(struct ct_dist *d, const struct ct_net *net)
{
    struct ct_mirror *mirror = d->trainer.mirror;
    struct ct_pulse *pulse   = d->exchange.facts.pulse;
    struct meeting m = { mirror ? mirror->dev : ct_device_cpu(), { 0 } };

    CT_TRY(ct_job_run(d->thread, meet_job, &m));
    pthread_mutex_lock(&d->census_lock);
    dist_census_fini(&d->census);
    d->census = m.census;
    pthread_mutex_unlock(&d->census_lock);
    d->gpus   = dist_census_gpus(&d->census);
    d->unlike = dist_census_unlike(&d->census);
    if (d->gpus && d->rank == 0)
        say(&d->census);
    if (pulse)
        atomic_store(&pulse->device_memory, ct_device_memory(m.mine).used);
    /* Where others use gradients nobody scales them. */
    if (!d->exchange.facts.remote && !d->exchange.facts.holds_back)
        CT_TRY(dist_census_check(&d->census));
    CT_TRY(check_alike(d, &d->census));
    return dist_device_sum_init(d, &d->census, net);
}
