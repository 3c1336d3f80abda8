/* meeting.c - the ranks of a watch meet: each learns where the others' pulses
 * are. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/coll/coll.h"
#include "liveness/watch_inner.h"

static struct live_page *map_peer(const struct live_card *c)
{
    struct live_page *page = live_page_map(c->pid, c->fd);

    if (!page || page->nonce == c->nonce)
        return page;
    live_page_unmap(page);
    return NULL;
}

static void seat_rank(struct live_watch *w, int r, const struct live_card *mine,
                      const struct live_card *its)
{
    const struct ct_place *place = &w->config.all->place;
    const bool serves = w->rank >= w->config.n_train;
    struct live_seat *s = &w->seat[r];

    if (r == w->rank)
        return; /* set already, and the watching thread reads it */
    if (!w->config.who)
        s->card = *its;
    if (strcmp(its->host, mine->host) == 0 &&
        ct_place_host(place, r) == ct_place_host(place, w->rank))
        s->page = map_peer(its);
    if (s->page && its->pid != mine->pid && w->config.view == 0)
        s->pidfd = (int)syscall(SYS_pidfd_open, its->pid, 0);
    s->like      = (r >= w->config.n_train) == serves;
    w->remote[r] = !s->page;
}

/* Rank 0 listens if there are ranks on other hosts.  Ranks that are threads
 * need no lines, because a thread does not die alone. */
static void offer_lines(struct live_watch *w)
{
    bool any = false;

    for (int r = 0; r < w->size; r++)
        any |= w->remote[r];
    if (w->rank == 0 && any && !w->config.all->transport->threads &&
        w->config.view == 0)
        w->listener = live_line_listen(w->mine->nonce, &w->offer);
}

/* Ranks exchange their cards, and learn which of them send their pulse to
 * rank 0. */
static enum ct_status meet(struct live_watch *w)
{
    const size_t n        = (size_t)w->size;
    struct live_card mine = w->seat[w->rank].card, *all = NULL;
    size_t *bytes = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_alloc(n, sizeof(*all), "watch", &all), st, out);
    CT_TRY_GOTO(ct_alloc(n, sizeof(*bytes), "watch", &bytes), st, out);
    for (size_t r = 0; r < n; r++)
        bytes[r] = sizeof(*all);
    CT_TRY_GOTO(ct_allgather(w->config.all, &mine, bytes, all), st, out);
    for (int r = 0; r < w->size; r++)
        seat_rank(w, r, &mine, &all[r]);
    CT_TRY_GOTO(ct_broadcast(w->config.all, 0, w->remote,
                             n * sizeof(*w->remote)), st, out);
    offer_lines(w);
    st = ct_broadcast(w->config.all, 0, &w->offer, sizeof(w->offer));
    /* A rank that serves waits for all ranks until training ends, which is not
     * a stall.  Ranks that train judge their own waits. */
    if (w->rank >= w->config.n_train)
        w->config.all->pulse = NULL;
    if (st == CT_OK)
        atomic_store(&w->met, true);
out:
    ct_free(all);
    ct_free(bytes);
    return st;
}

/* A rank that cannot meet the others cannot train with them.  In an elastic job
 * this view ends then. */
enum ct_status live_meet_job(struct ct_comm *c, void *arg)
{
    struct live_watch *w    = arg;
    const enum ct_status st = meet(w);

    (void)c;
    return st == CT_OK || w->config.view == 0
               ? st
               : ct_fail_in(CT_ECOMM, "the ranks of a view meet");
}
