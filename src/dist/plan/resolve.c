/* resolve.c - options and facts become a plan. */
#include <string.h>

#include "comm/ps/ps.h"
#include "comm/rate.h"
#include "dist/bsp/carrier.h"
#include "dist/codec/managed.h"
#include "dist/engine.h"
#include "dist/plan/conflicts.h"

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static enum ct_status choose_bandwidth(const Caffe__DistributedParameter *o,
                                       struct dist_plan *p)
{
    const char *rest;

    if (!o->bandwidth[0])
        return CT_OK;
    if (ct_rate_parse(o->bandwidth, &p->bytes_s, &rest) != CT_OK)
        return ct_fail_in(CT_EINVAL, "--bandwidth=%s", o->bandwidth);
    if (rest[0] && !is(rest, ":all"))
        return ct_fail(CT_EINVAL, "--bandwidth=%s: behind a rate stands "
                       "nothing or ':all'", o->bandwidth);
    /* A codec that holds values back limits its bytes itself. */
    p->sheds = !rest[0] && dist_managed_suits(p->codec.type);
    return CT_OK;
}

/* The kind of synchronisation is the one that was asked for, also where a view
 * of an elastic job has too few ranks for groups and servers of their own: its
 * views, and the snapshots that pass between them, are all of one kind. */
static void choose_servers(const Caffe__DistributedParameter *asked,
                           const Caffe__DistributedParameter *o, int size,
                           struct dist_plan *p)
{
    const bool stale = is(o->sync, "ssp") || is(o->sync, "async") ||
                       asked->groups > 1;
    const bool road  = is(o->road, "ps") || is(o->road, "sharded");

    p->rounds      = o->deadline > 0 || o->patience > 0;
    p->servers     = road || stale || asked->servers > 0 || p->rounds;
    p->late        = is(o->late, "fold")    ? DIST_LATE_FOLD
                     : is(o->late, "error") ? DIST_LATE_ERROR
                                            : DIST_LATE_DISCARD;
    p->values      = stale || p->rounds;
    p->staleness   = is(o->sync, "async") ? CT_PS_ASYNC : o->staleness;
    p->sync        = dist_sync_find(o->sync);
    p->n_groups    = asked->groups > 1 ? o->groups : p->n_workers;
    if (!p->servers)
        return;
    p->first_server = o->servers ? p->n_workers : 0;
    /* A rank that may hang must not be a server. */
    p->n_servers = o->servers ? o->servers
                   : is(o->road, "ps") || (p->rounds && is(o->road, "auto"))
                       ? 1
                       : size;
}

static const struct ct_exchange_ops *kind_of(const struct dist_plan *p)
{
    return p->sync      ? &p->sync->ops
           : p->values  ? &dist_servers_values
           : p->servers ? &dist_servers_sum
                        : &dist_bsp;
}

static void choose_reduce(const Caffe__DistributedParameter *o,
                          struct dist_plan *p)
{
    p->nccl   = is(o->reduce, "nccl");
    p->reduce = is(o->reduce, "auto") || p->nccl || p->parts
                    ? NULL
                    : ct_allreduce_find(o->reduce);
    p->road   = is(o->road, "factors") && !p->parts ? DIST_ROAD_FACTORS
                : is(o->road, "auto") && !p->parts  ? DIST_ROAD_AUTO
                                                    : DIST_ROAD_ALLREDUCE;
}

/* Why compute threads cannot sum gradients where they lie, or NULL. */
static const char *why_not_in_memory(const struct dist_facts *f,
                                     const struct dist_plan *p)
{
    return f->size == 1             ? "there are no other ranks"
           : p->servers || p->sync  ? "ranks do not sum gradients"
           : f->n_hosts > 1         ? "ranks are on several hosts"
           : !p->windows            ? "--bandwidth limits what is sent"
           : p->codec.type          ? "--compress codes them"
           : p->parts               ? "--canonical adds along one tree"
           : p->reduce && p->reduce != ct_allreduce_find("shared")
               ? "--reduce names another way"
           : f->no_windows          ? "ranks of this host cannot share memory"
           : f->met && f->gpus      ? "some ranks have GPUs"
           : f->met && f->copied    ? "gradients are copied from devices"
           : f->met && !f->learns   ? "the net has no parameters"
                                    : NULL;
}

