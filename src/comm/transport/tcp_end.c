/* tcp_end.c - the end of a process: listens, connects to others, accepts
 * connections.
 *
 * Of two ranks the lower one calls: it connects to all addresses of the other
 * at the same time.  The other answers the first call that arrives, and this
 * connection is used.  Calls for a view that is not open yet wait.  Callers
 * without the key are closed without an answer, and their number is limited.  A
 * caller that replays a recorded hello gets an answer, but cannot prove that it
 * has the key. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/transport/address.h"
#include "comm/transport/tcp_parts.h"

enum {
    EVENTS       = 32,
    MOST_UNKNOWN = 64, /* connections without a correct hello */
    MOST_PROVING = 1024, /* connections without a proof */
    ACCEPT       = 64  /* connections accepted per call */
};

static const uint64_t address_magic = 0x317463702d746300; /* "\0ct-pct1" */
/* A caller that takes longer for its hello or proof is closed. */
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
    tcp_draw(e->key);
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
    e->n_guests[g->state]--;
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

static void guest_becomes(struct ct_tcp *e, struct tcp_guest *g,
                          enum tcp_guest_state state)
{
    e->n_guests[g->state]--;
    e->n_guests[state]++;
    g->state  = state;
    g->since  = ct_now();
    g->n_read = 0;
}

/* The peer of the open view that sent this hello; NULL: no such peer is
 * expected. */
static struct tcp_peer *seat_of(const struct ct_tcp *e,
                                const struct tcp_hello *h)
{
    struct tcp_view *v = e->view;

    if (!v || h->view != v->number || h->rank >= (uint32_t)v->base.rank ||
        v->peer[h->rank].fd >= 0 || v->peer[h->rank].lost)
        return NULL;
    return &v->peer[h->rank];
}

static bool guest_answer(struct ct_tcp *e, struct tcp_guest *g)
{
    struct tcp_answer a = { .magic = tcp_answer_magic };

    tcp_draw(g->nonce);
    memcpy(a.nonce, g->nonce, TCP_NONCE_BYTES);
    a.tag = tcp_tag(e->key, TCP_ANSWER, &g->hello, g->nonce);
    return send(g->fd, &a, sizeof(a), MSG_NOSIGNAL) == sizeof(a) &&
           tcp_watch(e, g->fd, g, false);
}

/* Whether a guest with the same nonce waits already.  Each caller draws its own
 * nonce, so this hello is a recorded copy.  So no more guests can wait than
 * members have called. */
static bool is_awaited(const struct ct_tcp *e, const struct tcp_hello *h)
{
    for (const struct tcp_guest *g = e->guests; g; g = g->next)
        if (g->state == TCP_AWAITED &&
            memcmp(g->hello.nonce, h->nonce, TCP_NONCE_BYTES) == 0)
            return true;
    return false;
}

/* Handles a guest with a correct hello: a peer of this view, of a later one, or
 * of an earlier one. */
static void guest_known(struct ct_tcp *e, struct tcp_guest *g)
{
    const struct tcp_peer *p = seat_of(e, &g->hello);

    if (p && guest_answer(e, g)) {
        guest_becomes(e, g, TCP_PROVING);
    } else if (p || (e->view && g->hello.view <= e->view->number) ||
               (g->state != TCP_AWAITED && is_awaited(e, &g->hello))) {
        guest_leave(e, g, true);
    } else { /* tcp_seat_guests() answers it when its view opens */
        guest_becomes(e, g, TCP_AWAITED);
        (void)epoll_ctl(e->epoll, EPOLL_CTL_DEL, g->fd, NULL);
    }
}

/* Handles a complete hello or proof. */
static void guest_said(struct ct_tcp *e, struct tcp_guest *g)
{
    struct tcp_peer *p = seat_of(e, &g->hello);
    const int fd       = g->fd;

    if (g->state == TCP_UNKNOWN && g->hello.magic == tcp_hello_magic &&
        g->hello.tag == tcp_tag(e->key, TCP_HELLO, &g->hello, NULL)) {
        guest_known(e, g);
    } else if (g->state == TCP_PROVING && p &&
               g->proof == tcp_tag(e->key, TCP_PROOF, &g->hello, g->nonce)) {
        guest_leave(e, g, false);
        tcp_peer_connected(p, fd);
    } else {
        guest_leave(e, g, true);
    }
}

