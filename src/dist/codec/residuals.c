/* residuals.c - writes what wires keep between iterations to snapshots, and
 * reads it back. */
#include "dist/codec/residuals.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "dist/codec/code_runs.h"
#include "dist/engine.h"

enum kind { RESIDUAL, VELOCITY, OWNER, BASIS };

static const char *const names[] = { "residual", "velocity", "owner",
                                     "basis" };

static float *kept_by(const struct dist_wire *w, enum kind kind)
{
    return kind == RESIDUAL   ? w->residual
           : kind == VELOCITY ? w->velocity
           : kind == OWNER    ? w->owner
                              : w->basis;
}

/* Whether a bucket keeps numbers of this kind; the same on all ranks. */
static bool is_kept(const struct ct_dist *d, enum kind kind)
{
    for (int i = 0; i < d->wires.n; i++)
        if (kept_by(&d->wires.wire[i], kind))
            return true;
    return false;
}

/* Copies the numbers of a wire to an array laid out as the arena, or back. */
static void move(struct dist_wire *w, enum kind kind, bool save, float *arena)
{
    struct dist_run_part own = dist_run_owned(w->n_coded, w->dist->view.size,
                                              w->dist->view.rank);
    float *kept = kept_by(w, kind), *run = kept;
    int64_t at  = 0;

    if (!kept)
        return;
    if (kind == OWNER) { /* only a part of the run: extend it to all of it */
        run = w->coded;
        memset(run, 0, (size_t)w->n_coded * sizeof(float));
        memcpy(run + own.first, kept, (size_t)own.n * sizeof(float));
    }
    for (int i = 0; i < w->n_pieces; i++) {
        const struct dist_piece *p = &w->piece[i];
        int64_t n, rank = w->codec->rank;

        if (!p->is_coded)
            continue;
        rank = rank < p->rows ? rank : p->rows;
        rank = rank < p->cols ? rank : p->cols;
        n    = kind == BASIS ? rank * p->cols : p->n;
        at   = kind == BASIS ? at : p->at;
        memcpy(save ? arena + p->first : run + at,
               save ? run + at : arena + p->first, (size_t)n * sizeof(float));
        at += n;
    }
    if (kind == OWNER && !save)
        memcpy(kept, run + own.first, (size_t)own.n * sizeof(float));
}

static void move_all(struct ct_dist *d, enum kind kind, bool save,
                     float *arena)
{
    for (int i = 0; i < d->wires.n; i++)
        move(&d->wires.wire[i], kind, save, arena);
}

/* Each rank that encodes (a coder) writes to its own file.  Coders are all
 * ranks that train, or, with groups, the first rank of each group, which
 * encodes the group's sum.  The state has the number of coders. */
static enum ct_status save_ranks(const struct ct_dist *d, enum kind kind,
                                 const struct ct_keep *keep,
                                 const float *arena, int64_t n)
{
    const int group   = dist_group_of(d->plan, d->view.rank);
    const float count = (float)d->plan->n_groups;
    char name[64];

    snprintf(name, sizeof(name), "wire.%s.n", names[kind]);
    if (d->view.rank == 0)
        CT_TRY(keep->put(keep->arg, name, 1, &count));
    for (int g = 1; g < d->plan->n_groups && d->view.rank == 0; g++)
        CT_TRY(keep->elsewhere(keep->arg, dist_group_first(d->plan, g)));
    snprintf(name, sizeof(name), "wire.%s.%d", names[kind], group);
    return dist_group_first(d->plan, group) == d->view.rank
               ? keep->put(keep->arg, name, n, arena)
               : CT_OK;
}

enum ct_status dist_wires_save(struct ct_dist *d, const struct ct_keep *keep)
{
    int64_t n    = d->net ? (int64_t)ct_net_arena_count(d->net) : 0;
    float *arena = NULL;
    enum ct_status st = CT_OK;

    for (int k = RESIDUAL; k <= BASIS && st == CT_OK; k++) {
        char name[64];

        if (!is_kept(d, (enum kind)k))
            continue;
        ct_free(arena);
        CT_TRY(ct_alloc((size_t)n, sizeof(*arena), "residuals", &arena));
        move_all(d, (enum kind)k, true, arena);
        if (k <= VELOCITY) {
            st = save_ranks(d, (enum kind)k, keep, arena, n);
            continue;
        }
        if (k == OWNER) /* each part is on one rank; the others have zeros */
            CT_TRY_GOTO(ct_dist_sum(d, arena, n), st, out);
        snprintf(name, sizeof(name), "wire.%s", names[k]);
        if (d->view.rank == 0)
            st = keep->put(keep->arg, name, n, arena);
    }
out:
    ct_free(arena);
    return st;
}

/* The number of coders that wrote the snapshot; 0: none, or an older snapshot
 * without the number. */
static enum ct_status count_coders(enum kind kind, const struct ct_keep *keep,
                                   int *out)
{
    char name[64];
    float count = 0;
    bool found;

    snprintf(name, sizeof(name), "wire.%s.n", names[kind]);
    CT_TRY(keep->get(keep->arg, name, 1, &count, &found));
    *out = found && count >= 1 && count < 1 << 20 ? (int)count : 0;
    return CT_OK;
}

/* Reads the numbers of coder `number`; *found is false if its file is
 * missing. */
