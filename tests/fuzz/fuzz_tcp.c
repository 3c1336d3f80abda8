/* fuzz_tcp.c - any bytes at the port of an end, and from a peer that has the
 * key, while messages wait. */
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/transport/tcp_parts.h"
#include "cortado/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONG = 20000, PASSES = 4 };

/* The port stands behind two numbers and the key.  Thousands of connections a
 * second use up the ports of the system, which rests them for a minute, and
 * may meet what is left of an old one: then there is none, -1. */
static int knock(const char *address)
{
    static bool has_worked;
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(&at.sin_port, address + 32, sizeof(at.sin_port));
    if (fd < 0)
        abort();
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0) {
        has_worked = true;
        return fd;
    }
    if (!has_worked && errno != EADDRNOTAVAIL)
        abort();
    close(fd);
    return -1;
}

static void write_all(int fd, const void *x, size_t bytes)
{
    (void)!send(fd, x, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* With the proof, too: it is read once the end has had time to answer. */
static void introduce(int fd, struct ct_transport *t, const char *address,
                      uint32_t view)
{
    const uint8_t *key     = (const uint8_t *)address + 16;
    struct tcp_hello hello = { .magic = tcp_hello_magic, .view = view };
    struct tcp_answer answer;
    uint64_t proof;

    hello.tag = tcp_tag(key, TCP_HELLO, &hello, NULL);
    write_all(fd, &hello, sizeof(hello));
    for (int i = 0; i < PASSES; i++)
        t->ops->progress(t);
    if (recv(fd, &answer, sizeof(answer), MSG_DONTWAIT) != sizeof(answer))
        return;
    proof = tcp_tag(key, TCP_PROOF, &hello, answer.nonce);
    write_all(fd, &proof, sizeof(proof));
}

/* What waits: receives of three lengths, and sends of two. */
static void wait_for_it(struct ct_transport *t)
{
    static char in[3][LONG], out[LONG];
    static const size_t bytes[] = { 0, 8, LONG };
    struct ct_request r[5];
    bool done[5] = { false };
    int n        = 0;

    for (int i = 0; i < 3; i++)
        if (t->ops->receive(t, 0, i, in[i], bytes[i], &r[n]) == CT_OK)
            n++;
    for (int i = 1; i < 3; i++)
        if (t->ops->send(t, 0, i, out, bytes[i], &r[n]) == CT_OK)
            n++;
    for (int k = 0; k < PASSES; k++)
        for (int i = 0; i < n; i++)
            if (!done[i] && t->ops->test(t, &r[i], &done[i]) != CT_OK) {
                (void)t->ops->cancel(t, &r[i]);
                done[i] = true;
            }
    for (int i = 0; i < n; i++)
        if (!done[i])
            (void)t->ops->cancel(t, &r[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ct_tcp *end;
    static uint32_t number;
    const void *address[2];
    struct ct_tcp_view view = { .rank = 1, .size = 2, .address = address };
    struct ct_transport *t;
    size_t bytes[2];
    int fd;

    ct_log_set_level(CT_LOG_NONE);
    if (!end && ct_tcp_create(&end) != CT_OK)
        abort();
    address[0] = address[1] = ct_tcp_address(end, &bytes[0]);
    bytes[1]                = bytes[0];
    view.address_bytes      = bytes;
    view.number             = ++number;
    if (ct_tcp_open(end, &view, &t) != CT_OK)
        abort();
    fd = knock(address[0]);
    if (fd >= 0 && size > 0 && data[0] % 4 > 0)
        introduce(fd, t, address[0], number);
    if (fd >= 0)
        write_all(fd, size > 0 ? data + 1 : data, size > 0 ? size - 1 : 0);
    wait_for_it(t);
    wait_for_it(t);
    t->ops->over(t);
    t->ops->destroy(t);
    if (fd >= 0)
        close(fd);
    return 0;
}
