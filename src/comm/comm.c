/* comm.c - messages to and from peers, waits, counts of bytes. */
#include "comm/comm.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pulse.h"
#include "comm/coll/shared.h"
#include "comm/logbook.h"
#include "comm/wait.h"

/* How waits poll and sleep.  Inside a host a rank polls for as long as a
 * segment takes, because both ends must be awake to move it.  Between hosts the
 * kernels move it, and polling takes time from them on busy cores. */
static const struct ct_pace near = { 20e-6, 500e-6, 5e-3, 20000, 200000 },
                            far  = { 20e-6, 100e-6, 5e-3, 50000, 200000 };

static const double tick_s = 0.1;

/* Sets the groups of this rank.  `numbers` holds host[P], all[P], local[P],
 * cross[P]. */
static enum ct_status comm_groups(struct ct_comm *c)
{
    const int *host = c->transport->host, P = c->size;
    int *all, *local, *cross;

    CT_TRY(ct_alloc((size_t)P * 4, sizeof(*c->numbers), "comm groups",
                    &c->numbers));
    all   = c->numbers + P;
    local = all + P;
    cross = local + P;
    if (host)
        ct_place_number_hosts(P, host, c->numbers);
    c->place = ct_place(c->rank, P, host ? c->numbers : NULL);
    c->all   = (struct ct_group){ all, c->rank, P };
    c->local = (struct ct_group){ local, c->place.local, c->place.n_local };
    for (int r = 0, n = 0; r < P; r++) {
        all[r] = r;
        if (ct_place_host(&c->place, r) == ct_place_host(&c->place, c->rank))
            local[n++] = r;
    }
    if (!c->place.even && c->place.local > 0)
        return CT_OK;
    c->cross = (struct ct_group){ cross, ct_place_host(&c->place, c->rank),
                                  c->place.n_hosts };
    for (int h = 0; h < c->place.n_hosts; h++)
        cross[h] = ct_place_rank(&c->place, h, c->place.local);
    return CT_OK;
}

enum ct_status ct_comm_create(struct ct_transport *t, struct ct_comm **out)
{
    struct ct_comm *c;
    enum ct_status st;

    if (ct_alloc(1, sizeof(*c), "comm", &c) != CT_OK) {
        t->ops->destroy(t);
        return CT_ENOMEM;
    }
    c->transport = t;
    c->rank      = t->rank;
    c->size      = t->size;
    atomic_init(&c->bytes_sent, 0);
    atomic_init(&c->bytes_received, 0);
    atomic_init(&c->n_sent, 0);
    atomic_init(&c->waiting_for, -1);
    atomic_init(&c->shared, NULL);
    st = comm_groups(c);
    if (st != CT_OK)
        ct_comm_destroy(c);
    else
        *out = c;
    return st;
}

void ct_comm_destroy(struct ct_comm *c)
{
    if (!c)
        return;
    ct_shared_destroy(c->shared);
    ct_spare_destroy(c->spare);
    c->transport->ops->destroy(c->transport);
    if (!c->staging_lost)
        ct_free(c->staging);
    ct_free(c->numbers);
    ct_free(c);
}

void ct_comm_abort(struct ct_comm *c, int code)
{
    struct ct_shared *shared = atomic_load(&c->shared);

    if (shared)
        ct_window_abort(shared->window);
    c->transport->ops->abort(c->transport, code);
}

void ct_comm_begin(struct ct_comm *c, const char *what, uint64_t bytes)
{
    c->sequence++;
    if (c->pen)
        ct_logbook_pen_begin(c->pen, c->channel, c->sequence, what, bytes);
    if (c->pulse && c->counts)
        atomic_store(&c->pulse->sequence, c->sequence);
}

enum ct_status ct_comm_tick(struct ct_comm *c, double now)
{
    if (!c->tick || now < c->next_tick)
        return CT_OK;
    c->next_tick = now + tick_s;
    return c->tick(c, c->tick_arg);
}

