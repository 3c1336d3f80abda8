/* direct.c - buckets of one host's ranks, summed where they lie.
 *
 * The gradient arena moves into memory that all ranks of the host see, so a
 * bucket is posted, not copied or sent, and every rank adds up its slice of
 * it (comm/coll/shared.h).  The compute thread does that itself, after each
 * layer and when it has to wait: on a core that it shares with nobody there
 * is no comm thread to wait for.  The update reads the sums in place. */
#include "base/clock.h"
#include "cortado/log.h"
#include "dist/dist.h"

struct creation {
    int64_t           n;
    struct ct_shared *out;
};

static enum ct_status create_job(struct ct_comm *c, void *arg)
{
    struct creation *x = arg;

    return ct_shared_create(c, x->n, &x->out);
}

/* Ranks of one host, all on the CPU, whose gradients go as they are and by no
 * other way. */
static bool fits(const struct ct_dist *d, const struct ct_net *net)
{
    return d->size > 1 && d->n_hosts == 1 && ct_net_n_params(net) > 0 &&
           !d->gpus && !d->exchange.mirror &&
           !d->wires.codec.type && !d->canonical.parts &&
           !d->comm->no_window &&
           (!d->reduce || d->reduce == ct_allreduce_find("shared"));
}

enum ct_status dist_direct_init(struct ct_dist *d, struct ct_net *net)
{
    struct creation x = { .n = (int64_t)ct_net_arena_count(net) };
    enum ct_status st;

    if (!fits(d, net))
        return CT_OK;
    st = ct_job_run(d->thread, create_job, &x);
    if (st == CT_ENOTSUP && !d->reduce) { /* on all ranks alike */
        CT_WARN("%s", ct_last_error());
        return CT_OK;
    }
    CT_TRY(st);
    d->direct = x.out;
    return ct_net_move_diffs(net, ct_shared_mine(d->direct));
}

void dist_direct_fini(struct ct_dist *d)
{
    /* Without memory for its own the net keeps the window's. */
    if (d->direct && d->net && ct_net_move_diffs(d->net, NULL) != CT_OK)
        CT_WARN("the gradients stay in shared memory: %s", ct_last_error());
    else
        ct_shared_destroy(d->direct);
    d->direct = NULL;
}

enum ct_status dist_direct_layer_done(struct ct_dist *d, int n_ready)
{
    double start = ct_now();

    for (; d->n_sent < n_ready; d->n_sent++) {
        const struct dist_bucket *b = &d->buckets.bucket[d->n_sent];

        CT_TRY(ct_shared_post(d->direct, (int64_t)b->first, (int64_t)b->n,
                              &d->flight[d->n_sent].ticket));
    }
    ct_shared_progress(d->direct);
    d->direct_seconds += ct_now() - start;
    return CT_OK;
}

enum ct_status dist_direct_wait(struct ct_dist *d, int bucket)
{
    const uint64_t ticket = d->flight[bucket].ticket;
    double start, took;

    if (ct_shared_done(d->direct, ticket))
        return ct_shared_wait(d->direct, ticket);
    start = ct_now();
    CT_TRY(ct_shared_wait(d->direct, ticket));
    took = ct_now() - start;
    d->direct_seconds += took;
    d->wait_seconds += took;
    return CT_OK;
}
