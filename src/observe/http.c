/* http.c - a small web server for the live page. */
#include "observe/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/background.h"
#include "base/clock.h"
#include "base/mem.h"

enum { MOST_CLIENTS = 64, BACKLOG = 64 };

/* Seconds that a client may take to send a request, and to think of another
 * one; after `evict` it makes room for who waits.  An answer may take as long
 * as a request, and what it takes at so many bytes a second. */
static const double most_slow = 10, most_idle = 30, evict_after = 2,
                    slowest = 50e3;

static const char security[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cache-Control: no-store\r\n";

struct client {
    int            fd; /* -1: free */
    double         since; /* its accept, the first byte of a request, the
                           * start or the end of an answer: the latest.  Single
                           * bytes do not renew it. */
    char           in[CT_HTTP_MOST_HEAD + 1];
    size_t         n_in;
    struct ct_text out; /* what is still to be sent, from `sent` on */
    size_t         sent;
    bool           closing;
};

struct ct_http {
    struct ct_http_options options;
    int            listener, wake;
    int            port;
    bool           loopback;
    _Atomic double asked; /* when a request came last */
    char           where[320];
    pthread_t      thread;
    bool           runs;
    struct client  client[MOST_CLIENTS];
};

/* ---- where to listen */

/* Cuts "HOST:PORT" in two; the host is "" for the port alone. */
static enum ct_status split(const char *address, char *host, size_t size,
                            char *port, size_t port_size)
{
    const char *colon = strrchr(address, ':');
    const char *end   = colon ? colon : address;
    size_t n          = (size_t)(end - address);

    if (n >= 2 && address[0] == '[' && end[-1] == ']') {
        address++;
        n -= 2;
    }
    if (n >= size || strlen(colon ? colon + 1 : address) >= port_size)
        return ct_fail(CT_EINVAL, "'%s' is too long for an address", address);
    memcpy(host, address, n);
    host[n] = '\0';
    snprintf(port, port_size, "%s", colon ? colon + 1 : address);
    if (!port[0] || strspn(port, "0123456789") != strlen(port))
        return ct_fail(CT_EINVAL, "'%s' is no address to listen at; write "
                       "PORT or HOST:PORT, e.g. 8080", address);
    return CT_OK;
}

static bool is_loopback(const struct sockaddr *a)
{
    const struct sockaddr_in *v4  = (const void *)a;
    const struct sockaddr_in6 *v6 = (const void *)a;

    return a->sa_family == AF_INET
               ? (ntohl(v4->sin_addr.s_addr) >> 24) == 127
               : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static void note_address(struct ct_http *h, const char *host)
{
    struct sockaddr_storage a = { 0 };
    socklen_t n               = sizeof(a);
    char name[256]            = "127.0.0.1";

    if (getsockname(h->listener, (struct sockaddr *)&a, &n) == 0) {
        h->port = ntohs(a.ss_family == AF_INET
                            ? ((struct sockaddr_in *)&a)->sin_port
                            : ((struct sockaddr_in6 *)&a)->sin6_port);
        h->loopback = is_loopback((struct sockaddr *)&a);
    }
    if (host[0] && strcmp(host, "0.0.0.0") != 0 && strcmp(host, "::") != 0)
        snprintf(name, sizeof(name), strchr(host, ':') ? "[%.250s]" : "%.250s",
                 host);
    else if (host[0] && gethostname(name, sizeof(name) - 1) != 0)
        snprintf(name, sizeof(name), "localhost");
    snprintf(h->where, sizeof(h->where), "%s:%d", name, h->port);
}

static enum ct_status start_listening(struct ct_http *h)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *list = NULL;
    char host[256], port[8];
    const int one = 1;
    int st;

    CT_TRY(split(h->options.address, host, sizeof(host), port, sizeof(port)));
    st = getaddrinfo(host[0] ? host : "127.0.0.1", port, &hints, &list);
    if (st != 0)
        return ct_fail(CT_EINVAL, "cannot listen at %s: %s",
                       h->options.address, gai_strerror(st));
    h->listener = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK |
                         SOCK_CLOEXEC, 0);
    if (h->listener >= 0)
        setsockopt(h->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    st = h->listener >= 0 &&
         bind(h->listener, list->ai_addr, list->ai_addrlen) == 0 &&
         listen(h->listener, BACKLOG) == 0;
    freeaddrinfo(list);
    if (!st)
        return ct_fail(CT_EIO, "cannot listen at %s: %s", h->options.address,
                       strerror(errno));
    note_address(h, host);
    return CT_OK;
}

/* ---- clients */

static void drop(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    ct_text_fini(&c->out);
    c->fd   = -1;
    c->n_in = c->sent = 0;
    c->closing = false;
}

/* A free place, or that of the client that has had its longest. */
static struct client *find_place(struct ct_http *h, double now)
{
    struct client *oldest = NULL;

    for (int i = 0; i < MOST_CLIENTS; i++) {
        struct client *c = &h->client[i];

        if (c->fd < 0)
            return c;
        if (!oldest || c->since < oldest->since)
            oldest = c;
    }
    if (now - oldest->since < evict_after)
        return NULL;
    drop(oldest);
    return oldest;
}

static void accept_clients(struct ct_http *h, double now)
{
    for (int i = 0; i < MOST_CLIENTS; i++) {
        const int one = 1;
        int fd = accept4(h->listener, NULL, NULL, SOCK_NONBLOCK |
                         SOCK_CLOEXEC);
        struct client *c;

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                usleep(50000); /* or poll comes back at once */
            return;
        }
        c = find_place(h, now);
        if (!c) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        c->fd    = fd;
        c->since = now;
    }
}

