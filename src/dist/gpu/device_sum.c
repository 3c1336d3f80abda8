/* device_sum.c - sums gradients in GPU memory. */
#include "dist/gpu/device_sum.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/coll/coll.h"
#include "comm/transport/transports.h"
#include "cortado/log.h"
#include "device/stage.h"
#include "dist/bsp/carrier.h"
#include "dist/codec/coded_bucket.h"
#include "dist/gpu/device_tree.h"
#include "dist/engine.h"
#include "net/arena.h"
#include "net/replay.h"

/* *all: every rank can use NCCL.  If one cannot, rank 0 logs the cause, or
 * every rank fails with it if --reduce=nccl was given. */
static enum ct_status all_have_it(struct ct_dist *d, bool *all)
{
    struct verdict {
        char why[160];
    } mine = { "" }, *every = NULL;
    enum ct_status st;

    if (ct_nccl_available() != CT_OK)
        snprintf(mine.why, sizeof(mine.why), "%s", ct_last_error());
    CT_TRY(ct_alloc((size_t)d->view.size, sizeof(*every), "verdicts", &every));
    CT_TRY_GOTO(dist_gather_each(d, &mine, sizeof(mine), every), st, out);
    *all = true;
    for (int r = 0; r < d->view.size && *all; r++) {
        every[r].why[sizeof(mine.why) - 1] = '\0';
        *all = !every[r].why[0];
        if (!*all && d->plan->nccl)
            st = ct_fail(CT_ENOTFOUND, "--reduce=nccl: rank %d: %s", r,
                         every[r].why);
        else if (!*all && d->view.rank == 0)
            CT_WARN("gradients go through the CPU's memory: rank %d: %s", r,
                    every[r].why);
    }
out:
    ct_free(every);
    return st;
}

static enum ct_status sum_riders(struct ct_comm *c, void *arg)
{
    struct ct_dist *d = arg;

    return ct_allreduce(c, dist_diff(d, d->net), CT_ARENA_RIDERS);
}

static enum ct_status judge(void *arg)
{
    return ct_nccl_check(((struct ct_dist *)arg)->device_sum.nccl);
}

static enum ct_status join_nccl(struct ct_dist *d)
{
    struct ct_mirror *m  = d->trainer.mirror;
    struct ct_nccl_id id = { { 0 } };

    if (d->view.rank == 0)
        CT_TRY(ct_nccl_new_id(&id));
    CT_TRY(dist_broadcast(d, &id, sizeof(id)));
    CT_TRY(ct_nccl_create(m->dev, &id, d->view.rank, d->view.size,
                          &d->device_sum.nccl));
    ct_stage_judge(ct_mirror_stage(m), judge, d);
    return CT_OK;
}

/* Gradients stay on the device from now on. */
static enum ct_status keep_there(struct ct_dist *d, enum dist_device_way way)
{
    struct ct_mirror *m     = d->trainer.mirror;
    struct dist_facts facts = *d->facts;

    facts.on_device      = way;
    d->device_sum.stays  = true;
    d->device_sum.riders = (struct ct_job){ .run = sum_riders, .arg = d };
    for (int i = 0; i < ct_net_n_params(m->net); i++)
        ct_mirror_keep(m, i, true);
    if (d->view.rank == 0)
        CT_INFO("%s sums gradients in the memory of GPUs",
                way == DIST_BY_NCCL  ? "NCCL"
                : way == DIST_BY_MPI ? "MPI"
                                     : "A tree");
    return dist_replan(d, &facts);
}

/* Whether MPI accepts the memory of this rank's device.  On the CPU, where only
 * tests have mirrors, any MPI does. */
static bool mpi_takes_it(const struct ct_dist *d)
{
    const struct ct_mirror *m            = d->trainer.mirror;
    const struct ct_transport_type *type = d->view.all->transport->type;

    return m && (m->dev->kind == CT_CPU || ct_transport_takes_gpu_memory(type));
}

static enum ct_status use_mpi(struct ct_dist *d)
{
    float n = mpi_takes_it(d) ? 1 : 0;

    CT_TRY(ct_dist_sum(d, &n, 1));
    return n == (float)d->view.size ? keep_there(d, DIST_BY_MPI) : CT_OK;
}

static enum ct_status use_tree(struct ct_dist *d, const struct ct_net *net)
{
    CT_TRY(dist_device_tree_create(d, net, &d->device_sum.tree));
    return d->device_sum.tree ? keep_there(d, DIST_BY_TREE) : CT_OK;
}

static enum ct_status use_nccl(struct ct_dist *d)
{
    bool all = false;

