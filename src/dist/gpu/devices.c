/* devices.c - finds out which devices the ranks of a job have, and replans. */
#include <string.h>

#include "base/mem.h"
#include "base/pulse.h"
#include "cortado/log.h"
#include "dist/engine.h"
#include "dist/proof/census.h"

/* Most lines in the log, one per rank. */
enum { MOST_LINES = 64 };

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

/* Replans with the devices of all ranks. */
static enum ct_status resolve(struct ct_dist *d, const struct ct_net *net)
{
    struct dist_facts f = *d->facts;

    dist_census_facts(&d->report.census, &f);
    f.copied        = d->trainer.mirror;
    f.learns        = ct_net_n_params(net) > 0;
    f.iter_size     = d->trainer.iter_size;
    f.on_device     = DIST_BY_HOST;
    f.shared_params = d->host.params_of != NULL;
    return dist_replan(d, &f);
}

enum ct_status dist_devices_meet(struct ct_dist *d, const struct ct_net *net)
{
    const struct ct_device *mine = ct_mirror_device(d->trainer.mirror);
    struct ct_pulse *pulse       = d->exchange.facts.pulse;
    struct dist_census census;

    CT_TRY(dist_census_meet(d, mine, &census));
    pthread_mutex_lock(&d->report.lock);
    dist_census_fini(&d->report.census);
    d->report.census = census;
    pthread_mutex_unlock(&d->report.lock);
    CT_TRY(resolve(d, net));
    if ((d->facts->gpus || d->facts->unlike) && d->view.rank == 0)
        say(&d->report.census);
    if (pulse)
        atomic_store(&pulse->device_memory, ct_device_memory(mine).used);
    /* Servers and codecs that hold values back get unscaled gradients.
     * Otherwise all ranks must scale them alike. */
    if (d->plan->whole)
        CT_TRY(dist_census_check(&d->report.census));
    return dist_device_sum_init(d, net);
}
