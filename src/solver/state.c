/* state.c - a solver's state to and from a message. */
#include "solver/state.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "core/blob_proto.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "proto/edit.h"

/* A view of history h of parameter i, to be copied or filled. */
static struct ct_blob history_view(const struct ct_solver *s, int h, int i)
{
    const struct ct_net_param *p = ct_net_param(s->net, i);
    struct ct_blob b             = { .shape = p->blob->shape,
                                     .count = p->blob->count,
                                     .dev   = p->blob->dev };

    b.data.ptr = s->history[h]->ptr + p->offset;
    return b;
}

/* ---- values that ranks and layers keep between iterations */

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

static enum ct_status keep_elsewhere(void *arg, int rank)
{
    Caffe__SolverState *m = arg;

    for (size_t i = 0; i < m->n_rank_file; i++)
        if (m->rank_file[i] == rank)
            return CT_OK;
    CT_TRY(ct_edit_resize(&m->rank_file, m->n_rank_file + 1,
                          sizeof(*m->rank_file)));
    m->rank_file[m->n_rank_file++] = rank;
    return CT_OK;
}

/* A snapshot that is being read: the state, and the file of one rank. */
struct kept {
    const Caffe__SolverState *m;
    const char               *path;
    int                       rank; /* this one */
    Caffe__SolverState       *file; /* NULL: none is open */
    int                       file_rank;
};

