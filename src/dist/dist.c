/* dist.c - a rank joins its peers, and leaves them. */
#include "dist/engine.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "comm/transport/transports.h"
#include "cortado/log.h"
#include "dist/feed/root.h"
#include "liveness/record.h"
#include "liveness/watch.h"
#include "liveness/witness.h"

enum { SLOW_S = 2 }; /* if the start takes longer, the log says why */

/* Makes the options: those given, with defaults for the others. */
static enum ct_status take_options(struct ct_dist *d,
                                   const Caffe__DistributedParameter *given)
{
    const Caffe__DistributedParameter none =
        CAFFE__DISTRIBUTED_PARAMETER__INIT;

    return ct_message_merge(&none, given, &d->options);
}

enum ct_status dist_create_at(struct ct_transport *transport,
                              const struct elastic_place *place,
                              const struct elastic_membership *members,
                              const Caffe__DistributedParameter *options,
                              struct ct_dist **out)
{
    struct ct_dist *d = NULL;
    enum ct_status st;

    if (ct_alloc(1, sizeof(*d), "dist", &d) != CT_OK) {
        transport->ops->destroy(transport);
        return CT_ENOMEM;
    }
    d->facts           = &d->decision.facts;
    d->plan            = &d->decision.plan;
    d->elastic.members = members;
    if (place)
        d->elastic.place = *place;
    dist_marks_init(&d->report.marks);
    pthread_mutex_init(&d->report.lock, NULL);
    st = take_options(d, options);
    if (st != CT_OK) {
        transport->ops->destroy(transport);
        goto out;
    }
    CT_TRY_GOTO(dist_view_open(d, transport), st, out);
    *out = d;
    d    = NULL;
out:
    ct_dist_destroy(d);
    return st;
}

enum ct_status dist_create_over(struct ct_transport *transport,
                                const Caffe__DistributedParameter *options,
                                struct ct_dist **out)
{
    return dist_create_at(transport, NULL, NULL, options, out);
}

bool ct_dist_launched(void)
{
    return ct_launched();
}

/* Call it before the program mutes the log of all ranks but one. */
static enum ct_status start_log(struct ct_dist *d)
{
    struct ct_text path = { 0 };
    enum ct_status st;

    if (!d->options->rank_log[0])
        return CT_OK;
    ct_text_addf(&path, "%s.%d", d->options->rank_log,
                 d->view.all->rank);
    st = path.failed ? CT_ENOMEM : ct_log_copy_to(path.s);
    ct_text_fini(&path);
    return st;
}

static enum ct_status join(const struct ct_transport_type *type,
                           const Caffe__DistributedParameter *options,
                           struct ct_dist **out)
{
    struct ct_transport *t = NULL;
    enum ct_status st      = type->create(&t);

    if (st != CT_OK && ct_launched())
        return ct_fail_in(CT_ECOMM, "started as one of several processes, but "
                          "the others cannot be reached; each would train by "
                          "itself");
    CT_TRY(st);
    CT_TRY(dist_create_over(t, options, out));
    live_witness_introduce((*out)->view.watch);
    CT_TRY(start_log(*out));
    return dist_selftest(*out);
}

enum ct_status ct_dist_create(const Caffe__DistributedParameter *options,
                              struct ct_dist **out)
{
    const struct ct_transport_type *type;
    struct ct_transport *t = NULL;
    enum ct_status st;

    *out = NULL;
    CT_TRY(ct_transport_choose(options ? options->transport : "auto", &type));
    if (type == &ct_transport_alone && options && options->rank_log[0])
        CT_WARN("--rank_log is not used: it is for several ranks; --log_dir "
                "keeps the log of one");
    if (type == &ct_transport_alone && !(options && options->canonical))
        return CT_OK;
    if (!type->launched) { /* one rank runs all micro-batches */
        CT_TRY(type->create(&t));
        return dist_create_over(t, options, out);
    }
    /* A program that has already started MPI may not fork. */
    if (!ct_transports_left_open())
        live_witness_start();
    st = join(type, options, out);
    if (st != CT_OK) /* this rank reports the failure itself */
        live_witness_dismiss();
    return st;
}

