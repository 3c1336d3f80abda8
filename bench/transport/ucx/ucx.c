/* ucx.c - the ranks of one view, over tag messages of UCX.
 *
 * Tags have the view in bits 32 to 63, the sender's rank in 16 to 31 and the
 * caller's tag below, so messages of another view never match.
 *
 *     struct ct_request: word 0 the message                                */
#include "ucx.h"

#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/transport/transports.h"

enum { MOST = 8 };

/* At most, for a closed endpoint or a cancelled message to come to its end. */
static const double end_seconds = 5;

/* Never freed: UCX may still call the error handler. */
struct link {
    ucp_ep_h     ep; /* NULL: none */
    size_t       bytes;
    char        *address; /* of the peer */
    ucs_status_t failure; /* as the error handler says */
};

struct ct_ucx {
    enum ct_ucx_way way;
    ucp_context_h   context;
    ucp_worker_h    worker;
    ucp_address_t  *address;
    size_t          address_bytes;
    struct link    *link[MOST]; /* NULL: none */
};

struct view {
    struct ct_transport base;
    struct ct_ucx      *end;
    uint32_t            number;
    struct link        *link[MOST]; /* by rank; the end's */
    bool                all_lost; /* this rank was left behind */
};

struct message {
    bool         done, is_send;
    bool         forgotten; /* whoever forgets it leaves it to UCX */
    ucs_status_t status;
    size_t       bytes, got;
    int          peer;
    void        *request, *scratch;
};

static struct view *view_of(struct ct_transport *t)
{
    return (struct view *)t;
}

static enum ct_status check(ucs_status_t s, const char *what)
{
    return s == UCS_OK ? CT_OK : ct_fail(CT_ECOMM, "%s: %s", what,
                                         ucs_status_string(s));
}

/* ---- workers */

static enum ct_status worker_create(struct ct_ucx *e)
{
    const ucp_worker_params_t how = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };

    CT_TRY(check(ucp_worker_create(e->context, &how, &e->worker), "worker"));
    return check(ucp_worker_get_address(e->worker, &e->address,
                                        &e->address_bytes), "address");
}

/* False: UCX did not finish within some seconds. */
static bool finish(struct ct_ucx *e, const bool *done, void *request)
{
    const double end = ct_now() + end_seconds;

    while (!(done ? *done :
             ucp_request_check_status(request) != UCS_INPROGRESS)) {
        if (ct_now() > end)
            return false;
        if (ucp_worker_progress(e->worker) == 0)
            usleep(50);
    }
    return true;
}

static void link_close(struct ct_ucx *e, struct link *l)
{
    const ucp_request_param_t how = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags        = UCP_EP_CLOSE_FLAG_FORCE,
    };
    void *r;

    if (!l->ep)
        return;
    r     = ucp_ep_close_nbx(l->ep, &how);
    l->ep = NULL;
    if (!UCS_PTR_IS_PTR(r))
        return;
    if (!finish(e, NULL, r))
        fprintf(stderr, "endpoint not closed after %g s\n", end_seconds);
    ucp_request_free(r);
}

static void worker_destroy(struct ct_ucx *e)
{
    for (int i = 0; i < MOST; i++)
        if (e->link[i]) {
            link_close(e, e->link[i]);
            e->link[i] = NULL;
        }
    if (!e->worker)
        return;
    if (e->address)
        ucp_worker_release_address(e->worker, e->address);
    ucp_worker_destroy(e->worker);
    e->worker  = NULL;
    e->address = NULL;
}

enum ct_status ct_ucx_create(enum ct_ucx_way way, struct ct_ucx **out)
{
    const ucp_params_t how = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                               .features   = UCP_FEATURE_TAG };
    struct ct_ucx *e;

    CT_TRY(ct_alloc(1, sizeof(*e), "end", &e));
    *out   = e;
    e->way = way;
    CT_TRY(check(ucp_init(&how, NULL, &e->context), "context"));
    return worker_create(e);
}

void ct_ucx_destroy(struct ct_ucx *e)
{
    worker_destroy(e);
    ucp_cleanup(e->context);
    ct_free(e);
}

const void *ct_ucx_address(const struct ct_ucx *e, size_t *bytes)
{
    *bytes = e->address_bytes;
    return e->address;
}

/* ---- messages */

static void message_end(struct message *m)
{
    if (m->request)
        ucp_request_free(m->request);
    ct_free(m->scratch);
    ct_free(m);
}