static const char *reason(int status)
{
    switch (status) {
    case 200: return "OK";
    case 202: return "Accepted";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 431: return "Request Header Fields Too Large";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return "Bad Request";
    }
}

/* Queues the answer; frees its body. */
static void send_answer(struct client *c, struct ct_http_answer *a,
                        bool with_body, bool keep_alive)
{
    if (a->body.failed) {
        ct_text_fini(&a->body);
        a->status = 503;
    }
    if (a->status >= 400 && !a->body.n_bytes) {
        a->type = "text/plain; charset=utf-8";
        ct_text_addf(&a->body, "%d %s\n", a->status, reason(a->status));
    }
    ct_text_addf(&c->out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n"
                 "Content-Length: %zu\r\n%s", a->status, reason(a->status),
                 a->type, a->body.n_bytes, security);
    if (a->next >= 0)
        ct_text_addf(&c->out, "X-Next: %ld\r\n", a->next);
    if (a->status == 401)
        ct_text_add(&c->out, "WWW-Authenticate: Bearer\r\n");
    ct_text_addf(&c->out, "Connection: %s\r\n\r\n",
                 keep_alive ? "keep-alive" : "close");
    if (with_body && a->body.n_bytes)
        ct_text_add_bytes(&c->out, a->body.s, a->body.n_bytes);
    ct_text_fini(&a->body);
    c->closing = !keep_alive || c->out.failed;
}

/* Every whole request that has come, one answer at a time. */
static void serve(struct ct_http *h, struct client *c, double now)
{
    struct ct_http_request r;
    struct ct_http_answer a = { 200, "text/plain; charset=utf-8",
                                { 0 }, -1 };
    int n;

    if (c->out.n_bytes || c->closing)
        return;
    n = ct_http_parse(c->in, c->n_in, &r);
    if (n == 0)
        return;
    c->since = now;
    if (n < 0) {
        a.status = -n;
        send_answer(c, &a, true, false);
        return;
    }
    memmove(c->in, c->in + n, c->n_in - (size_t)n);
    c->n_in -= (size_t)n;
    atomic_store(&h->asked, ct_now());
    h->options.answer(&r, &a, h->options.arg);
    c->since = ct_now(); /* making it may have taken a while */
    send_answer(c, &a, r.method != CT_HTTP_HEAD, r.keep_alive);
}

static void read_from(struct client *c, double now)
{
    ssize_t n = read(c->fd, c->in + c->n_in, CT_HTTP_MOST_HEAD - c->n_in);

    if (n > 0) {
        if (c->n_in == 0)
            c->since = now;
        c->n_in += (size_t)n;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        drop(c);
    }
}

