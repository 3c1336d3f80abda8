/* snapshot.c - training state in and out of files.
 *
 *     <prefix>_iter_<N>.caffemodel[.h5]     the weights
 *     <prefix>_iter_<N>.solverstate[.h5]    iteration, history, where the
 *                                           model is, and what Caffe skips:
 *                                           data position and seed
 *
 * The model is written first and each file appears whole or not at all, so a
 * solverstate that exists always has its model. */
#include <dirent.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/pulse.h"
#include "base/text.h"
#include "base/trace.h"
#include "core/blob_proto.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "data/hdf5.h"
#include "proto/edit.h"
#include "solver/solver.h"

static const char *prefix_of(const struct ct_solver *s)
{
    return s->param->snapshot_prefix ? s->param->snapshot_prefix : "snapshot";
}

static bool is_hdf5(const struct ct_solver *s)
{
    return s->param->snapshot_format ==
           CAFFE__SOLVER_PARAMETER__SNAPSHOT_FORMAT__HDF5;
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

enum ct_status solver_check_writable(const struct ct_solver *s)
{
    struct ct_text probe = { 0 };
    enum ct_status st    = CT_OK;

    ct_text_addf(&probe, "%s.tempfile", prefix_of(s));
    if (probe.failed)
        return CT_ENOMEM;
    if (ct_file_write(probe.s, "", 0) != CT_OK)
        st = ct_fail_in(CT_EIO, "snapshots cannot be written under "
                        "snapshot_prefix '%s'; make the folder or change the "
                        "prefix", prefix_of(s));
    else
        unlink(probe.s);
    ct_text_fini(&probe);
    return st;
}

/* A view of history h of parameter i, to be written or filled. */
static struct ct_blob history_view(const struct ct_solver *s, int h, int i)
{
    const struct ct_net_param *p = ct_net_param(s->net, i);
    struct ct_blob b             = { .shape = p->blob->shape,
                                     .count = p->blob->count,
                                     .dev   = p->blob->dev };

    b.data.ptr = s->history[h]->ptr + p->offset;
    return b;
}

/* Passes of the train net; in canonical training of all ranks, since they
 * share them out otherwise for another number of ranks. */
static int64_t n_trained(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    return (int64_t)ct_net_n_passes(s->net) *
           (x && x->facts.micro ? x->facts.size : 1);
}

/* Batches of test net i that all ranks have run; a program may have run it by
 * itself, too. */
static int64_t n_tested(const struct ct_solver *s, int i)
{
    return (int64_t)(s->deals ? s->n_tested[i]
                              : ct_net_n_passes(s->test_net[i]));
}

/* What peers keep goes into a message first, in memory. */
static enum ct_status keep_put(void *arg, const char *name, int64_t n,
                               const float *x)
{
    Caffe__SolverState *m = arg;
    struct ct_blob view   = { .shape = CT_SHAPE(n), .count = n,
                              .dev = ct_device_cpu() };
    Caffe__BlobProto *b   = NULL;
    enum ct_status st;

    view.data.ptr = (float *)(uintptr_t)x;
    CT_TRY(ct_blob_to_proto(&view, false, &b));
    st = ct_edit_insert(&m->state, &m->n_state, m->n_state, b);
    if (st != CT_OK)
        ct_message_free(b);
    CT_TRY(st);
    return ct_edit_add_string(&m->state_name, &m->n_state_name, name);
}

static enum ct_status keep_get(void *arg, const char *name, int64_t n,
                               float *x, bool *found)
{
    const Caffe__SolverState *m = arg;
    struct ct_blob view = { .shape = CT_SHAPE(n), .count = n,
                            .dev = ct_device_cpu() };

    *found = false;
    view.data.ptr = x;
    for (size_t i = 0; i < m->n_state && i < m->n_state_name; i++) {
        if (strcmp(m->state_name[i], name) != 0)
            continue;
        if (!ct_blob_proto_fits(m->state[i], &view.shape))
            return ct_fail(CT_ESHAPE, "state '%s' belongs to another net",
                           name);
        *found = true;
        return ct_blob_from_proto(m->state[i], &view);
    }
    return CT_OK;
}

static enum ct_status keep_get_hdf5(void *arg, const char *name, int64_t n,
                                    float *x, bool *found)
{
    char path[1024];

    snprintf(path, sizeof(path), "state/%s", name);
    *found = ct_hdf5_has(arg, path);
    return *found ? ct_hdf5_read(arg, path, n, x) : CT_OK;
}

/* Adds to `m`, the message with what peers keep, all the rest. */
static enum ct_status fill_message(const struct ct_solver *s,
                                   const char *model, Caffe__SolverState *m)
{
    int n         = ct_net_n_params(s->net);
    size_t n_nets = (size_t)s->n_test_net + 1;

    m->has_iter = m->has_current_step = m->has_seed = true;
    m->iter         = s->iter;
    m->current_step = s->current_step;
    m->seed         = (int64_t)s->seed;
    CT_TRY(ct_edit_string(&m->learned_net, model));
    for (int h = 0; h < s->rule->n_history; h++)
        for (int i = 0; i < n; i++) {
            struct ct_blob view = history_view(s, h, i);
            Caffe__BlobProto *b = NULL;
            enum ct_status st;

            CT_TRY(ct_blob_to_proto(&view, false, &b));
            st = ct_edit_insert(&m->history, &m->n_history, m->n_history, b);
            if (st != CT_OK)
                ct_message_free(b);
            CT_TRY(st);
        }
    CT_TRY(ct_edit_resize(&m->n_passes, n_nets, sizeof(*m->n_passes)));
    m->n_n_passes  = n_nets;
    m->n_passes[0] = n_trained(s);
    for (int i = 0; i < s->n_test_net; i++)
        m->n_passes[i + 1] = n_tested(s, i);
    return CT_OK;
}

/* `kept`: what peers keep. */
static enum ct_status write_hdf5_state(const struct ct_solver *s,
                                       const Caffe__SolverState *kept,
                                       struct ct_hdf5 *h, const char *model)
{
    int n = ct_net_n_params(s->net);
    char name[1024];

    for (size_t i = 0; i < kept->n_state; i++) {
        const Caffe__BlobProto *b = kept->state[i];

        snprintf(name, sizeof(name), "state/%s", kept->state_name[i]);
        CT_TRY(ct_hdf5_write(h, name, CT_SHAPE((int64_t)b->n_data), b->data));
    }

    CT_TRY(ct_hdf5_write_int(h, "iter", s->iter));
    CT_TRY(ct_hdf5_write_string(h, "learned_net", model));
    CT_TRY(ct_hdf5_write_int(h, "current_step", s->current_step));
    CT_TRY(ct_hdf5_write_int(h, "seed", (int64_t)s->seed));
    CT_TRY(ct_hdf5_add_group(h, "history"));
    for (int k = 0; k < s->rule->n_history; k++)
        for (int i = 0; i < n; i++) {
            struct ct_blob view = history_view(s, k, i);

            snprintf(name, sizeof(name), "history/%d", k * n + i);
            CT_TRY(ct_hdf5_save(h, name, &view, false));
        }
    CT_TRY(ct_hdf5_add_group(h, "n_passes"));
    CT_TRY(ct_hdf5_write_int(h, "n_passes/0",
                             n_trained(s)));
    for (int i = 0; i < s->n_test_net; i++) {
        snprintf(name, sizeof(name), "n_passes/%d", i + 1);
        CT_TRY(ct_hdf5_write_int(h, name, n_tested(s, i)));
    }
    return CT_OK;
}

static enum ct_status save_state_hdf5(const struct ct_solver *s,
                                      const Caffe__SolverState *kept,
                                      const char *model, const char *path)
{
    struct ct_hdf5 *h = NULL;
    char *temp        = NULL;
    enum ct_status st, closed;

    CT_TRY_GOTO(ct_file_temp(path, &temp), st, out);
    CT_TRY_GOTO(ct_hdf5_create(temp, &h), st, out);
    st     = write_hdf5_state(s, kept, h, model);
    closed = ct_hdf5_close(h);
    CT_TRY_GOTO(st != CT_OK ? st : closed, st, out);
    st = ct_file_commit(temp, path);
out:
    if (st != CT_OK)
        ct_file_discard(temp);
    ct_free(temp);
    return st;
}

static enum ct_status save_state(const struct ct_solver *s,
                                 Caffe__SolverState *kept, const char *model,
                                 const char *path)
{
    if (is_hdf5(s)) {
        CT_INFO("Snapshotting solver state to HDF5 file %s", path);
        return save_state_hdf5(s, kept, model, path);
    }
    CT_INFO("Snapshotting solver state to binary proto file %s", path);
    CT_TRY(fill_message(s, model, kept));
    return ct_binary_write(kept, path);
}

static enum ct_status keep_one(const struct ct_keep *keep, const char *layer,
                               int number, struct ct_blob *b)
{
    char name[512];
    float *host = NULL;
    bool found  = false;
    enum ct_status st;

    snprintf(name, sizeof(name), "carried.%d.%s", number, layer);
    for (char *c = name; *c; c++) /* HDF5 takes it for a group's end */
        *c = *c == '/' ? '|' : *c;
    CT_TRY(ct_alloc((size_t)b->count + 1, sizeof(*host), "carried", &host));
    if (keep->put) {
        st = ct_blob_get(b, false, host);
        if (st == CT_OK)
            st = keep->put(keep->arg, name, b->count, host);
    } else {
        st = keep->get(keep->arg, name, b->count, host, &found);
        if (st == CT_ESHAPE) { /* another batch, say */
            CT_WARN("layer %s begins anew: %s", layer, ct_last_error());
            st = CT_OK;
        } else if (st == CT_OK && found)
            st = ct_blob_put(b, false, host);
    }
    ct_free(host);
    return st;
}

/* Each value that layers carry from pass to pass, into snapshots and out of
 * them.  Ranks that train together carry different ones and begin anew. */
static enum ct_status keep_carried(const struct ct_solver *s,
                                   const struct ct_keep *keep)
{
    const struct ct_exchange *x = s->options.exchange;
    const bool alone            = !x || x->facts.size == 1;

    for (int i = 0; i < ct_net_n_layers(s->net) && alone; i++) {
        struct ct_layer *l = ct_net_layer(s->net, i);
        struct ct_blob *b;

        for (int k = 0; l->type->carried && (b = l->type->carried(l, k)); k++)
            CT_TRY(keep_one(keep, l->name, k, b));
    }
    return CT_OK;
}

/* All ranks take part; rank 0 writes. */
static enum ct_status write_snapshot(struct ct_solver *s)
{
    struct ct_exchange *x    = s->options.exchange;
    Caffe__SolverState *kept = NULL;
    struct ct_keep keep      = { .put = keep_put };
    char *model = NULL, *state = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_edit_create(&caffe__solver_state__descriptor, &kept), st,
                out);
    keep.arg = kept;
    if (x)
        CT_TRY_GOTO(x->ops->keep(x, &keep), st, out);
    if (x && x->facts.rank > 0)
        goto out;
    CT_TRY_GOTO(solver_loss_scale_save(s, &keep), st, out);
    CT_TRY_GOTO(keep_carried(s, &keep), st, out);
    CT_TRY_GOTO(file_name(s, "caffemodel", &model), st, out);
    CT_TRY_GOTO(file_name(s, "solverstate", &state), st, out);
    if (is_hdf5(s)) {
        CT_INFO("Snapshotting to HDF5 file %s", model);
        st = ct_net_save_hdf5(s->net, model, s->param->snapshot_diff);
    } else {
        CT_INFO("Snapshotting to binary proto file %s", model);
        st = ct_net_save(s->net, model, s->param->snapshot_diff);
    }
    CT_TRY_GOTO(st, st, out);
    CT_TRY_GOTO(save_state(s, kept, model, state), st, out);
    solver_tell_snapshot(s, model, state);
out:
    if (st != CT_OK)
        st = ct_fail_in(st, "snapshot at iteration %d", s->iter);
    ct_message_free(kept);
    ct_free(model);
    ct_free(state);
    return st;
}

