/* test_line.c - who knows the secret is heard, and nobody else is. */
#include "elastic/line.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "elastic/card.h"
#include "testing/test.h"

static const uint8_t secret[SEAL_SECRET_BYTES] = "that both ends know";
static const uint8_t other[SEAL_SECRET_BYTES]  = "another one";

struct heard {
    uint8_t *last;
    size_t   bytes;
    int      n;
};

static void take(void *arg, const uint8_t *frame, size_t bytes)
{
    struct heard *h = arg;

    ct_free(h->last);
    ASSERT_OK(ct_alloc(bytes + 1, 1, "frame", &h->last));
    memcpy(h->last, frame, bytes);
    h->bytes = bytes;
    h->n++;
}

/* Two lines over a pair of sockets, as if one had called the other. */
static void make_pair(struct elastic_line *caller, struct elastic_line *callee,
                      const uint8_t *knows)
{
    int fd[2];

    ASSERT_INT(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd));
    line_answer(callee, fd[1], secret);
    line_answer(caller, fd[0], knows);
    caller->state = LINE_CALLING;
}

static void step_both(struct elastic_line *a, struct elastic_line *b,
                      struct heard *at_a, struct heard *at_b, int n)
{
    for (int i = 0; i < n; i++) {
        if (a->state != LINE_CLOSED)
            (void)!line_step(a, take, at_a);
        if (b->state != LINE_CLOSED)
            (void)!line_step(b, take, at_b);
    }
}

/* Says what was recorded; returns the bytes of the answer. */
static long say_again(const uint8_t *hello, struct line_memory *memory)
{
    struct elastic_line l = { 0 };
    struct heard nothing  = { 0 };
    uint8_t answer[2 * SEAL_ANSWER_BYTES];
    int fd[2];
    long n;

    ASSERT_INT(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd));
    line_answer(&l, fd[1], secret);
    l.memory = memory;
    ASSERT_INT(SEAL_HELLO_BYTES, send(fd[0], hello, SEAL_HELLO_BYTES, 0));
    (void)!line_step(&l, take, &nothing);
    line_close(&l);
    n = (long)recv(fd[0], answer, sizeof(answer), 0);
    close(fd[0]);
    return n;
}

TEST(line, a_greeting_is_answered_once)
{
    struct line_memory memory = { .n = 0 };
    struct elastic_seal s;
    uint8_t hello[2][SEAL_HELLO_BYTES];

    ASSERT_OK(seal_init());
    for (int i = 0; i < 2; i++) {
        seal_hello(&s, secret, hello[i]);
        ASSERT_INT(SEAL_ANSWER_BYTES, say_again(hello[i], &memory));
    }
    for (int i = 0; i < 2; i++)
        ASSERT_INT(0, say_again(hello[i], &memory)); /* and it hangs up */
    for (int i = 0; i < LINE_REMEMBERED; i++) {
        uint8_t more[SEAL_HELLO_BYTES];

        seal_hello(&s, secret, more);
        ASSERT_INT(SEAL_ANSWER_BYTES, say_again(more, &memory));
        ASSERT_INT(0, say_again(more, &memory));
    }
}

TEST(line, frames_go_both_ways)
{
    struct elastic_line a = { 0 }, b = { 0 };
    struct heard at_a = { 0 }, at_b = { 0 };
    uint8_t *big = NULL;
    const size_t n = 1 << 20;

    ASSERT_OK(seal_init());
    ASSERT_OK(ct_alloc(n, 1, "frame", &big));
    for (size_t i = 0; i < n; i++)
        big[i] = (uint8_t)(i * 7);
    make_pair(&a, &b, secret);
    step_both(&a, &b, &at_a, &at_b, 4);
    ASSERT_INT(LINE_OPEN, a.state);
    ASSERT_INT(LINE_OPEN, b.state);
    ASSERT(line_put(&a, "hello", 5));
    ASSERT(line_put(&a, big, n));
    ASSERT(line_put(&b, "", 0));
    step_both(&a, &b, &at_a, &at_b, 100);
    ASSERT_INT(2, at_b.n);
    ASSERT_INT((long)n, (long)at_b.bytes);
    ASSERT_INT(0, memcmp(big, at_b.last, n));
    ASSERT_INT(1, at_a.n);
    ASSERT_INT(0, (long)at_a.bytes);
    ASSERT(!line_put(&a, big, LINE_FRAME_BYTES)); /* too long */
    line_close(&a);
    step_both(&a, &b, &at_a, &at_b, 2);
    ASSERT_INT(LINE_CLOSED, b.state);
    ct_free(at_a.last);
    ct_free(at_b.last);
    ct_free(big);
}

