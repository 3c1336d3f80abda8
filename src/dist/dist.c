/* dist.c - joining peers and leaving them. */
#include "dist/dist.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "comm/transport/transports.h"
#include "cortado/log.h"
#include "dist/feed/root.h"
#include "liveness/watch.h"
#include "liveness/witness.h"

enum { IDLE_NS = 50000000 };

/* From one look at the messages of servers to the next. */
enum { POLL_NS = 50000 };

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

    return ct_limit_tokens(d->all->transport);
}

/* No more than that is sent a second. */
static enum ct_status limit_bandwidth(struct ct_dist *d)
{
    if (d->plan.bytes_s == 0)
        return CT_OK;
    CT_TRY(ct_limit_create(d->all->transport, d->plan.bytes_s, NULL, NULL,
                           &d->all->transport));
    if (d->plan.sheds) {
        d->wires.tokens     = tokens;
        d->wires.tokens_arg = d;
    }
    return CT_OK;
}

/* A whole message of our own, defaults where nothing is said. */
static enum ct_status take_options(struct ct_dist *d,
                                   const Caffe__DistributedParameter *given)
{
    const Caffe__DistributedParameter none =
        CAFFE__DISTRIBUTED_PARAMETER__INIT;

    return ct_message_merge(&none, given, &d->options);
}

/* Between jobs the comm thread still has messages about itself to send. */
static enum ct_status idle(struct ct_comm *c, void *arg)
{
    (void)arg;
    return ct_comm_tick(c, ct_now());
}

/* A comm of `n` ranks of all, from `first` on. */
static enum ct_status make_part(struct ct_dist *d, int first, int n,
                                struct ct_comm **out)
{
    struct ct_transport *t;

    CT_TRY(ct_view_create(d->all->transport, first, n, &t));
    CT_TRY(ct_comm_create(t, out));
    (*out)->stall_after = d->options->stall;
    return CT_OK;
}

static enum ct_status make_parts(struct ct_dist *d)
{
    const struct dist_plan *m = &d->plan;
    int group                 = dist_group_of(m, d->all->rank);
    int first                 = dist_group_first(m, group);

    d->serves = d->all->rank >= m->n_workers;
    d->comm   = d->all;
    if (m->n_workers < d->all->size)
        CT_TRY(make_part(d, d->serves ? m->n_workers : 0,
                         d->serves ? d->all->size - m->n_workers
                                   : m->n_workers, &d->comm));
    if (m->n_groups < m->n_workers && !d->serves)
        CT_TRY(make_part(d, first, dist_group_first(m, group + 1) - first,
                         &d->group));
    d->rank = d->comm->rank;
    d->size = d->comm->size;
    return CT_OK;
}

/* Servers answer while the comm thread idles or waits for something else. */
static enum ct_status start_thread(struct ct_dist *d)
{
    struct ct_comm_thread_options o = { .order   = CT_JOBS_FIFO,
                                        .idle    = idle,
                                        .idle_ns = IDLE_NS };
    struct ct_comm *part[]          = { d->all, d->comm, d->group };

    for (int i = 0; d->plan.servers && i < 3; i++)
        if (part[i]) {
            part[i]->background     = dist_ps_progress;
            part[i]->background_arg = d;
        }
    for (int i = 0; i < 3; i++)
        if (part[i])
            part[i]->place.no_window = !d->plan.windows;
    if (d->plan.servers) {
        o.idle     = dist_ps_idle;
        o.idle_arg = d;
        o.idle_ns  = POLL_NS;
    }
    return ct_comm_thread_create(d->comm, &o, &d->thread);
}

/* Some ways need what this place may not have. */
static enum ct_status check_reduce(const struct ct_dist *d)
{
    const struct ct_allreduce_type *r = d->plan.reduce;

    return !r || ct_allreduce_available(d->comm, r)
               ? CT_OK
               : ct_fail(CT_EINVAL, "--reduce=%s: there is no such way to sum "
                         "here; use auto", r->name);
}

static void rank_lost(void *arg, int rank, int iter, const char *text)
{
    struct ct_dist *d = arg;

    dist_marks_add(&d->marks, CT_MARK_LOST, rank, iter, "%s", text);
}