enum ct_status ct_solver_snapshot(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    const uint64_t start  = ct_trace_begin();

    CT_TRY(solver_update_all(s));
    CT_TRY(solver_unpack(s));
    ct_pulse_set(solver_pulse(s), CT_PULSE_SNAPSHOT, NULL);
    if (x)
        CT_TRY(x->ops->settle(x, s->iter, CT_SETTLE_SNAPSHOT));
    CT_TRY(write_snapshot(s));
    s->snapshot_iter = s->iter;
    ct_trace_end(start, CT_TRACE_SNAPSHOT, "snapshot");
    return x ? x->ops->settle(x, s->iter, CT_SETTLE_WRITTEN) : CT_OK;
}

/* So many times the samples of a batch still fit a number. */
static const int64_t most_passes = (int64_t)1 << 40;

/* After weights and history are in: the rest of the state, which a damaged
 * file may hold anything for. */
static enum ct_status resume_at(struct ct_solver *s, int64_t iter,
                                int64_t step, bool has_seed, uint64_t seed,
                                const int64_t *n_passes, size_t n)
{
    const struct ct_exchange *x = s->options.exchange;
    const int n_sharers         = x && x->facts.micro ? x->facts.size : 1;
    float rate = 0;

    if (iter < 0 || iter > INT32_MAX || step < 0 || step > INT32_MAX)
        return ct_fail(CT_EPARSE, "it stands at iteration %" PRId64
                       ", step %" PRId64, iter, step);
    for (size_t i = 0; i < n; i++)
        if (n_passes[i] < 0 || n_passes[i] > most_passes)
            return ct_fail(CT_EPARSE, "it counts %" PRId64 " passes of net "
                           "%zu", n_passes[i], i);
    if (iter > 0) { /* warm-up needs the rate before */
        s->iter         = (int)iter - 1;
        s->current_step = (int)step;
        CT_TRY(solver_rate(s, &rate));
    }
    s->last_rate    = rate;
    s->iter         = (int)iter;
    s->current_step = (int)step;
    if (has_seed)
        s->seed = seed;
    ct_net_reseed(s->net, s->seed);
    if (n > 0)
        CT_TRY(ct_net_seek(s->net, (uint64_t)(n_passes[0] / n_sharers)));
    for (size_t i = 1; i < n && i <= (size_t)s->n_test_net; i++) {
        ct_net_reseed(s->test_net[i - 1], s->seed);
        CT_TRY(solver_test_seek(s, (int)i - 1, (uint64_t)n_passes[i]));
    }
    return CT_OK;
}

