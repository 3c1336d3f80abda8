/* test_tcp_proof.c - who may connect to an end: both sides know its key. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/transport/address.h"
#include "comm/transport/tcp_parts.h"
#include "testing/test.h"

/* The example of the authors of SipHash. */
TEST(tcp_proof, a_tag_is_what_others_find)
{
    uint8_t key[TCP_KEY_BYTES], text[15];

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (uint8_t)i;
    ASSERT(tcp_hash(key, text, sizeof(text)) == 0xa129ca6149be45e5);
}

static int knock(const char *address)
{
    const struct ct_ip here = ct_loopback_address();
    uint16_t port;
    int fd;

    memcpy(&port, address + 32, sizeof(port)); /* behind numbers and the key */
    fd = ct_connect(&here, port);
    ASSERT(fd >= 0);
    return fd;
}

static void say(int fd, const void *x, size_t bytes)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT }; /* it may still call */

    ASSERT(poll(&p, 1, 60000) == 1);
    ASSERT_INT((int)bytes, (int)send(fd, x, bytes, MSG_NOSIGNAL));
}

/* Until the other end says something; the bytes of it, 0: it hangs up. */
static int hear(struct ct_transport *t, int fd, void *to, size_t bytes)
{
    ssize_t n = -1;

    for (int i = 0; i < 60000 && n < 0; i++) {
        t->ops->progress(t);
        n = recv(fd, to, bytes, MSG_DONTWAIT);
        if (n < 0)
            usleep(1000);
    }
    return (int)n;
}

/* Rank 1 of two; rank 0 is the test. */
struct end {
    struct ct_tcp       *e;
    struct ct_transport *t;
    const char          *address;
    const uint8_t       *key;
};

static struct end open_end(void)
{
    struct end o = { 0 };
    const void *address[2];
    size_t bytes[2];
    const struct ct_tcp_view view = { .number = 1, .rank = 1, .size = 2,
                                      .address       = address,
                                      .address_bytes = bytes };

    ASSERT_OK(ct_tcp_create(&o.e));
    address[0] = address[1] = ct_tcp_address(o.e, &bytes[0]);
    bytes[1]                = bytes[0];
    ASSERT_OK(ct_tcp_open(o.e, &view, &o.t));
    o.address = address[1];
    o.key     = (const uint8_t *)address[1] + 16;
    return o;
}

static void close_end(struct end *o)
{
    o->t->ops->destroy(o->t);
    ct_tcp_destroy(o->e);
}

/* Has this end a connection to rank 0? */
static bool is_connected(const struct end *o, int tries)
{
    for (int i = 0; i < tries && o->e->view->peer[0].fd < 0; i++) {
        o->t->ops->progress(o->t);
        usleep(1000);
    }
    return o->e->view->peer[0].fd >= 0;
}

/* Says this hello; the proof that belongs to the answer. */
static uint64_t greet(struct ct_transport *t, int fd,
                      const struct tcp_hello *hello, const uint8_t *key)
{
    struct tcp_answer a;

    say(fd, hello, sizeof(*hello));
    ASSERT_INT((int)sizeof(a), hear(t, fd, &a, sizeof(a)));
    ASSERT(a.magic == tcp_answer_magic);
    ASSERT(a.tag == tcp_tag(key, TCP_ANSWER, hello, a.nonce));
    return tcp_tag(key, TCP_PROOF, hello, a.nonce);
}

/* Who has recorded a hello and a proof, and sends them again, gets an answer to
 * which that proof is none; who knows the key gets in. */
TEST(tcp_proof, what_was_recorded_opens_no_connection)
{
    struct tcp_hello hello = { .magic = tcp_hello_magic, .view = 1 };
    struct end o = open_end();
    uint64_t first, second;
    char x;
    int fd;

    hello.tag = tcp_tag(o.key, TCP_HELLO, &hello, NULL);
    fd        = knock(o.address);
    first     = greet(o.t, fd, &hello, o.key);
    close(fd);
    fd     = knock(o.address);
    second = greet(o.t, fd, &hello, o.key);
    ASSERT(first != second);
    say(fd, &first, sizeof(first));
    ASSERT_INT(0, hear(o.t, fd, &x, 1));
    close(fd);
    ASSERT(!is_connected(&o, 20));
    fd     = knock(o.address);
    second = greet(o.t, fd, &hello, o.key);
    say(fd, &second, sizeof(second));
    ASSERT(is_connected(&o, 60000));
    close(fd);
    hello.tag++; /* not known by who says it */
    fd = knock(o.address);
    say(fd, &hello, sizeof(hello));
    ASSERT_INT(0, hear(o.t, fd, &x, 1));
    close(fd);
    close_end(&o);
}

/* A hello for a view that is not open yet waits, once however often it is said:
 * nobody without the key fills memory so. */
TEST(tcp_proof, what_was_recorded_does_not_wait_for_a_view)
{
    enum { TIMES = 200 };
    struct tcp_hello hello = { .magic = tcp_hello_magic, .view = 9 };
    struct end o = open_end();
    int fd[TIMES], n_closed = 0;
    char x;

    hello.tag = tcp_tag(o.key, TCP_HELLO, &hello, NULL);
    for (int i = 0; i < TIMES; i++) {
        fd[i] = knock(o.address);
        say(fd[i], &hello, sizeof(hello));
        o.t->ops->progress(o.t);
    }
    for (int i = 0; i < 60000 && n_closed < TIMES - 1; i++) {
        usleep(1000);
        o.t->ops->progress(o.t);
        n_closed = 0;
        for (int k = 0; k < TIMES; k++)
            n_closed += recv(fd[k], &x, 1, MSG_DONTWAIT) == 0;
    }
    ASSERT_INT(TIMES - 1, n_closed);
    ASSERT_INT(1, o.e->n_guests[TCP_AWAITED]);
    for (int i = 0; i < TIMES; i++)
        close(fd[i]);
    close_end(&o);
}

/* In a large job many ranks call at once.  None of them calls twice. */
TEST(tcp_proof, all_of_many_callers_are_heard)
{
    enum { TIMES = 300 };
    struct tcp_hello hello = { .magic = tcp_hello_magic, .view = 9 };
    struct end o = open_end();
    int fd[TIMES];
    char x;

    for (int i = 0; i < TIMES; i++) {
        memcpy(hello.nonce, &i, sizeof(i));
        hello.tag = tcp_tag(o.key, TCP_HELLO, &hello, NULL);
        fd[i] = knock(o.address);
        say(fd[i], &hello, sizeof(hello));
    }
    for (int i = 0; i < 60000 && o.e->n_guests[TCP_AWAITED] < TIMES; i++) {
        o.t->ops->progress(o.t);
        usleep(1000);
    }
    ASSERT_INT(TIMES, o.e->n_guests[TCP_AWAITED]);
    for (int i = 0; i < TIMES; i++) {
        ASSERT(recv(fd[i], &x, 1, MSG_DONTWAIT) < 0); /* it is still open */
        close(fd[i]);
    }
    close_end(&o);
}