    CT_TRY(all_have_it(d, &all));
    if (!all)
        return CT_OK;
    CT_TRY(join_nccl(d));
    return keep_there(d, DIST_BY_NCCL);
}

enum ct_status dist_device_sum_init(struct ct_dist *d,
                                    const struct ct_net *net)
{
    switch (d->plan->on_device) {
    case DIST_BY_NCCL:
        return use_nccl(d);
    case DIST_BY_MPI:
        return use_mpi(d);
    case DIST_BY_TREE:
        return use_tree(d, net);
    case DIST_BY_HOST:
        break;
    }
    return CT_OK;
}

void dist_device_sum_fini(struct ct_dist *d)
{
    struct dist_device_sum *x = &d->device_sum;
    struct ct_mirror *m       = d->trainer.mirror;

    for (int i = 0; m && x->stays && i < ct_net_n_params(m->net); i++)
        ct_mirror_keep(m, i, false);
    if (m)
        ct_stage_judge(ct_mirror_stage(m), NULL, NULL);
    if (m && x->nccl) /* NCCL cannot end while a recorded pass has its sums */
        ct_net_forget_passes(m->net);
    ct_nccl_destroy(x->nccl);
    dist_device_tree_destroy(x->tree);
    x->nccl  = NULL;
    x->tree  = NULL;
    x->stays = false;
}

/* ---- Carriers. */

static float *diffs_there(const struct ct_dist *d, const struct ct_net *net)
{
    (void)d;
    return ct_net_arena_diff(net);
}

/* NCCL: queues the sums of the buckets that `layer` completes after its
 * backward pass. */
static enum ct_status queue_sums(struct ct_dist *d, int layer)
{
    struct dist_device_sum *x = &d->device_sum;
    float *diff               = ct_net_arena_diff(d->net);

    if (layer == ct_net_n_layers(d->net) - 1)
        x->n_queued = 0;
    for (; x->n_queued < d->buckets.cut.n; x->n_queued++) {
        const struct ct_cut_run *b = &d->buckets.cut.run[x->n_queued];
        size_t first = b->first ? b->first : CT_ARENA_RIDERS;

        if (layer > 0 && (b->layer < layer || !d->plan->overlap))
            break;
        CT_TRY(ct_nccl_sum(x->nccl, diff + first,
                           (int64_t)(b->first + b->n - first)));
    }
    return layer == 0 ? ct_nccl_join(x->nccl) : CT_OK;
}

static void send_riders(struct ct_dist *d)
{
    ct_job_submit(d->view.thread, &d->device_sum.riders);
}

static enum ct_status finish(struct ct_dist *d, const float **riders)
{
    double start = ct_now();

    *riders = dist_diff(d, d->net);
    CT_TRY(ct_job_wait(&d->device_sum.riders));
    d->counts.wait_seconds += ct_now() - start;
    return CT_OK;
}

static enum ct_status nccl_finish(struct ct_dist *d, const float **riders)
{
    CT_TRY(finish(d, riders));
    return ct_nccl_check(d->device_sum.nccl);
}

/* Nothing to do: sums are queued already, and updates are queued after them. */
static enum ct_status nccl_send(struct ct_dist *d, int n_ready)
{
    (void)d, (void)n_ready;
    return CT_OK;
}

static bool nccl_arrived(struct ct_dist *d, int bucket)
{
    (void)d, (void)bucket;
    return true;
}

static enum ct_status nccl_wait(struct ct_dist *d, int bucket)
{
    (void)d, (void)bucket;
    return CT_OK;
}

const struct dist_carrier dist_by_gpus = {
    .name         = "sums on the GPUs",
    .riders_apart = true,
    .diffs        = diffs_there,
    .queued       = dist_carrier_not_queued,
    .loss_done    = send_riders,
    .send         = dist_flights_send,
    .arrived      = dist_flights_arrived,
    .wait         = dist_flights_wait,
    .finish       = finish,
    .sum          = dist_carrier_own_sum,
    .spread       = dist_spread_values,
    .choose       = dist_roads_choose,
    .road         = dist_roads_name,
};

const struct dist_carrier dist_by_nccl = {
    .name         = "sums on the GPUs",
    .queues_sums  = true,
    .riders_apart = true,
    .diffs        = diffs_there,
    .queued       = queue_sums,
    .loss_done    = send_riders,
    .send         = nccl_send,
    .arrived      = nccl_arrived,
    .wait         = nccl_wait,
    .finish       = nccl_finish,
    .sum          = dist_carrier_own_sum,
    .spread       = dist_spread_values,
    .choose       = dist_roads_choose,
    .road         = dist_roads_name,
};