/* Codecs that keep values keep them per bucket, so buckets must not change. */
static bool keeps_values(const struct dist_plan *p)
{
    return p->sheds ||
           (p->codec.type && (p->codec.type->feedback || p->codec.type->sum));
}

static void choose_codes(struct dist_plan *p)
{
    const struct dist_codec_type *t = p->codec.type;

    /* Pushes to servers and means of weights are always complete. */
    p->sheds         = p->sheds && !p->servers && !p->sync;
    p->codes         = (t || p->sheds) && p->n_workers > 1;
    p->codes_answers = t && p->codes && t->both_ways && !p->values;
    p->holds_back    = t && t->momentum && p->n_workers > 1;
    p->whole         = !p->values && !p->holds_back;
    /* Factors are multiplied, not added, so nothing may be held back. */
    p->factor_codec  = t && t->for_factors ? t : NULL;
}

/* The way to try in the memory of GPUs. */
static enum dist_device_way device_way(const struct dist_facts *f,
                                       const struct dist_plan *p)
{
    if (!p->on_gpus || !f->met)
        return DIST_BY_HOST;
    if (p->reduce == ct_allreduce_find("mpi"))
        return DIST_BY_MPI;
    /* Only if some rank has a GPU or copies gradients. */
    if (p->reduce == ct_allreduce_find("tree") && (f->gpus || f->copied))
        return DIST_BY_TREE;
    return !p->reduce && f->own_gpus ? DIST_BY_NCCL : DIST_BY_HOST;
}

static const struct dist_carrier *carrier_of(const struct dist_facts *f,
                                             const struct dist_plan *p)
{
    return p->shared_params               ? &dist_by_shared_params
           : p->in_memory                 ? &dist_by_memory
           : f->on_device == DIST_BY_NCCL ? &dist_by_nccl
           : f->on_device != DIST_BY_HOST ? &dist_by_gpus
                                          : &dist_by_thread;
}

static void choose_travel(const Caffe__DistributedParameter *o,
                          const struct dist_facts *f, struct dist_plan *p)
{
    const bool in_step = !p->servers && !p->sync;

    p->overlap     = o->overlap;
    p->commits     = f->elastic && !p->reloads;
    /* A GPU updates all parameters at once. */
    p->lazy        = o->overlap && !p->parts && in_step && !p->commits &&
              !f->copied;
    /* A limited bandwidth must not be bypassed by shared memory, and waits in
     * shared memory do not serve other ranks. */
    p->windows     = p->bytes_s == 0 && !p->servers;
    p->not_in_memory = why_not_in_memory(f, p);
    p->in_memory   = !p->not_in_memory;
    p->not_on_gpus = dist_why_not_on_gpus(o, f, p);
    p->on_gpus     = !p->not_on_gpus && (f->size > 1 || p->nccl);
    p->on_device   = device_way(f, p);
    p->shares_params = p->in_memory;
    p->shared_params = p->in_memory && f->shared_params;
    p->carrier       = carrier_of(f, p);
    /* Codecs and canonical sums work on whole buckets. */
    p->slice_floats = p->codes || p->parts || o->slice_bytes < 0
                          ? 0
                          : o->slice_bytes / (int64_t)sizeof(float);
    p->agrees       = f->size > 1 && in_step && !p->in_memory &&
                o->slice_bytes > 0;
}

