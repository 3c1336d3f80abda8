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
        *patience, *shares, *transport;
};

/* For use inside a struct flag list. */
#define DIST_FLAGS(f)                                                        \
    FLAG("sync", &(f).sync),                                                 \
    FLAG("staleness", &(f).staleness),                                       \
    FLAG("local_steps", &(f).local_steps),                                   \
    FLAG("road", &(f).road),                                                 \
    FLAG("reduce", &(f).reduce),                                             \
    FLAG("transport", &(f).transport),                                       \
    FLAG("servers", &(f).servers),                                           \
    FLAG("groups", &(f).groups),                                             \
    FLAG("compress", &(f).compress),                                         \
    FLAG("bandwidth", &(f).bandwidth),                                       \
    FLAG("overlap", &(f).overlap),                                           \
    FLAG("deadline", &(f).deadline),                                         \
    FLAG("patience", &(f).patience),                                         \
    FLAG("quorum", &(f).quorum),                                             \
    FLAG("late", &(f).late),                                                 \
    FLAG("heartbeat", &(f).heartbeat),                                       \
    FLAG("canonical", &(f).canonical),                                       \
    FLAG("parts", &(f).parts),                                               \
    FLAG("data", &(f).data),                                                 \
    FLAG("batch", &(f).batch),                                               \
    FLAG("shares", &(f).shares),                                             \
    FLAG("bucket_bytes", &(f).bucket_bytes),                                 \
    FLAG("slice_bytes", &(f).slice_bytes),                                   \
    FLAG("guard_interval", &(f).guard_interval),                             \
    FLAG("stall", &(f).stall),                                               \
    FLAG("sync_bn", &(f).sync_bn),                                           \
    FLAG("redecide", &(f).redecide),                                         \
    FLAG("rank_log", &(f).rank_log)

/* What the solver says (may be NULL) and the flags change; the caller frees
 * it with ct_message_free(). */
CT_MUST_CHECK enum ct_status dist_flags_merge(
    const struct dist_flags *f, const Caffe__DistributedParameter *solver,
    Caffe__DistributedParameter **out);

/* *d (may be NULL) with the batch as that of all ranks together, unless flags
 * or solver say what it is: so the mathematics stays the same whatever the
 * number of ranks. */
CT_MUST_CHECK enum ct_status dist_flags_global_batch(
    Caffe__DistributedParameter **d);

#endif