void ct_dist_destroy(struct ct_dist *d)
{
    if (!d)
        return;
    dist_view_close(d);
    ct_message_free(d->options);
    ct_free(d->report.records);
    dist_held_back_fini(d);
    dist_census_fini(&d->report.census);
    pthread_mutex_destroy(&d->report.lock);
    dist_marks_fini(&d->report.marks);
    dist_crews_fini(d);
    dist_store_drop(d);
    ct_spare_destroy(atomic_load(&d->host.spare));
    ct_free(d->held);
    ct_free(d->sync_state);
    ct_free(d->gone);
    ct_free(d);
    live_witness_dismiss();
}

void ct_dist_abort(struct ct_dist *d, int code)
{
    if (!d)
        return;
    live_watch_record(d->view.watch, ct_last_error());
    live_witness_see_abort();
    /* The abort makes the launcher end all processes.  Witnesses of ranks that
     * have died get time to report first. */
    live_watch_hear_out(d->view.watch);
    live_watch_stop(d->view.watch); /* no more deaths need to be found */
    dist_direct_abort(d);
    ct_comm_abort(d->view.all, code);
}

void ct_dist_end_without(struct ct_dist *d, int code)
{
    if (!d || !d->gone || d->view.all->rank > 0)
        return;
    live_witness_see_abort();
    live_watch_stop(d->view.watch);
    ct_comm_abort(d->view.all, code);
}

void ct_dist_last_words(struct ct_dist *d)
{
    if (d)
        live_watch_last_words(d->view.watch);
    live_witness_dismiss();
}

enum ct_status ct_dist_keep_records(struct ct_dist *d, const char *folder)
{
    char *copy;

    if (!d)
        return CT_OK;
    copy = ct_strdup(folder, "a folder for records");
    if (!copy)
        return CT_ENOMEM;
    ct_free(d->report.records);
    d->report.records = copy; /* for later views */
    if ((d->elastic.place.view == 1 && !d->elastic.place.again) ||
        (!d->elastic.members && d->view.all_rank == 0))
        live_records_forget(folder); /* records of an earlier job */
    return live_watch_keep(d->view.watch, folder);
}

void ct_dist_ask_records(struct ct_dist *d)
{
    if (d)
        atomic_fetch_add(&d->report.n_asked, 1);
}

int ct_dist_rank(const struct ct_dist *d)
{
    return d ? d->view.all_rank : 0;
}

int ct_dist_size(const struct ct_dist *d)
{
    return d ? d->plan->n_workers : 1;
}

int ct_dist_local_rank(const struct ct_dist *d)
{
    return d ? d->view.local_rank : 0;
}

int ct_dist_n_hosts(const struct ct_dist *d)
{
    return d ? d->facts->n_hosts : 1;
}

struct ct_exchange *ct_dist_exchange(struct ct_dist *d)
{
    return d && !d->plan->alone ? &d->exchange : NULL;
}

struct bytes {
    struct ct_comm *comm;
    void           *data;
    size_t          n;
};

static enum ct_status broadcast_job(struct ct_comm *c, void *arg)
{
    const struct bytes *b = arg;

    (void)c;
    return ct_broadcast(b->comm, 0, b->data, b->n);
}

enum ct_status ct_dist_broadcast(struct ct_dist *d, void *data, size_t bytes)
{
    struct bytes b = { d ? d->view.all : NULL, data, bytes };

    return d ? ct_job_run(d->view.thread, broadcast_job, &b) : CT_OK;
}

/* --bandwidth also limits the start; if that takes long, the log says so. */
static void say_slow(const struct ct_dist *d, double bytes)
{
    const double rate    = d->plan->bytes_s;
    const double seconds =
        rate > 0 ? bytes * log2(d->view.all->size) / rate : 0;

    if (d->view.all->rank == 0 && seconds > SLOW_S)
        CT_INFO("Sending the weights, %.3g MB, to all ranks at --bandwidth "
                "takes about %.0f s", 1e-6 * bytes, seconds);
}

enum ct_status dist_spread_values(struct ct_dist *d, const struct ct_net *net)
{
    const size_t bytes = ct_net_arena_count(net) * sizeof(float);

