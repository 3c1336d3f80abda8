/* peer_arrays.c - GPU arrays that all ranks of a host read. */
#include "dist/gpu/peer_arrays.h"

#include <stdio.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "device/impl.h"
#include "dist/engine.h"

/* What ranks tell each other before they read. */
struct card {
    struct ct_peer_address address;
    char                   why[160]; /* why it cannot read; "": it can */
};

/* The first rank that cannot; -1: all can. */
static int first_without(const struct ct_dist *d, const struct card *all)
{
    for (int r = 0; r < d->view.size; r++)
        if (all[r].why[0])
            return r;
    return -1;
}

static void note(struct card *mine, enum ct_status st)
{
    if (st != CT_OK)
        snprintf(mine->why, sizeof(mine->why), "%.150s", ct_last_error());
}

static enum ct_status make_array(struct ct_dist *d, const char *what,
                                 int64_t n, struct dist_peer_arrays *w)
{
    const struct ct_mirror *m = d->trainer.mirror;

    if (d->view.comm->place.n_hosts > 1)
        return ct_fail(CT_ENOTSUP, "ranks are on several hosts");
    if (!m)
        return ct_fail(CT_ENOTSUP, "it has no GPU");
    if (!ct_impl_allowed(what, "peer"))
        return ct_fail(CT_ENOTSUP, "so it was asked%s", ct_impl_hint());
    return ct_peer_create(m->dev, n, &w->memory);
}

static enum ct_status open_all(struct dist_peer_arrays *w, int rank,
                               const struct card *all)
{
    for (int r = 0; r < w->n; r++) {
        w->of[r].address = all[r].address;
        if (r == rank)
            w->of[r].x = ct_peer_array(w->memory);
        else
            CT_TRY(ct_peer_open(w->memory, &all[r].address, &w->of[r].x));
    }
    return CT_OK;
}

/* Creates this rank's array, then opens those of the others; *who: the first
 * rank that cannot, -1: all can. */
static enum ct_status get_to_know(struct ct_dist *d, const char *what,
                                  int64_t n, struct dist_peer_arrays *w,
                                  struct card *all, int *who)
{
    struct card mine = { .why = "" };

    note(&mine, make_array(d, what, n, w));
    if (w->memory)
        mine.address = ct_peer_address(w->memory);
    CT_TRY(dist_gather_each(d, &mine, sizeof(mine), all));
    *who = first_without(d, all);
    if (*who >= 0)
        return CT_OK;
    note(&mine, open_all(w, d->view.rank, all));
    CT_TRY(dist_gather_each(d, &mine, sizeof(mine), all));
    *who = first_without(d, all);
    return CT_OK;
}

enum ct_status dist_peer_arrays_create(struct ct_dist *d, const char *what,
                                      int64_t n, struct dist_peer_arrays **out)
{
    struct dist_peer_arrays *w = NULL;
    struct card *all          = NULL;
    enum ct_status st;
    int who = -1;

    CT_TRY_GOTO(ct_alloc(1, sizeof(*w), "peer arrays", &w), st, out);
    w->n = d->view.size;
    CT_TRY_GOTO(ct_alloc((size_t)d->view.size, sizeof(*w->of), "peer arrays",
                         &w->of), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)d->view.size, sizeof(*all), "peer arrays",
                         &all), st, out);
    CT_TRY_GOTO(get_to_know(d, what, n, w, all, &who), st, out);
    if (who >= 0 && d->view.rank == 0)
        CT_INFO("%s: through the CPU's memory, since of rank %d: %s", what,
                who, all[who].why);
    if (who < 0) {
        *out = w;
        w    = NULL;
    }
out:
    ct_free(all);
    dist_peer_arrays_destroy(w);
    return st;
}

void dist_peer_arrays_destroy(struct dist_peer_arrays *w)
{
    if (!w)
        return;
    for (int r = 0; w->of && r < w->n; r++)
        ct_peer_close(w->memory, &w->of[r].address, w->of[r].x);
    ct_peer_destroy(w->memory);
    ct_free(w->of);
    ct_free(w);
}

enum ct_status dist_peer_tell(struct ct_comm *c, int rank, int tag)
{
    const char word = 1;
    struct ct_request r;

    CT_TRY(ct_comm_send(c, rank, tag, &word, sizeof(word), &r));
    return ct_comm_wait(c, rank, &r);
}

enum ct_status dist_peer_hear(struct ct_comm *c, int rank, int tag)
{
    struct ct_request r;
    char word;

    CT_TRY(ct_comm_receive(c, rank, tag, &word, sizeof(word), &r));
    return ct_comm_wait(c, rank, &r);
}
