/* snapshot.c - writes snapshots.
 *
 *     take      on the solver's thread: copies weights and state
 *     write     on a thread of its own, while training continues: the model,
 *               then the state with the model's checksum
 *     reap      on the solver's thread: ends the other thread, tells listeners
 *
 * A file appears only when it is complete, and the model before the state, so a
 * state that exists always has its model.  Only one snapshot is written at a
 * time.  The next one waits for it, but not without limit: after that it is
 * omitted, unless it is the last one of the training.  All ranks take a
 * snapshot; rank 0 writes it, and each other rank writes what only it has. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/pulse.h"
#include "base/text.h"
#include "base/trace.h"
#include "cortado/log.h"
#include "net/training.h"
#include "proto/edit.h"
#include "solver/state.h"

/* One snapshot.  Owned by the solver; only its thread may use it until
 * `done`. */
struct solver_snapshot {
    int                  iter, rank;
    bool                 hdf5, diff;
    const struct ct_net *net;   /* borrowed, for names */
    Caffe__NetParameter *model; /* NULL: this rank writes none */
    Caffe__SolverState  *state;
    char                *model_path, *state_path; /* of this rank */
    bool                 threaded, tried;
    pthread_t            thread;
    atomic_bool          done;
    enum ct_status       status;
    char                 why[1024];
};

static const char *prefix_of(const struct ct_solver *s)
{
    return s->param->snapshot_prefix ? s->param->snapshot_prefix : "snapshot";
}

static bool is_hdf5(const struct ct_solver *s)
{
    return s->param->snapshot_format ==
           CAFFE__SOLVER_PARAMETER__SNAPSHOT_FORMAT__HDF5;
}

static int rank_of(const struct ct_solver *s)
{
    return s->options.exchange ? s->options.exchange->facts.rank : 0;
}

static enum ct_status file_name(const struct ct_solver *s, const char *kind,
                                char **out)
{
    struct ct_text t = { 0 };

    ct_text_addf(&t, "%s_iter_%d.%s%s", prefix_of(s), s->iter, kind,
                 is_hdf5(s) ? ".h5" : "");
    *out = t.s;
    return t.failed ? CT_ENOMEM : CT_OK;
}

/* Also removes incomplete files of processes that have ended. */
enum ct_status solver_check_writable(const struct ct_solver *s)
{
    const char *slash    = strrchr(prefix_of(s), '/');
    struct ct_text probe = { 0 };
    enum ct_status st    = CT_OK;
    int n;

    /* Another rank that uses the prefix may be doing the same. */
    ct_text_addf(&probe, "%s.tempfile%ld", prefix_of(s), (long)gettid());
    if (probe.failed)
        return CT_ENOMEM;
    if (ct_file_write(probe.s, "", 0) != CT_OK)
        st = ct_fail_in(CT_EIO, "snapshots cannot be written under "
                        "snapshot_prefix '%s'; make the folder or change the "
                        "prefix", prefix_of(s));
    else
        unlink(probe.s);
    ct_text_fini(&probe);
    ct_text_addf(&probe, "%.*s", slash ? (int)(slash - prefix_of(s)) + 1 : 2,
                 slash ? prefix_of(s) : "./");
    n = probe.failed ? 0
                     : ct_file_sweep(probe.s,
                                     slash ? slash + 1 : prefix_of(s));
    if (n > 0)
        CT_INFO("Removed %d file(s) that were left half written in %s", n,
                probe.s);
    ct_text_fini(&probe);
    return st;
}

/* ---- taking */

static void snapshot_free(struct solver_snapshot *w)
{
    if (!w)
        return;
    ct_message_free(w->model);
    ct_message_free(w->state);
    ct_free(w->model_path);
    ct_free(w->state_path);
    ct_free(w);
}

/* All ranks call it.  *out stays NULL if this rank has nothing to write. */
static enum ct_status take(struct ct_solver *s, struct solver_snapshot **out)
{
    struct solver_snapshot *w = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*w), "snapshot", &w));
    w->iter = s->iter;
    w->rank = rank_of(s);
    w->hdf5 = is_hdf5(s);
    w->diff = s->param->snapshot_diff;
    w->net  = s->net;
    CT_TRY_GOTO(ct_edit_create(&caffe__solver_state__descriptor, &w->state),
                st, out);
    CT_TRY_GOTO(file_name(s, "caffemodel", &w->model_path), st, out);
    CT_TRY_GOTO(file_name(s, "solverstate", &w->state_path), st, out);
    CT_TRY_GOTO(solver_state_take(s, w->model_path, w->state), st, out);
    if (w->rank > 0) {
        char *own = NULL;

        CT_TRY_GOTO(solver_rank_file(w->state_path, w->rank, &own), st, out);
        ct_free(w->state_path);
        w->state_path = own;
        if (w->state->n_state == 0)
            goto out; /* nothing to write */
    } else {
        CT_INFO("Snapshotting to %s file %s", w->hdf5 ? "HDF5"
                                                      : "binary proto",
                w->model_path);
        CT_TRY_GOTO(ct_net_to_message(s->net, w->diff, &w->model), st, out);
        CT_INFO("Snapshotting solver state to %s file %s",
                w->hdf5 ? "HDF5" : "binary proto", w->state_path);
    }
    *out = w;
    w    = NULL;