static void message_done(struct message *m, ucs_status_t status)
{
    m->done   = true;
    m->status = status;
    if (m->forgotten)
        message_end(m);
}

static void on_send(void *request, ucs_status_t status, void *user)
{
    (void)request;
    message_done(user, status);
}

static void on_receive(void *request, ucs_status_t status,
                       const ucp_tag_recv_info_t *info, void *user)
{
    struct message *m = user;

    (void)request;
    m->got = status == UCS_OK ? info->length : 0;
    message_done(m, status);
}

static ucp_request_param_t how_to(struct message *m)
{
    ucp_request_param_t p = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .user_data = m,
    };

    if (m->is_send)
        p.cb.send = on_send;
    else
        p.cb.recv = on_receive;
    return p;
}

static ucp_tag_t tag_of(const struct view *v, int from, int tag)
{
    return (ucp_tag_t)v->number << 32 | (ucp_tag_t)from << 16 | (ucp_tag_t)tag;
}

static enum ct_status begin(struct message *m, void *request,
                            struct ct_request *out)
{
    if (UCS_PTR_IS_ERR(request)) {
        ct_free(m);
        return check(UCS_PTR_STATUS(request), "post");
    }
    m->request = request;
    *out       = (struct ct_request){ { (uintptr_t)m } };
    return CT_OK;
}

static enum ct_status view_send(struct ct_transport *t, int to, int tag,
                                const void *data, size_t bytes,
                                struct ct_request *out)
{
    struct view *v = view_of(t);
    struct message *m;
    ucp_request_param_t how;

    if (v->link[to]->failure != UCS_OK || !v->link[to]->ep)
        return ct_fail(CT_ECOMM, "rank %d: lost rank %d", t->rank, to);
    CT_TRY(ct_alloc(1, sizeof(*m), "message", &m));
    *m  = (struct message){ .is_send = true, .bytes = bytes, .peer = to };
    how = how_to(m);
    return begin(m, ucp_tag_send_nbx(v->link[to]->ep, data, bytes,
                                        tag_of(v, t->rank, tag), &how), out);
}

static enum ct_status view_receive(struct ct_transport *t, int from, int tag,
                                   void *data, size_t bytes,
                                   struct ct_request *out)
{
    struct view *v = view_of(t);
    struct message *m;
    ucp_request_param_t how;

    CT_TRY(ct_alloc(1, sizeof(*m), "message", &m));
    *m  = (struct message){ .bytes = bytes, .peer = from };
    how = how_to(m);
    return begin(m, ucp_tag_recv_nbx(v->end->worker, data, bytes,
                                        tag_of(v, from, tag), ~(ucp_tag_t)0,
                                        &how), out);
}

static enum ct_status view_test(struct ct_transport *t, struct ct_request *r,
                                bool *done)
{
    struct view *v    = view_of(t);
    struct message *m = (struct message *)(uintptr_t)r->word[0];

    if (!m->done)
        ucp_worker_progress(v->end->worker);
    *done = false;
    if (m->done && m->status != UCS_OK)
        return ct_fail(CT_ECOMM, "rank %d: message %s rank %d: %s", t->rank,
                       m->is_send ? "to" : "from", m->peer,
                       ucs_status_string(m->status));
    if (!m->done && v->link[m->peer]->failure != UCS_OK)
        return ct_fail(CT_ECOMM, "rank %d: lost rank %d: %s", t->rank, m->peer,
                       ucs_status_string(v->link[m->peer]->failure));
    if (m->done && !m->is_send && m->got != m->bytes)
        return ct_fail(CT_EINTERNAL, "%zu bytes came from rank %d, not %zu",
                       m->got, m->peer, m->bytes);
    *done = m->done;
    if (*done)
        message_end(m);
    return CT_OK;
}

/* A send to a member that stays is left to UCX: nothing can recall it. */
static bool view_cancel(struct ct_transport *t, struct ct_request *r)
{
    struct view *v    = view_of(t);
    struct message *m = (struct message *)(uintptr_t)r->word[0];

    if (!m->done && !m->is_send)
        ucp_request_cancel(v->end->worker, m->request);
    if (!m->done && m->is_send && v->link[m->peer]->ep)
        ucp_worker_progress(v->end->worker);
    else
        (void)finish(v->end, &m->done, NULL);
    if (!m->done) {
        m->forgotten = true;
        return false;
    }
    message_end(m);
    return true;
}