static void choose_roads(const Caffe__DistributedParameter *o,
                         const struct dist_facts *f, struct dist_plan *p)
{
    p->roads        = f->size > 1 && !p->servers && !p->sync &&
               f->on_device == DIST_BY_HOST;
    p->factors      = p->roads && !p->parts && f->iter_size <= 1;
    p->factor_way   = p->shared_params ? &dist_factors_in_tiles
                      : f->copied      ? &dist_factors_of_gpu
                                       : &dist_factors_by_wire;
    /* Codecs work in CPU memory. */
    p->near_factors = (f->gpus || f->copied) && !p->factor_codec;
    /* An elastic job would repeat it in every view. */
    p->sweeps       = p->roads && f->n_hosts > 1 && !p->reduce &&
                p->bytes_s == 0 && !p->parts && !p->commits;
    /* Ranks with unlike devices start their steps at different times. */
    p->learns       = o->redecide > 0 && p->road == DIST_ROAD_AUTO &&
                !keeps_values(p) && !f->unlike && !p->shared_params;
}

/* Adapts options to `size` ranks: an elastic job may have fewer ranks than the
 * options assume.  Text is borrowed from `o`. */
static Caffe__DistributedParameter fit(const Caffe__DistributedParameter *o,
                                       const struct dist_facts *f)
{
    Caffe__DistributedParameter fitted = *o;

    if (f->elastic && fitted.servers >= f->size)
        fitted.servers = f->size - 1;
    if (f->elastic && fitted.groups > f->size - fitted.servers)
        fitted.groups = f->size - fitted.servers;
    return fitted;
}

enum ct_status dist_resolve(const Caffe__DistributedParameter *asked,
                            const struct dist_facts *f, struct dist_plan *out)
{
    const Caffe__DistributedParameter fitted = fit(asked, f), *o = &fitted;
    struct dist_plan *p = out;

    CT_TRY(dist_check_words(asked, f));
    *p = (struct dist_plan){
        .n_workers    = f->size - o->servers,
        .shared_data  = is(o->data, "shared"),
        .root_data    = is(o->data, "root"),
        .own_data     = is(o->data, "local"),
        .global_batch = is(o->batch, "global"),
        .sync_bn      = o->sync_bn,
        .shares       = is(o->shares, "even")    ? CT_SHARES_EVEN
                        : is(o->shares, "speed") ? CT_SHARES_SPEED
                                                 : CT_SHARES_GIVEN,
    };
    CT_TRY(dist_codec_parse(o->compress, &p->codec));
    CT_TRY(choose_bandwidth(o, p));
    choose_servers(asked, o, f->size, p);
    /* Servers have state that no other rank has. */
    p->reloads = f->elastic && (p->values || asked->servers > 0);
    CT_TRY(dist_check_rules(asked, f, p));
    if (o->canonical)
        p->parts = o->parts;
    choose_reduce(o, p);
    choose_codes(p);
    choose_travel(o, f, p);
    choose_roads(o, f, p);
    p->apart         = p->commits && p->sync;
    p->keeps_history = p->values || (p->sync && p->sync->keeps_history);
    p->guards        = !p->rounds; /* with a deadline a rank may be behind */
    p->equal_bits    = !f->unlike;
    p->root_data     = p->root_data && p->n_workers > 1;
    /* Other ranks may have no data, or one may hang. */
    p->deals_tests   = !p->root_data && !p->rounds;
    p->kind          = kind_of(p);
    p->alone         = f->size == 1 && !p->parts && !p->servers && !p->sync &&
               !p->nccl && !f->elastic;
    return CT_OK;
}

enum ct_status dist_replan(struct ct_dist *d, const struct dist_facts *facts)
{
    struct dist_decision made = { .facts = *facts };

    CT_TRY(dist_resolve(d->options, facts, &made.plan));
    d->decision = made;
    return CT_OK;
}

int dist_group_first(const struct dist_plan *p, int group)
{
    return (int)((int64_t)p->n_workers * group / p->n_groups);
}

int dist_group_of(const struct dist_plan *p, int rank)
{
    int g = 0;

    while (g + 1 < p->n_groups && dist_group_first(p, g + 1) <= rank)
        g++;
    return g;
}