static enum ct_status wrong_history(const struct ct_solver *s, const char *path,
                                    size_t have)
{
    return ct_fail(CT_EINVAL, "%s holds %zu histories, but %s with %d "
                   "parameter(s) has %d: it belongs to another net or solver "
                   "type", path, have, s->rule->name, ct_net_n_params(s->net),
                   s->rule->n_history * ct_net_n_params(s->net));
}

/* With all the rest in: what peers keep and the loss scale, where the file
 * has any. */
static enum ct_status restore_kept(struct ct_solver *s, bool any,
                                   const struct ct_keep *keep)
{
    struct ct_exchange *x = s->options.exchange;

    if (any) {
        CT_TRY(solver_loss_scale_restore(s, keep));
        CT_TRY(keep_carried(s, keep));
    }
    CT_TRY(ct_mirror_get_history(s->mirror));
    if (!x || !any)
        return CT_OK;
    CT_TRY(solver_attach(s));
    return x->ops->keep(x, keep);
}

static enum ct_status restore_message(struct ct_solver *s,
                                      const Caffe__SolverState *m,
                                      const char *path)
{
    const struct ct_keep keep = { NULL, keep_get, (void *)(uintptr_t)m };
    int n = ct_net_n_params(s->net);

    if (m->n_history != (size_t)(s->rule->n_history * n))
        return wrong_history(s, path, m->n_history);
    if (m->learned_net && m->learned_net[0])
        CT_TRY(ct_net_load(s->net, m->learned_net));
    for (int k = 0; k < s->rule->n_history * n; k++) {
        struct ct_blob view = history_view(s, k / n, k % n);

        if (!ct_blob_proto_fits(m->history[k], &view.shape))
            return ct_fail(CT_ESHAPE, "%s: history %d does not have the shape "
                           "of its parameter", path, k);
        CT_TRY(ct_blob_from_proto(m->history[k], &view));
    }
    CT_TRY(resume_at(s, m->iter, m->current_step, m->has_seed,
                     (uint64_t)m->seed, m->n_passes, m->n_n_passes));
    return restore_kept(s, m->n_state > 0, &keep);
}