/* Takes messages of older views, which nobody waits for, out of the way. */
static void drop_old(struct view *v)
{
    for (uint32_t old = 1; old < v->number; old++) {
        ucp_tag_recv_info_t info;
        ucp_tag_message_h found = ucp_tag_probe_nb(
            v->end->worker, (ucp_tag_t)old << 32, (ucp_tag_t)~0u << 32, 1,
            &info);
        struct message *m;
        ucp_request_param_t how;

        if (!found)
            continue;
        m   = ct_calloc(1, sizeof(*m), "message");
        how = how_to(m);
        m->scratch   = ct_malloc(info.length, "old message");
        m->request   = ucp_tag_msg_recv_nbx(v->end->worker, m->scratch,
                                            info.length, found, &how);
        m->forgotten = true;
        if (UCS_PTR_IS_ERR(m->request))
            m->request = NULL;
        if (!m->request || m->done)
            message_end(m);
    }
}

void ct_ucx_progress(struct ct_ucx *e)
{
    ucp_worker_progress(e->worker);
}

static void view_progress(struct ct_transport *t)
{
    ucp_worker_progress(view_of(t)->end->worker);
    drop_old(view_of(t));
}

/* ---- views */

void ct_ucx_lose(struct ct_transport *t, int rank)
{
    struct view *v = view_of(t);

    v->all_lost = v->all_lost || rank == t->rank;
    for (int r = 0; r < t->size; r++)
        if (v->link[r] && (r == rank || v->all_lost))
            link_close(v->end, v->link[r]);
}

static void view_over(struct ct_transport *t)
{
    if (view_of(t)->end->way != CT_UCX_KEEP)
        for (int r = 0; r < t->size; r++)
            if (view_of(t)->link[r])
                link_close(view_of(t)->end, view_of(t)->link[r]);
}

static void view_destroy(struct ct_transport *t)
{
    struct view *v   = view_of(t);
    struct ct_ucx *e = v->end;

    for (int i = 0; i < MOST; i++) {
        if (e->link[i] && e->link[i]->failure != UCS_OK)
            link_close(e, e->link[i]);
        if (e->link[i] && !e->link[i]->ep)
            e->link[i] = NULL;
    }
    if (e->way == CT_UCX_NEW || (e->way == CT_UCX_KEEP && v->all_lost)) {
        worker_destroy(e);
        if (worker_create(e) != CT_OK)
            fprintf(stderr, "%s\n", ct_last_error());
    }
    ct_free(v);
}

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct link *l = arg;

    (void)ep;
    l->failure = status;
}

/* The endpoint to that address: the one that is there, or a new one. */
static enum ct_status reach(struct ct_ucx *e, const void *address,
                            size_t bytes, struct link **out)
{
    struct link **free_place = NULL, *l;
    ucp_ep_params_t how      = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .err_mode   = UCP_ERR_HANDLING_MODE_PEER,
    };

    for (int i = 0; i < MOST; i++) {
        l = e->link[i];
        if (!l)
            free_place = &e->link[i];
        else if (l->bytes == bytes && memcmp(l->address, address, bytes) == 0)
            return *out = l, CT_OK;
    }
    CT_TRY(ct_alloc(1, sizeof(*l), "link", &l));
    l->address = ct_malloc(bytes, "address");
    l->bytes   = bytes;
    memcpy(l->address, address, bytes);
    *free_place = *out = l;
    how.address = (const ucp_address_t *)l->address;
    how.err_handler = (ucp_err_handler_t){ .cb = on_failure, .arg = l };
    l->failure = ucp_ep_create(e->worker, &how, &l->ep);
    if (l->failure != UCS_OK) /* the peer may be gone by now */
        l->ep = NULL;
    return CT_OK;
}

static const struct ct_transport_ops view_ops = {
    .name     = "ucx",
    .send     = view_send,
    .receive  = view_receive,
    .test     = view_test,
    .cancel   = view_cancel,
    .destroy  = view_destroy,
    .over     = view_over,
    .progress = view_progress,
};

enum ct_status ct_ucx_open(struct ct_ucx *e, const struct ct_tcp_view *how,
                           struct ct_transport **out)
{
    struct view *v;

    CT_TRY(ct_alloc(1, sizeof(*v), "view", &v));
    *v = (struct view){ .base = { .ops = &view_ops, .rank = how->rank,
                                  .size = how->size },
                        .end = e, .number = how->number };
    *out = &v->base;
    for (int r = 0; r < how->size; r++)
        if (r != how->rank)
            CT_TRY(reach(e, how->address[r], how->address_bytes[r],
                         &v->link[r]));
    return CT_OK;
}