static uint64_t bytes_sent(const void *arg)
{
    return dist_bytes_sent(arg);
}

static enum ct_status start_watch(struct ct_dist *d)
{
    const struct live_watch_config config = {
        .all       = d->all,
        .alike     = d->comm,
        .group     = d->group,
        .thread    = d->thread,
        .n_train   = d->plan.n_workers,
        .stall     = d->options->stall,
        .heartbeat = d->options->heartbeat,
        .lost      = rank_lost,
        .sent      = bytes_sent,
        .arg       = d,
    };

    return live_watch_create(&config, &d->watch);
}

enum ct_status dist_create_over(struct ct_transport *transport,
                                const Caffe__DistributedParameter *options,
                                struct ct_dist **out)
{
    struct ct_dist *d = NULL;
    enum ct_status st;

    if (ct_alloc(1, sizeof(*d), "dist", &d) != CT_OK) {
        transport->ops->destroy(transport);
        return CT_ENOMEM;
    }
    dist_marks_init(&d->marks);
    pthread_mutex_init(&d->census_lock, NULL);
    d->facts = (struct dist_facts){ .size    = transport->size,
                                    .n_hosts = count_hosts(transport) };
    d->rank  = transport->rank;
    d->size  = transport->size;
    st = ct_alloc((size_t)d->size, sizeof(*d->part_bytes), "sums",
                  &d->part_bytes);
    if (st != CT_OK) {
        transport->ops->destroy(transport);
        goto out;
    }
    CT_TRY_GOTO(ct_comm_create(transport, &d->all), st, out);
    CT_TRY_GOTO(take_options(d, options), st, out);
    d->all->stall_after = d->options->stall;
    CT_TRY_GOTO(dist_resolve(d->options, &d->facts, &d->plan), st, out);
    CT_TRY_GOTO(limit_bandwidth(d), st, out);
    dist_canonical_init(&d->canonical, &d->plan);
    CT_TRY_GOTO(make_parts(d), st, out);
    CT_TRY_GOTO(check_reduce(d), st, out);
    CT_TRY_GOTO(start_thread(d), st, out);
    dist_fill_exchange(d);
    if (d->all->size > 1)
        CT_TRY_GOTO(start_watch(d), st, out);
    d->exchange.facts.pulse = live_watch_pulse(d->watch);
    *out = d;
    d    = NULL;
out:
    ct_dist_destroy(d);
    return st;
}

bool ct_dist_launched(void)
{
    return ct_launched();
}

/* Before the program quiets all ranks but one. */
static enum ct_status start_log(struct ct_dist *d)
{
    struct ct_text path = { 0 };
    enum ct_status st;

    if (!d->options->rank_log[0])
        return CT_OK;
    ct_text_addf(&path, "%s.%d", d->options->rank_log,
                 d->all->rank);
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
    live_witness_introduce((*out)->watch);
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
    if (type == &ct_transport_alone && !(options && options->canonical))
        return CT_OK;
    if (!type->launched) { /* all micro-batches on one rank */
        CT_TRY(type->create(&t));
        return dist_create_over(t, options, out);
    }
    /* A program that uses MPI itself may not fork. */
    if (!ct_transports_left_open())
        live_witness_start();
    st = join(type, options, out);
    if (st != CT_OK) /* this rank tells of it itself */
        live_witness_dismiss();
    return st;
}

void ct_dist_destroy(struct ct_dist *d)
{
    if (!d)
        return;
    if (d->plan.servers)
        dist_ps_fini(d);
    dist_root_orphan(d);
    live_watch_stop(d->watch);
    ct_comm_thread_destroy(d->thread);
    live_watch_destroy(d->watch);
    dist_bsp_fini(d);
    ct_comm_destroy(d->group);
    if (d->comm != d->all)
        ct_comm_destroy(d->comm);
    ct_comm_destroy(d->all);
    ct_message_free(d->options);
    dist_census_fini(&d->census);
    pthread_mutex_destroy(&d->census_lock);
    dist_marks_fini(&d->marks);
    ct_free(d->sums);
    ct_free(d->held);
    ct_free(d->part_bytes);
    ct_free(d);
    live_witness_dismiss();
}

