/* resume.c - resumes from a snapshot.
 *
 * Rank 0 chooses the snapshot, reads it and sends it, because the files of
 * other ranks may be missing or older.  Every rank restores its net from it.
 * Then all ranks check that they are in the same state as rank 0. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "core/blob_proto.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "net/training.h"
#include "proto/edit.h"
#include "solver/state.h"

/* Most arrays, values of one, and bytes of a message without its arrays. */
static const uint64_t most_arrays = UINT64_C(1) << 20,
                      most_values = UINT64_C(1) << 40,
                      most_head   = UINT64_C(1) << 31;

/* Broadcasts in parts of 64 MB. */
static enum ct_status share(struct ct_exchange *x, void *data, size_t bytes)
{
    const size_t part = (size_t)64 << 20;

    for (size_t at = 0; at < bytes; at += part)
        CT_TRY(x->job->broadcast(x, (char *)data + at,
                        bytes - at < part ? bytes - at : part));
    return CT_OK;
}

/* Rank 0 tells the others the status of its last step; a failure becomes the
 * failure of all ranks. */
static enum ct_status follow(struct ct_exchange *x, enum ct_status st)
{
    struct {
        int32_t status;
        char    why[508];
    } word = { (int32_t)st, "" };

    if (!x)
        return st;
    if (x->facts.rank == 0 && st != CT_OK)
        snprintf(word.why, sizeof(word.why), "%s", ct_last_error());
    CT_TRY(x->job->broadcast(x, &word, sizeof(word)));
    if (x->facts.rank == 0 || word.status == CT_OK)
        return st;
    word.why[sizeof(word.why) - 1] = '\0';
    return ct_fail((enum ct_status)word.status, "%s", word.why);
}

/* ---- the message, from rank 0 to all */

/* Converts blobs to floats and to shapes of few axes, the form in which they
 * are sent. */
static enum ct_status make_plain(Caffe__BlobProto **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        Caffe__BlobProto *b = list[i];
        struct ct_shape shape;

        CT_TRY(ct_blob_proto_shape(b, &shape));
        if (b->n_double_data == 0)
            continue;
        CT_TRY(ct_edit_resize(&b->data, b->n_double_data, sizeof(*b->data)));
        b->n_data = b->n_double_data;
        for (size_t k = 0; k < b->n_data; k++)
            b->data[k] = (float)b->double_data[k];
    }
    return CT_OK;
}

static enum ct_status share_blob(struct ct_exchange *x, Caffe__BlobProto **b)
{
    struct {
        uint64_t n_dim, n_data;
        int64_t  dim[CT_MAX_AXES];
    } head = { 0 };
    const bool gives = x->facts.rank == 0;

    if (gives) {
        head.n_dim  = (*b)->shape ? (*b)->shape->n_dim : 0;
        head.n_data = (*b)->n_data;
        for (size_t i = 0; i < head.n_dim; i++)
            head.dim[i] = (*b)->shape->dim[i];
    }
    CT_TRY(x->job->broadcast(x, &head, sizeof(head)));
    if (head.n_dim > CT_MAX_AXES || head.n_data > most_values)
        return ct_fail(CT_EPARSE, "rank 0 has an array of %" PRIu64 " values "
                       "along %" PRIu64 " axes", head.n_data, head.n_dim);
    if (!gives) {
        CT_TRY(ct_edit_create(&caffe__blob_proto__descriptor, b));
        CT_TRY(ct_edit_create(&caffe__blob_shape__descriptor, &(*b)->shape));
        CT_TRY(ct_edit_resize(&(*b)->shape->dim, head.n_dim,
                              sizeof(*head.dim)));
        (*b)->shape->n_dim = head.n_dim;
        memcpy((*b)->shape->dim, head.dim, head.n_dim * sizeof(*head.dim));
        CT_TRY(ct_edit_resize(&(*b)->data, head.n_data, sizeof(float)));
        (*b)->n_data = head.n_data;
    }
    return share(x, (*b)->data, head.n_data * sizeof(float));
}

static enum ct_status share_blobs(struct ct_exchange *x,
                                  Caffe__BlobProto ***list, size_t *n)
{
    uint64_t count = *n;

    CT_TRY(x->job->broadcast(x, &count, sizeof(count)));
    if (count > most_arrays)
        return ct_fail(CT_EPARSE, "rank 0's snapshot has %" PRIu64 " arrays",
                       count);
    for (uint64_t i = 0; i < count; i++) {
        Caffe__BlobProto *b = x->facts.rank == 0 ? (*list)[i] : NULL;
        enum ct_status st   = share_blob(x, &b);

        if (x->facts.rank == 0) {
            CT_TRY(st);
            continue;
        }
        if (st == CT_OK)
            st = ct_edit_insert(list, n, *n, b);
        if (st != CT_OK)
            ct_message_free(b);
        CT_TRY(st);
    }
    return CT_OK;
}

