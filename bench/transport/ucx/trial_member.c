/* trial_member.c - a process that exchanges messages with its peers, view after
 * view, and checks every byte.
 *
 * In a round each member sends two messages to every peer, of up to 2 MB, and
 * receives as many into posted buffers.  Both have one tag, so a message that
 * is lost, doubled or overtakes shows in the bytes of the next.  A buffer whose
 * receive was cancelled is filled with a pattern and looked at from then on. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trials.h"
#include "ucx.h"

enum { EACH = 2, LANES = 2 * EACH * MEMBERS, GRAVES = 64, LONGEST = 2 << 20 };

static const double stuck_seconds = 10;

struct lane {
    struct ct_request r;
    bool      is_open, is_send;
    int       peer, number;
    size_t    bytes;
    uint64_t *buffer; /* LONGEST bytes */
};

struct member {
    int             fd;
    uint64_t        seed;
    struct ct_tcp  *tcp; /* or */
    struct ct_ucx  *ucx;
    struct ct_transport *t; /* of the open view */
    uint32_t        view;
    struct lane     lane[LANES];
    uint64_t       *grave[GRAVES]; /* buffers of cancelled receives */
    size_t          grave_bytes[GRAVES];
    int             n_graves, n_kept;
};

static void say(const struct member *m, struct report r)
{
    r.view   = m->view;
    r.rank   = m->t ? m->t->rank : 0;
    r.n_kept = m->n_kept;
    if (write(m->fd, &r, sizeof(r)) != sizeof(r))
        _exit(0); /* the coordinator is gone */
}

static void say_garbled(const struct member *m, const char *text)
{
    struct report r = { .what = GARBLED };

    snprintf(r.text, sizeof(r.text), "%s", text);
    say(m, r);
    _exit(3);
}

static uint64_t *new_buffer(void)
{
    uint64_t *b = ct_malloc(LONGEST, "buffer");

    if (!b)
        _exit(2);
    return b;
}

/* ---- messages */

static uint64_t stream_of(const struct member *m, int round,
                          const struct lane *l)
{
    const int from = l->is_send ? m->t->rank : l->peer;
    const int to   = l->is_send ? l->peer : m->t->rank;

    return ((uint64_t)m->view << 32) + (uint64_t)(round * 100 + from * 20 +
                                                  to * 4 + l->number);
}

static size_t draw_bytes(uint64_t seed, uint64_t stream)
{
    static const unsigned most[] = { 64, 16384, 300000, LONGEST };

    return ct_philox_word(seed, stream, 1) %
           most[ct_philox_word(seed, stream, 0) % 4] / 8 * 8;
}

static enum ct_status post(struct member *m, int round, struct lane *l)
{
    const uint64_t stream = stream_of(m, round, l);

    l->bytes = draw_bytes(m->seed, stream);
    for (size_t i = 0; i < l->bytes / 8; i++)
        l->buffer[i] = l->is_send ? stream * 0x9e3779b97f4a7c15u + i : 0;
    if (l->is_send)
        CT_TRY(m->t->ops->send(m->t, l->peer, 1, l->buffer, l->bytes, &l->r));
    else
        CT_TRY(m->t->ops->receive(m->t, l->peer, 1, l->buffer, l->bytes,
                                  &l->r));
    l->is_open = true;
    return CT_OK;
}

static void check_bytes(const struct member *m, int round, const struct lane *l)
{
    const uint64_t first = stream_of(m, round, l) * 0x9e3779b97f4a7c15u;
    char text[128];

    for (size_t i = 0; i < l->bytes / 8; i++)
        if (l->buffer[i] != first + i) {
            snprintf(text, sizeof(text), "round %d: word %zu of %zu from rank "
                     "%d is wrong", round, i, l->bytes / 8, l->peer);
            say_garbled(m, text);
        }
}

static void check_graves(const struct member *m)
{
    for (int g = 0; g < m->n_graves; g++)
        for (size_t i = 0; i < m->grave_bytes[g] / 8; i++)
            if (m->grave[g][i] != 0xeeeeeeeeeeeeeeeeu)
                say_garbled(m, "a cancelled buffer was written to");
}

/* The buffer of a message that was given up is not used again. */
static void give_up(struct member *m, struct lane *l)
{
    const bool free_now = m->t->ops->cancel(m->t, &l->r);

    l->is_open = false;
    if (!free_now) {
        m->n_kept++;
    } else if (l->is_send || m->n_graves == GRAVES) {
        memset(l->buffer, 0xdd, l->bytes);
        ct_free(l->buffer);
    } else {
        memset(l->buffer, 0xee, l->bytes);
        m->grave_bytes[m->n_graves] = l->bytes;
        m->grave[m->n_graves++]     = l->buffer;
    }
    l->buffer = new_buffer();
}

/* ---- a view */

static bool hear(const struct member *m, int milliseconds, struct order *out)
{
    struct pollfd p = { .fd = m->fd, .events = POLLIN };

    if (poll(&p, 1, milliseconds) != 1)
        return false;
    if (read(m->fd, out, sizeof(*out)) != sizeof(*out))
        _exit(0);
    return true;
}

