/* farewell.c - the end of a training that did not wait for slow ranks. */
#include "dist/servers/farewell.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "comm/wait.h"
#include "cortado/log.h"
#include "dist/engine.h"
#include "dist/servers/rounds.h"

enum {
    TAG_CAME = DIST_ROUND_TAG_FREE, /* rank -> first server, or rank 0 */
    TAG_GONE                        /* first server -> rank: ranks that are
                                     * gone */
};

/* The first server's list of ranks that have reached the end. */
struct guests {
    struct ct_dist    *dist;
    int                n;
    char              *word;    /* per rank: the byte that it sends; owned */
    bool              *came;    /* per rank: it has reached the end; owned */
    struct ct_request *request; /* per rank: the receive of its byte; owned */
    int                n_posted; /* ranks whose receive is posted */
    double             since;   /* since when only suspects are missing; 0:
                                 * others are missing, too */
};

static enum ct_status guests_init(struct guests *g, struct ct_dist *d)
{
    *g = (struct guests){ .dist = d, .n = d->view.all->size };
    CT_TRY(ct_alloc((size_t)g->n, 1, "farewell", &g->word));
    CT_TRY(ct_alloc((size_t)g->n, sizeof(*g->came), "farewell", &g->came));
    return ct_alloc((size_t)g->n, sizeof(*g->request), "farewell",
                    &g->request);
}

/* Memory that MPI may still write to is not freed. */
static void guests_fini(struct guests *g)
{
    bool all = true;

    for (int r = 0; r < g->n_posted; r++)
        if (!g->came[r])
            all &= ct_comm_cancel(g->dist->view.all, &g->request[r]);
    if (all)
        ct_free(g->word);
    ct_free(g->came);
    ct_free(g->request);
}

/* *out: a rank that is still awaited; -1: none.  Rank 0, which wrote the
 * snapshot, and dedicated servers are always awaited. */
static enum ct_status first_missing(struct guests *g, int *out)
{
    const double now = ct_now();
    int suspect      = -1;

    *out = -1;
    for (int r = 0; r < g->n; r++) {
        if (!g->came[r])
            CT_TRY(ct_comm_test(g->dist->view.all, &g->request[r],
                                &g->came[r]));
        if (g->came[r])
            continue;
        if (r > 0 && dist_round_suspects(g->dist->ps.round, r))
            suspect = r;
        else
            *out = r;
    }
    if (*out >= 0 || suspect < 0) {
        g->since = 0;
        return CT_OK;
    }
    if (g->since == 0)
        g->since = now;
    if (now - g->since < g->dist->options->heartbeat)
        *out = suspect;
    return CT_OK;
}

static enum ct_status await_guests(struct guests *g)
{
    struct ct_wait w  = { .comm = g->dist->view.all, .owner = true,
                          .pace = { .nap_ns = 200000 } };
    enum ct_status st = CT_OK;

    ct_wait_begin(&w);
    for (;;) {
        CT_TRY_GOTO(first_missing(g, &w.peer), st, out);
        if (w.peer < 0)
            break;
        CT_TRY_GOTO(ct_wait_on(&w), st, out);
    }
out:
    (void)ct_wait_end(&w);
    return st;
}

static enum ct_status tell_guests(const struct guests *g, const bool *gone)
{
    struct ct_comm *c = g->dist->view.all;

    for (int r = 0; r < g->n; r++) {
        struct ct_request q;

        if (r == c->rank || gone[r])
            continue;
        CT_TRY(ct_comm_send(c, r, TAG_GONE, gone, (size_t)g->n, &q));
        CT_TRY(ct_comm_wait(c, r, &q));
    }
    return CT_OK;
}

static enum ct_status see_off(struct ct_dist *d, bool *gone)
{
    struct guests g;
    enum ct_status st = guests_init(&g, d);

    if (st != CT_OK)
        goto out;
    g.came[d->view.all->rank] = true;
    for (; g.n_posted < g.n; g.n_posted++) {
        const int r = g.n_posted;

        if (!g.came[r])
            CT_TRY_GOTO(ct_comm_receive(d->view.all, r, TAG_CAME, &g.word[r],
                                        1, &g.request[r]), st, out);
    }
    CT_TRY_GOTO(await_guests(&g), st, out);
    for (int r = 0; r < g.n; r++)
        gone[r] = !g.came[r];
    st = tell_guests(&g, gone);
out:
    guests_fini(&g);
    return st;
}

static enum ct_status say_came(struct ct_comm *c, int to)
{
    const char word = 1;
    struct ct_request q;

    CT_TRY(ct_comm_send(c, to, TAG_CAME, &word, 1, &q));
    return ct_comm_wait(c, to, &q);
}

static enum ct_status take_leave(struct ct_dist *d, int first, bool *gone)
{
    struct ct_request q;

    CT_TRY(say_came(d->view.all, first));
    CT_TRY(ct_comm_receive(d->view.all, first, TAG_GONE, gone,
                           (size_t)d->view.all->size, &q));
    return ct_comm_wait(d->view.all, first, &q);
}

static void say_gone(const struct ct_dist *d)
{
    struct ct_text who = { 0 };
    int n              = 0;

    for (int r = 0; r < d->view.all->size; r++)
        if (d->gone[r])
            ct_text_addf(&who, "%s%d", n++ ? ", " : "", r);
    if (d->view.all->rank == 0 && !who.failed)
        CT_WARN("Rank %s never came back: training is done without it, and "
                "it is ended with the job", who.s);
    ct_text_fini(&who);
}

enum ct_status dist_farewell(struct ct_comm *c, void *dist)
{
    struct ct_dist *d = dist;
    const int first   = d->ps.server_rank[0];
    bool *gone        = NULL;
    enum ct_status st;

    (void)c;
    CT_TRY(ct_alloc((size_t)d->view.all->size, sizeof(*gone), "farewell",
                    &gone));
    st = d->view.all->rank == first ? see_off(d, gone)
                               : take_leave(d, first, gone);
    if (st == CT_OK && memchr(gone, true, (size_t)d->view.all->size)) {
        d->gone = gone;
        say_gone(d);
        return CT_OK;
    }
    ct_free(gone);
    return st;
}

static enum ct_status meet_job(struct ct_comm *c, void *arg)
{
    struct ct_dist *d = arg;

    (void)c;
    if (d->view.all->rank > 0)
        return say_came(d->view.all, 0);
    for (int r = 1; r < d->view.all->size; r++) {
        struct ct_request q;
        char word;

        if (d->gone[r])
            continue;
        CT_TRY(ct_comm_receive(d->view.all, r, TAG_CAME, &word, 1, &q));
        CT_TRY(ct_comm_wait(d->view.all, r, &q));
    }
    return CT_OK;
}

enum ct_status dist_farewell_meet(struct ct_dist *d)
{
    return ct_job_run(d->view.thread, meet_job, d);
}
