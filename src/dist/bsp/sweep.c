/* sweep.c - measures at the start which algorithm sums fastest at which size.
 *
 * Between hosts every algorithm that the transport supports is timed at a few
 * sizes, up to the largest one of the net's buckets, for about a second.
 * Nothing is timed inside a host, where ranks sum in shared memory, and with
 * --reduce, canonical sums, servers or --bandwidth. */
#include <stdio.h>

#include "comm/coll/tune.h"
#include "cortado/log.h"
#include "dist/engine.h"

static const double budget_s = 1;

/* Floats of the longest sum. */
static int64_t longest(const struct ct_dist *d)
{
    int64_t n = 1;

    for (int i = 0; i < d->buckets.cut.n; i++) {
        const struct dist_flight *f = &d->buckets.flight[i];

        for (int k = 0; k < f->n_slices; k++)
            n = f->slice[k].n > n ? f->slice[k].n : n;
    }
    return n;
}

/* Logs the choice, e.g. "tree up to 32 KB, then ring". */
static void say(const struct ct_comm *c, bool predicted)
{
    char text[256];
    int at = 0;

    for (int i = 0; i < c->n_choices; i++) {
        const struct ct_choice *here = &c->choice[i];
        const bool last              = i + 1 == c->n_choices;

        if (!last && here[1].type == here->type)
            continue;
        at += snprintf(text + at, sizeof(text) - (size_t)at, last ? "%s%s" :
                       "%s%s up to %.0f KB", at ? ", then " : "",
                       here->type->name, here->up_to_bytes / 1024);
    }
    CT_INFO("Sums between hosts, as measured%s: %s",
            predicted ? " and, for long ones, predicted" : "", text);
}

struct sweep {
    int64_t          most;
    struct ct_tuning out;
};

static enum ct_status sweep_job(struct ct_comm *c, void *arg)
{
    struct sweep *s = arg;

    return ct_allreduce_tune(c, s->most, budget_s, &s->out);
}

enum ct_status dist_sweep(struct ct_dist *d)
{
    struct sweep s = { .most = longest(d) };

    if (!d->plan->sweeps || d->view.comm->n_choices > 0)
        return CT_OK;
    CT_TRY(ct_job_run(d->view.thread, sweep_job, &s));
    say(d->view.comm, s.out.n_known > s.out.n_sizes);
    return CT_OK;
}
