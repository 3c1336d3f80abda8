/* wait.c - the one way in which a rank waits for its peers.
 *
 * A thread that only yields its core stays on it.  If another rank came to that
 * core, both share it, for tens of iterations, while another core may be idle:
 * the kernel finds a free core for threads that wake up, and moves others
 * late.  So a thread that finds that another one has used its core for long
 * sleeps once, and the kernel wakes it on a free core. */
#include "comm/wait.h"

#include "base/clock.h"
#include "base/pulse.h"

/* If another thread has had the core for longer than this between two looks, it
 * computes. */
static const double turn_s = 5e-4;

/* The shortest wait that is reported to peers; the time between two checks of a
 * wait. */
static const double moment_s = 5e-3, look_s = 50e-3;

void ct_wait_begin(struct ct_wait *w)
{
    w->start = w->since = ct_now();
    w->next_look        = w->start + moment_s;
    w->told = w->shares_core = false;
}

void ct_wait_news(struct ct_wait *w, double when)
{
    if (when > w->since)
        w->since = when;
}

static enum ct_status stalled(const struct ct_wait *w)
{
    const struct ct_comm *c = w->comm;

    if (w->peer < 0)
        return ct_fail(CT_ECOMM, "rank %d: the ranks have waited for each "
                       "other for %g s", c->rank, c->stall_after);
    return ct_fail(CT_ECOMM, "rank %d: nothing from or to rank %d for %g s",
                   c->rank, w->peer, c->stall_after);
}

/* Fails if the wait cannot succeed any more. */
static enum ct_status judge(struct ct_wait *w, double now)
{
    const struct ct_comm *c = w->comm;

    if (w->alive)
        CT_TRY(w->alive(w->arg, w->peer));
    if (c->judge)
        return c->judge(c->tick_arg);
    return c->stall_after > 0 && now - w->since > c->stall_after ? stalled(w)
                                                                : CT_OK;
}

/* Reports the wait of this thread to peers.  The compute thread and the comm
 * thread may wait at the same time. */
static void tell(const struct ct_wait *w, int peer, uint64_t since)
{
    ct_pulse_tell_wait(w->comm->pulse,
                       w->owner ? CT_PULSE_COMM : CT_PULSE_COMPUTE,
                       peer < 0 ? peer : w->comm->pulse_first + peer, since);
}

static enum ct_status look_around(struct ct_wait *w, double now)
{
    const double silent = now - w->since;

    w->next_look = now + look_s;
    if (w->owner)
        CT_TRY(ct_comm_tick(w->comm, now));
    if (w->own || silent < moment_s)
        return CT_OK;
    tell(w, w->peer, ct_pulse_now() - (uint64_t)(1e6 * silent));
    w->told = true;
    /* The watch and witnesses know more about a death, so they report it
     * first. */
    return silent < look_s ? CT_OK : judge(w, now);
}

enum ct_status ct_wait_on(struct ct_wait *w)
{
    struct ct_comm *c = w->comm;
    double now;

    CT_TRY(ct_transport_check(c->transport));
    if (w->owner && c->background)
        CT_TRY(c->background(c->background_arg));
    now = ct_now();
    if (now >= w->next_look) {
        CT_TRY(look_around(w, now));
        now = ct_now();
    }
    if (!w->shares_core && !ct_pace_turn(&w->pace, now - w->start)) {
        w->shares_core = now - w->start >= w->pace.spin_s &&
                         ct_now() - now > turn_s;
        return CT_OK;
    }
    w->shares_core = false;
    if (w->sleep)
        w->sleep(w->arg);
    else
        ct_pace_nap(&w->pace, now - w->start);
    return CT_OK;
}

double ct_wait_end(struct ct_wait *w)
{
    if (w->told)
        tell(w, -1, 0);
    return ct_now() - w->start;
}
