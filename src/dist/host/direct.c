/* direct.c - buckets of one host's ranks, summed where they lie.
 *
 * The gradient arena moves into memory that all ranks of the host see, so a
 * bucket is posted, not copied or sent, and every rank adds up its slice of
 * it (comm/coll/shared.h).  The compute thread does that itself, after each
 * layer and when it has to wait: on a core that it shares with nobody there
 * is no comm thread to wait for.
 *
 * Usually parameters and histories lie there, too, once for all ranks.  Then
 * whoever has added up a block updates the parameters of that block at once,
 * and the sums are never written.  Ranks do so while they wait, so those whose
 * cores are slow, and for whom the others wait, do least of it:
 *
 *     | rank 0's gradients | ... | rank L-1's | riders' sums |
 *     | parameters | history | (history) | factors |
 *
 * All ranks are past the layers of a bucket when the last one posts it, so
 * nobody reads its old parameters any more.  Otherwise every rank updates all
 * parameters of its own, reading the sums in place. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "device/cpu/loop.h"
#include "dist/engine.h"
#include "net/arena.h"

/* Floats summed and used while they are in a cache; that a rank takes. */
enum { BLOCK = 2048, PIECE = 4 * BLOCK };

struct creation {
    int64_t           n, more;
    struct ct_shared *out;
};

static enum ct_status create_job(struct ct_comm *c, void *arg)
{
    struct creation *x = arg;

    return ct_shared_create(c, x->n, x->more, &x->out);
}

/* Where it was tried in vain the comm knows. */
static bool fits(const struct ct_dist *d)
{
    return d->plan.in_memory && !d->view.comm->place.no_window;
}

/* Floats of an array that is laid out as the arena. */
static int64_t stride_of(const struct ct_net *net)
{
    return ((int64_t)ct_net_arena_count(net) + 15) / 16 * 16;
}

static enum ct_status lend(struct ct_dist *d, const struct ct_net *net,
                           int n_arrays, struct ct_shared_params *out)
{
    float *at = ct_shared_more(d->host.shared);

    for (int i = 0; i < n_arrays; i++) {
        ct_window_keep(d->host.shared->window);
        CT_TRY(ct_buffer_borrow(ct_device_cpu(), at,
                                ct_net_arena_count(net) * sizeof(float),
                                ct_window_drop, d->host.shared->window,
                                &out->array[i]));
        at += stride_of(net);
    }
    d->factors.space = at;
    out->fills       = d->host.shared->window->local.me == 0;
    return CT_OK;
}

/* Do all ranks want the same? */
static enum ct_status agree(struct ct_dist *d, int n_arrays, bool *all)
{
    int *every = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)d->view.size, sizeof(*every), "agreement", &every));
    for (int r = 0; r < d->view.size; r++)
        d->services.part_bytes[r] = sizeof(*every);
    st   = dist_gather(d, &n_arrays, d->services.part_bytes, every);
    *all = n_arrays > 0;
    for (int r = 0; r < d->view.size; r++)
        *all &= every[r] == n_arrays;
    ct_free(every);
    return st;
}

/* One solver at a time lives there; a second one keeps what it has. */
enum ct_status dist_share_params(struct ct_exchange *x, struct ct_net *net,
                                 const struct ct_params_user *user,
                                 struct ct_shared_params *out)
{
    struct ct_dist *d = x->state;
    struct creation c = { .n = (int64_t)ct_net_arena_count(net) };
    enum ct_status st;
    bool all;

    /* A rank that is lost may have been writing there. */
    if (!fits(d) || d->plan.commits || d->host.shared ||
        ct_net_n_params(net) == 0)
        return CT_OK;
    CT_TRY(agree(d, user->n_arrays, &all));
    if (!all)
        return CT_OK;
    CT_TRY(dist_rows_space(d, net, &c.more));
    c.more += user->n_arrays * stride_of(net);
    st = ct_job_run(d->view.thread, create_job, &c);
    if (st == CT_ENOTSUP) /* on all ranks alike; attach says why */
        return CT_OK;
    CT_TRY(st);
    d->host.shared = c.out;
    d->host.params_of = net;
    d->host.user = *user;
    return lend(d, net, user->n_arrays, out);
}

enum ct_status dist_direct_init(struct ct_dist *d, struct ct_net *net)
{
    struct creation x = { .n = (int64_t)ct_net_arena_count(net) };
    enum ct_status st;

    if (!fits(d))
        return CT_OK;
    if (!d->host.shared) {
        st = ct_job_run(d->view.thread, create_job, &x);
        if (st == CT_ENOTSUP && !d->plan.reduce) { /* on all ranks alike */
            CT_WARN("%s", ct_last_error());
            return CT_OK;
        }
        CT_TRY(st);
        d->host.shared = x.out;
    }
    return ct_net_move_diffs(net, ct_shared_mine(d->host.shared));
}

void dist_direct_fini(struct ct_dist *d)
{
    if (d->host.params_of) {
        d->host.params_of = NULL;
        d->host.user.leave(d->host.user.arg);
    }
    /* Without memory for its own the net keeps the window's. */
    if (d->host.shared && d->net && ct_net_move_diffs(d->net, NULL) != CT_OK)
        CT_WARN("the gradients stay in shared memory: %s", ct_last_error());
    else
        ct_shared_destroy(d->host.shared);
    d->host.shared = NULL;
}

/* A piece of a bucket: summed, block by block, and used. */
static enum ct_status update_piece(struct ct_shared *s, void *arg,
                                   int64_t piece)
{
    const struct dist_flight *f = arg;
    const struct ct_params_user *t   = &f->dist->host.user;
    const int64_t start = piece * PIECE, left = f->n - start;
    const int64_t all   = left < PIECE ? left : PIECE;

    CT_FOR_ROWS (i, (all + BLOCK - 1) / BLOCK,
                 BLOCK * s->window->local.size) {
        const int64_t n = all - i * BLOCK < BLOCK ? all - i * BLOCK : BLOCK;
        const int64_t first = f->first + start + i * BLOCK;
        float sum[BLOCK];

        ct_shared_add(s, first, n, sum);
        if (first == 0) /* what rides along is read as it is */
            memcpy(ct_shared_sums(s), sum, CT_ARENA_RIDERS * sizeof(*sum));
        t->update(t->arg, (size_t)first, (size_t)n, sum);
    }
    return CT_OK;
}

static enum ct_status post(struct ct_dist *d, struct dist_flight *f)
{
    d->host.shared->label = f->name;
    if (d->host.params_of)
        return ct_shared_post_work(d->host.shared, update_piece, f,
                                   (f->n + PIECE - 1) / PIECE,
                                   (uint64_t)f->n * sizeof(float), &f->ticket);
    return ct_shared_post(d->host.shared, f->first, f->n, &f->ticket);
}

enum ct_status dist_direct_layer_done(struct ct_dist *d, int n_ready)
{
    double start = ct_now();

    while (d->buckets.n_sent < n_ready)
        CT_TRY(post(d, &d->buckets.flight[d->buckets.n_sent++]));
    if (!d->host.params_of)
        ct_shared_progress(d->host.shared);
    d->host.seconds += ct_now() - start;
    return CT_OK;
}

enum ct_status dist_direct_wait(struct ct_dist *d, uint64_t ticket)
{
    double start, took;

    if (ct_shared_done(d->host.shared, ticket))
        return ct_shared_wait(d->host.shared, ticket);
    start = ct_now();
    CT_TRY(ct_shared_wait(d->host.shared, ticket));
    took = ct_now() - start;
    d->host.seconds += took;
    d->counts.wait_seconds += took;
    return CT_OK;
}
