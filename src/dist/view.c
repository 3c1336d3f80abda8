/* view.c - the ranks that train together, and all that is made from them.
 *
 * A view is a transport with its ranks.  Comms, the comm thread, the watch and
 * the plan are made when it opens; buckets, windows, shares and roads when a
 * solver attaches.  All of it is dropped when the view closes.  No module keeps
 * its own number of ranks, so another view can follow between two
 * iterations. */
#include "base/clock.h"
#include "base/mem.h"
#include "dist/engine.h"
#include "dist/feed/root.h"
#include "liveness/watch.h"

enum { IDLE_NS = 50000000 };

/* How long a rank that has failed waits for messages of its peers. */
enum { SOON_S = 1 };

static int count_hosts(const struct ct_transport *t)
{
    int n = 0;

    for (int r = 0; r < t->size; r++) {
        bool seen = false;

        for (int q = 0; q < r; q++)
            seen |= !t->host || t->host[q] == t->host[r];
        n += !seen;
    }
    return n;
}

static double tokens(void *arg)
{
    const struct ct_dist *d = arg;

    return ct_limit_tokens(d->view.all->transport);
}

/* Limits the bytes per second that this rank sends. */
static enum ct_status limit_bandwidth(struct ct_dist *d)
{
    if (d->plan->bytes_s == 0)
        return CT_OK;
    CT_TRY(ct_limit_create(d->view.all->transport, d->plan->bytes_s, NULL, NULL,
                           &d->view.all->transport));
    d->view.all->bytes_s = d->plan->bytes_s;
    if (d->plan->sheds) {
        d->wires.tokens     = tokens;
        d->wires.tokens_arg = d;
    }
    return CT_OK;
}

/* Between jobs the comm thread still sends its own messages, and accepts
 * connections of peers while this rank is busy with its net. */
static enum ct_status idle(struct ct_comm *c, void *arg)
{
    (void)arg;
    ct_transport_progress(c->transport);
    return ct_comm_tick(c, ct_now());
}

/* A comm of ranks [first, first + n) of all. */
static enum ct_status make_part(struct ct_dist *d, int first, int n,
                                struct ct_comm **out)
{
    struct ct_transport *t;

    CT_TRY(ct_subset_create(d->view.all->transport, first, n, &t));
    CT_TRY(ct_comm_create(t, out));
    (*out)->stall_after = d->options->stall;
    (*out)->bytes_s     = d->plan->bytes_s;
    return CT_OK;
}

static enum ct_status make_parts(struct ct_dist *d)
{
    const struct dist_plan *m = d->plan;
    int group                 = dist_group_of(m, d->view.all->rank);
    int first                 = dist_group_first(m, group);

    d->view.serves = d->view.all->rank >= m->n_workers;
    d->view.comm   = d->view.all;
    if (m->n_workers < d->view.all->size)
        CT_TRY(make_part(d, d->view.serves ? m->n_workers : 0,
                         d->view.serves ? d->view.all->size - m->n_workers
                                   : m->n_workers, &d->view.comm));
    if (m->n_groups < m->n_workers && !d->view.serves)
        CT_TRY(make_part(d, first, dist_group_first(m, group + 1) - first,
                         &d->view.group));
    d->view.rank = d->view.comm->rank;
    d->view.size = d->view.comm->size;
    return CT_OK;
}

/* Servers answer while the comm thread is idle or waits. */
static enum ct_status start_thread(struct ct_dist *d)
{
    struct ct_comm_thread_options o = { .order   = CT_JOBS_FIFO,
                                        .idle    = idle,
                                        .idle_ns = IDLE_NS };
    struct ct_comm *part[] = { d->view.all, d->view.comm, d->view.group };

    for (int i = 0; d->plan->servers && i < 3; i++)
        if (part[i]) {
            part[i]->background     = dist_ps_progress;
            part[i]->background_arg = d;
        }
    for (int i = 0; i < 3; i++)
        if (part[i])
            part[i]->place.no_window = !d->plan->windows;
    if (d->plan->servers) {
        o.idle     = dist_ps_idle;
        o.idle_arg = d;
        o.idle_ns  = DIST_POLL_NS;
    }
    return ct_comm_thread_create(d->view.comm, &o, &d->view.thread);
}

/* Some ways to sum are not available everywhere. */
static enum ct_status check_reduce(const struct ct_dist *d)
{
    const struct ct_allreduce_type *r = d->plan->reduce;

    return !r || ct_allreduce_available(d->view.comm, r)
               ? CT_OK
               : ct_fail(CT_EINVAL, "--reduce=%s: there is no such way to sum "
                         "here; use auto", r->name);
}

/* The state of a kind of sync/ survives a change of view. */
static enum ct_status make_sync_state(struct ct_dist *d)
{
    const struct dist_sync_type *t = d->plan->sync;

    return t && t->state_bytes > 0 && !d->sync_state
               ? ct_alloc(1, t->state_bytes, "what a kind of --sync keeps",
                          &d->sync_state)
               : CT_OK;
}

static void rank_lost(void *arg, int rank, int iter, const char *text)
{
    struct ct_dist *d = arg;

    dist_crew_lost(d, rank);
    dist_marks_add(&d->report.marks, CT_MARK_LOST, rank, iter, "%s", text);
}

static uint64_t bytes_sent(const void *arg)
{
    return dist_bytes_sent(arg);
}

static unsigned n_asked(const void *arg)
{
    const struct ct_dist *d = arg;

    return atomic_load(&d->report.n_asked);
}