void ct_dist_abort(struct ct_dist *d, int code)
{
    if (!d)
        return;
    live_watch_record(d->watch, ct_last_error());
    live_witness_dismiss();
    /* Launchers end everybody now, witnesses of the dead among them. */
    live_watch_hear_out(d->watch);
    live_watch_stop(d->watch); /* nobody needs to find out who is gone */
    if (d->direct)
        ct_window_abort(d->direct->window);
    ct_comm_abort(d->all, code);
}

void ct_dist_last_words(struct ct_dist *d)
{
    if (d)
        live_watch_last_words(d->watch);
    live_witness_dismiss();
}

enum ct_status ct_dist_keep_records(struct ct_dist *d, const char *folder)
{
    return d ? live_watch_keep(d->watch, folder) : CT_OK;
}

void ct_dist_ask_records(struct ct_dist *d)
{
    if (d)
        live_watch_ask(d->watch);
}

int ct_dist_rank(const struct ct_dist *d)
{
    return d ? d->all->rank : 0;
}

int ct_dist_size(const struct ct_dist *d)
{
    return d ? d->plan.n_workers : 1;
}

int ct_dist_local_rank(const struct ct_dist *d)
{
    return d ? d->all->place.local : 0;
}

int ct_dist_n_hosts(const struct ct_dist *d)
{
    return d ? d->facts.n_hosts : 1;
}

struct ct_exchange *ct_dist_exchange(struct ct_dist *d)
{
    return d && !d->plan.alone ? &d->exchange : NULL;
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
    struct bytes b = { d ? d->all : NULL, data, bytes };

    return d ? ct_job_run(d->thread, broadcast_job, &b) : CT_OK;
}

enum ct_status dist_spread_values(struct ct_dist *d, const struct ct_net *net)
{
    CT_TRY(ct_mirror_get(d->trainer.mirror));
    CT_TRY(ct_dist_broadcast(d, dist_data(d, net),
                             ct_net_arena_count(net) * sizeof(float)));
    return ct_mirror_put(d->trainer.mirror);
}

enum ct_status dist_broadcast(struct ct_dist *d, void *data, size_t bytes)
{
    struct bytes b = { d->comm, data, bytes };

    return ct_job_run(d->thread, broadcast_job, &b);
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
    struct parts p = { d->comm, mine, bytes, out };

    return ct_job_run(d->thread, gather_job, &p);
}

enum ct_status dist_all_gather(struct ct_dist *d, const void *mine,
                               const size_t *bytes, void *out)
{
    struct parts p = { d->all, mine, bytes, out };

    return ct_job_run(d->thread, gather_job, &p);
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
    struct floats f = { d ? d->comm : NULL, x, n };

    return d ? ct_job_run(d->thread, sum_job, &f) : CT_OK;
}

enum ct_status dist_group_sum(struct ct_dist *d, float *x, int64_t n)
{
    struct floats f = { d->group, x, n };

    return ct_job_run(d->thread, sum_job, &f);
}

enum ct_status dist_all_sum(struct ct_dist *d, float *x, int64_t n)
{
    struct floats f = { d->all, x, n };

    return ct_job_run(d->thread, sum_job, &f);
}

uint64_t dist_bytes_sent(const struct ct_dist *d)
{
    uint64_t sum = atomic_load(&d->all->bytes_sent);

    if (d->comm != d->all)
        sum += atomic_load(&d->comm->bytes_sent);
    return d->group ? sum + atomic_load(&d->group->bytes_sent) : sum;
}

void dist_stats_begin(struct ct_dist *d)
{
    d->at_start      = ct_comm_thread_stats(d->thread);
    d->sent_at_start = dist_bytes_sent(d);
}

struct ct_dist_stats ct_dist_stats(const struct ct_dist *d)
{
    struct ct_dist_stats out = { 0 };

    if (d) {
        struct ct_comm_thread_stats s = ct_comm_thread_stats(d->thread);

        out.bytes_sent   = dist_bytes_sent(d) - d->sent_at_start;
        out.comm_seconds = s.busy_seconds - d->at_start.busy_seconds +
                           d->direct_seconds;
        out.wait_seconds = d->wait_seconds;
        out.n_exchanges  = d->n_exchanges;
    }
    return out;
}