static void write_to(struct client *c, double now)
{
    ssize_t n = send(c->fd, c->out.s + c->sent, c->out.n_bytes - c->sent,
                     MSG_NOSIGNAL);

    if (n > 0) {
        c->sent += (size_t)n;
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        drop(c);
        return;
    }
    if (c->sent < c->out.n_bytes)
        return;
    ct_text_fini(&c->out); /* a large one does not stay */
    c->sent  = 0;
    c->since = now;
    if (c->closing)
        drop(c);
}

static bool is_late(const struct client *c, double now)
{
    const double most = c->out.n_bytes > 0
                            ? most_slow + (double)c->out.n_bytes / slowest
                        : c->n_in > 0 ? most_slow
                                      : most_idle;

    return now - c->since > most;
}

static void look_after(struct ct_http *h, struct client *c, int events,
                       double now)
{
    if (events & (POLLERR | POLLNVAL))
        drop(c);
    if (c->fd >= 0 && events & (POLLIN | POLLHUP) && !c->out.n_bytes)
        read_from(c, now);
    if (c->fd >= 0)
        serve(h, c, now);
    if (c->fd >= 0 && c->out.n_bytes)
        write_to(c, now);
    if (c->fd >= 0 && c->n_in) /* another request may have come with it */
        serve(h, c, now);
    if (c->fd >= 0 && is_late(c, now))
        drop(c);
}

static void *http_main(void *arg)
{
    struct ct_http *h = arg;
    struct pollfd fd[MOST_CLIENTS + 2];

    ct_background("board");
    for (;;) {
        double now;

        fd[0] = (struct pollfd){ .fd = h->wake, .events = POLLIN };
        fd[1] = (struct pollfd){ .fd = h->listener, .events = POLLIN };
        for (int i = 0; i < MOST_CLIENTS; i++)
            fd[i + 2] = (struct pollfd){
                .fd     = h->client[i].fd,
                .events = h->client[i].out.n_bytes ? POLLOUT : POLLIN,
            };
        if (poll(fd, MOST_CLIENTS + 2, 1000) < 0 && errno != EINTR)
            return NULL;
        if (fd[0].revents)
            return NULL;
        now = ct_now();
        for (int i = 0; i < MOST_CLIENTS; i++)
            if (h->client[i].fd >= 0)
                look_after(h, &h->client[i], fd[i + 2].revents, now);
        if (fd[1].revents)
            accept_clients(h, now);
    }
}

/* ---- beginning and end */

enum ct_status ct_http_create(const struct ct_http_options *o,
                              struct ct_http **out)
{
    struct ct_http *h;
    sigset_t all, before;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*h), "http", &h));
    h->options  = *o;
    h->listener = -1;
    for (int i = 0; i < MOST_CLIENTS; i++)
        h->client[i].fd = -1;
    h->wake = eventfd(0, EFD_CLOEXEC);
    st = h->wake >= 0 ? start_listening(h)
                      : ct_fail(CT_EIO, "no event for the web server");
    h->options.address = NULL; /* borrowed until here */
    if (st == CT_OK) {
        /* Signals are for those who wait for them. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        h->runs = pthread_create(&h->thread, NULL, http_main, h) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (!h->runs)
            st = ct_fail(CT_ENOMEM, "cannot start the web server's thread");
    }
    if (st == CT_OK)
        *out = h;
    else
        ct_http_destroy(h);
    return st;
}

void ct_http_destroy(struct ct_http *h)
{
    const uint64_t one = 1;

    if (!h)
        return;
    if (h->runs && write(h->wake, &one, sizeof(one)) == sizeof(one))
        pthread_join(h->thread, NULL);
    for (int i = 0; i < MOST_CLIENTS; i++)
        drop(&h->client[i]);
    if (h->listener >= 0)
        close(h->listener);
    if (h->wake >= 0)
        close(h->wake);
    ct_free(h);
}

int ct_http_port(const struct ct_http *h)
{
    return h->port;
}

const char *ct_http_where(const struct ct_http *h)
{
    return h->where;
}

double ct_http_idle(const struct ct_http *h)
{
    const double asked = atomic_load(&h->asked);

    return asked > 0 ? ct_now() - asked : 1e9;
}

bool ct_http_is_loopback(const struct ct_http *h)
{
    return h->loopback;
}
