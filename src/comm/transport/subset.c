/* subset.c - some ranks of a transport as if they were all.
 *
 *     inner ranks   0 1 2 3 | 4 5        a view of [0, 4) and one of [4, 6)
 *     view ranks    0 1 2 3 | 0 1
 *
 * Groups sum and broadcast with the collectives that all ranks use.  Messages
 * keep their tags; those between two ranks stay in order whichever view sends
 * them.  The inner transport stays its owner's and outlives the view. */
#include "base/mem.h"
#include "comm/transport.h"

struct view {
    struct ct_transport  base;
    struct ct_transport *inner; /* borrowed */
    int                  first;
};

static struct view *view_of(struct ct_transport *t)
{
    return (struct view *)t;
}

static enum ct_status view_check(const struct ct_transport *t, int peer)
{
    if (peer < 0 || peer >= t->size || peer == t->rank)
        return ct_fail(CT_EINVAL, "rank %d of %d has no peer %d", t->rank,
                       t->size, peer);
    return CT_OK;
}

static enum ct_status view_send(struct ct_transport *t, int to, int tag,
                                const void *data, size_t bytes,
                                struct ct_request *out)
{
    struct ct_transport *inner = view_of(t)->inner;

    CT_TRY(view_check(t, to));
    return inner->ops->send(inner, view_of(t)->first + to, tag, data, bytes,
                            out);
}

static enum ct_status view_receive(struct ct_transport *t, int from, int tag,
                                   void *data, size_t bytes,
                                   struct ct_request *out)
{
    struct ct_transport *inner = view_of(t)->inner;

    CT_TRY(view_check(t, from));
    return inner->ops->receive(inner, view_of(t)->first + from, tag, data,
                               bytes, out);
}

static enum ct_status view_test(struct ct_transport *t, struct ct_request *r,
                                bool *done)
{
    struct ct_transport *inner = view_of(t)->inner;

    return inner->ops->test(inner, r, done);
}

static bool view_cancel(struct ct_transport *t, struct ct_request *r)
{
    struct ct_transport *inner = view_of(t)->inner;

    return inner->ops->cancel(inner, r);
}

static void view_abort(struct ct_transport *t, int code)
{
    struct ct_transport *inner = view_of(t)->inner;

    inner->ops->abort(inner, code);
}

static void view_over(struct ct_transport *t)
{
    struct ct_transport *inner = view_of(t)->inner;

    if (inner->ops->over)
        inner->ops->over(inner);
}

static void view_progress(struct ct_transport *t)
{
    ct_transport_progress(view_of(t)->inner);
}

static void view_destroy(struct ct_transport *t)
{
    ct_free(t);
}

static const struct ct_transport_ops view_ops = {
    .name     = "view",
    .send     = view_send,
    .receive  = view_receive,
    .test     = view_test,
    .cancel   = view_cancel,
    .abort    = view_abort,
    .destroy  = view_destroy,
    .over     = view_over,
    .progress = view_progress,
};

enum ct_status ct_view_create(struct ct_transport *inner, int first, int size,
                              struct ct_transport **out)
{
    struct view *v;

    if (first < 0 || size < 1 || first + size > inner->size ||
        inner->rank < first || inner->rank >= first + size)
        return ct_fail(CT_EINVAL, "rank %d of %d is not among %d ranks from "
                       "%d on", inner->rank, inner->size, size, first);
    CT_TRY(ct_alloc(1, sizeof(*v), "transport", &v));
    v->base = (struct ct_transport){
        .ops  = &view_ops,
        .type = inner->type,
        .rank = inner->rank - first,
        .size = size,
        .host = inner->host ? inner->host + first : NULL,
        .is_over = inner->is_over,
    };
    v->inner = inner;
    v->first = first;
    *out     = &v->base;
    return CT_OK;
}