/* Sends everything but the arrays, as a protobuf message. */
static enum ct_status share_head(struct ct_exchange *x, Caffe__SolverState **m)
{
    Caffe__SolverState bare;
    uint64_t bytes = 0;
    uint8_t *data  = NULL;
    enum ct_status st;

    if (x->facts.rank == 0) {
        bare           = **m;
        bare.n_history = bare.n_state = 0;
        bytes          = protobuf_c_message_get_packed_size(&bare.base);
    }
    CT_TRY(x->job->broadcast(x, &bytes, sizeof(bytes)));
    if (bytes > most_head)
        return ct_fail(CT_EPARSE, "rank 0's snapshot has a head of %" PRIu64
                       " bytes", bytes);
    CT_TRY(ct_alloc(bytes + 1, 1, "state", &data));
    if (x->facts.rank == 0)
        protobuf_c_message_pack(&bare.base, data);
    st = share(x, data, bytes);
    if (st == CT_OK && x->facts.rank > 0)
        st = ct_binary_parse(&caffe__solver_state__descriptor, data, bytes,
                             "rank 0's snapshot", m);
    ct_free(data);
    return st;
}

static enum ct_status share_state(struct ct_exchange *x,
                                  Caffe__SolverState **m)
{
    CT_TRY(share_head(x, m));
    CT_TRY(share_blobs(x, &(*m)->history, &(*m)->n_history));
    return share_blobs(x, &(*m)->state, &(*m)->n_state);
}

/* Sends all parameters, through CPU memory. */
static enum ct_status share_weights(struct ct_exchange *x, struct ct_net *net)
{
    enum ct_status st = CT_OK;

    for (int i = 0; i < ct_net_n_params(net) && st == CT_OK; i++) {
        struct ct_blob *b = ct_net_param(net, i)->blob;
        float *host       = NULL;

        CT_TRY(ct_alloc((size_t)b->count + 1, sizeof(*host), "weights",
                        &host));
        if (x->facts.rank == 0)
            st = ct_blob_get(b, false, host);
        if (st == CT_OK)
            st = share(x, host, (size_t)b->count * sizeof(*host));
        if (st == CT_OK && x->facts.rank > 0)
            st = ct_blob_put(b, false, host);
        ct_free(host);
    }
    ct_net_params_changed(net);
    return st;
}

/* ---- the proof */

struct stand {
    int64_t  iter, step, samples;
    uint64_t seed, passes;
    uint32_t weights, history;
};

static enum ct_status add_blob(const struct ct_blob *b, uint32_t *crc)
{
    float *host = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)b->count + 1, sizeof(*host), "weights", &host));
    st = ct_blob_get(b, false, host);
    if (st == CT_OK)
        *crc = ct_crc32c(*crc, host, (size_t)b->count * sizeof(*host));
    ct_free(host);
    return st;
}

static enum ct_status find_stand(const struct ct_solver *s, struct stand *out)
{
    const struct ct_exchange *x = s->options.exchange;
    const bool serves           = x && x->facts.serves;

    /* Padding bytes are compared, too. */
    memset(out, 0, sizeof(*out));
    out->iter    = s->iter;
    out->step    = s->current_step;
    out->seed    = s->seed;
    out->samples = serves ? 0 : solver_samples(s);
    out->passes  = serves ? 0 : ct_net_n_passes(s->net);
    for (int i = 0; i < ct_net_n_params(s->net); i++) {
        const struct ct_net_param *p = ct_net_param(s->net, i);

        CT_TRY(add_blob(p->blob, &out->weights));
        for (int h = 0; h < s->rule->n_history; h++) {
            struct ct_blob b = { .shape = p->blob->shape,
                                 .count = p->blob->count,
                                 .dev   = p->blob->dev };

            b.data.ptr = s->history[h]->ptr + p->offset;
            CT_TRY(add_blob(&b, &out->history));
        }
    }
    return CT_OK;
}

/* Fails if this rank's state differs from rank 0's.  Ranks that serve draw no
 * samples, so theirs are not compared. */
