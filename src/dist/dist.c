/* dist.c - joining peers and leaving them. */
#include "dist/dist.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "comm/rate.h"
#include "cortado/log.h"
#include "dist/compress/managed.h"
#include "dist/root.h"
#include "dist/watch.h"

enum { IDLE_NS = 50000000 };

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

static enum ct_status choose_reduce(struct ct_dist *d)
{
    const char *name = d->options->reduce;

    if (strcmp(name, "auto") == 0)
        return CT_OK;
    d->reduce = ct_allreduce_find(name);
    if (!d->reduce || !ct_allreduce_available(d->comm, d->reduce))
        return ct_fail(CT_EINVAL, "--reduce=%s: there is no such way to sum "
                       "here; use auto, shared, ring, halving, tree or "
                       "hierarchical", name);
    return CT_OK;
}

static enum ct_status choose_road(struct ct_dist *d)
{
    const char *name = d->options->road;

    if (d->canonical.parts)
        d->road = DIST_ROAD_ALLREDUCE;
    else if (strcmp(name, "auto") == 0)
        d->road = DIST_ROAD_AUTO;
    else if (strcmp(name, "allreduce") == 0)
        d->road = DIST_ROAD_ALLREDUCE;
    else if (strcmp(name, "factors") == 0)
        d->road = DIST_ROAD_FACTORS;
    else
        return ct_fail(CT_EINVAL, "--road=%s: use auto, allreduce or factors",
                       name);
    return CT_OK;
}

static double tokens(void *arg)
{
    const struct ct_dist *d = arg;

    return ct_limit_tokens(d->comm->transport);
}

/* --bandwidth=RATE: no more than that is sent, and what a step has no tokens
 * for waits (compress/managed.h), unless the codec holds values back itself.
 * RATE:all: all is sent and the step waits. */
static enum ct_status limit_bandwidth(struct ct_dist *d)
{
    const char *text = d->options->bandwidth, *rest;
    double bytes_s;

    if (!text[0])
        return CT_OK;
    if (ct_rate_parse(text, &bytes_s, &rest) != CT_OK)
        return ct_fail_in(CT_EINVAL, "--bandwidth=%s", text);
    if (rest[0] && strcmp(rest, ":all") != 0)
        return ct_fail(CT_EINVAL, "--bandwidth=%s: behind a rate stands "
                       "nothing or ':all'", text);
    CT_TRY(ct_limit_create(d->comm->transport, bytes_s, NULL, NULL,
                           &d->comm->transport));
    if (!rest[0] && dist_managed_suits(d->wires.codec.type)) {
        d->wires.tokens     = tokens;
        d->wires.tokens_arg = d;
    }
    return CT_OK;
}

/* Words of the schema that this version does not act on. */
static enum ct_status refuse(const Caffe__DistributedParameter *p)
{
    const char *what = strcmp(p->sync, "bsp") != 0       ? "sync"
                       : p->servers                      ? "servers"
                       : p->groups > 1                   ? "groups"
                       : p->deadline > 0                 ? "deadline"
                                                         : NULL;

    return what ? ct_fail(CT_ENOTSUP, "distributed { %s } is not supported "
                          "yet; leave it out", what)
                : CT_OK;
}

/* A whole message of our own, defaults where nothing is said. */
static enum ct_status take_options(struct ct_dist *d,
                                   const Caffe__DistributedParameter *given)
{
    const Caffe__DistributedParameter none =
        CAFFE__DISTRIBUTED_PARAMETER__INIT;

    CT_TRY(ct_message_merge(&none, given, &d->options));
    if (strcmp(d->options->batch, "per_rank") != 0 &&
        strcmp(d->options->batch, "global") != 0)
        return ct_fail(CT_EINVAL, "batch is \"%s\"; use per_rank or global",
                       d->options->batch);
    if (strcmp(d->options->data, "shared") != 0 &&
        strcmp(d->options->data, "local") != 0 &&
        strcmp(d->options->data, "root") != 0)
        return ct_fail(CT_EINVAL, "data is \"%s\"; use shared, local or root",
                       d->options->data);
    CT_TRY(dist_canonical_init(&d->canonical, d->options, d->size));
    return refuse(d->options);
}

/* Between jobs the comm thread still has messages about itself to send. */
static enum ct_status idle(struct ct_comm *c, void *arg)
{
    (void)arg;
    return ct_comm_tick(c, ct_now());
}

enum ct_status dist_create_over(struct ct_transport *transport,
                                const Caffe__DistributedParameter *options,
                                struct ct_dist **out)
{
    const struct ct_comm_thread_options fifo = { .order   = CT_JOBS_FIFO,
                                                 .idle    = idle,
                                                 .idle_ns = IDLE_NS };
    struct ct_dist *d = NULL;
    enum ct_status st;