static enum ct_status restore_binary(struct ct_solver *s, const char *path)
{
    Caffe__SolverState *m = NULL;
    enum ct_status st;

    CT_TRY(ct_binary_read(&caffe__solver_state__descriptor, path, &m));
    st = restore_message(s, m, path);
    ct_message_free(m);
    return st;
}

static enum ct_status restore_history_hdf5(struct ct_solver *s,
                                           struct ct_hdf5 *h, const char *path)
{
    int n = ct_net_n_params(s->net), have = 0;
    char **names = NULL, name[64];

    CT_TRY(ct_hdf5_list(h, "history", CT_HDF5_DATASETS, &names, &have));
    ct_hdf5_list_free(names, have);
    if (have != s->rule->n_history * n)
        return wrong_history(s, path, (size_t)have);
    for (int k = 0; k < have; k++) {
        struct ct_blob view = history_view(s, k / n, k % n);

        snprintf(name, sizeof(name), "history/%d", k);
        CT_TRY(ct_hdf5_load(h, name, &view, false));
    }
    return CT_OK;
}

static enum ct_status restore_open_hdf5(struct ct_solver *s, struct ct_hdf5 *h,
                                        const char *path)
{
    int64_t iter, step = 0, seed = 0, n_passes[64] = { 0 };
    const struct ct_keep keep = { NULL, keep_get_hdf5, h };
    bool has_seed = ct_hdf5_has(h, "seed");
    size_t n      = 0;
    char *model   = NULL;

    CT_TRY(restore_history_hdf5(s, h, path));
    CT_TRY(ct_hdf5_read_int(h, "iter", &iter));
    if (ct_hdf5_has(h, "current_step"))
        CT_TRY(ct_hdf5_read_int(h, "current_step", &step));
    if (has_seed)
        CT_TRY(ct_hdf5_read_int(h, "seed", &seed));
    for (char name[64]; n < 64; n++) {
        snprintf(name, sizeof(name), "n_passes/%zu", n);
        if (!ct_hdf5_has(h, name))
            break;
        CT_TRY(ct_hdf5_read_int(h, name, &n_passes[n]));
    }
    if (ct_hdf5_has(h, "learned_net")) {
        enum ct_status st;

        CT_TRY(ct_hdf5_read_string(h, "learned_net", &model));
        st = ct_net_load(s->net, model);
        ct_free(model);
        CT_TRY(st);
    }
    CT_TRY(resume_at(s, iter, step, has_seed, (uint64_t)seed, n_passes, n));
    return restore_kept(s, ct_hdf5_has(h, "state"), &keep);
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);

    return n >= k && strcmp(s + n - k, tail) == 0;
}

