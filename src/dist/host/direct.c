/* direct.c - buckets of one host's ranks, summed where they lie.
 *
 * The gradient arena is in memory that all ranks of the host share.  A bucket
 * is posted, not copied or sent, and every rank adds up its slice of it
 * (comm/coll/shared.h).  The compute thread does this after each layer and
 * while it waits, so no comm thread needs a core.
 *
 * Usually parameters and histories are in the shared memory as well, once for
 * all ranks.  A rank that has added up a block then updates the parameters of
 * that block at once, and sums are never written.  Ranks take blocks while they
 * wait, so a slow rank, for which the others wait, takes the fewest (store.c
 * has the memory).
 *
 * When the last rank posts a bucket, all ranks are past its layers, so nobody
 * reads its old parameters.  In elastic jobs updates go to a second copy
 * (solver/shared_params.c).  Without shared parameters every rank updates its
 * own parameters and reads the sums in place. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "device/cpu/loop.h"
#include "dist/bsp/carrier.h"
#include "dist/engine.h"
#include "net/arena.h"

/* BLOCK: floats that are summed and used while they are in the cache.  PIECE:
 * floats that a rank takes at a time. */
enum { BLOCK = 2048, PIECE = 4 * BLOCK };

struct creation {
    int64_t           n;
    struct ct_shared *out;
};

static enum ct_status create_job(struct ct_comm *c, void *arg)
{
    struct creation *x = arg;

    return ct_shared_create(c, x->n, 0, &x->out);
}

/* Room for gradients, their sums and two copies of all arrays.  The room for
 * factors is not known yet; a window may be larger than its spare. */
void dist_direct_reserve(void *dist, int n_ranks, size_t n_floats,
                         int n_arrays)
{
    struct ct_dist *d = dist;
    const int n       = n_ranks + 1 + 2 * n_arrays;
    size_t bytes;

    if (n_ranks == 0)
        ct_spare_destroy(atomic_exchange(&d->host.spare, NULL));
    else if (ct_mul_fits((size_t)n, n_floats * sizeof(float), &bytes))
        ct_spare_destroy(atomic_exchange(&d->host.spare,
                                         ct_spare_create(bytes)));
}

/* Only one solver can use the shared memory; a second one keeps its own
 * arrays. */
enum ct_status dist_share_params(struct ct_exchange *x, struct ct_net *net,
                                 const struct ct_params_user *user,
                                 struct ct_shared_params *out)
{
    struct ct_dist *d = x->state;
    enum ct_status st;

    if (!d->plan->shares_params || d->host.shared || ct_net_n_params(net) == 0)
        return CT_OK;
    st = dist_store_open(d, net, user, out);
    if (st == CT_ENOTSUP) /* on all ranks alike; attach says why */
        return CT_OK;
    if (!d->host.shared)
        return st;
    d->host.params_of = net;
    d->host.user      = *user;
    return st;
}

/* What has this rank's gradients. */
static struct ct_window *window_of(const struct ct_dist *d)
{
    return d->host.params_of ? d->host.store.window : d->host.shared->window;
}

/* This rank's part of the shared memory as a buffer. */
static enum ct_status lend_mine(const struct ct_dist *d, size_t n,
                                struct ct_buffer **out)
{
    struct ct_window *w = window_of(d);

    ct_window_keep(w);
    return ct_buffer_borrow(ct_device_cpu(), ct_shared_mine(d->host.shared),
                            n * sizeof(float), ct_window_drop, w, out);
}

/* Moves the net's gradients to this rank's part of the shared memory.  In an
 * elastic job the net belongs to this view and has no gradients yet. */
static enum ct_status lend_diffs(struct ct_dist *d, struct ct_net *net)
{
    struct ct_buffer *mine = NULL;
    enum ct_status st      = CT_OK;

    CT_TRY(lend_mine(d, ct_net_arena_count(net), &mine));
    ct_window_reach(window_of(d), mine->ptr, mine->bytes, true);
    if (d->plan->commits) {
        ct_net_lend_diffs(net, mine);
    } else {
        st = ct_net_move_diffs(net, mine);
    }
    ct_buffer_drop(mine);
    return st;
}

enum ct_status dist_direct_init(struct ct_dist *d, struct ct_net *net)
{
    struct creation x       = { .n = (int64_t)ct_net_arena_count(net) };
    struct dist_facts facts = *d->facts;
    enum ct_status st;

    if (!d->host.params_of)
        dist_store_drop(d);
    if (!d->plan->in_memory)
        return CT_OK;
    if (!d->host.shared) {
        st = ct_job_run(d->view.thread, create_job, &x);
        if (st == CT_ENOTSUP && !d->plan->reduce) { /* on all ranks alike */
            CT_WARN("%s", ct_last_error());
            facts.no_windows = true;
            return dist_replan(d, &facts);
        }
        CT_TRY(st);
        d->host.shared = x.out;
    }
    return lend_diffs(d, net);
}

bool dist_shares_params_of(const struct ct_dist *d, const struct ct_net *net)
{
    return d->host.params_of == net;
}

void dist_direct_abort(struct ct_dist *d)
{
    if (d->host.shared)
        ct_window_abort(d->host.shared->window);
}

void dist_direct_fini(struct ct_dist *d)
{
    if (d->host.params_of) {
        d->host.params_of = NULL;
        d->host.user.leave(d->host.user.arg);
    }
    /* Without memory for its own gradients the net keeps the window's, and so
     * does a net that will be destroyed. */
    if (d->host.shared && d->net && !d->plan->commits &&
        ct_net_move_diffs(d->net, NULL) != CT_OK)
        CT_WARN("the gradients stay in shared memory: %s", ct_last_error());
    ct_shared_destroy(d->host.shared);
    d->host.shared = NULL;
    if (!d->plan->commits)
        dist_store_drop(d);
}

