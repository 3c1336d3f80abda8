/* address.c - addresses and sockets of processes. */
#include "comm/transport/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"

enum { BACKLOG = 1024 };

uint64_t ct_machine_number(void)
{
    FILE *file    = fopen("/proc/sys/kernel/random/boot_id", "re");
    char id[64]   = "";
    uint64_t hash = 0xcbf29ce484222325;
    struct stat net;

    if (!file || !fgets(id, sizeof(id), file) ||
        stat("/proc/self/ns/net", &net) != 0)
        hash = ct_entropy();
    else
        hash ^= (uint64_t)net.st_ino * 0x9e3779b97f4a7c15;
    if (file)
        fclose(file);
    for (const char *p = id; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 0x100000001b3;
    return hash;
}

static bool is_useful(const struct ifaddrs *i, const char *wish)
{
    const struct sockaddr_in6 *six = (const void *)i->ifa_addr;

    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) ||
        (i->ifa_flags & IFF_LOOPBACK) ||
        (wish && strcmp(i->ifa_name, wish) != 0))
        return false;
    return i->ifa_addr->sa_family == AF_INET ||
           (i->ifa_addr->sa_family == AF_INET6 &&
            !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr));
}

int ct_list_addresses(struct ct_ip *out, int most)
{
    const char *wish     = getenv("CORTADO_INTERFACE");
    struct ifaddrs *list = NULL;
    int n                = 0;

    if (getifaddrs(&list) != 0)
        return 0; /* only processes of this machine can connect */
    for (struct ifaddrs *i = list; i && n < most; i = i->ifa_next) {
        const struct sockaddr_in *four = (const void *)i->ifa_addr;
        const struct sockaddr_in6 *six = (const void *)i->ifa_addr;

        if (!is_useful(i, wish))
            continue;
        out[n] = (struct ct_ip){ .family = i->ifa_addr->sa_family };
        if (out[n].family == AF_INET)
            memcpy(out[n].ip, &four->sin_addr, 4);
        else
            memcpy(out[n].ip, &six->sin6_addr, 16);
        n++;
    }
    freeifaddrs(list);
    return n;
}

bool ct_learn_addresses(const struct ct_ip *now, int n_now, struct ct_ip *list,
                        int most, int *n)
{
    const int had = *n;

    for (int i = 0; i < n_now && *n < most; i++) {
        int k = 0;

        while (k < *n && memcmp(&list[k], &now[i], sizeof(now[i])) != 0)
            k++;
        if (k == *n)
            list[(*n)++] = now[i];
    }
    return *n > had;
}

struct ct_ip ct_loopback_address(void)
{
    return (struct ct_ip){ AF_INET, { 127, 0, 0, 1 } };
}

/* ---- sockets */

static int open_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int close_failed(int fd)
{
    const int error = errno;

    close(fd);
    errno = error;
    return -1;
}

static int listen_at(int family, uint16_t *port, bool listens)
{
    struct sockaddr_in6 any = { .sin6_family = (sa_family_t)family,
                                .sin6_port = *port };
    const int off = 0, on = 1, fd = open_socket(family);
    socklen_t length = family == AF_INET6 ? sizeof(any)
                                          : sizeof(struct sockaddr_in);

    if (fd < 0)
        return -1;
    if (family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (*port != 0) /* old connections of an earlier job may still use it */
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&any, length) != 0 ||
        (listens && listen(fd, BACKLOG) != 0) ||
        getsockname(fd, (struct sockaddr *)&any, &length) != 0)
        return close_failed(fd);
    *port = any.sin6_port; /* sockaddr_in has its port in the same place */
    return fd;
}

/* An IPv6 socket, which accepts IPv4, too; without IPv6 an IPv4 socket. */
static int open_port(uint16_t *port, bool listens)
{
    const int fd = listen_at(AF_INET6, port, listens);

    return fd >= 0 || errno == EADDRINUSE ? fd
                                          : listen_at(AF_INET, port, listens);
}

int ct_listen(uint16_t *port)
{
    return open_port(port, true);
}

int ct_reserve_port(uint16_t *port)
{
    return open_port(port, false);
}

uint16_t ct_port_of(int fd)
{
    struct sockaddr_in6 any = { .sin6_port = 0 };
    socklen_t length        = sizeof(any);

    return getsockname(fd, (struct sockaddr *)&any, &length) == 0
               ? any.sin6_port /* where IPv4's is, too */
               : 0;
}

int ct_connect(const struct ct_ip *to, uint16_t port)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = port };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = port };
    const bool is_six       = to->family == AF_INET6;
    const int on = 1, fd = open_socket(to->family);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    memcpy(is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr, to->ip,
           is_six ? 16 : 4);
    if (connect(fd, is_six ? (struct sockaddr *)&six
                           : (struct sockaddr *)&four,
                is_six ? sizeof(six) : sizeof(four)) != 0 &&
        errno != EINPROGRESS)
        return close_failed(fd);
    return fd;
}
