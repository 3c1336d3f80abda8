/* dist_flags.h - how ranks train together, from the command line.
 *
 * Every flag is a field of DistributedParameter (caffe.proto), by its name;
 * what is given here wins over the solver's `distributed { }`. */
#ifndef CT_APPS_DIST_FLAGS_H
#define CT_APPS_DIST_FLAGS_H

#include "cortado/proto.h"
#include "flags.h"

struct dist_flags {
    const char *sync, *staleness, *local_steps, *road, *reduce, *servers,
        *groups, *compress, *bandwidth, *overlap, *deadline, *quorum, *late,
        *heartbeat, *canonical, *parts, *data, *batch, *bucket_bytes,
        *guard_interval, *stall, *sync_bn, *redecide, *rank_log, *slice_bytes,
        *patience, *shares;
};

/* For use inside a struct flag list. */
#define DIST_FLAGS(f)                                                        \
    { "sync", FLAG_STRING, &(f).sync,                                        \
      "who waits for whom: bsp, ssp, async or local" },                      \
    { "staleness", FLAG_STRING, &(f).staleness,                              \
      "ssp: iterations that a rank may be ahead (0)" },                      \
    { "local_steps", FLAG_STRING, &(f).local_steps,                          \
      "local: steps between two means of the weights (8)" },                 \
    { "road", FLAG_STRING, &(f).road,                                        \
      "how gradients travel: auto, allreduce, ps, sharded or factors" },     \
    { "reduce", FLAG_STRING, &(f).reduce,                                    \
      "how ranks sum: auto, shared, ring, halving, tree, hierarchical, "     \
      "mpi, nccl" },                                                         \
    { "servers", FLAG_STRING, &(f).servers,                                  \
      "so many last ranks serve and do not train (0)" },                     \
    { "groups", FLAG_STRING, &(f).groups,                                    \
      "groups of ranks, in step inside, bounded-stale between (1)" },        \
    { "compress", FLAG_STRING, &(f).compress,                                \
      "none, bf16, fp16, onebit, qsgd, topk:RATIO or powersgd:RANK" },       \
    { "bandwidth", FLAG_STRING, &(f).bandwidth,                              \
      "what a rank may send a second, e.g. 100mbit" },                       \
    { "overlap", FLAG_MAYBE, &(f).overlap,                                   \
      "send gradients during backward (on); --nooverlap: after it" },        \
    { "deadline", FLAG_STRING, &(f).deadline,                                \
      "seconds that an iteration waits for slow ranks; 0: for ever" },       \
    { "patience", FLAG_STRING, &(f).patience,                                \
      "iterations that take so many times the usual go on (0: never)" },     \
    { "quorum", FLAG_STRING, &(f).quorum,                                    \
      "share of the samples that must be in at a deadline (0.5)" },          \
    { "late", FLAG_STRING, &(f).late,                                        \
      "what comes after a deadline: discard, fold or error" },               \
    { "heartbeat", FLAG_STRING, &(f).heartbeat,                              \
      "seconds of waiting until the log says for whom (10)" },               \
    { "canonical", FLAG_MAYBE, &(f).canonical,                               \
      "the same bits for any number of ranks" },                             \
    { "parts", FLAG_STRING, &(f).parts,                                      \
      "canonical: micro-batches of an iteration, over all ranks" },          \
    { "data", FLAG_STRING, &(f).data,                                        \
      "who reads: shared (each its part), local (SOURCE_RANK) or root" },    \
    { "batch", FLAG_STRING, &(f).batch,                                      \
      "batch_size is per_rank, or global: divided by the ranks" },           \
    { "shares", FLAG_STRING, &(f).shares,                                    \
      "ranks take even parts of a batch, by speed, or like 2:1:1" },         \
    { "bucket_bytes", FLAG_STRING, &(f).bucket_bytes,                        \
      "gradients that travel together (4194304)" },                          \
    { "slice_bytes", FLAG_STRING, &(f).slice_bytes,                          \
      "what an urgent gradient may wait for (2097152); 0: all in order" },   \
    { "guard_interval", FLAG_STRING, &(f).guard_interval,                    \
      "iterations between proofs that ranks are equal (100); 0: never" },    \
    { "stall", FLAG_STRING, &(f).stall,                                      \
      "seconds of standstill that end the job (300)" },                      \
    { "sync_bn", FLAG_MAYBE, &(f).sync_bn,                                   \
      "BatchNorm over the samples of all ranks" },                           \
    { "redecide", FLAG_STRING, &(f).redecide,                                \
      "iterations between two choices of roads (100)" },                     \
    { "rank_log", FLAG_STRING, &(f).rank_log,                                \
      "every rank logs to a file of this name and its number" }

/* What the solver says (may be NULL) and the flags change; the caller frees
 * it with ct_message_free(). */
CT_MUST_CHECK enum ct_status dist_flags_merge(
    const struct dist_flags *f, const Caffe__DistributedParameter *solver,
    Caffe__DistributedParameter **out);

#endif