static enum ct_status restore_coder(enum kind kind, const struct ct_keep *keep,
                                    int number, int64_t n, float *to,
                                    bool *found)
{
    char name[64];

    snprintf(name, sizeof(name), "wire.%s.%d", names[kind], number);
    return keep->get(keep->arg, name, n, to, found);
}

/* If another number of coders wrote the snapshot: each coder takes an equal
 * share of the sum of all. */
static enum ct_status restore_sum(const struct ct_dist *d, enum kind kind,
                                  const struct ct_keep *keep, int count,
                                  int64_t n, float *mine, float *sum)
{
    for (int i = 0; i < count; i++) {
        bool found = false;

        CT_TRY(restore_coder(kind, keep, i, n, mine, &found));
        if (found)
            ct_comm_add(n, mine, sum);
    }
    for (int64_t i = 0; i < n; i++)
        mine[i] = sum[i] / (float)d->plan->n_groups;
    return CT_OK;
}

static enum ct_status restore_ranks(const struct ct_dist *d, enum kind kind,
                                    const struct ct_keep *keep, int64_t n,
                                    float *mine, float *sum, bool *any)
{
    const int group  = dist_group_of(d->plan, d->view.rank);
    const bool codes = dist_group_first(d->plan, group) == d->view.rank;
    bool found       = true;
    int count        = 0;

    CT_TRY(count_coders(kind, keep, &count));
    for (int i = 0; count == 0 && found; i++) { /* an older snapshot */
        CT_TRY(restore_coder(kind, keep, i, n, mine, &found));
        if (!found)
            count = i;
    }
    *any = count > 0;
    memset(mine, 0, (size_t)n * sizeof(*mine));
    if (!codes || count == 0)
        return CT_OK;
    return count == d->plan->n_groups
               ? restore_coder(kind, keep, group, n, mine, &found)
               : restore_sum(d, kind, keep, count, n, mine, sum);
}

static enum ct_status restore_one(struct ct_dist *d, enum kind kind,
                                  const struct ct_keep *keep, int64_t n,
                                  float *mine, bool *any)
{
    char name[64];

    memset(mine, 0, 2 * (size_t)n * sizeof(*mine));
    if (kind <= VELOCITY) {
        CT_TRY(restore_ranks(d, kind, keep, n, mine, mine + n, any));
    } else {
        snprintf(name, sizeof(name), "wire.%s", names[kind]);
        CT_TRY(keep->get(keep->arg, name, n, mine, any));
    }
    if (*any && is_kept(d, kind))
        move_all(d, kind, false, mine);
    else if (*any && kind == RESIDUAL)
        CT_WARN("the snapshot holds back parts of gradients, which this run "
                "has no place for: it was made with another --compress");
    return CT_OK;
}

enum ct_status dist_wires_restore(struct ct_dist *d,
                                  const struct ct_keep *keep)
{
    int64_t n   = (int64_t)ct_net_arena_count(d->net);
    float *mine = NULL;
    enum ct_status st = ct_alloc(2 * (size_t)n, sizeof(*mine), "residuals",
                                 &mine);

    for (int k = RESIDUAL; k <= BASIS && st == CT_OK; k++) {
        bool any = false;

        st = restore_one(d, (enum kind)k, keep, n, mine, &any);
    }
    ct_free(mine);
    return st;
}

enum ct_status dist_held_back_take(struct ct_dist *d)
{
    for (int k = RESIDUAL; k <= BASIS; k++) {
        float **to = &d->elastic.held_back.kept[k];

        if (!d->net || !is_kept(d, (enum kind)k))
            continue;
        if (!*to)
            CT_TRY(ct_alloc(ct_net_arena_count(d->net), sizeof(**to),
                            "residuals", to));
        move_all(d, (enum kind)k, true, *to);
    }
    return CT_OK;
}

/* Gives what was kept to the wires of this view, by way of x.  Residuals of
 * sums may have another owner now.  The kept copy does not change, because this
 * view may end before all ranks are done. */
static enum ct_status give_held(struct ct_dist *d, enum kind kind, float *x)
{
    const size_t n = ct_net_arena_count(d->net);

    memcpy(x, d->elastic.held_back.kept[kind], n * sizeof(*x));
    if (kind == OWNER)
        CT_TRY(ct_dist_sum(d, x, (int64_t)n));
    if (kind == BASIS)
        CT_TRY(dist_broadcast(d, x, n * sizeof(*x)));
    move_all(d, kind, false, x);
    return CT_OK;
}

enum ct_status dist_held_back_put(struct ct_dist *d)
{
    float *x          = NULL;
    enum ct_status st = CT_OK;

    for (int k = RESIDUAL; k <= BASIS; k++) {
        if (!d->net || !is_kept(d, (enum kind)k))
            continue;
        if (!d->elastic.held_back.kept[k]) /* a new rank: its wires are empty */
            CT_TRY_GOTO(dist_held_back_take(d), st, out);
        if (!x)
            CT_TRY_GOTO(ct_alloc(ct_net_arena_count(d->net), sizeof(*x),
                                 "residuals", &x), st, out);
        CT_TRY_GOTO(give_held(d, (enum kind)k, x), st, out);
    }
    d->elastic.held_back.pending = false;
    st                   = dist_held_back_take(d);
out:
    ct_free(x);
    return st;
}

void dist_held_back_fini(struct ct_dist *d)
{
    for (int k = 0; k < DIST_HELD_KINDS; k++)
        ct_free(d->elastic.held_back.kept[k]);
    d->elastic.held_back = (struct dist_held_back){ 0 };
}