    /* In an elastic job all ranks have the same before they attach, but for
     * servers, which have none yet; unlike devices drift apart by bits. */
    if (d->elastic.members && !d->plan->servers && d->plan->equal_bits)
        return ct_mirror_get(d->trainer.mirror);
    say_slow(d, (double)bytes);
    CT_TRY(ct_mirror_get(d->trainer.mirror));
    CT_TRY(ct_dist_broadcast(d, dist_data(d, net), bytes));
    return ct_mirror_put(d->trainer.mirror);
}

enum ct_status dist_broadcast(struct ct_dist *d, void *data, size_t bytes)
{
    struct bytes b = { d->view.comm, data, bytes };

    return ct_job_run(d->view.thread, broadcast_job, &b);
}

struct parts {
    struct ct_comm *comm;
    const void   *mine;
    const size_t *bytes;
    void         *out;
};

static enum ct_status gather_job(struct ct_comm *c, void *arg)
{
    const struct parts *p = arg;

    (void)c;
    return ct_allgather(p->comm, p->mine, p->bytes, p->out);
}

enum ct_status dist_gather(struct ct_dist *d, const void *mine,
                           const size_t *bytes, void *out)
{
    struct parts p = { d->view.comm, mine, bytes, out };

    return ct_job_run(d->view.thread, gather_job, &p);
}

enum ct_status dist_gather_each(struct ct_dist *d, const void *mine,
                                size_t each, void *out)
{
    for (int r = 0; r < d->view.size; r++)
        d->view.part_bytes[r] = each;
    return dist_gather(d, mine, d->view.part_bytes, out);
}

struct floats {
    struct ct_comm *comm;
    float          *x;
    int64_t         n;
};

static enum ct_status sum_job(struct ct_comm *c, void *arg)
{
    const struct floats *f = arg;

    (void)c;
    return ct_allreduce(f->comm, f->x, f->n);
}

enum ct_status ct_dist_sum(struct ct_dist *d, float *x, int64_t n)
{
    struct floats f = { d ? d->view.comm : NULL, x, n };

    return d ? ct_job_run(d->view.thread, sum_job, &f) : CT_OK;
}

enum ct_status dist_group_sum(struct ct_dist *d, float *x, int64_t n)
{
    struct floats f = { d->view.group, x, n };

    return ct_job_run(d->view.thread, sum_job, &f);
}

enum ct_status dist_all_sum(struct ct_dist *d, float *x, int64_t n)
{
    struct floats f = { d->view.all, x, n };

    return ct_job_run(d->view.thread, sum_job, &f);
}

static enum ct_status meet_job(struct ct_comm *c, void *arg)
{
    (void)c;
    return ct_barrier(((struct ct_dist *)arg)->view.all);
}

enum ct_status dist_meet_all(struct ct_dist *d)
{
    return ct_job_run(d->view.thread, meet_job, d);
}

uint64_t dist_bytes_sent(const struct ct_dist *d)
{
    uint64_t sum = atomic_load(&d->view.all->bytes_sent);

    if (d->view.comm != d->view.all)
        sum += atomic_load(&d->view.comm->bytes_sent);
    return d->view.group ? sum + atomic_load(&d->view.group->bytes_sent) : sum;
}

void dist_stats_begin(struct ct_dist *d)
{
    d->counts.at_start      = ct_comm_thread_stats(d->view.thread);
    d->counts.sent_at_start = dist_bytes_sent(d);
    d->counts.begun         = true;
}

static double seconds_busy(const struct ct_dist *d)
{
    return ct_comm_thread_stats(d->view.thread).busy_seconds -
           d->counts.at_start.busy_seconds;
}

void dist_stats_end(struct ct_dist *d)
{
    if (!d->counts.begun)
        return;
    d->counts.sent_before += dist_bytes_sent(d) - d->counts.sent_at_start;
    d->counts.busy_before += seconds_busy(d);
    d->counts.begun        = false;
}

struct ct_dist_stats ct_dist_stats(const struct ct_dist *d)
{
    struct ct_dist_stats out = { 0 };

    if (!d)
        return out;
    out.bytes_sent   = d->counts.sent_before;
    out.comm_seconds = d->counts.busy_before + d->host.seconds;
    out.wait_seconds = d->counts.wait_seconds;
    out.n_exchanges  = d->counts.n_exchanges;
    if (d->counts.begun) {
        out.bytes_sent += dist_bytes_sent(d) - d->counts.sent_at_start;
        out.comm_seconds += seconds_busy(d);
    }
    return out;
}
