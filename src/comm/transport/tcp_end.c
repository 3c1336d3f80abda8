/* tcp_end.c - a process's end: it listens, calls others and answers calls.
 *
 * Of two ranks the lower one calls, at all addresses of the other at once; the
 * other answers the first call that comes through, and that connection is the
 * one.  Calls for a view that is not open yet wait.  Callers without the key
 * are closed without a word; there are never more than a few of them. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/transport/address.h"
#include "comm/transport/tcp_parts.h"

enum {
    EVENTS       = 32,
    MOST_UNKNOWN = 64, /* connections that have not shown the key */
    ACCEPT       = 64  /* at a time */
};

static const uint64_t address_magic = 0x317463702d746300; /* "\0ct-pct1" */
static const uint64_t hello_magic   = 0x316f6c6c65687463,
                      answer_magic  = 0x3172657773746331;
/* A caller that has not shown the key by then never will. */
static const double hello_seconds = 5;

struct tcp_address {
    uint64_t magic, machine;
    uint8_t  key[TCP_KEY_BYTES];
    uint16_t port, n;
    struct ct_ip at[TCP_CALLS];
};

/* ---- addresses */

const void *ct_tcp_address(const struct ct_tcp *e, size_t *bytes)
{
    *bytes = sizeof(struct tcp_address);
    return e->address;
}

void ct_tcp_learn_addresses(struct ct_tcp *e, const struct ct_ip *now,
                            int n_now)
{
    struct tcp_address *a = e->address;
    int n                 = a->n;

    if (ct_learn_addresses(now, n_now, a->at, TCP_CALLS, &n))
        a->n = (uint16_t)n;
}

/* ---- the end */

static enum ct_status end_start(struct ct_tcp *e)
{
    struct tcp_address *a;

    CT_TRY(ct_alloc(1, sizeof(*a), "tcp address", &a));
    e->address = a;
    a->magic   = address_magic;
    a->machine = ct_machine_number();
    for (int i = 0; i < TCP_KEY_BYTES; i += 8) {
        const uint64_t word = ct_entropy();

        memcpy(e->key + i, &word, 8);
    }
    memcpy(a->key, e->key, TCP_KEY_BYTES);
    a->n        = (uint16_t)ct_list_addresses(a->at, TCP_CALLS);
    e->listener = ct_listen(&a->port);
    if (e->listener < 0)
        return ct_fail(CT_ECOMM, "cannot listen on a port: %s",
                       strerror(errno));
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (e->epoll < 0 || !tcp_watch(e, e->listener, e, false))
        return ct_fail(CT_ECOMM, "epoll: %s", strerror(errno));
    return CT_OK;
}

enum ct_status ct_tcp_create(struct ct_tcp **out)
{
    struct ct_tcp *e;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*e), "tcp", &e));
    e->about    = TCP_LISTENER;
    e->listener = e->epoll = -1;
    st          = end_start(e);
    if (st == CT_OK)
        *out = e;
    else
        ct_tcp_destroy(e);
    return st;
}

void tcp_close(const struct ct_tcp *e, int fd)
{
    (void)epoll_ctl(e->epoll, EPOLL_CTL_DEL, fd, NULL);
    (void)shutdown(fd, SHUT_RDWR);
    close(fd);
}

static void guest_leave(struct ct_tcp *e, struct tcp_guest *g, bool hang_up)
{
    struct tcp_guest **at = &e->guests;

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    e->n_unknown -= g->n_read < sizeof(g->hello);
    if (hang_up)
        tcp_close(e, g->fd);
    ct_free(g);
}

void ct_tcp_destroy(struct ct_tcp *e)
{
    if (!e)
        return;
    CT_ASSERT(!e->view);
    while (e->guests)
        guest_leave(e, e->guests, true);
    if (e->listener >= 0)
        close(e->listener);
    if (e->epoll >= 0)
        close(e->epoll);
    ct_free(e->address);
    ct_free(e);
}

bool tcp_watch(const struct ct_tcp *e, int fd, void *about, bool write)
{
    struct epoll_event what = { .events = EPOLLIN | (write ? EPOLLOUT : 0u),
                                .data.ptr = about };

    return epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &what) == 0 ||
           (errno == EEXIST &&
            epoll_ctl(e->epoll, EPOLL_CTL_MOD, fd, &what) == 0);
}

/* ---- guests */

