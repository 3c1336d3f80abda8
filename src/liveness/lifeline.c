/* lifeline.c - a connection that ends when a rank of another host ends. */
#include "liveness/lifeline.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { HELLO_MS = 500, CONNECT_MS = 1000, BACKLOG = 1024 };

/* The kernel probes a silent connection after QUIET_S, then every PROBE_S, and
 * ends it after PROBES without an answer: together LINE_LOST_S. */
enum { QUIET_S = 15, PROBE_S = 5, PROBES = 5 };

struct hello {
    uint64_t nonce;
    int32_t  rank, pad;
};

static void set(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* The kernel checks whether the other host is still there. */
static void keep_alive(int fd)
{
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, QUIET_S);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * LINE_LOST_S);
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

static void add_addresses(struct live_offer *o)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *a = all; a && o->n < LINE_ADDRESSES;
         a = a->ifa_next) {
        struct sockaddr_in in;

        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET ||
            (a->ifa_flags & IFF_LOOPBACK) || !(a->ifa_flags & IFF_UP))
            continue;
        memcpy(&in, a->ifa_addr, sizeof(in));
        o->address[o->n++] = in.sin_addr.s_addr;
    }
    freeifaddrs(all);
}

int live_line_listen(uint64_t nonce, struct live_offer *out)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t length      = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *out = (struct live_offer){ .nonce = nonce };
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&in, sizeof(in)) != 0 ||
        listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&in, &length) != 0) {
        close(fd);
        return -1;
    }
    out->port = in.sin_port;
    add_addresses(out);
    return fd;
}

/* Receives `bytes` bytes within `ms` milliseconds. */
static bool hear(int fd, void *to, size_t bytes, int ms)
{
    struct pollfd p  = { .fd = fd, .events = POLLIN };
    const double end = ct_now() + 1e-3 * ms;
    char *at         = to;

    while (bytes > 0) {
        const double left = end - ct_now();
        ssize_t n;

        if (left <= 0 || poll(&p, 1, (int)(1e3 * left) + 1) != 1)
            return false;
        n = recv(fd, at, bytes, MSG_DONTWAIT);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool say(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)bytes;
}

int live_line_accept(int listener, const struct live_offer *offer, int size,
                     struct live_line *out)
{
    const int fd = accept4(listener, NULL, NULL,
                           SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct hello h;

    if (fd < 0)
        return -1;
    if (!hear(fd, &h, sizeof(h), HELLO_MS) || h.nonce != offer->nonce ||
        h.rank < 1 || h.rank >= size || !say(fd, "a", 1)) {
        close(fd);
        return -1;
    }
    keep_alive(fd);
    *out = (struct live_line){ .fd = fd };
    return h.rank;
}

static bool reach(int fd, uint32_t address, uint16_t port)
{
    const struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = port,
                                    .sin_addr.s_addr = address };
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    int fault = 0;
    socklen_t length = sizeof(fault);

    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
        return true;
    return errno == EINPROGRESS && poll(&p, 1, CONNECT_MS) == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &length) == 0 &&
           fault == 0;
}

struct live_line live_line_connect(const struct live_offer *offer, int rank)
{
    const struct hello h = { .nonce = offer->nonce, .rank = rank };

    for (uint32_t i = 0; i < offer->n && i < LINE_ADDRESSES; i++) {
        char word = 0;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                        0);

        if (fd < 0)
            break;
        if (reach(fd, offer->address[i], offer->port) &&
            say(fd, &h, sizeof(h)) && hear(fd, &word, 1, 2 * CONNECT_MS) &&
            word == 'a' && say(fd, "c", 1)) {
            keep_alive(fd);
            return (struct live_line){ .fd = fd, .sure = true };
        }
        close(fd);
    }
    return (struct live_line){ .fd = -1 };
}

static enum live_line_state end(struct live_line *line,
                                enum live_line_state how)
{
    const bool expected = line->leaves || !line->sure;

    close(line->fd);
    *line = (struct live_line){ .fd = -1 };
    return expected ? LIVE_LINE_WELL : how;
}

enum live_line_state live_line_look(struct live_line *line)
{
    for (;;) {
        char word       = 0;
        const ssize_t n = recv(line->fd, &word, 1, MSG_DONTWAIT);

        if (n == 0)
            return end(line, LIVE_LINE_ENDED);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return LIVE_LINE_WELL;
        if (n < 0) /* a reset is an end; other errors are lost hosts */
            return end(line, errno == ECONNRESET ? LIVE_LINE_ENDED
                                                 : LIVE_LINE_LOST);
        line->sure |= word == 'c';
        line->leaves |= word == 'g';
    }
}

void live_line_leave(struct live_line *line)
{
    if (line->fd < 0)
        return;
    (void)say(line->fd, "g", 1);
    close(line->fd);
    line->fd = -1;
}