enum ct_status ct_solver_restore(struct ct_solver *s, const char *path)
{
    struct ct_hdf5 *h = NULL;
    enum ct_status st;

    CT_INFO("Restoring previous solver status from %s", path);
    if (ct_file_expect(path) != CT_OK)
        return ct_fail_in(CT_ENOTFOUND, "cannot resume");
    CT_TRY(solver_unpack(s));
    CT_TRY(solver_leave_shared(s));
    if (!ends_with(path, ".h5")) {
        st = restore_binary(s, path);
    } else {
        CT_TRY(ct_hdf5_open(path, &h));
        st = restore_open_hdf5(s, h, path);
        (void)ct_hdf5_close(h);
    }
    if (st != CT_OK)
        return ct_fail_in(st, "cannot resume from %s", path);
    return solver_enter_shared(s);
}

static bool opens_hdf5(const char *path)
{
    struct ct_hdf5 *h = NULL;

    return ct_hdf5_open(path, &h) == CT_OK && ct_hdf5_close(h) == CT_OK;
}

/* A state is whole when it parses and so does the model that it names. */
static bool is_whole(const char *path)
{
    Caffe__SolverState *m = NULL;
    Caffe__NetParameter *net = NULL;
    bool whole;

    if (ends_with(path, ".h5")) {
        char model[4096];

        snprintf(model, sizeof(model), "%.*s.caffemodel.h5",
                 (int)(strlen(path) - strlen(".solverstate.h5")), path);
        return opens_hdf5(path) && opens_hdf5(model);
    }
    if (ct_binary_read(&caffe__solver_state__descriptor, path, &m) != CT_OK)
        return false;
    whole = m->learned_net &&
            ct_binary_read(&caffe__net_parameter__descriptor, m->learned_net,
                           &net) == CT_OK;
    ct_message_free(net);
    ct_message_free(m);
    return whole;
}

