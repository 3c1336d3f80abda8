/* tcp.c - the ranks of one view, over sockets.
 *
 *     struct ct_request: word 0 the operation                              */
#include "comm/transport/tcp.h"

#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/transport/tcp_parts.h"
#include "comm/transport/transports.h"

/* When a view ends without a failure: the longest wait until everything that
 * was sent has left this host. */
static const double leave_seconds = 5;

static struct tcp_view *view_of(struct ct_transport *t)
{
    return (struct tcp_view *)t;
}

static struct tcp_operation *operation_of(const struct ct_request *r)
{
    return (struct tcp_operation *)(uintptr_t)r->word[0];
}

static enum ct_status lost(const struct tcp_peer *p)
{
    return ct_fail(CT_ECOMM, "rank %d: lost rank %d: %s", p->view->base.rank,
                   p->rank, p->why);
}

static enum ct_status begin(struct ct_transport *t, int peer, int tag,
                            const void *data, size_t bytes,
                            struct tcp_operation **out)
{
    struct tcp_view *v = view_of(t);

    if (peer < 0 || peer >= t->size || peer == t->rank)
        return ct_fail(CT_EINVAL, "rank %d of %d has no peer %d", t->rank,
                       t->size, peer);
    CT_TRY(ct_transport_check(t));
    *out = tcp_operation_new(&v->peer[peer]);
    if (!*out)
        return CT_ENOMEM;
    (*out)->data      = (void *)(uintptr_t)data;
    (*out)->bytes     = bytes;
    (*out)->frame.tag = (uint32_t)tag;
    return CT_OK;
}

static enum ct_status view_send(struct ct_transport *t, int to, int tag,
                                const void *data, size_t bytes,
                                struct ct_request *out)
{
    struct tcp_operation *o = NULL;

    CT_TRY(begin(t, to, tag, data, bytes, &o));
    o->is_send = true;
    tcp_peer_send(o);
    *out = (struct ct_request){ { (uintptr_t)o } };
    return CT_OK;
}

static enum ct_status view_receive(struct ct_transport *t, int from, int tag,
                                   void *data, size_t bytes,
                                   struct ct_request *out)
{
    struct tcp_operation *o = NULL;

    CT_TRY(begin(t, from, tag, data, bytes, &o));
    tcp_peer_receive(o);
    *out = (struct ct_request){ { (uintptr_t)o } };
    return CT_OK;
}

static enum ct_status verdict(const struct tcp_operation *o)
{
    if (o->state != TCP_DONE)
        return o->peer->lost ? lost(o->peer) : CT_OK;
    if (!o->is_send && o->got != o->bytes)
        return ct_fail(CT_ECOMM, "rank %d: %zu bytes came from rank %d with "
                       "tag %d, not %zu", o->peer->view->base.rank, o->got,
                       o->peer->rank, (int)o->frame.tag, o->bytes);
    return CT_OK;
}

static enum ct_status view_test(struct ct_transport *t, struct ct_request *r,
                                bool *done)
{
    struct tcp_operation *o = operation_of(r);
    enum ct_status st       = ct_transport_check(t);

    if (st == CT_OK && o->state != TCP_DONE)
        tcp_progress(view_of(t)->end);
    if (st == CT_OK)
        st = verdict(o);
    *done = st == CT_OK && o->state == TCP_DONE;
    if (*done)
        tcp_operation_drop(o);
    return st;
}

static bool view_cancel(struct ct_transport *t, struct ct_request *r)
{
    struct tcp_operation *o = operation_of(r);

    (void)t;
    tcp_peer_give_up(o);
    tcp_operation_drop(o);
    return true;
}

static void view_over(struct ct_transport *t)
{
    atomic_store(&view_of(t)->is_over, true);
}

static void view_abort(struct ct_transport *t, int code)
{
    (void)code;
    view_over(t);
}

/* Whether everything that was sent to a peer will arrive.  Inside a machine it
 * is at the receiver as soon as it is sent.  Another machine must have
 * acknowledged it, or closing the connection could discard it. */
static bool has_left(const struct tcp_peer *p)
{
    int n = 0;

    if (p->fd < 0)
        return true;
    (void)ioctl(p->fd, p->local ? SIOCOUTQNSD : SIOCOUTQ, &n);
    return !p->out.first && n == 0;
}

static void wait_for_leave(struct tcp_view *v)
{
    const struct timespec nap = { 0, 100000 };
    const double end          = ct_now() + leave_seconds;

    for (int r = 0; r < v->base.size;) {
        if (has_left(&v->peer[r]) || atomic_load(&v->is_over) ||
            ct_now() > end) {
            r++;
            continue;
        }
        tcp_progress(v->end);
        if (!has_left(&v->peer[r]))
            nanosleep(&nap, NULL);
    }
}

static void view_free(struct tcp_view *v)
{
    for (int r = 0; v->peer && r < v->base.size; r++)
        tcp_peer_fini(&v->peer[r]);
    tcp_slabs_free(v);
    v->end->view = NULL;
    ct_free(v->peer);
    ct_free(v->host);
    ct_free(v);
}

static void view_destroy(struct ct_transport *t)
{
    wait_for_leave(view_of(t));
    view_free(view_of(t));
}

static void view_progress(struct ct_transport *t)
{
    if (!atomic_load(&view_of(t)->is_over))
        tcp_progress(view_of(t)->end);
}

static const struct ct_transport_ops view_ops = {
    .name     = "tcp",
    .send     = view_send,
    .receive  = view_receive,
    .test     = view_test,
    .cancel   = view_cancel,
    .abort    = view_abort,
    .destroy  = view_destroy,
    .over     = view_over,
    .progress = view_progress,
};

/* Not in transports.def, because it is created for a view (ct_tcp_open). */
static const struct ct_transport_type tcp_type = {
    .name  = "tcp",
    .about = "ranks that come and go",
};

static enum ct_status meet(struct tcp_view *v, const struct ct_tcp_view *how)
{
    for (int r = 0; r < how->size; r++)
        tcp_peer_init(&v->peer[r], v, r);
    for (int r = 0; r < how->size; r++)
        if (r != how->rank)
            CT_TRY(tcp_peer_address(&v->peer[r], how->address[r],
                                    how->address_bytes[r]));
    tcp_seat_guests(v->end);
    return CT_OK;
}

enum ct_status ct_tcp_open(struct ct_tcp *e, const struct ct_tcp_view *how,
                           struct ct_transport **out)
{
    struct tcp_view *v;
    enum ct_status st;

    if (how->size < 1 || how->rank < 0 || how->rank >= how->size)
        return ct_fail(CT_EINVAL, "rank %d of %d ranks", how->rank, how->size);
    CT_ASSERT(!e->view);
    CT_TRY(ct_alloc(1, sizeof(*v), "transport", &v));
    v->end    = e;
    v->number = how->number;
    e->view   = v;
    atomic_init(&v->is_over, false);
    CT_TRY_GOTO(ct_alloc((size_t)how->size, sizeof(*v->peer), "peers",
                         &v->peer), st, out);
    if (how->host) {
        CT_TRY_GOTO(ct_alloc((size_t)how->size, sizeof(*v->host), "hosts",
                             &v->host), st, out);
        memcpy(v->host, how->host, (size_t)how->size * sizeof(*v->host));
    }
    v->base = (struct ct_transport){ .ops = &view_ops, .type = &tcp_type,
                                     .rank = how->rank, .size = how->size,
                                     .host = v->host,
                                     .is_over = &v->is_over };
    CT_TRY_GOTO(meet(v, how), st, out);
    *out = &v->base;
    return CT_OK;
out:
    view_free(v);
    return st;
}
