/* tcp_peer.c - messages to and from one peer.
 *
 * A small message is sent at once, unless too many small ones are not received
 * yet.  A long message waits for a GO, which the receiver sends when it posts a
 * long receive.  So it does not wait if receives are posted in advance, and no
 * rank buffers long messages.  Without a GO the message is offered: the offer
 * keeps its place among the messages of its tag, and gets a GO when its receive
 * is posted.
 *
 *     sender                            receiver
 *     send 8 bytes    -- MESSAGE -->    receive 8 bytes
 *                     <-- GO ------     receive 1 MB
 *     send 1 MB       -- GRANTED -->
 *     send 1 MB       -- OFFER ---->    (keeps it)
 *                     <-- GO ------     receive 1 MB
 *                     -- GRANTED -->
 *
 * Messages and offers of one tag arrive in the order of sending, and are
 * matched with receives of this tag in the order of posting.  GRANTED messages
 * of one tag arrive in the order of their offers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/transport/tcp_parts.h"

enum {
    TURNS    = 16, /* reads from one peer before other peers are read */
    OVERHEAD = 64  /* bytes that a small message counts in addition */
};

static size_t cost_of(size_t bytes)
{
    return bytes + OVERHEAD;
}

/* ---- the connection */

void tcp_peer_init(struct tcp_peer *p, struct tcp_view *v, int rank)
{
    *p              = (struct tcp_peer){ .about = TCP_PEER, .fd = -1,
                                         .rank = rank, .view = v };
    p->out.last     = &p->out.first;
    p->offered.last = &p->offered.first;
    p->posted.last  = &p->posted.first;
    for (int i = 0; i < TCP_CALLS; i++)
        p->call[i] = (struct tcp_call){ .fd = -1, .peer = p };
}

static void hang_up(struct tcp_peer *p)
{
    tcp_hang_up(p);
    if (p->fd >= 0)
        tcp_close(p->view->end, p->fd);
    p->fd      = -1;
    p->filling = NULL;
    p->left    = 0;
}

void tcp_peer_fini(struct tcp_peer *p)
{
    struct tcp_early *next;

    hang_up(p);
    for (struct tcp_operation *o = p->out.first; o; o = o->next)
        ct_free(o->owned);
    for (struct tcp_early *e = p->early; e; e = next) {
        next = e->next;
        ct_free(e);
    }
    ct_free(p->go);
    ct_free(p->input);
}

void tcp_peer_lose(struct tcp_peer *p, const char *why)
{
    if (p->lost)
        return;
    p->lost = true;
    snprintf(p->why, sizeof(p->why), "%s", why);
    hang_up(p);
}

void tcp_peer_connected(struct tcp_peer *p, int fd)
{
    p->fd    = fd;
    p->input = ct_malloc(TCP_INPUT, "tcp input");
    if (!p->input || !tcp_watch(p->view->end, fd, p, false)) {
        tcp_peer_lose(p, p->input ? strerror(errno) : "no memory");
        return;
    }
    tcp_peer_write(p);
}

/* ---- writing */

static void wait_for_room(struct tcp_peer *p, bool blocked)
{
    if (p->blocked == blocked)
        return;
    p->blocked = blocked;
    if (!tcp_watch(p->view->end, p->fd, p, blocked))
        tcp_peer_lose(p, strerror(errno));
}