/* The iteration in "<stem>_iter_<N>.solverstate[.h5]", or -1. */
static long iteration_in(const char *name, const char *stem)
{
    size_t n = strlen(stem);
    char *end;
    long iter;

    if (strncmp(name, stem, n) != 0 || strncmp(name + n, "_iter_", 6) != 0)
        return -1;
    iter = strtol(name + n + 6, &end, 10);
    if (end == name + n + 6 || (strcmp(end, ".solverstate") != 0 &&
                                strcmp(end, ".solverstate.h5") != 0))
        return -1;
    return iter;
}

static enum ct_status newest_below(const char *folder, const char *stem,
                                   char **path)
{
    long limit = -1;

    /* Newest first; one that is not whole makes way for the one before. */
    for (;;) {
        DIR *dir = opendir(folder);
        long best = -1;
        struct ct_text found = { 0 };

        if (!dir)
            return ct_fail(CT_ENOTFOUND, "there is no folder %s", folder);
        for (struct dirent *e; (e = readdir(dir));) {
            long iter = iteration_in(e->d_name, stem);

            if (iter > best && (limit < 0 || iter < limit)) {
                best          = iter;
                found.n_bytes = 0;
                ct_text_addf(&found, "%s/%s", folder, e->d_name);
            }
        }
        closedir(dir);
        if (best < 0 || found.failed) {
            ct_text_fini(&found);
            return ct_fail(CT_ENOTFOUND, "there is no whole snapshot %s/%s_"
                           "iter_*.solverstate", folder, stem);
        }
        if (is_whole(found.s)) {
            *path = found.s;
            return CT_OK;
        }
        CT_WARN("%s is damaged; looking for an older snapshot", found.s);
        ct_text_fini(&found);
        limit = best;
    }
}

enum ct_status ct_solver_newest_snapshot(const struct ct_solver *s,
                                         char **path)
{
    char *a = ct_strdup(prefix_of(s), "prefix");
    char *b = ct_strdup(prefix_of(s), "prefix");
    enum ct_status st = CT_ENOMEM;

    if (a && b)
        st = newest_below(dirname(a), basename(b), path);
    ct_free(a);
    ct_free(b);
    return st;
}