static void no_delay(int fd)
{
    const int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static bool has_key(const struct ct_tcp *e, const struct tcp_hello *h)
{
    unsigned differs = h->magic != hello_magic;

    for (int i = 0; i < TCP_KEY_BYTES; i++) /* takes as long for any key */
        differs |= (unsigned)(h->key[i] ^ e->key[i]);
    return differs == 0;
}

/* The peer of the open view that it says it is, if that one is expected. */
static struct tcp_peer *seat_of(const struct ct_tcp *e,
                                const struct tcp_hello *h)
{
    struct tcp_view *v = e->view;

    if (!v || h->view != v->number || h->rank >= (uint32_t)v->base.rank ||
        v->peer[h->rank].fd >= 0 || v->peer[h->rank].lost)
        return NULL;
    return &v->peer[h->rank];
}

/* One that has shown the key: a peer, somebody for later, or late. */
static void guest_known(struct ct_tcp *e, struct tcp_guest *g)
{
    struct tcp_peer *p = seat_of(e, &g->hello);
    const int fd       = g->fd;

    if (p && send(fd, &answer_magic, sizeof(answer_magic), MSG_NOSIGNAL) ==
                 sizeof(answer_magic)) {
        guest_leave(e, g, false);
        tcp_peer_connected(p, fd);
    } else if (p || (e->view && g->hello.view <= e->view->number)) {
        guest_leave(e, g, true);
    } else { /* it is heard when its view opens */
        (void)epoll_ctl(e->epoll, EPOLL_CTL_DEL, fd, NULL);
    }
}

static void guest_read(struct ct_tcp *e, struct tcp_guest *g)
{
    ssize_t n = recv(g->fd, (char *)&g->hello + g->n_read,
                     sizeof(g->hello) - g->n_read, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        guest_leave(e, g, true);
        return;
    }
    g->n_read += (size_t)n;
    if (g->n_read < sizeof(g->hello))
        return;
    e->n_unknown--;
    if (has_key(e, &g->hello))
        guest_known(e, g);
    else
        guest_leave(e, g, true);
}

/* The oldest of those who have not shown the key makes room. */
static void guests_limit(struct ct_tcp *e)
{
    const double now = ct_now();

    for (;;) {
        struct tcp_guest *oldest = NULL;

        for (struct tcp_guest *g = e->guests; g; g = g->next)
            if (g->n_read < sizeof(g->hello))
                oldest = g;
        if (!oldest || (e->n_unknown <= MOST_UNKNOWN &&
                        now - oldest->since < hello_seconds))
            return;
        guest_leave(e, oldest, true);
    }
}

static void accept_some(struct ct_tcp *e)
{
    for (int i = 0; i < ACCEPT; i++) {
        struct tcp_guest *g;
        int fd = accept4(e->listener, NULL, NULL,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0)
            break;
        g = ct_calloc(1, sizeof(*g), "tcp guest");
        if (!g) {
            close(fd);
            break;
        }
        no_delay(fd);
        *g = (struct tcp_guest){ .about = TCP_GUEST, .fd = fd,
                                 .next = e->guests, .since = ct_now() };
        e->guests = g;
        e->n_unknown++;
        if (!tcp_watch(e, fd, g, false))
            guest_leave(e, g, true);
    }
    guests_limit(e);
}

void tcp_seat_guests(struct ct_tcp *e)
{
    struct tcp_guest *next;

    for (struct tcp_guest *g = e->guests; g; g = next) {
        next = g->next;
        if (g->n_read == sizeof(g->hello))
            guest_known(e, g);
    }
}

/* ---- calls */

static void call_end(struct tcp_call *c)
{
    if (c->fd >= 0)
        tcp_close(c->peer->view->end, c->fd);
    c->fd = -1;
}

void tcp_hang_up(struct tcp_peer *p)
{
    for (int i = 0; i < TCP_CALLS; i++)
        call_end(&p->call[i]);
}

static void call_failed(struct tcp_call *c, const char *why)
{
    struct tcp_peer *p = c->peer;

    call_end(c);
    for (int i = 0; i < TCP_CALLS; i++)
        if (p->call[i].fd >= 0)
            return; /* another address may do */
    tcp_peer_lose(p, why);
}

/* Connected: says who it is. */
static void call_ask(struct ct_tcp *e, struct tcp_call *c)
{
    const struct tcp_view *v = c->peer->view;
    struct tcp_hello h = { .magic = hello_magic, .view = v->number,
                           .rank = (uint32_t)v->base.rank };
    int error        = 0;
    socklen_t length = sizeof(error);

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
        call_failed(c, strerror(error));
        return;
    }
    memcpy(h.key, c->peer->key, TCP_KEY_BYTES);
    if (send(c->fd, &h, sizeof(h), MSG_NOSIGNAL) != sizeof(h) ||
        !tcp_watch(e, c->fd, c, false))
        call_failed(c, strerror(errno));
    else
        c->asked = true;
}