/* Writes as much of the rest of the first frame as possible. */
static ssize_t write_first(const struct tcp_peer *p)
{
    struct tcp_operation *o = p->out.first;
    const size_t head       = sizeof(o->frame);
    struct iovec part[2];
    struct msghdr message = { .msg_iov = part };

    if (p->n_out < head)
        part[message.msg_iovlen++] = (struct iovec){
            (char *)&o->frame + p->n_out, head - p->n_out };
    if (o->bytes > 0) {
        const size_t done = p->n_out > head ? p->n_out - head : 0;

        part[message.msg_iovlen++] = (struct iovec){ (char *)o->data + done,
                                                     o->bytes - done };
    }
    return sendmsg(p->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void first_is_written(struct tcp_peer *p)
{
    struct tcp_operation *o = p->out.first;

    tcp_queue_remove(&p->out, o);
    p->n_out = 0;
    o->state = TCP_DONE;
    if (o->is_ours)
        tcp_operation_drop(o);
}

void tcp_peer_write(struct tcp_peer *p)
{
    while (p->out.first && p->fd >= 0) {
        ssize_t n = write_first(p);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            wait_for_room(p, true);
            return;
        }
        if (n < 0) {
            const int why = errno;

            tcp_peer_read(p); /* what it sent before the failure */
            tcp_peer_lose(p, strerror(why));
            return;
        }
        p->n_out += (size_t)n;
        if (p->n_out == sizeof(p->out.first->frame) + p->out.first->bytes)
            first_is_written(p);
    }
    if (p->fd >= 0)
        wait_for_room(p, false);
}

static void queue_frame(struct tcp_operation *o, enum tcp_kind kind)
{
    struct tcp_peer *p = o->peer;
    const bool idle    = !p->out.first;

    o->frame.kind  = kind;
    o->frame.bytes = o->bytes;
    o->state       = TCP_QUEUED;
    tcp_queue_add(&p->out, o);
    if (idle)
        tcp_peer_write(p);
}

/* Sends a frame without data. */
static void tell(struct tcp_peer *p, enum tcp_kind kind, uint32_t tag,
                 size_t bytes)
{
    struct tcp_operation *o = tcp_operation_new(p);
    const bool idle         = !p->out.first;

    if (!o) {
        tcp_peer_lose(p, "no memory");
        return;
    }
    o->is_ours = true;
    o->frame   = (struct tcp_frame){ kind, tag, bytes };
    o->state   = TCP_QUEUED;
    tcp_queue_add(&p->out, o);
    if (idle)
        tcp_peer_write(p);
}

/* ---- sending */

static struct tcp_go *go_find(const struct tcp_peer *p, uint32_t tag)
{
    for (int i = 0; i < p->n_go; i++)
        if (p->go[i].tag == tag)
            return &p->go[i];
    return NULL;
}

static bool go_take(struct tcp_peer *p, uint32_t tag)
{
    struct tcp_go *g = go_find(p, tag);

    if (g && --g->n == 0)
        *g = p->go[--p->n_go];
    return g != NULL;
}

static void go_keep(struct tcp_peer *p, uint32_t tag)
{
    struct tcp_go *g = go_find(p, tag);

    if (g) {
        g->n++;
        return;
    }
    if (p->n_go == p->most_go) {
        const int more = p->most_go ? 2 * p->most_go : 16;

        g = ct_realloc(p->go, (size_t)more * sizeof(*g), "tcp go");
        if (!g) {
            tcp_peer_lose(p, "no memory");
            return;
        }
        p->go      = g;
        p->most_go = more;
    }
    p->go[p->n_go++] = (struct tcp_go){ tag, 1 };
}

static void go_arrived(struct tcp_peer *p, uint32_t tag)
{
    struct tcp_operation *o = tcp_queue_find(&p->offered, tag);

    if (!o) {
        go_keep(p, tag);
        return;
    }
    tcp_queue_remove(&p->offered, o);
    queue_frame(o, TCP_GRANTED);
}

void tcp_peer_send(struct tcp_operation *o)
{
    struct tcp_peer *p = o->peer;

    if (o->bytes <= TCP_SMALL &&
        p->n_early + cost_of(o->bytes) <= TCP_EARLY) {
        p->n_early += cost_of(o->bytes);
        queue_frame(o, TCP_MESSAGE);
    } else if (!tcp_queue_find(&p->offered, o->frame.tag) &&
               go_take(p, o->frame.tag)) {
        queue_frame(o, TCP_GRANTED);
    } else {
        tcp_queue_add(&p->offered, o);
        tell(p, TCP_OFFER, o->frame.tag, o->bytes);
    }
}

/* ---- receiving */

static void early_free(struct tcp_peer *p, struct tcp_early *e)
{
    struct tcp_early **at = &p->early;

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    ct_free(e);
}

static struct tcp_early *early_new(struct tcp_peer *p,
                                   const struct tcp_frame *f, size_t bytes)
{
    struct tcp_early **at = &p->early;
    struct tcp_early *e   = ct_malloc(sizeof(*e) + bytes, "early message");

    if (!e) {
        tcp_peer_lose(p, "no memory");
        return NULL;
    }
    *e = (struct tcp_early){ .frame = *f };
    while (*at)
        at = &(*at)->next;
    *at = e;
    return e;
}

/* Reports received small messages to the sender from time to time, so that it
 * can send more. */
static void used(struct tcp_peer *p, const struct tcp_frame *f)
{
    if (f->kind != TCP_MESSAGE)
        return;
    p->n_used += cost_of(f->bytes);
    if (p->n_used < TCP_EARLY / 4)
        return;
    tell(p, TCP_USED, 0, p->n_used);
    p->n_used = 0;
}

static void take_early(struct tcp_operation *o, struct tcp_early *e)
{
    struct tcp_peer *p = o->peer;

    o->got   = e->frame.bytes;
    o->state = TCP_DONE;
    if (o->got == o->bytes && o->bytes > 0)
        memcpy(o->data, e->data, o->bytes);
    used(p, &e->frame);
    early_free(p, e);
}

static void ask_for(struct tcp_operation *o)
{
    struct tcp_peer *p = o->peer;

    o->asked      = true;
    p->most_asked = o->bytes > p->most_asked ? o->bytes : p->most_asked;
    tell(p, TCP_GO, o->frame.tag, 0);
}

void tcp_peer_receive(struct tcp_operation *o)
{
    struct tcp_peer *p  = o->peer;
    struct tcp_early *e = p->early;

    while (e && (e->frame.tag != o->frame.tag || e->taker || e->unwanted))
        e = e->next;
    if (e && e->frame.kind != TCP_OFFER) {
        o->state = TCP_FILLING;
        e->taker = o;
        if (e->whole)
            take_early(o, e);
        return;
    }
    tcp_queue_add(&p->posted, o);
    if (e) {
        o->offered = true;
        early_free(p, e);
    }
    if (e || o->bytes > TCP_SMALL)
        ask_for(o);
}

/* The posted receive for a frame: for GRANTED the first with a GO, otherwise
 * the first without an offer. */
static struct tcp_operation *receiver_of(const struct tcp_peer *p,
                                         const struct tcp_frame *f)
{
    struct tcp_operation *o = p->posted.first;

    while (o && (o->frame.tag != f->tag ||
                 (f->kind == TCP_GRANTED ? !o->asked : o->offered)))
        o = o->next;
    return o;
}

static void offer_arrived(struct tcp_peer *p, const struct tcp_frame *f)
{
    struct tcp_operation *o = receiver_of(p, f);

    if (!o) {
        (void)early_new(p, f, 0);
        return;
    }
    o->offered = true;
    if (!o->asked)
        ask_for(o);
}

static void message_is_whole(struct tcp_peer *p)
{
    struct tcp_operation *o = p->filling;
    struct tcp_early *e     = p->arriving;

    p->filling  = NULL;
    p->arriving = NULL;
    p->at       = NULL;
    if (o) {
        o->state = TCP_DONE;
        o->got   = p->frame.bytes;
    }
    if (!e) {
        used(p, &p->frame);
        return;
    }
    e->whole = true;
    if (e->taker) {
        take_early(e->taker, e);
    } else if (e->unwanted) {
        used(p, &e->frame);
        early_free(p, e);
    }
}

static void message_begins(struct tcp_peer *p)
{
    const struct tcp_frame *f = &p->frame;
    struct tcp_operation *o   = receiver_of(p, f);

    p->left = f->bytes;
    if (o) {
        tcp_queue_remove(&p->posted, o);
        o->state   = TCP_FILLING;
        p->filling = o;
        p->at      = o->bytes == f->bytes ? o->data : NULL;
    } else if (f->bytes <= TCP_SMALL || f->bytes <= p->most_asked) {
        p->arriving = early_new(p, f, f->bytes);
        p->at       = p->arriving ? p->arriving->data : NULL;
    } else {
        tcp_peer_lose(p, "it sends what nobody asked for");
    }
    if (p->left == 0 && !p->lost)
        message_is_whole(p);
}

static void frame_arrived(struct tcp_peer *p)
{
    const struct tcp_frame *f = &p->frame;

    if (f->kind == TCP_MESSAGE && f->bytes <= TCP_SMALL)
        message_begins(p);
    else if (f->kind == TCP_GRANTED)
        message_begins(p);
    else if (f->kind == TCP_OFFER)
        offer_arrived(p, f);
    else if (f->kind == TCP_GO)
        go_arrived(p, f->tag);
    else if (f->kind == TCP_USED && f->bytes <= p->n_early)
        p->n_early -= f->bytes;
    else
        tcp_peer_lose(p, "it speaks another protocol");
}

static size_t take_data(struct tcp_peer *p, const char *from, size_t n)
{
    n = n < p->left ? n : p->left;
    if (p->at) {
        memcpy(p->at, from, n);
        p->at += n;
    }
    p->left -= n;
    if (p->left == 0)
        message_is_whole(p);
    return n;
}

/* Handles frames and data in the input; an incomplete frame at its end stays
 * there. */
static void take_input(struct tcp_peer *p, size_t n)
{
    size_t at = 0;

    while (p->fd >= 0 && at < n)
        if (p->left > 0) {
            at += take_data(p, p->input + at, n - at);
        } else if (n - at < sizeof(p->frame)) {
            break;
        } else {
            memcpy(&p->frame, p->input + at, sizeof(p->frame));
            at += sizeof(p->frame);
            frame_arrived(p);
        }
    p->n_input = p->fd >= 0 ? n - at : 0;
    memmove(p->input, p->input + at, p->n_input);
}

/* Reads the missing data of a message directly into its buffer, and what
 * follows it into the input. */
static ssize_t read_some(struct tcp_peer *p, size_t *direct)
{
    struct iovec part[2];
    int n_parts = 0;

    *direct = p->left > 0 && p->at ? p->left : 0;
    if (*direct > 0)
        part[n_parts++] = (struct iovec){ p->at, *direct };
    part[n_parts++] = (struct iovec){ p->input + p->n_input,
                                      TCP_INPUT - p->n_input };
    return readv(p->fd, part, n_parts);
}

void tcp_peer_read(struct tcp_peer *p)
{
    for (int i = 0; i < TURNS && p->fd >= 0; i++) {
        size_t direct, got;
        ssize_t n = read_some(p, &direct);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            tcp_peer_lose(p, n == 0 ? "it has left" : strerror(errno));
            return;
        }
        got = (size_t)n < direct ? (size_t)n : direct;
        if (got > 0) {
            p->at += got;
            p->left -= got;
            if (p->left == 0)
                message_is_whole(p);
        }
        if ((size_t)n > got)
            take_input(p, p->n_input + (size_t)n - got);
    }
}

