/* store.c - memory of a host's ranks that may outlive their view.
 *
 *     | parameters | history | (history) | a second copy of these |
 *     | riders' sums | rank 0's gradients | ... | rank L-1's | factors |
 *
 * The next view of an elastic job takes over the store of the view before, if
 * all its ranks were in that one, have the parameters of the same iteration
 * there, and nobody else can write to it any more: the kernel says that the
 * process of each rank that is missing has ended.  Then no parameter is copied
 * and no page is found anew.  A rank that is only taken for lost may be in the
 * middle of an update, as long as it lives; the others leave it alone with that
 * store and make another one.
 *
 * Ranks keep the places of their gradients.  Those of the ranks that are gone
 * are given back to the system.  A rank that is left alone keeps its gradients
 * and what it reads, and gives back all the rest. */
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/coll/transfer.h"
#include "core/buffer.h"
#include "dist/engine.h"
#include "net/arena.h"

double dist_store_patience = 0.05;
enum { LOOK_NS = 200000 };

/* What each rank tells the others before they share. */
struct offer {
    int32_t  n_arrays; /* 0: this rank cannot share */
    int32_t  slot;     /* of its gradients in the store it has */
    int32_t  copy;     /* where its parameters are there; -1: elsewhere */
    uint64_t number;   /* of that store */
};

/* Floats of an array that is laid out as the arena. */
static int64_t stride_of(const struct ct_net *net)
{
    return ((int64_t)ct_net_arena_count(net) + 15) / 16 * 16;
}

/* ---- Places. */

static float *copy_at(const struct dist_store *s, int copy)
{
    return (float *)s->window->memory + copy * s->n_arrays * s->stride;
}

static float *sums_at(const struct dist_store *s)
{
    return copy_at(s, s->n_copies);
}

static float *slot_at(const struct dist_store *s, int slot)
{
    return sums_at(s) + (1 + slot) * s->stride;
}

static int n_slots(const struct dist_store *s)
{
    return s->window->local.size;
}

/* Which copy these parameters are; -1: none. */
static int copy_of(const struct dist_store *s, const float *values)
{
    for (int i = 0; values && s->window && i < s->n_copies; i++)
        if (values == copy_at(s, i))
            return i;
    return -1;
}

static enum ct_status lend(const struct dist_store *s, float *at, size_t n,
                           struct ct_buffer **out)
{
    ct_window_keep(s->window);
    return ct_buffer_borrow(ct_device_cpu(), at, n * sizeof(float),
                            ct_window_drop, s->window, out);
}

static enum ct_status lend_copy(const struct dist_store *s, int copy, size_t n,
                                struct ct_buffer **out)
{
    for (int i = 0; i < s->n_arrays; i++)
        CT_TRY(lend(s, copy_at(s, copy) + i * s->stride, n, &out[i]));
    return CT_OK;
}

/* ---- Who else can write there. */

static void nap(void)
{
    const struct timespec t = { 0, LOOK_NS };

    nanosleep(&t, NULL);
}

static bool is_free_of_others(const struct dist_store *s, const bool *here)
{
    for (int i = 0; i < n_slots(s); i++)
        if (!here[i] && !ct_window_is_free_of(s->window, i))
            return false;
    return true;
}

static bool await_free_of_others(const struct ct_dist *d, const bool *here)
{
    const double end = ct_now() + dist_store_patience;

    while (!is_free_of_others(&d->host.store, here)) {
        if (d->elastic.place.left || ct_now() > end)
            return false;
        nap();
    }
    return true;
}

static void discard(const struct dist_store *s, const float *from,
                    const float *to)
{
    ct_window_discard(s->window, from, (size_t)(to - from) * sizeof(float));
}

/* ---- The same store in another view. */

/* Whether all ranks have the parameters of the same iteration in this store. */
static bool may_go_on(const struct ct_dist *d, const struct dist_store *want,
                      const struct offer *all)
{
    const struct dist_store *s = &d->host.store;

    if (!d->plan->commits || !s->window || s->stride != want->stride ||
        s->n_arrays != want->n_arrays || s->n_copies != want->n_copies ||
        s->rows < want->rows)
        return false;
    for (int r = 0; r < d->view.size; r++)
        if (all[r].copy < 0 || all[r].copy != all[0].copy ||
            all[r].number != all[0].number)
            return false;
    return true;
}

