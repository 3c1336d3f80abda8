/* ways.c - every way in which a net can be trained. */
#include <stdlib.h>
#include <string.h>

#include "dist/proof/canonical.h"
#include "train_steps.h"

/* Every fusion, chain, layout, early update and tile off, reference kernels,
 * gradients cleared and added to. */
#define PLAINEST                                                             \
    "conv:ref,pool:ref,lrn:ref,norm:ref,softmax:ref,ip:gemm,layout:plain,"   \
    "fuse:none,chain:none,turn:never,params:plain,update:late,"              \
    "diffs:add"

const char *const draw_plainest = PLAINEST;
const struct way way_plainest   = { "plainest", WAY_STEP, PLAINEST, 1, 0, 0,
                                    NULL, false, false };

/* Ways on a GPU that are not usual (impl.def). */
#define UNUSUAL                                                              \
    "mask:all,clamp:pool,ends:conv,thin:conv,norms:one,rounding:large,"      \
    "product:cublaslt+small+shared,weights:ahead"

#define ALONE(name, impl, threads)                                           \
    { name, WAY_SOLVE, impl, threads, 0, 0, NULL, false, false }
#define FORCED(impl) ALONE(impl, impl, 1)
#define TOGETHER(n, servers, options)                                        \
    { #n " ranks, " options, WAY_RANKS, "", 1, n, servers,                   \
      "batch: 'global' guard_interval: 1 " options, false, false }
/* By as many ranks, in as many micro-batches, as the case has drawn. */
#define CANONICAL(options)                                                   \
    { "canonical ranks, " options, WAY_CANON, "", 1, 0, 0,                   \
      "batch: 'global' canonical: true " options, false, true }

/* By ranks that come and go; `impl` keeps names apart. */
#define ELASTIC(impl, options)                                               \
    { "elastic, " impl options, WAY_ELASTIC, impl, 1, 0, 0,                  \
      "batch: 'global' guard_interval: 1 " options, false, false }
#define ELASTIC_CANONICAL(options)                                           \
    { "elastic, canonical " options, WAY_ELASTIC, "", 1, 0, 0,               \
      "batch: 'global' canonical: true " options, false, true }