static enum ct_status prove_equal(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    struct stand mine, first;

    if (!x)
        return CT_OK;
    CT_TRY(find_stand(s, &mine));
    first = mine;
    CT_TRY(x->job->broadcast(x, &first, sizeof(first)));
    if (x->facts.serves || x->facts.rank >= x->facts.size)
        mine.samples = first.samples, mine.passes = first.passes;
    if (memcmp(&mine, &first, sizeof(mine)) == 0)
        return CT_OK;
    return ct_fail(CT_ECOMM, "rank %d does not stand where rank 0 does after "
                   "the restore: iteration %" PRId64 " and %" PRId64
                   ", sample %" PRId64 " and %" PRId64 ", weights %08" PRIx32
                   " and %08" PRIx32 ", history %08" PRIx32 " and %08" PRIx32,
                   x->facts.rank, mine.iter, first.iter, mine.samples,
                   first.samples, mine.weights, first.weights, mine.history,
                   first.history);
}

/* ---- what the program calls */

/* Rank 0 reads the message and loads the weights into its net. */
static enum ct_status read_files(struct ct_solver *s, const char *path,
                                 Caffe__SolverState **m)
{
    char *model = NULL;
    enum ct_status st;

    if (ct_file_expect(path) != CT_OK)
        return ct_fail_in(CT_ENOTFOUND, "cannot resume");
    CT_TRY(solver_state_read(path, m));
    CT_TRY(solver_state_fits(s, *m, path));
    CT_TRY(make_plain((*m)->history, (*m)->n_history));
    CT_TRY(make_plain((*m)->state, (*m)->n_state));
    if (!(*m)->learned_net || !(*m)->learned_net[0])
        return CT_OK;
    CT_TRY(solver_find_model(*m, path, &model));
    st = ct_net_load(s->net, model);
    ct_free(model);
    model = NULL;
    /* In an elastic job a former rank 0 may have replaced it meanwhile. */
    if (st == CT_OK && s->options.exchange &&
        s->options.exchange->facts.commits)
        st = solver_find_model(*m, path, &model);
    ct_free(model);
    return st;
}

/* Errors that rank 0 gets if another process replaces or removes the file. */
static bool is_replaced(enum ct_status st)
{
    return st == CT_EPARSE || st == CT_ENOTFOUND;
}

/* *unread, on all ranks: rank 0 found it damaged or gone. */
static enum ct_status restore(struct ct_solver *s, const char *path,
                              Caffe__SolverState **m, bool *unread)
{
    struct ct_exchange *x = s->options.exchange;
    enum ct_status st     = CT_OK;

    if (!x || x->facts.rank == 0)
        st = read_files(s, path, m);
    st      = follow(x, st);
    *unread = is_replaced(st);
    CT_TRY(st);
    if (x) {
        CT_TRY(share_state(x, m));
        CT_TRY(share_weights(x, s->net));
        CT_TRY(solver_state_fits(s, *m, path));
    }
    CT_TRY(solver_state_put(s, *m));
    CT_TRY(prove_equal(s));
    return solver_kept_put(s, *m, path);
}

/* Attempts to read a snapshot that is being replaced. */
enum { TRIES = 8 };

static enum ct_status restore_or_not(struct ct_solver *s, const char *path,
                                     bool *unread)
{
    Caffe__SolverState *m = NULL;
    enum ct_status st;

    CT_INFO("Restoring previous solver status from %s", path);
    solver_snapshot_wait(s); /* `path` may still be being written */
    solver_snapshot_forget(s);
    CT_TRY(solver_unpack(s));
    CT_TRY(solver_leave_shared(s));
    st = restore(s, path, &m, unread);
    ct_message_free(m);
    if (st != CT_OK)
        return ct_fail_in(st, "cannot resume from %s", path);
    return solver_enter_shared(s);
}

enum ct_status ct_solver_restore(struct ct_solver *s, const char *path)
{
    bool unread = false;

    return restore_or_not(s, path, &unread);
}

/* Whether this rank has its own file of the snapshot, if there was one. */
static bool has_own(const struct ct_exchange *x, const Caffe__SolverState *m,
                    const char *path)
{
    Caffe__SolverState *own = NULL;
    char *file              = NULL;
    bool needs = false, whole = false;

    for (size_t i = 0; i < m->n_rank_file; i++)
        needs |= m->rank_file[i] == x->facts.rank;
    if (!needs || m->n_ranks != x->facts.size)
        return true;
    if (solver_rank_file(path, x->facts.rank, &file) == CT_OK)
        whole = solver_state_read(file, &own) == CT_OK && own->iter == m->iter;
    ct_message_free(own);
    ct_free(file);
    return whole;
}

/* Sends the path that rank 0 found; the caller ct_free's *out. */
static enum ct_status share_path(struct ct_exchange *x, char **out)
{
    uint64_t bytes = x->facts.rank == 0 ? strlen(*out) + 1 : 0;