/* Rank 0 looks whether nobody else has the store, and tells the others.  If so,
 * it discards the gradients of ranks that are gone. */
static enum ct_status is_ours(struct ct_dist *d, const struct offer *all,
                              bool *ours)
{
    const struct dist_store *s = &d->host.store;
    bool *here                 = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)n_slots(s), sizeof(*here), "who is here", &here));
    for (int r = 0; r < d->view.size; r++)
        here[all[r].slot] = true;
    *ours = d->view.rank > 0 || await_free_of_others(d, here);
    st    = dist_broadcast(d, ours, sizeof(*ours));
    for (int i = 0; i < n_slots(s) && st == CT_OK && *ours; i++)
        if (!here[i] && d->view.rank == 0)
            discard(s, slot_at(s, i), slot_at(s, i + 1));
    ct_free(here);
    return st;
}

/* ---- A new one. */

/* Each rank finds its part of the copies, of which none is left unused. */
static void reach_part(const struct ct_dist *d)
{
    const struct dist_store *s   = &d->host.store;
    const struct ct_group *local = &s->window->local;
    const struct ct_part ours    = ct_part(sums_at(s) - copy_at(s, 0),
                                           local->size, local->me);

    ct_window_reach(s->window, copy_at(s, 0) + ours.first,
                    (size_t)ours.n * sizeof(float), true);
}

struct creation {
    size_t            bytes;
    struct ct_spare  *spare; /* taken over */
    struct ct_window *out;
};

static enum ct_status create_job(struct ct_comm *c, void *arg)
{
    struct creation *x = arg;

    c->spare = x->spare;
    x->spare = NULL;
    return ct_window_create(c, x->bytes, &x->out);
}

static enum ct_status create(struct ct_dist *d, const struct dist_store *want,
                             struct ct_spare *spare)
{
    const int64_t n_strides = want->n_copies * want->n_arrays + 1 +
                              d->view.size;
    struct creation c       = { .spare = spare };
    enum ct_status st       = CT_OK;

    if (!ct_mul_fits((size_t)n_strides, (size_t)want->stride * sizeof(float),
                     &c.bytes))
        st = ct_fail(CT_ENOMEM, "%lld floats of %d arrays",
                     (long long)want->stride, want->n_arrays);
    c.bytes += (size_t)want->rows * sizeof(float);
    if (st == CT_OK)
        st = ct_job_run(d->view.thread, create_job, &c);
    ct_spare_destroy(c.spare); /* left if the job did not run */
    CT_TRY(st);
    dist_store_drop(d);
    d->host.store        = *want;
    d->host.store.window = c.out;
    reach_part(d);
    return CT_OK;
}

void dist_store_drop(struct ct_dist *d)
{
    ct_window_destroy(d->host.store.window);
    d->host.store.window = NULL;
}

/* ---- Sums in it. */

struct sums {
    float           **vector;
    float            *sums;
    struct ct_shared *out;
};

static enum ct_status sums_job(struct ct_comm *c, void *arg)
{
    struct sums *x = arg;

    return ct_shared_create_at(c, x->vector, x->sums, &x->out);
}

static enum ct_status create_sums(struct ct_dist *d, const struct offer *all)
{
    const struct dist_store *s = &d->host.store;
    struct sums x              = { .sums = sums_at(s) };
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)d->view.size, sizeof(*x.vector), "gradients",
                    &x.vector));
    for (int r = 0; r < d->view.size; r++)
        x.vector[r] = slot_at(s, all ? all[r].slot : r);
    st = ct_job_run(d->view.thread, sums_job, &x);
    d->host.shared  = x.out;
    d->factors.space = slot_at(s, n_slots(s));
    ct_free(x.vector);
    return st;
}

/* ---- All of it. */