static bool who(void *arg, int rank, char *host, size_t bytes, int *pid)
{
    const struct elastic_membership *m =
        ((const struct ct_dist *)arg)->elastic.members;

    return m->who && m->who(m->arg, rank, host, bytes, pid);
}

/* If no rank is at work while some get parameters, what they get is lost on its
 * way, as on a link that carries small messages only.  The ranks that have
 * parameters do not wait for that as long as for a rank that works. */
static const double supply_seconds = 30;

static bool supplies(const struct ct_dist *d)
{
    const struct elastic_place *p = &d->elastic.place;

    return d->elastic.members && p->n_full > 0 && p->n_full < p->size;
}

static enum ct_status start_watch(struct ct_dist *d)
{
    const struct live_watch_config config = {
        .all       = d->view.all,
        .alike     = d->view.comm,
        .group     = d->view.group,
        .thread    = d->view.thread,
        .n_train   = d->plan->n_workers,
        .stall     = d->options->stall,
        .heartbeat = d->options->heartbeat,
        .brief     = supplies(d) ? supply_seconds : 0,
        .view      = d->elastic.place.view,
        .folder    = d->report.records,
        .lost      = rank_lost,
        .sent      = bytes_sent,
        .asked     = n_asked,
        .who       = d->elastic.members ? who : NULL,
        .arg       = d,
    };

    return live_watch_create(&config, &d->view.watch);
}

/* Gives the pulse to this process's member, which detects by it that training
 * hangs. */
static void show_pulse(const struct ct_dist *d, const struct ct_pulse *pulse)
{
    const struct elastic_membership *m = d->elastic.members;

    if (m && m->follow)
        m->follow(m->arg, pulse);
}

/* Only ranks that commit their iterations prepare for another view. */
static void tell_heeds(const struct ct_dist *d)
{
    const struct elastic_membership *m = d->elastic.members;

    if (m && m->heeds)
        m->heeds(m->arg, d->plan->commits);
}

enum ct_status dist_view_open(struct ct_dist *d, struct ct_transport *t)
{
    const struct dist_facts facts = { .size    = t->size,
                                      .n_hosts = count_hosts(t),
                                      .elastic = d->elastic.members != NULL };
    enum ct_status st;

    d->elastic.held_back.pending = facts.elastic;
    d->view.rank  = t->rank;
    d->view.size  = t->size;
    st = ct_alloc((size_t)d->view.size, sizeof(*d->view.part_bytes), "view",
                  &d->view.part_bytes);
    if (st != CT_OK) {
        t->ops->destroy(t);
        return st;
    }
    CT_TRY(ct_comm_create(t, &d->view.all));
    d->view.all_rank   = d->view.all->rank;
    d->view.all_size   = d->view.all->size;
    d->view.local_rank = d->view.all->place.local;
    d->view.all->stall_after = d->options->stall;
    CT_TRY(dist_crew_note(d));
    CT_TRY(dist_replan(d, &facts));
    if (d->plan->reloads)
        d->elastic.place.n_full = 0; /* the newest snapshot is used */
    tell_heeds(d);
    CT_TRY(limit_bandwidth(d));
    CT_TRY(make_parts(d));
    if (!d->view.serves)
        CT_TRY(dist_canonical_init(&d->canonical, d->plan->parts, d->view.rank,
                                   d->view.size));
    CT_TRY(make_sync_state(d));
    CT_TRY(check_reduce(d));
    CT_TRY(start_thread(d));
    dist_fill_exchange(d);
    if (d->view.all->size > 1)
        CT_TRY(start_watch(d));
    d->exchange.facts.pulse = live_watch_pulse(d->view.watch);
    if (!d->exchange.facts.pulse && d->elastic.members) {
        ct_pulse_init(&d->elastic.pulse);
        d->exchange.facts.pulse = &d->elastic.pulse;
    }
    show_pulse(d, d->exchange.facts.pulse);
    return CT_OK;
}

void dist_await_or_call_off(struct ct_dist *d, struct ct_job *job)
{
    if (d->under_way && !ct_job_done_within(job, SOON_S))
        ct_comm_thread_call_off(d->view.thread);
    (void)!ct_job_wait(job);
}

void dist_view_close(struct ct_dist *d)
{
    dist_stats_end(d);
    if (d->plan->servers)
        dist_ps_fini(d);
    dist_root_orphan(d);
    show_pulse(d, NULL);
    live_watch_stop(d->view.watch);
    ct_comm_thread_destroy(d->view.thread);
    d->view.thread = NULL;
    live_watch_destroy(d->view.watch);
    dist_bsp_fini(d);
    dist_canonical_fini(&d->canonical);
    if (d->elastic.members)
        d->elastic.members->close(d->elastic.members->arg);
    ct_comm_destroy(d->view.group);
    if (d->view.comm != d->view.all)
        ct_comm_destroy(d->view.comm);
    ct_comm_destroy(d->view.all);
    ct_free(d->view.part_bytes);
    ct_free(d->services.sums);
    d->view.watch       = NULL;
    d->exchange.facts.pulse = NULL;
    d->view.all         = d->view.comm = d->view.group = NULL;
    d->view.part_bytes  = NULL;
    d->services.sums        = NULL;
    d->services.sums_bytes  = 0;
    d->wires.tokens = NULL;
    d->under_way   = false;
    d->trainer     = (struct ct_trainer){ 0 };
}

enum ct_status dist_change_view(struct ct_dist *d, dist_open_fn open,
                                void *arg)
{
    struct ct_transport *t;

    CT_ASSERT(!d->net && !d->host.params_of); /* the solver has left the view */
    dist_view_close(d);
    CT_TRY(open(arg, &t));
    return dist_view_open(d, t);
}
