/* figures.c - the state of every rank, for monitoring.
 *
 * It needs no messages of its own: rank 0 reads the pulses of the watch
 * (watch.h), which are mapped memory on its host and messages, one per second,
 * from other hosts. */
#include "dist/report/figures.h"

#include <stdio.h>
#include <string.h>

#include "comm/probe.h"
#include "dist/engine.h"
#include "liveness/watch.h"

void dist_begun(struct ct_dist *d)
{
    struct ct_pulse *pulse = d->exchange.facts.pulse;

    d->counts.n_exchanges++;
    if (d->plan->reloads) /* only for monitoring: nothing depends on it */
        (void)!d->elastic.members->ready(d->elastic.members->arg,
                                         d->trainer.iter);
    if (pulse)
        atomic_store_explicit(&pulse->waited,
                              (uint64_t)(1e6 * d->counts.wait_seconds),
                              memory_order_relaxed);
}

static double seconds_since(uint64_t then, uint64_t now)
{
    return now > then ? 1e-6 * (double)(now - then) : 0;
}

static void place(struct ct_dist *d, int rank, struct ct_rank_state *out)
{
    const struct dist_seat *seat;

    out->serves  = rank >= d->plan->n_workers;
    out->samples = d->trainer.batches && !out->serves
                       ? d->trainer.batches[rank]
                       : 0;
    pthread_mutex_lock(&d->report.lock);
    if (rank < d->report.census.n) {
        seat = &d->report.census.seat[rank];
        snprintf(out->device, sizeof(out->device), "%s%s%.64s", seat->device,
                 strcmp(seat->device, "cpu") == 0 ? "" : ": ",
                 strcmp(seat->device, "cpu") == 0 ? "" : seat->model);
    }
    pthread_mutex_unlock(&d->report.lock);
}

/* In an elastic job the membership knows host and pid of ranks of which the
 * watch has no pulse. */
static bool look_up(struct ct_dist *d, int rank, struct ct_rank_state *out)
{
    const struct elastic_membership *m = d->elastic.members;

    if (!m || !m->who || !m->who(m->arg, rank, out->host, sizeof(out->host),
                                 &out->pid))
        return false;
    place(d, rank, out);
    return true;
}

bool ct_dist_rank_state(struct ct_dist *d, int rank,
                        struct ct_rank_state *out)
{
    const uint64_t now = ct_pulse_now();
    struct live_look look;

    *out = (struct ct_rank_state){ .rank = rank, .waiting_for = -1 };
    if (!d || !d->view.all || rank < 0 || rank >= d->view.all_size)
        return false; /* no such rank, or between two views */
    if (!live_watch_look(d->view.watch, rank, &look))
        return look_up(d, rank, out);
    place(d, rank, out);
    snprintf(out->host, sizeof(out->host), "%s", look.host);
    snprintf(out->phase, sizeof(out->phase), "%s",
             ct_pulse_phase_name(look.view.phase));
    snprintf(out->layer, sizeof(out->layer), "%s", look.view.layer);
    out->pid           = look.pid;
    out->gone          = look.gone;
    out->iter          = look.view.iter;
    out->moved_ago     = seconds_since(look.view.changed, now);
    out->waited        = 1e-6 * (double)look.view.waited;
    out->bytes_sent    = look.view.sent;
    out->memory        = look.view.memory;
    out->device_memory = look.view.device_memory;
    if (look.view.waiting) {
        out->waiting     = seconds_since(look.view.waiting, now);
        out->waiting_for = look.view.peer;
    }
    return true;
}

bool dist_has_lost(const struct ct_dist *d)
{
    return live_watch_has_lost(d->view.watch);
}

int ct_dist_n_ranks(const struct ct_dist *d)
{
    return d ? d->view.all_size : 1;
}

bool dist_next_mark(struct ct_dist *d, uint64_t *seen, struct ct_mark *out)
{
    return d && dist_marks_next(&d->report.marks, seen, out);
}

static enum ct_status links_job(struct ct_comm *c, void *arg)
{
    return ct_comm_probe_pairs(c, arg);
}

enum ct_status dist_links(struct ct_dist *d, struct ct_pairs *out)
{
    return ct_job_run(d->view.thread, links_job, out);
}