static enum ct_status take_from(const Caffe__SolverState *m, const char *name,
                                int64_t n, float *x, bool *found)
{
    struct ct_blob view = { .shape = CT_SHAPE(n), .count = n,
                            .dev = ct_device_cpu() };

    view.data.ptr = x;
    for (size_t i = 0; m && i < m->n_state && i < m->n_state_name; i++) {
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

/* Opens the file of `rank` and closes the one before.  If it cannot be read,
 * k->file is NULL. */
static enum ct_status open_rank(struct kept *k, int rank)
{
    char *path = NULL;
    enum ct_status st;

    if (k->file && k->file_rank == rank)
        return CT_OK;
    ct_message_free(k->file);
    k->file = NULL;
    CT_TRY(solver_rank_file(k->path, rank, &path));
    st = solver_state_read(path, &k->file);
    if (st == CT_OK && k->file->iter != k->m->iter)
        st = ct_fail(CT_EPARSE, "%s is of iteration %d, not %d", path,
                     k->file->iter, k->m->iter);
    if (st != CT_OK && st != CT_ENOMEM) {
        CT_WARN("What rank %d held back of its gradients is lost and begins "
                "with zeros: %s", rank, ct_last_error());
        ct_message_free(k->file);
        k->file = NULL;
        st      = CT_OK;
    }
    k->file_rank = rank;
    ct_free(path);
    return st;
}

static enum ct_status keep_get(void *arg, const char *name, int64_t n,
                               float *x, bool *found)
{
    struct kept *k = arg;

    *found = false;
    CT_TRY(take_from(k->m, name, n, x, found));
    if (!*found)
        CT_TRY(take_from(k->file, name, n, x, found));
    /* This rank's file first: it mostly has the value. */
    for (int own = 1; own >= 0; own--)
        for (size_t i = 0; i < k->m->n_rank_file && !*found; i++) {
            if ((k->m->rank_file[i] == k->rank) != (own == 1))
                continue;
            CT_TRY(open_rank(k, k->m->rank_file[i]));
            CT_TRY(take_from(k->file, name, n, x, found));
        }
    return CT_OK;
}

static enum ct_status keep_one(const struct ct_keep *keep, const char *layer,
                               int number, struct ct_blob *b)
{
    char name[512];
    float *host = NULL;
    bool found  = false;
    enum ct_status st;

    snprintf(name, sizeof(name), "carried.%d.%s", number, layer);
    for (char *c = name; *c; c++) /* in HDF5 a slash ends a group's name */
        *c = *c == '/' ? '|' : *c;
    CT_TRY(ct_alloc((size_t)b->count + 1, sizeof(*host), "carried", &host));
    if (keep->put) {
        st = ct_blob_get(b, false, host);
        if (st == CT_OK)
            st = keep->put(keep->arg, name, b->count, host);
    } else {
        st = keep->get(keep->arg, name, b->count, host, &found);
        if (st == CT_ESHAPE) { /* for example, the batch size has changed */
            CT_WARN("layer %s begins anew: %s", layer, ct_last_error());
            st = CT_OK;
        } else if (st == CT_OK && found)
            st = ct_blob_put(b, false, host);
    }
    ct_free(host);
    return st;
}

/* Writes the values that layers carry from pass to pass to a snapshot, or reads
 * them back.  With several ranks these values differ between ranks and are not
 * kept. */
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

/* ---- into a message */

static enum ct_status take_history(const struct ct_solver *s,
                                   Caffe__SolverState *m)
{
    const int n = ct_net_n_params(s->net);

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
    return CT_OK;
}

enum ct_status solver_state_take(struct ct_solver *s, const char *model,
                                 Caffe__SolverState *m)
{
    struct ct_exchange *x     = s->options.exchange;
    const struct ct_keep keep = { .put = keep_put,
                                  .elsewhere = keep_elsewhere, .arg = m };

    m->has_iter = true;
    m->iter     = s->iter;
    if (x)
        CT_TRY(x->ops->keep(x, &keep));
    if (x && x->facts.rank > 0)
        return CT_OK;
    CT_TRY(solver_loss_scale_save(s, &keep));
    CT_TRY(keep_carried(s, &keep));
    m->has_current_step = m->has_seed = true;
    m->current_step = s->current_step;
    m->seed         = (int64_t)s->seed;
    m->has_job      = x && x->facts.job != 0;
    m->job          = m->has_job ? x->facts.job : 0;
    CT_TRY(ct_edit_string(&m->learned_net, model));
    CT_TRY(take_history(s, m));
    return solver_position_take(s, m);
}

/* ---- out of a message */

enum ct_status solver_state_fits(const struct ct_solver *s,
                                 const Caffe__SolverState *m, const char *path)
{
    const int n     = ct_net_n_params(s->net);
    const int whole = s->rule->n_history * n;

    if (m->n_history != (size_t)whole)
        return ct_fail(CT_EINVAL, "%s holds %zu histories, but %s with %d "
                       "parameter(s) has %d: it belongs to another net or "
                       "solver type", path, m->n_history, s->rule->name, n,
                       whole);
    for (int k = 0; k < whole; k++)
        if (!ct_blob_proto_fits(m->history[k],
                                &ct_net_param(s->net, k % n)->blob->shape))
            return ct_fail(CT_ESHAPE, "%s: history %d does not have the shape "
                           "of its parameter", path, k);
    return CT_OK;
}

/* Checks the numbers, because a file of an older version has no checksum. */
static enum ct_status put_iteration(struct ct_solver *s,
                                    const Caffe__SolverState *m)
{
    float rate = 0;

    if (m->iter < 0 || m->current_step < 0)
        return ct_fail(CT_EPARSE, "it stands at iteration %d, step %d",
                       m->iter, m->current_step);
    if (m->iter > 0) { /* warm-up needs the rate of the iteration before */
        s->iter         = m->iter - 1;
        s->current_step = m->current_step;
        CT_TRY(solver_rate(s, &rate));
    }
    s->last_rate    = rate;
    s->iter         = m->iter;
    s->current_step = m->current_step;
    if (m->has_seed)
        s->seed = (uint64_t)m->seed;
    return CT_OK;
}

enum ct_status solver_kept_put(struct ct_solver *s,
                               const Caffe__SolverState *m, const char *path)
{
    struct ct_exchange *x     = s->options.exchange;
    struct kept kept          = { m, path, x ? x->facts.rank : 0, NULL, -1 };
    const struct ct_keep keep = { .get = keep_get, .arg = &kept };
    enum ct_status st         = CT_OK;

    if (m->n_state > 0) {
        CT_TRY_GOTO(solver_loss_scale_restore(s, &keep), st, out);
        CT_TRY_GOTO(keep_carried(s, &keep), st, out);
    }
    CT_TRY_GOTO(ct_mirror_get_history(s->peers.mirror), st, out);
    if (!x || m->n_state == 0)
        goto out;
    CT_TRY_GOTO(solver_attach(s), st, out);
    st = x->ops->keep(x, &keep);
out:
    ct_message_free(kept.file);
    return st;
}

enum ct_status solver_state_put(struct ct_solver *s,
                                const Caffe__SolverState *m)
{
    const int n = ct_net_n_params(s->net);

    for (int k = 0; k < s->rule->n_history * n; k++) {
        struct ct_blob view = history_view(s, k / n, k % n);

        CT_TRY(ct_blob_from_proto(m->history[k], &view));
    }
    CT_TRY(put_iteration(s, m));
    return solver_position_put(s, m);
}
