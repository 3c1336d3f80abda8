/* devices.c - finds out which devices the ranks of a job have, and replans. */
#include <string.h>

#include "base/mem.h"
#include "base/pulse.h"
#include "cortado/log.h"
#include "dist/engine.h"
#include "dist/proof/census.h"

/* Most lines in the log, one per rank. */
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

/* Replans with the devices of all ranks. */
static enum ct_status resolve(struct ct_dist *d, const struct ct_net *net)
{
    const struct dist_census *s = &d->report.census;
    struct dist_facts f         = *d->facts;
    int n_cpu = 0;

    for (int r = 0; r < s->n; r++)
        n_cpu += strcmp(s->seat[r].device, "cpu") == 0;
    f.met           = true;
    f.gpus          = dist_census_gpus(s);
    f.own_gpus      = dist_census_own_gpus(s);
    f.mixed         = n_cpu > 0 && n_cpu < s->n;
    f.unlike        = dist_census_unlike(s);
    f.copied        = d->trainer.mirror;
    f.learns        = ct_net_n_params(net) > 0;
    f.iter_size     = d->trainer.iter_size;
    f.on_device     = DIST_BY_HOST;
    f.shared_params = d->host.params_of != NULL;
    return dist_replan(d, &f);
}

enum ct_status dist_devices_meet(struct ct_dist *d, const struct ct_net *net)
{
    struct ct_pulse *pulse = d->exchange.facts.pulse;
    struct meeting m = { ct_mirror_device(d->trainer.mirror), { 0 } };

    CT_TRY(ct_job_run(d->view.thread, meet_job, &m));
    pthread_mutex_lock(&d->report.lock);
    dist_census_fini(&d->report.census);
    d->report.census = m.census;
    pthread_mutex_unlock(&d->report.lock);
    CT_TRY(resolve(d, net));
    if ((d->facts->gpus || d->facts->unlike) && d->view.rank == 0)
        say(&d->report.census);
    if (pulse)
        atomic_store(&pulse->device_memory, ct_device_memory(m.mine).used);
    /* Servers and codecs that hold values back get unscaled gradients.
     * Otherwise all ranks must scale them alike. */
    if (d->plan->whole)
        CT_TRY(dist_census_check(&d->report.census));
    return dist_device_sum_init(d, net);
}