TEST(line, another_secret_is_told_nothing)
{
    struct elastic_line a = { 0 }, b = { 0 };
    struct heard none = { 0 };
    int fd[2];
    uint8_t byte;

    ASSERT_OK(seal_init());
    make_pair(&a, &b, other);
    step_both(&a, &b, &none, &none, 4);
    ASSERT_INT(LINE_CLOSED, b.state);
    ASSERT_INT(LINE_CLOSED, a.state);

    /* Garbage is answered by a closed connection, and by no byte. */
    ASSERT_INT(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd));
    line_answer(&b, fd[1], secret);
    for (int i = 0; i < SEAL_HELLO_BYTES; i++)
        ASSERT_INT(1, (long)write(fd[0], "G", 1));
    ASSERT(!line_step(&b, take, &none));
    ASSERT_INT(0, (long)read(fd[0], &byte, 1));
    ASSERT_INT(0, none.n);
    close(fd[0]);
}

/* Everything that one end said, again to another. */
TEST(line, what_was_recorded_opens_nothing)
{
    struct elastic_line a = { 0 }, b = { 0 }, c = { 0 };
    struct heard none = { 0 }, at_b = { 0 };
    uint8_t tape[4096];
    size_t n = 0;
    int fd[2];

    ASSERT_OK(seal_init());
    make_pair(&a, &b, secret);
    /* The caller's bytes, as they leave. */
    ASSERT(line_step(&a, take, &none));
    memcpy(tape, a.out, a.n_out);
    n = a.n_out;
    step_both(&b, &a, &at_b, &none, 1);
    memcpy(tape + n, a.out, a.n_out);
    n += a.n_out;
    step_both(&b, &a, &at_b, &none, 2);
    ASSERT(line_put(&a, "stop", 4));
    memcpy(tape + n, a.out + a.n_sent, a.n_out - a.n_sent);
    n += a.n_out - a.n_sent;
    step_both(&a, &b, &none, &at_b, 2);
    ASSERT_INT(1, at_b.n);

    ASSERT_INT(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd));
    line_answer(&c, fd[1], secret);
    ASSERT_INT((long)n, (long)write(fd[0], tape, n));
    for (int i = 0; i < 8 && c.state != LINE_CLOSED; i++)
        (void)!line_step(&c, take, &none);
    ASSERT_INT(LINE_CLOSED, c.state);
    ASSERT_INT(0, none.n);
    close(fd[0]);
    line_close(&a);
    line_close(&b);
    ct_free(at_b.last);
}

/* One bit of a frame, or its length. */
TEST(line, what_was_changed_ends_the_line)
{
    ASSERT_OK(seal_init());
    for (int bit = 0; bit < 40 * 8; bit += 5) {
        struct elastic_line a = { 0 }, b = { 0 };
        struct heard none = { 0 };

        make_pair(&a, &b, secret);
        step_both(&a, &b, &none, &none, 4);
        ASSERT(line_put(&a, "twenty bytes of text", 20));
        a.out[a.n_sent + (size_t)bit / 8] ^= (uint8_t)(1 << bit % 8);
        step_both(&a, &b, &none, &none, 3);
        ASSERT_INT(0, none.n);
        line_close(&a);
        step_both(&a, &b, &none, &none, 2);
        ASSERT_INT(LINE_CLOSED, b.state);
    }
}

TEST(line, cards_come_back)
{
    struct elastic_card c, back;
    uint8_t bytes[CARD_WIRE_BYTES];
    size_t n;

    card_of_this_process(&c);
    ASSERT(c.started != 0);
    c.id         = 77;
    c.port       = 4242;
    c.door       = 2424;
    c.agent      = 1234567890123;
    c.agent_port = 9;
    c.data_bytes = 100;
    n            = card_write(&c, bytes);
    ASSERT_OK(card_read(bytes, n, &back));
    ASSERT_INT(0, memcmp(&c, &back, sizeof(c)));
    for (size_t k = 0; k < n; k++)
        ASSERT_INT(CT_EPARSE, card_read(bytes, k, &back));
    for (int i = 0; i < 20000; i++) { /* whatever it is, it is no crash */
        uint8_t bad[CARD_WIRE_BYTES];

        memcpy(bad, bytes, n);
        for (int k = 0; k < 3; k++)
            bad[ct_philox_word(1, (uint64_t)i, (uint64_t)k) % n] =
                (uint8_t)ct_philox_word(2, (uint64_t)i, (uint64_t)k);
        (void)!card_read(bad, n, &back);
    }
}
