/* neighbours.c - processes of this host, whose end can be seen. */
#include "elastic/neighbours.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/mem.h"
#include "elastic/will_page.h"

struct neighbour {
    uint64_t          id;
    int               pidfd;
    struct post      *post; /* that looks at it; borrowed; NULL: none */
    struct will_page *page;
    struct neighbour *next;
};

static void drop(struct neighbours *all, struct neighbour *n)
{
    struct neighbour **at = &all->first;

    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    if (n->post) /* a forked process may have it open */
        post_unwatch(n->post, n->pidfd);
    if (n->pidfd >= 0)
        close(n->pidfd);
    will_page_unmap(n->page);
    ct_free(n);
}

/* Another process may have its number by now: it is the one that the card
 * speaks of if it was started then, and if the page says so. */
static bool is_found(struct neighbour *n, const struct elastic_card *c)
{
    if (n->pidfd < 0 || card_process_start(c->pid) != c->started)
        return false;
    n->page = will_page_map_of(c->pid, c->will);
    return n->page && atomic_load(&n->page->id) == c->id;
}

/* Its card may be forgotten and learned again while it lives. */
static bool is_known(const struct neighbours *all, uint64_t id)
{
    const struct neighbour *n = all->first;

    while (n && n->id != id)
        n = n->next;
    return n != NULL;
}

void neighbours_add(struct neighbours *all, struct post *p,
                    const struct elastic_card *c)
{
    struct neighbour *n;

    if (c->processes != p->config.card.processes || c->pid == 0 ||
        is_known(all, c->id))
        return;
    n = ct_calloc(1, sizeof(*n), "a neighbour");
    if (!n)
        return;
    n->id      = c->id;
    n->pidfd   = (int)syscall(SYS_pidfd_open, (pid_t)c->pid, 0);
    n->next    = all->first;
    all->first = n;
    if (is_found(n, c)) {
        n->post = p;
        post_watch(p, n->pidfd, n);
    } else {
        drop(all, n);
    }
}

void neighbours_look(struct neighbours *all, void *about, neighbour_end_fn end,
                     void *arg)
{
    struct neighbour *n = all->first;
    const struct will_place *w;

    while (n && n != about)
        n = n->next;
    if (!n || poll(&(struct pollfd){ n->pidfd, POLLIN, 0 }, 1, 0) <= 0)
        return; /* another one had that place in memory */
    w = will_page_last(n->page);
    if (atomic_load(&n->page->id) == n->id)
        end(arg, n->id, w);
    drop(all, n);
}

void neighbours_fini(struct neighbours *all)
{
    while (all->first)
        drop(all, all->first);
}