out:
    if (st != CT_OK)
        st = ct_fail_in(st, "snapshot at iteration %d", s->iter);
    snapshot_free(w);
    return st;
}

/* ---- writing */

static enum ct_status write_files(struct solver_snapshot *w)
{
    uint64_t bytes = protobuf_c_message_get_packed_size(&w->state->base);

    if (w->model)
        bytes += protobuf_c_message_get_packed_size(&w->model->base);
    CT_TRY(ct_file_room(w->state_path, bytes));
    if (w->model) {
        CT_TRY(w->hdf5 ? ct_net_message_hdf5(w->net, w->model, w->model_path,
                                             w->diff)
                       : ct_binary_write(w->model, w->model_path));
        CT_TRY(ct_file_sum(w->model_path, &w->state->crc));
        w->state->has_crc = true;
    }
    return solver_state_write(w->state, w->state_path);
}

static void *write_main(void *arg)
{
    struct solver_snapshot *w = arg;

    w->status = write_files(w);
    if (w->status != CT_OK)
        snprintf(w->why, sizeof(w->why), "%s", ct_last_error());
    atomic_store(&w->done, true);
    return NULL;
}

static void start(struct ct_solver *s, struct solver_snapshot *w)
{
    s->snapshots.writing = w;
    w->tried    = true;
    w->threaded = pthread_create(&w->thread, NULL, write_main, w) == 0;
    if (!w->threaded)
        write_main(w);
}

/* ---- reaping */