int ct_comm_tag(const struct ct_comm *c, int step)
{
    CT_ASSERT(step >= 0 && step < CT_TAG_STEPS);
    return (int)(c->sequence % CT_TAG_ROUNDS) * CT_TAG_STEPS + step;
}

enum ct_status ct_comm_send(struct ct_comm *c, int to, int tag,
                            const void *data, size_t bytes,
                            struct ct_request *out)
{
    CT_TRY(c->transport->ops->send(c->transport, to, tag, data, bytes, out));
    atomic_fetch_add_explicit(&c->bytes_sent, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->n_sent, 1, memory_order_relaxed);
    return CT_OK;
}

enum ct_status ct_comm_receive(struct ct_comm *c, int from, int tag,
                               void *data, size_t bytes,
                               struct ct_request *out)
{
    CT_TRY(c->transport->ops->receive(c->transport, from, tag, data, bytes,
                                      out));
    atomic_fetch_add_explicit(&c->bytes_received, bytes, memory_order_relaxed);
    return CT_OK;
}

enum ct_status ct_comm_test(struct ct_comm *c, struct ct_request *r,
                            bool *done)
{
    *done = false;
    return c->transport->ops->test(c->transport, r, done);
}

bool ct_comm_cancel(struct ct_comm *c, struct ct_request *r)
{
    bool free_to_go = c->transport->ops->cancel(c->transport, r);

    c->staging_lost |= !free_to_go;
    return free_to_go;
}

static bool is_near(const struct ct_comm *c, int peer)
{
    const struct ct_place *p = &c->place;

    return peer < 0 ? p->n_hosts == 1
                    : ct_place_host(p, peer) == ct_place_host(p, c->rank);
}

enum ct_status ct_comm_wait(struct ct_comm *c, int peer, struct ct_request *r)
{
    struct ct_wait w = { .comm = c, .peer = peer, .owner = true,
                         .pace = is_near(c, peer) ? near : far };
    enum ct_status st;
    bool done;

    st = ct_comm_test(c, r, &done);
    if (st == CT_OK && !done) {
        atomic_store(&c->waiting_for, peer);
        ct_wait_begin(&w);
        do {
            st = ct_wait_on(&w);
            if (st == CT_OK)
                st = ct_comm_test(c, r, &done);
        } while (st == CT_OK && !done);
        c->wait_seconds += ct_wait_end(&w);
        atomic_store(&c->waiting_for, -1);
    }
    if (st != CT_OK)
        (void)ct_comm_cancel(c, r);
    return st;
}

enum ct_status ct_comm_exchange(struct ct_comm *c, int to, const void *out,
                                size_t out_bytes, int from, void *in,
                                size_t in_bytes, int tag)
{
    struct ct_request sent, got;
    enum ct_status st;

    CT_TRY(ct_comm_receive(c, from, tag, in, in_bytes, &got));
    st = ct_comm_send(c, to, tag, out, out_bytes, &sent);
    if (st != CT_OK) {
        (void)ct_comm_cancel(c, &got);
        return st;
    }
    st = ct_comm_wait(c, from, &got);
    if (st != CT_OK) {
        (void)ct_comm_cancel(c, &sent);
        return st;
    }
    return ct_comm_wait(c, to, &sent);
}

enum ct_status ct_comm_staging(struct ct_comm *c, size_t bytes, void *out)
{
    if (bytes > c->staging_bytes || c->staging_lost) {
        void *more = ct_malloc(bytes, "comm staging");

        if (!more)
            return CT_ENOMEM;
        if (!c->staging_lost)
            ct_free(c->staging);
        c->staging       = more;
        c->staging_bytes = bytes;
        c->staging_lost  = false;
    }
    memcpy(out, &c->staging, sizeof(c->staging));
    return CT_OK;
}

void ct_comm_add(int64_t n, const float *restrict x, float *restrict y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}