/* ---- giving up */

/* A frame that is partly written must be finished.  The rest is sent from a
 * copy of the data. */
static void finish_alone(struct tcp_operation *o)
{
    struct tcp_peer *p          = o->peer;
    struct tcp_operation *stand = tcp_operation_new(p);
    void *copy = stand ? ct_malloc(o->bytes, "rest of a message") : NULL;

    if (!copy) {
        if (stand)
            tcp_operation_drop(stand);
        tcp_peer_lose(p, "no memory");
        tcp_queue_remove(&p->out, o);
        p->n_out = 0;
        return;
    }
    memcpy(copy, o->data, o->bytes);
    *stand         = *o;
    stand->data    = stand->owned = copy;
    stand->is_ours = true;
    p->out.first   = stand;
    if (!stand->next)
        p->out.last = &stand->next;
}

static void give_up_send(struct tcp_operation *o)
{
    struct tcp_peer *p = o->peer;

    if (o->state == TCP_WAITING) {
        tcp_queue_remove(&p->offered, o);
    } else if (o == p->out.first && p->n_out > 0 && p->fd >= 0 &&
               !atomic_load(&p->view->is_over)) {
        finish_alone(o);
    } else {
        if (o == p->out.first && p->n_out > 0)
            tcp_peer_lose(p, "a message to it was given up");
        else if (o->frame.kind == TCP_MESSAGE)
            p->n_early -= cost_of(o->bytes);
        tcp_queue_remove(&p->out, o);
        p->n_out = p->lost ? 0 : p->n_out;
    }
}

void tcp_peer_give_up(struct tcp_operation *o)
{
    struct tcp_peer *p = o->peer;

    if (o->state == TCP_DONE)
        return;
    if (o->is_send) {
        give_up_send(o);
        return;
    }
    tcp_queue_remove(&p->posted, o);
    if (p->filling == o) { /* the rest of the data is discarded */
        p->filling = NULL;
        p->at      = NULL;
    }
    for (struct tcp_early *e = p->early; e; e = e->next)
        if (e->taker == o) {
            e->taker    = NULL;
            e->unwanted = true;
        }
}