/* Waits at most so many seconds; negative: without limit. */
static bool await(const struct solver_snapshot *w, double seconds)
{
    const struct timespec nap = { 0, 2000000 };
    const double end          = ct_now() + seconds;

    while (!atomic_load(&w->done)) {
        if (seconds >= 0 && ct_now() >= end)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

/* Joins the thread of the snapshot under way and returns its status.  A failed
 * snapshot of the current iteration is kept, because it can be retried. */
static enum ct_status reap(struct ct_solver *s)
{
    struct solver_snapshot *w = s->snapshots.writing;
    enum ct_status st;

    if (!w)
        return CT_OK;
    s->snapshots.writing = NULL;
    if (w->threaded)
        pthread_join(w->thread, NULL);
    st = w->status;
    if (st != CT_OK) {
        st = ct_fail(st, "snapshot at iteration %d: %s", w->iter, w->why);
        if (w->iter == s->iter) {
            snapshot_free(s->snapshots.failed);
            s->snapshots.failed = w;
            return st;
        }
    } else {
        if (s->param->snapshot_keep > 0)
            solver_remove_older(prefix_of(s), w->rank, w->iter,
                                s->param->snapshot_keep);
        if (w->rank == 0)
            solver_tell_snapshot(s, w->iter, w->model_path, w->state_path);
    }
    snapshot_free(w);
    return st;
}

static void warn_failed(void)
{
    CT_WARN("%s.  Training goes on and tries again at the next snapshot; the "
            "latest whole one stays as it is", ct_last_error());
}

/* Waits until the snapshot under way is written; false: it takes too long. */
static bool make_room(struct ct_solver *s)
{
    if (!s->snapshots.writing)
        return true;
    if (!await(s->snapshots.writing, s->snapshots.patience)) {
        CT_WARN("Iteration %d: the snapshot of iteration %d is still being "
                "written to %s and takes very long",
                s->iter, s->snapshots.writing->iter,
                s->snapshots.writing->state_path);
        return false;
    }
    if (reap(s) != CT_OK)
        warn_failed();
    return true;
}

/* ---- what the solver calls */

/* Applies all updates on every rank, then copies parameters and state. */
static enum ct_status settle_and_take(struct ct_solver *s,
                                      struct solver_snapshot **out)
{
    struct ct_exchange *x = s->options.exchange;
    const uint64_t begun  = ct_trace_begin();

    CT_TRY(solver_update_all(s));
    CT_TRY(solver_unpack(s));
    ct_pulse_set(solver_pulse(s), CT_PULSE_SNAPSHOT, NULL);
    if (x)
        CT_TRY(x->ops->settle(x, s->iter, CT_SETTLE_SNAPSHOT));
    snapshot_free(s->snapshots.failed);
    s->snapshots.failed = NULL;
    CT_TRY(take(s, out));
    s->snapshots.iter = s->iter;
    s->snapshots.time = ct_now();
    ct_trace_end(begun, CT_TRACE_SNAPSHOT, "snapshot");
    return CT_OK;
}

static enum ct_status settle_written(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    return x ? x->ops->settle(x, s->iter, CT_SETTLE_WRITTEN) : CT_OK;
}

enum ct_status solver_snapshot_aside(struct ct_solver *s)
{
    struct solver_snapshot *w = NULL;

    CT_TRY(settle_and_take(s, &w));
    if (w && make_room(s))
        start(s, w);
    else
        s->snapshots.failed = w; /* kept: it may be the last one */
    return settle_written(s);
}

void solver_snapshot_finish(struct ct_solver *s)
{
    if (!s->snapshots.writing)
        return;
    (void)await(s->snapshots.writing, -1);
    if (reap(s) != CT_OK)
        warn_failed();
}

/* Writes `w`, after the one under way, and waits for it. */
static enum ct_status write_now(struct ct_solver *s, struct solver_snapshot *w)
{
    solver_snapshot_finish(s);
    if (!w)
        return CT_OK;
    start(s, w);
    (void)await(w, -1);
    return reap(s);
}

/* In an elastic job the snapshot is a loose end of the last iteration, so that
 * ranks of the next view can repeat it (commit.c).  Ranks meet before and after
 * it: it is not a part of the call before, and no rank is in the call after
 * it. */
enum ct_status solver_snapshot_among(struct ct_solver *s)
{
    if (s->standing.snapshot == 0 && s->standing.has_come)
        return CT_OK; /* the ranks that it joined are past this call */
    if (s->standing.snapshot == 0) /* else those ranks have begun it */
        s->standing.snapshot = 1;
    s->standing.was_asked = true;
    do {
        s->standing.has_come = false;
        CT_TRY(solver_meet(s));
        if (s->standing.has_come)
            continue; /* it joined again: do what the others do */
        if (s->standing.snapshot == 1) {
            s->standing.snapshot   = 2;
            s->stop                = false;
            s->standing.loose_ends = true;
            s->peers.agreed        = CT_ACTION_SNAPSHOT;
        } else {
            s->standing.snapshot = 0;
        }
    } while (s->standing.snapshot != 0);
    return write_now(s, NULL);
}

enum ct_status ct_solver_snapshot(struct ct_solver *s)
{
    struct solver_snapshot *w = NULL;
    enum ct_status st;

    if (solver_commits(s))
        return solver_snapshot_among(s);
    CT_TRY(settle_and_take(s, &w));
    st = write_now(s, w);
    CT_TRY(settle_written(s));
    return st;
}

/* Writes the failed snapshot again and again, without other ranks. */
static enum ct_status retry(struct ct_solver *s)
{
    const double end    = ct_now() + s->param->snapshot_retry;
    struct timespec nap = { 1, 0 };
    enum ct_status st   = CT_EIO;

    while (st != CT_OK && ct_now() + (double)nap.tv_sec <= end) {
        struct solver_snapshot *w = s->snapshots.failed;

        CT_WARN("%s.  This is the last snapshot: make room on the disk, or "
                "mount it again; the next try is in %ld s", w->why,
                (long)nap.tv_sec);
        nanosleep(&nap, NULL);
        nap.tv_sec = nap.tv_sec < 8 ? 2 * nap.tv_sec : nap.tv_sec;
        s->snapshots.failed = NULL;
        atomic_store(&w->done, false);
        st = write_now(s, w);
    }
    return st == CT_OK ? st
                       : ct_fail(st,
                                 "the last snapshot, at iteration %d, "
                                 "could not be written: %s.  Make room for it "
                                 "and resume from the one before",
                                 s->iter, s->snapshots.failed->why);
}

enum ct_status solver_snapshot_last(struct ct_solver *s)
{
    struct solver_snapshot *w = NULL;
    const bool take_it        = s->snapshots.iter != s->iter; /* on all ranks */

    if (take_it) {
        CT_TRY(settle_and_take(s, &w));
    } else if (s->snapshots.failed && !s->snapshots.failed->tried) {
        w                   = s->snapshots.failed;
        s->snapshots.failed = NULL;
    }
    if (write_now(s, w) != CT_OK)
        CT_WARN("%s", ct_last_error());
    if (take_it)
        CT_TRY(settle_written(s));
    return s->snapshots.failed ? retry(s) : CT_OK;
}

bool solver_snapshot_due(struct ct_solver *s)
{
    const int seconds = s->param->snapshot_seconds;

    if (s->snapshots.writing && atomic_load(&s->snapshots.writing->done) &&
        reap(s) != CT_OK)
        warn_failed();
    return seconds > 0 && rank_of(s) == 0 &&
           ct_now() - s->snapshots.time >= seconds;
}

void solver_snapshot_wait(struct ct_solver *s)
{
    (void)make_room(s);
}

void solver_snapshot_forget(struct ct_solver *s)
{
    snapshot_free(s->snapshots.failed);
    s->snapshots.failed = NULL;
    s->snapshots.iter   = -1;
}

void solver_snapshot_fini(struct ct_solver *s)
{
    s->listeners.n = 0; /* they may be gone */
    if (s->snapshots.writing)
        (void)await(s->snapshots.writing, -1);
    if (reap(s) != CT_OK)
        CT_WARN("%s", ct_last_error());
    snapshot_free(s->snapshots.failed);
    s->snapshots.failed = NULL;
}