/* Answers with the address for the next view. */
static void say_left(const struct member *m)
{
    struct report r     = { .what = LEFT };
    const void *address = m->tcp ? ct_tcp_address(m->tcp, &r.bytes) :
                                   ct_ucx_address(m->ucx, &r.bytes);

    if (!address || r.bytes > ADDRESS)
        _exit(2);
    memcpy(r.text, address, r.bytes);
    say(m, r);
}

static void leave(struct member *m, int lost)
{
    if (m->ucx && lost != NOBODY)
        ct_ucx_lose(m->t, lost);
    m->t->ops->over(m->t);
    for (int i = 0; i < LANES; i++)
        if (m->lane[i].is_open)
            give_up(m, &m->lane[i]);
    m->t->ops->destroy(m->t);
    m->t = NULL;
    check_graves(m);
    say_left(m);
}

static void say_failed(const struct member *m, int peer)
{
    struct report r = { .what = FAILED, .peer = peer };

    snprintf(r.text, sizeof(r.text), "%s", ct_last_error());
    if (strstr(r.text, "bytes came"))
        say_garbled(m, r.text);
    say(m, r);
}

static void say_stuck(const struct member *m, int round)
{
    struct report r = { .what = STUCK, .round = round };

    for (int i = 0; i < LANES; i++)
        if (m->lane[i].is_open)
            *(m->lane[i].is_send ? &r.not_sent : &r.not_received) |=
                1u << m->lane[i].peer;
    say(m, r);
}

/* Tests all messages once: how many ended; -1 after a failure. */
static int test_all(struct member *m, int round, int *n_open)
{
    int n = 0;

    *n_open = 0;
    ct_transport_progress(m->t);
    for (int i = 0; i < LANES; i++) {
        struct lane *l = &m->lane[i];
        bool done      = false;

        if (!l->is_open)
            continue;
        if (m->t->ops->test(m->t, &l->r, &done) != CT_OK) {
            say_failed(m, l->peer);
            return -1;
        }
        l->is_open = !done;
        n         += done;
        *n_open   += !done;
        if (done && !l->is_send)
            check_bytes(m, round, l);
    }
    return n;
}

/* True: the round is done; false: a message failed or the view is over. */
static bool pass_round(struct member *m, int round, struct order *end)
{
    double last = ct_now();
    int n_open  = 1, n;

    for (int i = 0; i < LANES; i++) {
        struct lane *l = &m->lane[i];

        l->is_send = i >= LANES / 2;
        l->peer    = i / EACH % MEMBERS;
        l->number  = i % EACH;
        if (l->peer < m->t->size && l->peer != m->t->rank &&
            post(m, round, l) != CT_OK) {
            say_failed(m, l->peer);
            return false;
        }
    }
    while (n_open > 0) {
        n = test_all(m, round, &n_open);
        if (n < 0 || hear(m, 0, end))
            return false;
        if (n > 0)
            last = ct_now();
        else
            usleep(50);
        if (ct_now() > last + stuck_seconds) {
            say_stuck(m, round);
            last = ct_now();
        }
    }
    return true;
}

static void stay(struct member *m, const struct order *o)
{
    struct order end = { .size = 1 };
    const void *address[MEMBERS];
    struct ct_tcp_view v = { .number = o->view, .rank = o->rank,
                             .size = o->size, .address = address,
                             .address_bytes = o->bytes };

    m->view = o->view;
    for (int r = 0; r < o->size; r++)
        address[r] = o->address[r];
    if ((m->tcp ? ct_tcp_open(m->tcp, &v, &m->t) :
                  ct_ucx_open(m->ucx, &v, &m->t)) != CT_OK)
        _exit(2);
    for (int round = 0; pass_round(m, round, &end); round++)
        if (round == ENOUGH)
            say(m, (struct report){ .what = ROUNDS });
    while (end.size > 0) /* until it is told that the view is over */
        if (!hear(m, 1, &end))
            ct_transport_progress(m->t);
    leave(m, end.lost);
}

_Noreturn void member_live(int fd, const char *engine, uint64_t seed)
{
    static struct member m;
    static struct order o;
    enum ct_status st;

    m = (struct member){ .fd = fd, .seed = seed };
    for (int i = 0; i < LANES; i++)
        m.lane[i].buffer = new_buffer();
    if (strcmp(engine, "tcp") == 0)
        st = ct_tcp_create(&m.tcp);
    else
        st = ct_ucx_create(strcmp(engine, "keep") == 0 ? CT_UCX_KEEP :
                           strcmp(engine, "same") == 0 ? CT_UCX_SAME :
                                                         CT_UCX_NEW, &m.ucx);
    if (st != CT_OK) {
        fprintf(stderr, "%s\n", ct_last_error());
        _exit(2);
    }
    say_left(&m);
    for (;;) {
        if (!hear(&m, 1, &o)) {
            if (m.ucx)
                ct_ucx_progress(m.ucx);
            continue;
        }
        if (o.view == 0)
            break;
        stay(&m, &o);
    }
    check_graves(&m);
    if (m.tcp)
        ct_tcp_destroy(m.tcp);
    else
        ct_ucx_destroy(m.ucx);
    _exit(0);
}