static void call_hear(struct tcp_call *c)
{
    struct tcp_peer *p = c->peer;
    ssize_t n = recv(c->fd, (char *)&c->answer + c->n_read,
                     sizeof(c->answer) - c->n_read, 0);
    int fd;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        call_failed(c, n == 0 ? "it is in another view" : strerror(errno));
        return;
    }
    c->n_read += (size_t)n;
    if (c->n_read < sizeof(c->answer))
        return;
    if (c->answer != answer_magic) {
        call_failed(c, "somebody else answered");
        return;
    }
    fd    = c->fd;
    c->fd = -1;
    tcp_hang_up(p);
    tcp_peer_connected(p, fd);
}

static enum ct_status call_one(struct ct_tcp *e, struct tcp_call *c,
                               const struct ct_ip *to, uint16_t port)
{
    c->about = TCP_CALL;
    c->fd    = ct_connect(to, port);
    if (c->fd >= 0 && !tcp_watch(e, c->fd, c, true))
        return ct_fail(CT_ECOMM, "epoll: %s", strerror(errno));
    return CT_OK; /* another address may do */
}

static enum ct_status call_all(struct ct_tcp *e, struct tcp_peer *p,
                               const struct tcp_address *a)
{
    const struct ct_ip loopback = ct_loopback_address();
    bool any                    = false;

    if (p->local)
        CT_TRY(call_one(e, &p->call[0], &loopback, a->port));
    for (int i = 0; i < a->n && !p->local; i++)
        if (a->at[i].family == AF_INET || a->at[i].family == AF_INET6)
            CT_TRY(call_one(e, &p->call[i], &a->at[i], a->port));
    for (int i = 0; i < TCP_CALLS; i++)
        any |= p->call[i].fd >= 0;
    if (!any)
        tcp_peer_lose(p, "no address of it can be reached");
    return CT_OK;
}

enum ct_status tcp_peer_address(struct tcp_peer *p, const void *address,
                                size_t bytes)
{
    struct ct_tcp *e               = p->view->end;
    const struct tcp_address *mine = e->address;
    struct tcp_address a;

    if (bytes == sizeof(a))
        memcpy(&a, address, sizeof(a));
    if (bytes != sizeof(a) || a.magic != address_magic || a.n > TCP_CALLS)
        return ct_fail(CT_EINVAL, "rank %d: what is given as its address is "
                       "none", p->rank);
    p->local = a.machine == mine->machine;
    memcpy(p->key, a.key, TCP_KEY_BYTES);
    return p->rank > p->view->base.rank ? call_all(e, p, &a) : CT_OK;
}

/* ---- */

static void peer_event(struct tcp_peer *p, uint32_t events)
{
    if (events & EPOLLOUT)
        tcp_peer_write(p);
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        tcp_peer_read(p);
}

static void call_event(struct ct_tcp *e, struct tcp_call *c)
{
    if (c->fd >= 0 && !c->asked)
        call_ask(e, c);
    else if (c->fd >= 0)
        call_hear(c);
}

void tcp_progress(struct ct_tcp *e)
{
    struct epoll_event event[EVENTS];
    int n = epoll_wait(e->epoll, event, EVENTS, 0);

    for (int i = 0; i < n; i++)
        switch (*(enum tcp_about *)event[i].data.ptr) {
        case TCP_LISTENER:
            e->knocked = true;
            break;
        case TCP_GUEST:
            guest_read(e, event[i].data.ptr);
            break;
        case TCP_CALL:
            call_event(e, event[i].data.ptr);
            break;
        case TCP_PEER:
            peer_event(event[i].data.ptr, event[i].events);
            break;
        }
    /* Last: it may close guests, and their events come first. */
    if (e->knocked)
        accept_some(e);
    e->knocked = false;
}