/* Sums a piece of a bucket block by block and updates with it. */
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

/* ---- Memory as a carrier. */

static enum ct_status send_to_sum(struct ct_dist *d, int n_ready)
{
    double start = ct_now();

    while (d->buckets.n_sent < n_ready) {
        struct dist_flight *f = &d->buckets.flight[d->buckets.n_sent++];

        CT_TRY(ct_shared_post(d->host.shared, f->name, f->first, f->n,
                              &f->ticket));
    }
    ct_shared_progress(d->host.shared);
    d->host.seconds += ct_now() - start;
    return CT_OK;
}

/* Ranks that wait run the updates, so slow ranks run the fewest. */
static enum ct_status send_to_update(struct ct_dist *d, int n_ready)
{
    double start = ct_now();

    while (d->buckets.n_sent < n_ready) {
        struct dist_flight *f = &d->buckets.flight[d->buckets.n_sent++];
        const struct ct_shared_work w = {
            .label = f->name, .run = update_piece, .arg = f,
            .n_pieces = (f->n + PIECE - 1) / PIECE,
            .bytes    = (uint64_t)f->n * sizeof(float),
        };

        CT_TRY(ct_shared_post_work(d->host.shared, &w, &f->ticket));
    }
    d->host.seconds += ct_now() - start;
    return CT_OK;
}

bool dist_direct_arrived(struct ct_dist *d, uint64_t ticket)
{
    return ct_shared_done(d->host.shared, ticket);
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

enum ct_status dist_direct_meet(struct ct_dist *d)
{
    const double start = ct_now();

    CT_TRY(ct_shared_meet(d->host.shared));
    d->counts.wait_seconds += ct_now() - start;
    return CT_OK;
}

static bool arrived(struct ct_dist *d, int bucket)
{
    return dist_direct_arrived(d, d->buckets.flight[bucket].ticket);
}

static enum ct_status wait_bucket(struct ct_dist *d, int bucket)
{
    return dist_direct_wait(d, d->buckets.flight[bucket].ticket);
}

static enum ct_status finish(struct ct_dist *d, const float **riders)
{
    *riders = ct_shared_sums(d->host.shared);
    return wait_bucket(d, 0);
}

static const float *sum_of(const struct ct_dist *d, int param)
{
    return ct_shared_sums(d->host.shared) + ct_net_param(d->net, param)->offset;
}

const struct dist_carrier dist_by_memory = {
    .name       = "sums in shared memory",
    .sums_apart = true,
    .diffs      = dist_carrier_diffs,
    .queued     = dist_carrier_not_queued,
    .loss_done  = dist_carrier_riders_in_bucket,
    .send       = send_to_sum,
    .arrived    = arrived,
    .wait       = wait_bucket,
    .finish     = finish,
    .sum        = sum_of,
    .spread     = dist_spread_values,
    .choose     = dist_roads_choose,
    .road       = dist_roads_name,
};

/* ---- Memory that has the parameters, too. */

/* Parameters that are never updated are not shared: each rank has its own. */
static enum ct_status spread_fixed(struct ct_dist *d, const struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);

        if (p->lr_mult == 0)
            CT_TRY(ct_dist_broadcast(d, ct_data(p->blob),
                                     (size_t)p->blob->count * sizeof(float)));
    }
    return CT_OK;
}

static struct dist_cost cost_of(const struct ct_dist *d, bool factors,
                                const struct dist_load *load)
{
    return dist_cost_shared(&d->roads.options.machine, d->view.size, factors,
                            load);
}

bool dist_shares_factors(const struct ct_net *net, int n_ranks)
{
    const struct dist_model m   = { .net = net, .share = 1 };
    const struct dist_machine w = { .gamma = 1 };

    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct dist_load load = dist_model_load(&m, i);

        if (load.k > 0 &&
            dist_cost_shared(&w, n_ranks, true, &load).seconds <
                dist_cost_shared(&w, n_ranks, false, &load).seconds)
            return true;
    }
    return false;
}

/* Time is proportional to the memory moved, so nothing has to be measured. */
static enum ct_status choose(struct ct_dist *d, const struct dist_model *m)
{
    for (int i = 0; i < ct_net_n_params(m->net); i++) {
        const struct dist_load load = dist_model_load(m, i);

        if (load.k > 0 && d->roads.may[i] &&
            cost_of(d, true, &load).seconds < cost_of(d, false, &load).seconds)
            d->roads.apart[i] = 0;
    }
    return CT_OK;
}

static const char *road(const struct ct_dist *d, int param,
                        struct dist_cost *cost, double *observed)
{
    const struct dist_model m   = { .net = d->net, .share = 1 };
    const struct dist_load load = dist_model_load(&m, param);
    const bool factors          = d->factors.of_param[param] >= 0;

    *cost     = cost_of(d, factors, &load);
    *observed = 0;
    return factors ? "factors" : "shared";
}

const struct dist_carrier dist_by_shared_params = {
    .name       = "parameters in shared memory",
    .sums_apart = true,
    .diffs      = dist_carrier_diffs,
    .queued     = dist_carrier_not_queued,
    .loss_done  = dist_carrier_riders_in_bucket,
    .send       = send_to_update,
    .arrived    = arrived,
    .wait       = wait_bucket,
    .finish     = finish,
    .sum        = sum_of,
    .spread     = spread_fixed,
    .choose     = choose,
    .road       = road,
};
