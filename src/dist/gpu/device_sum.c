/* device_sum.c - gradients summed in the memory of GPUs. */
#include "dist/gpu/device_sum.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/coll/coll.h"
#include "comm/transport/transports.h"
#include "cortado/log.h"
#include "device/stage.h"
#include "dist/codec/coded_bucket.h"
#include "dist/gpu/device_tree.h"
#include "dist/engine.h"
#include "dist/proof/census.h"
#include "net/arena.h"
#include "net/replay.h"

/* Every rank must be able to open it.  *why is rank r's, of one that cannot. */
static enum ct_status all_have_it(struct ct_dist *d, bool *all)
{
    struct verdict {
        char why[160];
    } mine = { "" }, *every = NULL;
    enum ct_status st;

    if (ct_nccl_available() != CT_OK)
        snprintf(mine.why, sizeof(mine.why), "%s", ct_last_error());
    CT_TRY(ct_alloc((size_t)d->view.size, sizeof(*every), "verdicts", &every));
    for (int r = 0; r < d->view.size; r++)
        d->services.part_bytes[r] = sizeof(mine);
    CT_TRY_GOTO(dist_gather(d, &mine, d->services.part_bytes, every), st, out);
    *all = true;
    for (int r = 0; r < d->view.size && *all; r++) {
        every[r].why[sizeof(mine.why) - 1] = '\0';
        *all = !every[r].why[0];
        if (!*all && d->plan.nccl)
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
    ct_stage_judge(m->stage, judge, d);
    return CT_OK;
}

/* From now on gradients stay on the device. */
static void keep_there(struct ct_dist *d, enum dist_device_way way)
{
    const struct ct_mirror *m = d->trainer.mirror;

    d->device_sum.way    = way;
    d->device_sum.riders = (struct ct_job){ .run = sum_riders, .arg = d };
    for (int i = 0; i < ct_net_n_params(m->net); i++)
        m->apart[i] = true;
    if (d->view.rank == 0)
        CT_INFO("%s sums gradients in the memory of GPUs",
                way == DIST_BY_NCCL  ? "NCCL"
                : way == DIST_BY_MPI ? "MPI"
                                     : "A tree");
}

/* On the CPU, where only tests have mirrors, any MPI does. */
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
    if (n == (float)d->view.size)
        keep_there(d, DIST_BY_MPI);
    return CT_OK;
}

static enum ct_status use_tree(struct ct_dist *d, const struct ct_net *net)
{
    CT_TRY(dist_device_tree_create(d, net, &d->device_sum.tree));
    if (d->device_sum.tree)
        keep_there(d, DIST_BY_TREE);
    return CT_OK;
}

/* The way that was asked for, if it is one over the memory of GPUs. */
static enum ct_status use_asked(struct ct_dist *d, const struct dist_census *s,
                                const struct ct_net *net)
{
    if (d->plan.reduce == ct_allreduce_find("mpi"))
        return use_mpi(d);
    if (d->plan.reduce != ct_allreduce_find("tree"))
        return CT_OK;
    /* Where no rank has copies of a GPU's gradients nobody asks. */
    return dist_census_gpus(s) || d->trainer.mirror ? use_tree(d, net)
                                                     : CT_OK;
}

enum ct_status dist_device_sum_init(struct ct_dist *d,
                                    const struct dist_census *s,
                                    const struct ct_net *net)
{
    bool all = false;

    if (!d->plan.on_gpus)
        return CT_OK;
    if (d->plan.reduce)
        return use_asked(d, s, net);
    if (!d->facts.own_gpus)
        return CT_OK;
    CT_TRY(all_have_it(d, &all));
    if (!all)
        return CT_OK;
    CT_TRY(join_nccl(d));
    keep_there(d, DIST_BY_NCCL);
    return CT_OK;
}

void dist_device_sum_fini(struct ct_dist *d)
{
    struct dist_device_sum *x = &d->device_sum;
    struct ct_mirror *m       = d->trainer.mirror;

    for (int i = 0; m && x->way && i < ct_net_n_params(m->net); i++)
        m->apart[i] = false;
    if (m)
        ct_stage_judge(m->stage, NULL, NULL);
    if (m && x->nccl) /* it does not leave while a recording has its sums */
        ct_net_forget_passes(m->net);
    ct_nccl_destroy(x->nccl);
    dist_device_tree_destroy(x->tree);
    x->nccl = NULL;
    x->tree = NULL;
    x->way  = DIST_BY_HOST;
}

float *dist_device_sum_diff(const struct ct_dist *d, const struct ct_net *net)
{
    return d->device_sum.way ? ct_net_arena_diff(net) : dist_diff(d, net);
}

enum ct_status dist_device_sum_run(struct ct_dist *d, struct ct_comm *c,
                                   float *x, int64_t n)
{
    return d->device_sum.tree
               ? dist_device_tree_sum(d->device_sum.tree, c, x, n)
               : dist_dense_sum(d, c, x, n);
}

enum ct_status dist_device_sum_queued(struct ct_dist *d, int layer)
{
    struct dist_device_sum *x = &d->device_sum;
    float *diff               = ct_net_arena_diff(d->net);

    if (layer == ct_net_n_layers(d->net) - 1)
        x->n_queued = 0;
    for (; x->n_queued < d->buckets.cut.n; x->n_queued++) {
        const struct ct_cut_run *b = &d->buckets.cut.run[x->n_queued];
        size_t first = b->first ? b->first : CT_ARENA_RIDERS;

        if (layer > 0 && (b->layer < layer || !d->plan.overlap))
            break;
        CT_TRY(ct_nccl_sum(x->nccl, diff + first,
                           (int64_t)(b->first + b->n - first)));
    }
    return layer == 0 ? ct_nccl_join(x->nccl) : CT_OK;
}

void dist_device_sum_riders(struct ct_dist *d)
{
    ct_job_submit(d->view.thread, &d->device_sum.riders);
}

enum ct_status dist_device_sum_finish(struct ct_dist *d)
{
    double start = ct_now();

    CT_TRY(ct_job_wait(&d->device_sum.riders));
    d->counts.wait_seconds += ct_now() - start;
    return d->device_sum.nccl ? ct_nccl_check(d->device_sum.nccl) : CT_OK;
}