static enum ct_status gather_offers(struct ct_dist *d,
                                    const struct ct_params_user *user,
                                    struct offer *all)
{
    const struct elastic_place *p = &d->elastic.place;
    const struct dist_store *s    = &d->host.store;
    const bool is_full            = d->plan->commits && p->rank < p->n_full;
    const struct offer mine       = {
        .n_arrays = user->n_arrays,
        .slot     = s->window ? s->window->local.me : -1,
        .copy     = is_full ? copy_of(s, user->values) : -1,
        .number   = s->window ? ct_window_number(s->window) : 0 };

    return dist_gather_each(d, &mine, sizeof(mine), all);
}

/* Do all ranks want the same? */
static bool all_share(const struct ct_dist *d, const struct offer *all)
{
    bool yes = all[0].n_arrays > 0;

    for (int r = 1; r < d->view.size; r++)
        yes &= all[r].n_arrays == all[0].n_arrays;
    return yes;
}

/* Takes the old store over, or makes a new one.  *copy: which copy has the
 * parameters; -1: none in a new store. */
static enum ct_status find(struct ct_dist *d, const struct dist_store *want,
                           const struct offer *all, int *copy)
{
    bool ours = false;

    if (may_go_on(d, want, all))
        CT_TRY(is_ours(d, all, &ours));
    *copy = ours ? all[0].copy : -1;
    if (ours) /* what is reserved stays so: a rank may be about to join */
        return create_sums(d, all);
    CT_TRY(create(d, want, atomic_exchange(&d->host.spare, NULL)));
    return create_sums(d, NULL);
}

enum ct_status dist_store_open(struct ct_dist *d, const struct ct_net *net,
                               const struct ct_params_user *user,
                               struct ct_shared_params *out)
{
    const struct dist_store *s = &d->host.store;
    struct dist_store want     = { .stride   = stride_of(net),
                                   .n_arrays = user->n_arrays,
                                   .n_copies = d->plan->commits ? 2 : 1 };
    const size_t n    = ct_net_arena_count(net);
    struct offer *all = NULL;
    enum ct_status st;
    int copy;

    CT_TRY(ct_alloc((size_t)d->view.size, sizeof(*all), "offers", &all));
    CT_TRY_GOTO(gather_offers(d, user, all), st, out);
    if (!all_share(d, all))
        goto out;
    CT_TRY_GOTO(dist_rows_space(d, net, &want.rows), st, out);
    CT_TRY_GOTO(find(d, &want, all, &copy), st, out);
    out->kept = copy >= 0;
    CT_TRY_GOTO(lend_copy(s, out->kept ? copy : 0, n, out->array), st, out);
    if (s->n_copies > 1)
        st = lend_copy(s, out->kept ? 1 - copy : 1, n, out->next);
out:
    ct_free(all);
    return st;
}

/* ---- Left alone. */

/* All but one copy of the arrays and one rank's gradients. */
static void discard_others(const struct dist_store *s, int copy)
{
    const float *mine = slot_at(s, s->window->local.me);

    discard(s, copy_at(s, 0), copy_at(s, copy));
    discard(s, copy_at(s, copy + 1), mine);
    discard(s, mine + s->stride, slot_at(s, n_slots(s)) + s->rows);
}

static bool is_alone(const struct ct_dist *d)
{
    const struct dist_store *s = &d->host.store;
    bool *here                 = NULL, yes;

    if (ct_alloc((size_t)n_slots(s), sizeof(*here), "who is here", &here) !=
        CT_OK)
        return false;
    here[s->window->local.me] = true;
    yes                       = await_free_of_others(d, here);
    ct_free(here);
    return yes;
}

bool dist_store_keep(struct ct_exchange *x, const struct ct_net *net,
                     struct ct_buffer **diff)
{
    struct ct_dist *d          = dist_of(x);
    const struct dist_store *s = &d->host.store;
    const int copy             = copy_of(s, ct_net_arena_data(net));

    if (copy < 0 || d->view.size > 1 || !is_alone(d) ||
        lend(s, slot_at(s, s->window->local.me), ct_net_arena_count(net),
             diff) != CT_OK)
        return false;
    discard_others(s, copy);
    dist_store_drop(d); /* the net has the rest */
    return true;
}