    if (ct_alloc(1, sizeof(*d), "dist", &d) != CT_OK) {
        transport->ops->destroy(transport);
        return CT_ENOMEM;
    }
    d->rank    = transport->rank;
    d->size    = transport->size;
    d->n_hosts = count_hosts(transport);
    st = ct_alloc((size_t)d->size, sizeof(*d->part_bytes), "sums",
                  &d->part_bytes);
    if (st != CT_OK) {
        transport->ops->destroy(transport);
        goto out;
    }
    CT_TRY_GOTO(ct_comm_create(transport, &d->comm), st, out);
    CT_TRY_GOTO(take_options(d, options), st, out);
    d->comm->stall_after = d->options->stall;
    /* Who may send only so much is not to go around that by memory. */
    d->comm->no_window = d->options->bandwidth[0];
    CT_TRY_GOTO(dist_codec_parse(d->options->compress, &d->wires.codec), st,
                out);
    CT_TRY_GOTO(limit_bandwidth(d), st, out);
    CT_TRY_GOTO(choose_reduce(d), st, out);
    CT_TRY_GOTO(choose_road(d), st, out);
    CT_TRY_GOTO(ct_comm_thread_create(d->comm, &fifo, &d->thread), st, out);
    dist_bsp_init(d);
    if (d->size > 1)
        CT_TRY_GOTO(dist_watch_create(d, &d->watch), st, out);
    d->exchange.pulse = dist_watch_pulse(d->watch);
    *out = d;
    d    = NULL;
out:
    ct_dist_destroy(d);
    return st;
}

bool ct_dist_launched(void)
{
    return ct_mpi_launched();
}

/* Before the program quiets all ranks but one. */
static enum ct_status start_log(struct ct_dist *d)
{
    struct ct_text path = { 0 };
    enum ct_status st;

    if (!d->options->rank_log[0])
        return CT_OK;
    ct_text_addf(&path, "%s.%d", d->options->rank_log, d->rank);
    st = path.failed ? CT_ENOMEM : ct_log_copy_to(path.s);
    ct_text_fini(&path);
    return st;
}

enum ct_status ct_dist_create(const Caffe__DistributedParameter *options,
                              struct ct_dist **out)
{
    struct ct_transport *t = NULL;

    *out = NULL;
    if (!ct_mpi_launched() && !(options && options->canonical))
        return CT_OK;
    if (!ct_mpi_launched()) { /* all micro-batches on one rank */
        CT_TRY(ct_alone_create(&t));
        return dist_create_over(t, options, out);
    }
    if (ct_mpi_create(&t) != CT_OK)
        return ct_fail_in(CT_ECOMM, "started as one of several processes, but "
                          "the others cannot be reached; each would train by "
                          "itself");
    CT_TRY(dist_create_over(t, options, out));
    CT_TRY(start_log(*out));
    return dist_selftest(*out);
}

void ct_dist_destroy(struct ct_dist *d)
{
    if (!d)
        return;
    dist_root_orphan(d);
    dist_watch_stop(d->watch);
    ct_comm_thread_destroy(d->thread);
    dist_watch_destroy(d->watch, d->comm);
    dist_bsp_fini(d);
    ct_comm_destroy(d->comm);
    ct_message_free(d->options);
    ct_free(d->sums);
    ct_free(d->part_bytes);
    ct_free(d);
}

void ct_dist_abort(struct ct_dist *d, int code)
{
    if (!d)
        return;
    dist_watch_stop(d->watch); /* nobody needs to find out who is gone */
    if (d->direct)
        ct_window_abort(d->direct->window);
    ct_comm_abort(d->comm, code);
}

void ct_dist_last_words(struct ct_dist *d)
{
    if (d)
        dist_watch_last_words(d->watch);
}

int ct_dist_rank(const struct ct_dist *d)
{
    return d ? d->rank : 0;
}

int ct_dist_size(const struct ct_dist *d)
{
    return d ? d->size : 1;
}

int ct_dist_local_rank(const struct ct_dist *d)
{
    return d ? d->comm->place.local : 0;
}

int ct_dist_n_hosts(const struct ct_dist *d)
{
    return d ? d->n_hosts : 1;
}

struct ct_exchange *ct_dist_exchange(struct ct_dist *d)
{
    return d ? &d->exchange : NULL;
}

struct bytes {
    void  *data;
    size_t n;
};

static enum ct_status broadcast_job(struct ct_comm *c, void *arg)
{
    const struct bytes *b = arg;

    return ct_broadcast(c, 0, b->data, b->n);
}

enum ct_status ct_dist_broadcast(struct ct_dist *d, void *data, size_t bytes)
{
    struct bytes b = { data, bytes };

    return d ? ct_job_run(d->thread, broadcast_job, &b) : CT_OK;
}

struct parts {
    const void   *mine;
    const size_t *bytes;
    void         *out;
};

static enum ct_status gather_job(struct ct_comm *c, void *arg)
{
    const struct parts *p = arg;

    return ct_allgather(c, p->mine, p->bytes, p->out);
}

enum ct_status dist_gather(struct ct_dist *d, const void *mine,
                           const size_t *bytes, void *out)
{
    struct parts p = { mine, bytes, out };

    return ct_job_run(d->thread, gather_job, &p);
}

struct floats {
    float  *x;
    int64_t n;
};

static enum ct_status sum_job(struct ct_comm *c, void *arg)
{
    const struct floats *f = arg;

    return ct_allreduce(c, f->x, f->n);
}

enum ct_status ct_dist_sum(struct ct_dist *d, float *x, int64_t n)
{
    struct floats f = { x, n };

    return d ? ct_job_run(d->thread, sum_job, &f) : CT_OK;
}

struct ct_dist_stats ct_dist_stats(const struct ct_dist *d)
{
    struct ct_dist_stats out = { 0 };

    if (d) {
        struct ct_comm_thread_stats s = ct_comm_thread_stats(d->thread);

        out.bytes_sent   = s.bytes_sent - d->at_start.bytes_sent;
        out.comm_seconds = s.busy_seconds - d->at_start.busy_seconds +
                           d->direct_seconds;
        out.wait_seconds = d->wait_seconds;
        out.n_exchanges  = d->n_exchanges;
    }
    return out;
}
