/* line.c - a connection to another process of the job. */
#include "elastic/line.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "elastic/bytes.h"

enum { LENGTH_BYTES = 4, LEAST_ROOM = 4096 };

void line_leave(struct elastic_line *l)
{
    const int error = l->error;

    if (l->state != LINE_CLOSED)
        close(l->fd);
    ct_free(l->in);
    ct_free(l->out);
    memset(l, 0, sizeof(*l));
    l->error = error;
}

/* A forked process may have the socket as well.  Then to close it would neither
 * end the connection nor its events. */
void line_close(struct elastic_line *l)
{
    if (l->state != LINE_CLOSED && l->watched)
        (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, l->fd, NULL);
    if (l->state != LINE_CLOSED)
        (void)shutdown(l->fd, SHUT_RDWR);
    line_leave(l);
}

static void line_init(struct elastic_line *l, int fd, const uint8_t *secret,
                      enum line_state state)
{
    memset(l, 0, sizeof(*l));
    l->state  = state;
    l->fd     = fd;
    l->secret = secret;
    l->since  = ct_now();
}

/* What the other end does not take within this time is lost: it is called
 * again, and the system's own patience is longer than ours. */
static void give_up_soon(int fd)
{
    const unsigned ms = 5000;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

bool line_call(struct elastic_line *l, const struct ct_ip *to, uint16_t port,
               const uint8_t *secret)
{
    const int fd = ct_connect(to, port);

    if (fd < 0) {
        l->error = errno;
        return false;
    }
    give_up_soon(fd);
    line_init(l, fd, secret, LINE_CALLING);
    return true;
}

void line_answer(struct elastic_line *l, int fd, const uint8_t *secret)
{
    const int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    give_up_soon(fd);
    line_init(l, fd, secret, LINE_GREETING);
}

/* ---- Writing. */

/* Room for `more` bytes behind what is to be sent; NULL: there is none. */
static uint8_t *out_room(struct elastic_line *l, size_t more)
{
    uint8_t *out = NULL;
    size_t room;

    if (l->n_sent > 0) {
        memmove(l->out, l->out + l->n_sent, l->n_out - l->n_sent);
        l->n_out -= l->n_sent;
        l->n_sent = 0;
    }
    if (l->n_out + more > LINE_OUT_BYTES)
        return NULL;
    if (l->n_out + more > l->out_room) {
        room = l->out_room > 0 ? 2 * l->out_room : LEAST_ROOM;
        while (room < l->n_out + more)
            room *= 2;
        if (ct_alloc(room, 1, "a line", &out) != CT_OK)
            return NULL;
        if (l->n_out > 0)
            memcpy(out, l->out, l->n_out);
        ct_free(l->out);
        l->out      = out;
        l->out_room = room;
    }
    l->n_out += more;
    return l->out + l->n_out - more;
}

bool line_put(struct elastic_line *l, const void *data, size_t bytes)
{
    const size_t sealed = bytes + SEAL_EXTRA_BYTES;
    struct writer w     = { NULL };

    if (l->state != LINE_OPEN || sealed > LINE_FRAME_BYTES)
        return false;
    w.at = out_room(l, LENGTH_BYTES + sealed);
    if (!w.at)
        return false;
    put(&w, sealed, LENGTH_BYTES);
    seal_close(&l->seal, data, bytes, w.at);
    return true;
}

static bool write_some(struct elastic_line *l)
{
    while (l->n_sent < l->n_out) {
        const ssize_t n = send(l->fd, l->out + l->n_sent, l->n_out - l->n_sent,
                               MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        l->n_sent += (size_t)n;
    }
    return true;
}

/* ---- Greeting. */

static bool say_hello(struct elastic_line *l)
{
    socklen_t length = sizeof(l->error);
    uint8_t *out;

    getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &l->error, &length);
    out = l->error == 0 ? out_room(l, SEAL_HELLO_BYTES) : NULL;
    if (!out)
        return false;
    seal_hello(&l->seal, l->secret, out);
    l->state = LINE_GREETING;
    return true;
}

static size_t greeting_bytes(const struct elastic_line *l)
{
    return l->state == LINE_BEGINNING ? SEAL_HEADER_BYTES
           : l->seal.caller           ? SEAL_ANSWER_BYTES
                                      : SEAL_HELLO_BYTES;
}

/* False: a greeting that was heard before, and recorded. */
static bool is_new(struct line_memory *m, const uint8_t *greeting)
{
    uint64_t number;

    if (!m)
        return true;
    memcpy(&number, greeting, sizeof(number)); /* it is drawn at random */
    for (int i = 0; i < LINE_REMEMBERED; i++)
        if (m->number[i] == number)
            return false;
    m->number[m->n++ % LINE_REMEMBERED] = number;
    return true;
}

/* What was to come first has come.  Only now, where it is proof of the secret,
 * is anything said. */
static bool take_greeting(struct elastic_line *l)
{
    uint8_t said[SEAL_ANSWER_BYTES], *out;
    size_t bytes = 0;
    bool well;

    l->n_greeting = 0;
    if (l->state == LINE_BEGINNING) {
        well     = seal_begun(&l->seal, l->secret, l->greeting);
        l->state = LINE_OPEN;
    } else if (l->seal.caller) {
        well      = seal_begin(&l->seal, l->secret, l->greeting, said);
        bytes     = SEAL_HEADER_BYTES;
        l->state  = LINE_OPEN;
        l->proven = well; /* it has answered this very call */
    } else {
        well     = seal_answer(&l->seal, l->secret, l->greeting, said) &&
                   is_new(l->memory, l->greeting);
        bytes    = SEAL_ANSWER_BYTES;
        l->state = LINE_BEGINNING;
    }
    if (!well || bytes == 0)
        return well;
    out = out_room(l, bytes);
    if (out)
        memcpy(out, said, bytes);
    return out != NULL;
}

/* ---- Reading. */

/* Up to `bytes` more; 0: not now, -1: never again. */
static ssize_t read_some(struct elastic_line *l, uint8_t *out, size_t bytes)
{
    ssize_t n;

    do
        n = recv(l->fd, out, bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    return n > 0 ? n : -1;
}

/* The frame's length says how much room it needs; its sender is known. */
static bool in_room(struct elastic_line *l, size_t need)
{
    uint8_t *in = NULL;

    if (need <= l->in_room)
        return true;
    if (ct_alloc(need, 1, "a line", &in) != CT_OK)
        return false;
    if (l->n_in > 0)
        memcpy(in, l->in, l->n_in);
    ct_free(l->in);
    l->in      = in;
    l->in_room = need;
    return true;
}

/* Bytes of the frame that is coming, once its length has come. */
static size_t frame_need(const struct elastic_line *l)
{
    struct reader r = { l->in, l->in + l->n_in, false };

    return l->n_in < LENGTH_BYTES ? LENGTH_BYTES
                                  : LENGTH_BYTES + (size_t)take(&r,
                                                                LENGTH_BYTES);
}

/* 1: something was read, 0: not now, -1: never again. */
static int read_frame(struct elastic_line *l, line_take_fn take_frame,
                      void *arg)
{
    const size_t need = frame_need(l);
    const size_t body = need - LENGTH_BYTES;
    const size_t most = l->proven ? LINE_FRAME_BYTES : LINE_FIRST_BYTES;
    ssize_t n;

    if (body > most ||
        (l->n_in >= LENGTH_BYTES && body < SEAL_EXTRA_BYTES) ||
        !in_room(l, need > LEAST_ROOM ? 2 * need : 2 * LEAST_ROOM))
        return -1;
    n = read_some(l, l->in + l->n_in, need - l->n_in);
    if (n <= 0)
        return (int)n;
    l->n_in += (size_t)n;
    if (l->n_in < need || body == 0)
        return 1;
    l->n_in = 0;
    if (!seal_open(&l->seal, l->in + LENGTH_BYTES, body, l->in + need))
        return -1;
    l->proven = true;
    take_frame(arg, l->in + need, body - SEAL_EXTRA_BYTES);
    return 1;
}

static int read_greeting(struct elastic_line *l)
{
    const size_t need = greeting_bytes(l);
    const ssize_t n   = read_some(l, l->greeting + l->n_greeting,
                                  need - l->n_greeting);

    if (n <= 0)
        return (int)n;
    l->n_greeting += (size_t)n;
    return l->n_greeting < need || take_greeting(l) ? 1 : -1;
}

bool line_step(struct elastic_line *l, line_take_fn take_frame, void *arg)
{
    int more = 1;

    if (l->state == LINE_CALLING && !say_hello(l))
        more = -1;
    while (more > 0)
        more = l->state == LINE_OPEN ? read_frame(l, take_frame, arg)
                                     : read_greeting(l);
    if (more == 0 && write_some(l))
        return true;
    line_close(l);
    return false;
}