const struct way ways[] = {
    ALONE("defaults, 1 thread", "", 1),
    ALONE("defaults, 2 threads", "", 2),
    /* All that is otherwise for large nets alone. */
    ALONE("everything", "chain:2,update:early,params:tiles", 2),
    { "snapshot and resume", WAY_RESUME, "", 1, 0, 0, NULL, false, false },
    { "step by step", WAY_STEP, "", 2, 0, 0, NULL, false, false },
    { "snapshot and resume, everything", WAY_RESUME,
      "chain:2,update:early,params:tiles", 2, 0, 0, NULL, false, false },
    { "pycaffe", WAY_PYTHON, "", 1, 0, 0, NULL, false, false },
    { "cortado test", WAY_FOLD, "", 2, 0, 0, NULL, false, false },
    FORCED("conv:ref"), FORCED("conv:gemm"), FORCED("conv:onednn+ref"),
    FORCED("conv:winograd+ref"), FORCED("conv:cached+ref"),
    FORCED("conv:tiles+ref"), FORCED("pool:ref"), FORCED("pool:rows+ref"),
    FORCED("pool:blocked+ref"), FORCED("pool:onednn+ref"), FORCED("lrn:ref"),
    FORCED("lrn:plain+ref"), FORCED("lrn:blocked+ref"),
    FORCED("lrn:onednn+ref"), FORCED("norm:ref"), FORCED("norm:onednn+ref"),
    FORCED("softmax:ref"), FORCED("softmax:onednn+ref"), FORCED("ip:gemm"),
    FORCED("ip:onednn+gemm"), FORCED("layout:plain"), FORCED("fuse:none"),
    FORCED("chain:none"), FORCED("chain:1"), FORCED("chain:3"),
    ALONE("chain:1, 2 threads", "chain:1", 2), /* more lanes than threads */
    ALONE("chain:2, 2 threads", "chain:2", 2),
    ALONE("chain:2 that never turns", "chain:2,turn:never", 2),
    FORCED("params:plain"),
    FORCED("params:tiles"), FORCED("update:late"), FORCED("update:early"),
    FORCED("diffs:add"), FORCED("layout:plain,chain:3"),
    FORCED("update:early,params:tiles"), FORCED("fuse:none,update:early"),
    FORCED("conv:tiles+ref,params:tiles,chain:none"),
    TOGETHER(2, 0, "road: 'allreduce'"),
    TOGETHER(3, 0, "road: 'auto'"),
    TOGETHER(2, 0, "road: 'factors'"),
    TOGETHER(3, 0, "road: 'factors' reduce: 'ring'"),
    TOGETHER(5, 0, "road: 'allreduce' reduce: 'ring' bucket_bytes: 1024"),
    TOGETHER(3, 0, "road: 'allreduce' reduce: 'halving' slice_bytes: 1024"),
    TOGETHER(3, 0, "road: 'allreduce' reduce: 'tree' overlap: false"),
    TOGETHER(2, 0, "road: 'allreduce' reduce: 'shared' bucket_bytes: 1024"),
    TOGETHER(5, 0, "road: 'allreduce' reduce: 'hierarchical'"),
    TOGETHER(3, 0, "road: 'ps'"),
    TOGETHER(2, 0, "road: 'sharded' bucket_bytes: 1024"),
    TOGETHER(3, 1, "road: 'ps' servers: 1"),
    TOGETHER(3, 0, "shares: '2:1:1'"),
    { "2 ranks in groups", WAY_RANKS, "chain:2", 1, 2, 0,
      "batch: 'global' guard_interval: 1 road: 'auto'", false, false },
    { "3 ranks in groups, factors", WAY_RANKS, "chain:2", 1, 3, 0,
      "batch: 'global' guard_interval: 1 road: 'factors'", false, false },
    { "2 ranks, mirrored", WAY_RANKS, "mirror:copy", 1, 2, 0,
      "batch: 'global' guard_interval: 1 road: 'allreduce'", false, false },
    TOGETHER(2, 0, "road: 'allreduce' sync_bn: true"),
    TOGETHER(3, 0, "road: 'auto' sync_bn: true"),
    TOGETHER(2, 0, "road: 'ps' sync_bn: true"),
    CANONICAL("road: 'auto'"),
    CANONICAL("road: 'allreduce' bucket_bytes: 1024"),
    CANONICAL("road: 'allreduce' overlap: false"),
    CANONICAL("road: 'ps'"),
    ELASTIC("", "road: 'auto'"), /* with two copies of parameters */
    ELASTIC("", "bucket_bytes: 1024"),
    ELASTIC("", "sync_bn: true"),
    ELASTIC("", "road: 'factors'"),
    ELASTIC("", "reduce: 'ring' slice_bytes: 1024"),
    ELASTIC("", "road: 'allreduce' reduce: 'tree' overlap: false"),
    ELASTIC("", "road: 'factors' reduce: 'ring'"),
    ELASTIC("", "road: 'ps'"),
    ELASTIC("", "road: 'sharded'"),
    ELASTIC("mirror:copy", ""),
    ELASTIC_CANONICAL("road: 'auto'"),
    ELASTIC_CANONICAL("bucket_bytes: 1024"),
    ELASTIC_CANONICAL("road: 'allreduce' overlap: false"),
    { "gpu", WAY_SOLVE, "", 1, 0, 0, NULL, true, false },
    { "gpu, not replayed", WAY_SOLVE, "replay:none", 1, 0, 0, NULL, true,
      false },
    { "gpu, step by step", WAY_STEP, "", 1, 0, 0, NULL, true, false },
    { "gpu, snapshot and resume", WAY_RESUME, "", 1, 0, 0, NULL, true, false },
    { "2 ranks on one gpu", WAY_RANKS, "", 1, 2, 0, "batch: 'global' "
      "guard_interval: 1", true, false },
    { "gpu, what is not usual", WAY_SOLVE, UNUSUAL, 1, 0, 0, NULL, true,
      false },
    { "2 ranks on one gpu, what is not usual", WAY_RANKS, UNUSUAL, 1, 2, 0,
      "batch: 'global' guard_interval: 1", true, false },
};
const int n_ways = (int)(sizeof(ways) / sizeof(ways[0]));

/* What may keep a wrong result away when it is added to a way. */
const struct way way_switch[] = {
    FORCED("fuse:none"), FORCED("chain:none"), FORCED("turn:never"),
    FORCED("layout:plain"), FORCED("update:late"), FORCED("params:plain"),
    FORCED("diffs:add"),
    FORCED("conv:ref"), FORCED("conv:gemm"), FORCED("pool:ref"),
    FORCED("lrn:ref"), FORCED("norm:ref"), FORCED("softmax:ref"),
    FORCED("ip:gemm"), FORCED("replay:none"),
};
const int n_switches = (int)(sizeof(way_switch) / sizeof(way_switch[0]));

bool way_fits(const struct way *w, const struct drawn *c)
{
    const int n = w->kind == WAY_CANON ? c->canonical_ranks
                                       : w->n_ranks - w->n_servers;

    if (w->kind == WAY_FOLD)
        return c->has_test;
    if (w->kind == WAY_PYTHON) /* a process of its own: not for every net */
        return getenv("CORTADO_RANDOM_PYTHON") &&
               (c->python || c->seed % 8 == 0) &&
               !c->arrays[0]; /* which are in this process */
    if (w->kind == WAY_ELASTIC)
        return c->deals && c->batch > 1 &&
               (w->exact ? c->parts > 1 && !c->solver->has_iter_size
                         : !c->batch_norm || strstr(w->options, "sync_bn"));
    if (w->kind != WAY_RANKS && w->kind != WAY_CANON)
        return true;
    if (!c->deals || c->batch < n)
        return false;
    if (w->kind == WAY_CANON) /* has micro-batches of its own */
        return n > 1 && !c->solver->has_iter_size &&
               (!strstr(w->options, "'ps'") ||
                dist_canonical_is_even(c->parts, n));
    if (strstr(w->options, "shares") && c->batch < 4)
        return false;
    return !c->batch_norm || strstr(w->options, "sync_bn") != NULL;
}
