/* blame.c - finds the rank that others wait for, and judges waits. */
#include <stdio.h>

#include "liveness/watch_inner.h"

enum {
    GRACE_US  = 5000000,
    ANSWER_US = 10000000 /* rank 0 is gone if it does not answer for so long */
};

/* Whether the pulse of a rank is known and can be compared with this one's:
 * ranks that serve run no collectives with ranks that train. */
static bool known(const struct live_watch *w, int r)
{
    return live_knows(w, r) && w->seat[r].like &&
           (w->seat[r].page || w->seat[r].heard) && !live_has_gone_on(w, r);
}

/* The ranks that the others wait for. */
struct culprit {
    int      rank;    /* one of them; -1: none was found */
    int      n;       /* number of them */
    bool     silent;  /* `rank` gives no sign of life */
    uint64_t changed; /* latest time when one of them made progress */
};

/* Finds the ranks that have begun the fewest collectives and do not wait
 * themselves. */
static struct culprit find_culprit(const struct live_watch *w, uint64_t now)
{
    struct culprit c = { .rank = -1 };
    uint32_t least   = UINT32_MAX;

    for (int r = 0; r < w->size; r++)
        if (known(w, r) && live_view_of(w, r).sequence < least)
            least = live_view_of(w, r).sequence;
    for (int r = 0; r < w->size; r++) {
        struct ct_pulse_view v;
        bool silent;

        if (!known(w, r))
            continue;
        v      = live_view_of(w, r);
        silent = live_since(v.beat, now) > LIVE_SILENT_US;
        if (v.sequence != least || (v.waiting && !silent))
            continue;
        if (c.rank < 0 || (silent && !c.silent))
            c.rank = r;
        c.n++;
        c.silent |= silent;
        c.changed = v.changed > c.changed ? v.changed : c.changed;
    }
    return c;
}

/* Describes what this rank waits for, if no culprit was found. */
static void explain_own(const struct live_watch *w, uint64_t waited, char *out,
                        size_t bytes)
{
    const struct ct_pulse_view v = ct_pulse_view(&w->mine->pulse);
    char who[128] = "the others", where[128];

    if (v.peer >= 0 && v.peer < w->size)
        live_name_of(w, v.peer, who, sizeof(who));
    snprintf(out, bytes, "ranks have waited %.0f s for each other%s: rank %d "
             "has no message from or to %s, in %s", 1e-6 * (double)waited,
             atomic_load(&w->met) ? "" : " to begin", w->rank, who,
             ct_pulse_text(&v, where, sizeof(where)));
}

void live_explain(const struct live_watch *w, uint64_t waited, uint64_t now,
                    char *out, size_t bytes)
{
    struct culprit c = find_culprit(w, now);
    char who[128], where[128], more[64] = "";
    struct ct_pulse_view v;

    if (c.rank < 0) {
        explain_own(w, waited, out, bytes);
        return;
    }
    v = live_view_of(w, c.rank);
    if (c.n > 1)
        snprintf(more, sizeof(more), " and %d more", c.n - 1);
    snprintf(out, bytes, "waiting %.0f s for %s%s: %s %s, for %.0f s",
             1e-6 * (double)waited, live_name_of(w, c.rank, who, sizeof(who)),
             more, c.silent ? "it gives no sign of life and was last in"
                            : "it is in",
             ct_pulse_text(&v, where, sizeof(where)),
             1e-6 * (double)live_since(v.changed, now));
}

uint64_t live_longest_wait(const struct live_watch *w, uint64_t now)
{
    uint64_t most = 0;

    for (int r = 0; r < w->size; r++) {
        const uint64_t since = known(w, r) ? live_view_of(w, r).waiting : 0;

        if (since && live_since(since, now) > most)
            most = live_since(since, now);
    }
    return most;
}

uint64_t live_age_of_move(const struct live_watch *w, uint64_t now)
{
    const struct culprit c = find_culprit(w, now);

    return c.rank >= 0 ? live_since(c.changed, now) : now;
}

bool live_speaks(const struct live_watch *w, uint64_t now)
{
    if (!atomic_load(&w->met)) /* ranks do not know each other yet */
        return true;
    for (int r = 0; r < w->rank; r++)
        if (w->seat[r].page && !w->seat[r].gone &&
            live_since(live_view_of(w, r).beat, now) < LIVE_SILENT_US)
            return false;
    return w->rank == 0 || w->seat[0].page;
}

/* Rank 0 knows more, so other ranks report a stall later by this time. */
static uint64_t grace(const struct live_watch *w)
{
    return w->stall < GRACE_US ? w->stall : GRACE_US;
}

/* A rank that is done waits as long as the others give signs of life: they may
 * still test or write, which takes any time. */
static bool has_time(const struct live_watch *w, const struct culprit *c,
                     uint64_t now)
{
    const uint64_t most = w->stall > ANSWER_US ? w->stall : ANSWER_US;

    return live_view_of(w, w->rank).phase == CT_PULSE_DONE && !c->silent &&
           (!w->remote[w->rank] ||
            live_since(atomic_load(&w->answered), now) < most);
}

/* How long ranks may wait if no rank is known to be at work; 0: no limit. */
static uint64_t least_stall(const struct live_watch *w)
{
    const uint64_t brief = (uint64_t)(1e6 * w->config.brief);

    return brief > 0 && atomic_load(&w->met) &&
                   (w->stall == 0 || brief < w->stall)
               ? brief
               : w->stall;
}

/* Fails if this rank has waited for longer than `stall` and no awaited rank has
 * made progress for so long. */
static enum ct_status stalled(struct live_watch *w, uint64_t now)
{
    const uint64_t waiting = ct_pulse_view(&w->mine->pulse).waiting;
    const uint64_t waited  = waiting ? live_since(waiting, now) : 0;
    uint64_t most          = least_stall(w);
    struct culprit c;
    char text[448];

    if (most == 0 || waited < most)
        return CT_OK;
    c = find_culprit(w, now);
    if (c.rank >= 0) /* it is at work */
        most = w->stall;
    if (most == 0 || waited < most)
        return CT_OK;
    if (c.rank >= 0 && (live_since(c.changed, now) < w->stall ||
                        live_view_of(w, c.rank).phase == CT_PULSE_SNAPSHOT))
        return CT_OK; /* writing to a slow disk is not a stall */
    if (live_since(atomic_load(&w->moved), now) < w->stall ||
        has_time(w, &c, now))
        return CT_OK;
    if (!live_speaks(w, now) && waited < most + grace(w))
        return CT_OK;
    live_explain(w, waited, now, text, sizeof(text));
    return ct_fail(CT_ECOMM, "rank %d: %s", w->rank, text);
}

enum ct_status live_judge(void *arg)
{
    struct live_watch *w = arg;
    enum ct_status st;

    atomic_store(&w->came_by, ct_pulse_now());
    if (!atomic_load(&w->lost))
        return stalled(w, ct_pulse_now());
    atomic_store(&w->told, true);
    pthread_mutex_lock(&w->lock);
    st = ct_fail(CT_ECOMM, "%s", w->why);
    pthread_mutex_unlock(&w->lock);
    return st;
}