static void guest_read(struct ct_tcp *e, struct tcp_guest *g)
{
    const bool proves  = g->state == TCP_PROVING;
    const size_t bytes = proves ? sizeof(g->proof) : sizeof(g->hello);
    char *to           = proves ? (char *)&g->proof : (char *)&g->hello;
    const ssize_t n    = recv(g->fd, to + g->n_read, bytes - g->n_read, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        guest_leave(e, g, true);
        return;
    }
    g->n_read += (size_t)n;
    if (g->n_read == bytes)
        guest_said(e, g);
}

/* Whether the guest is still in that state after what it may have said is
 * read. */
static bool guest_stays(struct ct_tcp *e, struct tcp_guest *g,
                        enum tcp_guest_state state)
{
    const int n = e->n_guests[state];

    guest_read(e, g);
    return e->n_guests[state] == n;
}

/* Closes the oldest guests in a state if they are too many or too old.  A guest
 * that has said all that it has to is not closed: it does not call again. */
static void guests_limit(struct ct_tcp *e, enum tcp_guest_state state,
                         int most)
{
    const double now = ct_now();

    for (;;) {
        struct tcp_guest *oldest = NULL;

        for (struct tcp_guest *g = e->guests; g; g = g->next)
            if (g->state == state && (!oldest || g->since <= oldest->since))
                oldest = g;
        if (!oldest || (e->n_guests[state] <= most &&
                        now - oldest->since < hello_seconds))
            return;
        if (guest_stays(e, oldest, state))
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
        e->n_guests[TCP_UNKNOWN]++;
        if (!tcp_watch(e, fd, g, false))
            guest_leave(e, g, true);
        else
            guest_read(e, g); /* only silent guests count */
    }
    guests_limit(e, TCP_UNKNOWN, MOST_UNKNOWN);
    guests_limit(e, TCP_PROVING, MOST_PROVING);
}

void tcp_seat_guests(struct ct_tcp *e)
{
    struct tcp_guest *next;

    for (struct tcp_guest *g = e->guests; g; g = next) {
        next = g->next;
        if (g->state == TCP_AWAITED)
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
            return; /* a call to another address is still possible */
    tcp_peer_lose(p, why);
}

/* The call is connected: sends the hello. */
static void call_ask(struct ct_tcp *e, struct tcp_call *c)
{
    const struct tcp_view *v = c->peer->view;
    struct tcp_hello *h      = &c->hello;
    int error                = 0;
    socklen_t length         = sizeof(error);

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
        call_failed(c, strerror(error));
        return;
    }
    *h = (struct tcp_hello){ .magic = tcp_hello_magic, .view = v->number,
                             .rank = (uint32_t)v->base.rank };
    tcp_draw(h->nonce);
    h->tag = tcp_tag(c->peer->key, TCP_HELLO, h, NULL);
    if (send(c->fd, h, sizeof(*h), MSG_NOSIGNAL) != sizeof(*h) ||
        !tcp_watch(e, c->fd, c, false))
        call_failed(c, strerror(errno));
    else
        c->asked = true;
}

/* Checks that the sender of the answer has the key, and sends the proof that
 * this side has it, too. */
static bool call_prove(const struct tcp_call *c)
{
    const uint8_t *key   = c->peer->key;
    const uint64_t proof = tcp_tag(key, TCP_PROOF, &c->hello, c->answer.nonce);

    return c->answer.magic == tcp_answer_magic &&
           c->answer.tag == tcp_tag(key, TCP_ANSWER, &c->hello,
                                    c->answer.nonce) &&
           send(c->fd, &proof, sizeof(proof), MSG_NOSIGNAL) == sizeof(proof);
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
    if (!call_prove(c)) {
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
    return CT_OK; /* call_all() checks whether any call has begun */
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

/* ---- events */

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
    /* Accepting comes last: it may close guests that have events. */
    if (e->knocked)
        accept_some(e);
    e->knocked = false;
}