    CT_TRY(x->job->broadcast(x, &bytes, sizeof(bytes)));
    if (x->facts.rank > 0)
        CT_TRY(ct_alloc(bytes, 1, "path", out));
    return share(x, *out, bytes);
}

static enum ct_status ask_all(struct ct_exchange *x, bool mine,
                              const char *path, bool *out)
{
    const unsigned char have = mine;
    unsigned char *all       = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)x->facts.size, 1, "ranks", &all));
    st = ct_exchange_gather(x, &have, 1, all);
    for (int r = 0; r < x->facts.size && st == CT_OK; r++) {
        if (!all[r] && *out && x->facts.rank == 0)
            CT_WARN("rank %d lacks its part of %s; looking for an older "
                    "snapshot", r, path);
        *out &= all[r] != 0;
    }
    ct_free(all);
    return st;
}

/* Whether all ranks have their own files of the snapshot.  If the job was
 * killed, some of them may be missing.  *unread, on all ranks: rank 0 found the
 * state damaged or gone. */
static enum ct_status all_have(struct ct_exchange *x, const char *path,
                               bool *out, bool *unread)
{
    Caffe__SolverState *m = NULL;
    enum ct_status st     = CT_OK;

    *out = true;
    if (x->facts.rank == 0)
        st = solver_state_read(path, &m);
    st      = follow(x, st);
    *unread = is_replaced(st);
    if (st != CT_OK)
        goto out;
    CT_TRY_GOTO(share_head(x, &m), st, out);
    if (m->n_rank_file == 0)
        goto out;
    if (x->facts.rank < x->facts.size && !x->facts.serves)
        CT_TRY_GOTO(ask_all(x, has_own(x, m, path), path, out), st, out);
    /* Ranks that serve did not take part and get the result. */
    st = x->job->broadcast(x, out, sizeof(*out));
out:
    ct_message_free(m);
    return st;
}

static const char *prefix_of(const struct ct_solver *s)
{
    return s->param->snapshot_prefix ? s->param->snapshot_prefix : "snapshot";
}

enum ct_status ct_solver_newest_snapshot(const struct ct_solver *s,
                                         char **path)
{
    return solver_newest_of(s, (struct snapshot_origin){ .job = 0 }, path);
}

struct snapshot_origin solver_own_origin(const struct ct_exchange *x,
                                         int64_t began)
{
    return (struct snapshot_origin){ .job   = began ? x->facts.job : 0,
                                     .since = began };
}

enum ct_status solver_newest_of(const struct ct_solver *s,
                                struct snapshot_origin from, char **path)
{
    struct ct_exchange *x = s->options.exchange;
    int64_t limit = -1, at = -1;
    char *newest  = NULL; /* newest one that lacks files of ranks */
    int tries     = 0;

    for (;;) {
        char *found       = NULL;
        enum ct_status st = CT_OK;
        bool all = true, unread = false;

        if (!x || x->facts.rank == 0)
            st = solver_find_newest(prefix_of(s), limit, from, &found, &at);
        st = follow(x, st);
        if (st == CT_ENOTFOUND && newest) { /* no complete one: use this one */
            *path = newest;
            return CT_OK;
        }
        if (st == CT_OK && x)
            st = share_path(x, &found);
        if (st == CT_OK && x)
            st = all_have(x, found, &all, &unread);
        if (unread && tries++ < TRIES) {
            ct_free(found);
            continue;
        }
        if (unread) /* there is one, so training must not begin anew */
            st = ct_fail_in(CT_EIO, "looking for a snapshot");
        limit = at;
        if (st == CT_OK && !all && !newest) {
            newest = found;
            continue;
        }
        if (st == CT_OK && all) {
            ct_free(newest);
            *path = found;
            return CT_OK;
        }
        if (st != CT_OK) { /* *path is not set */
            ct_free(newest);
            ct_free(found);
            return st;
        }
        ct_free(found);
    }
}

enum ct_status solver_resume_newest(struct ct_solver *s,
                                    struct snapshot_origin from)
{
    for (int i = 0;; i++) {
        char *path  = NULL;
        bool unread = false;
        enum ct_status st;

        CT_TRY(solver_newest_of(s, from, &path));
        CT_INFO("Resuming from %s", path);
        st = restore_or_not(s, path, &unread);
        ct_free(path);
        if (st == CT_OK)
            return st;
        if (!unread || i == TRIES) /* there is one, so training must not begin
                                    * anew */
            return unread || st == CT_ENOTFOUND ? ct_fail_in(CT_EIO, "resuming")
                                                : st;
        CT_WARN("%s; looking for the newest snapshot again", ct_last_error());
    }
}
