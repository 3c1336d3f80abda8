/* remote.c - updates for all ranks, of the part that this one serves.
 *
 * A server has the sum of gradients for a run of the arena and the values
 * there; the solver's own rule, rates and histories make the update.  It runs
 * on the comm thread while the compute thread is iterations ahead or behind,
 * so it counts iterations and rates by itself, on a copy of the solver that
 * shares nothing but what does not change and the histories.  All of it is in
 * the CPU's memory, also where ranks train on GPUs. */
#include <string.h>

#include "base/mem.h"
#include "core/buffer.h"
#include "solver/solver_inner.h"

/* Runs of the arena are at iterations that differ by less. */
enum { KEPT = 64 };

struct solver_remote {
    const struct ct_solver *of;
    struct ct_solver solver; /* a copy; its iter is the next to be rated */
    float           *history[2];
    float            rate[KEPT], before[KEPT]; /* by iteration */
    bool             one_thread;
};

/* The rate of iteration `iter`, and that of the one before. */
static enum ct_status rate_at(struct solver_remote *r, int iter, float *rate,
                              float *before)
{
    struct ct_solver *s = &r->solver;

    if (iter < s->iter - KEPT)
        return ct_fail(CT_EINTERNAL, "an update of iteration %d, when another "
                       "part is at %d", iter, s->iter);
    for (; s->iter <= iter; s->iter++) {
        float *to = &r->rate[s->iter % KEPT];

        r->before[s->iter % KEPT] = s->last_rate;
        CT_TRY(solver_rate(s, to));
        s->last_rate = *to;
    }
    *rate   = r->rate[iter % KEPT];
    *before = r->before[iter % KEPT];
    return CT_OK;
}

static enum ct_status update(void *arg, int iter,
                             const struct ct_update_range *range)
{
    struct solver_remote *r = arg;
    struct ct_solver at     = r->solver;
    struct solver_update with;
    float rate = 0;

    /* The comm thread has the cores that the compute thread leaves. */
    if (!r->one_thread)
        ct_device_cpu_set_threads(1);
    r->one_thread = true;
    CT_TRY(rate_at(r, iter, &rate, &at.last_rate));
    at.iter = iter;
    with    = solver_update_at(&at, rate);
    solver_apply(&at, &with, r->history, range);
    return CT_OK;
}

static enum ct_status check(const struct ct_solver *s)
{
    const char *what = solver_needs_norms(s);

    if (what)
        return ct_fail(CT_ENOTSUP, "%s needs norms over whole gradients, and "
                       "here servers update parts of them; train with "
                       "--sync=bsp and without --deadline and --groups", what);
    return CT_OK;
}

static void begin(void *arg)
{
    struct solver_remote *r = arg;

    /* The exchange's own may change when a rank that serves is asked for more
     * steps, while the others' last gradients still come. */
    r->solver = *r->of;
    memcpy(r->history, r->of->peers.updater.history, sizeof(r->history));
}

enum ct_status solver_remote_start(struct ct_solver *s, struct ct_updater *out)
{
    CT_TRY(check(s));
    if (!s->peers.remote)
        CT_TRY(ct_alloc(1, sizeof(*s->peers.remote), "remote updates",
                        &s->peers.remote));
    s->peers.remote->of = s;
    out->arg            = s->peers.remote;
    out->begin    = begin;
    out->update   = update;
    return CT_OK;
}

void solver_remote_stop(struct ct_solver *s)
{
    ct_free(s->peers.remote);
    s->peers.remote = NULL;
}
