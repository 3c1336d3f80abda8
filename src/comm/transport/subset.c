/* subset.c - some ranks of a transport as a transport of their own.
 *
 *     inner ranks    0 1 2 3 | 4 5        subsets [0, 4) and [4, 6)
 *     subset ranks   0 1 2 3 | 0 1
 *
 * So groups sum and broadcast with the same collectives as all ranks.  Messages
 * keep their tags, and the order between two ranks is that of the inner
 * transport.  The inner transport is borrowed and outlives the subset. */
#include "base/mem.h"
#include "comm/transport.h"

struct subset {
    struct ct_transport  base;
    struct ct_transport *inner; /* borrowed */
    int                  first;
};

static struct subset *subset_of(struct ct_transport *t)
{
    return (struct subset *)t;
}

static enum ct_status subset_check(const struct ct_transport *t, int peer)
{
    if (peer < 0 || peer >= t->size || peer == t->rank)
        return ct_fail(CT_EINVAL, "rank %d of %d has no peer %d", t->rank,
                       t->size, peer);
    return CT_OK;
}

static enum ct_status subset_send(struct ct_transport *t, int to, int tag,
                                  const void *data, size_t bytes,
                                  struct ct_request *out)
{
    struct ct_transport *inner = subset_of(t)->inner;

    CT_TRY(subset_check(t, to));
    return inner->ops->send(inner, subset_of(t)->first + to, tag, data, bytes,
                            out);
}

static enum ct_status subset_receive(struct ct_transport *t, int from, int tag,
                                     void *data, size_t bytes,
                                     struct ct_request *out)
{
    struct ct_transport *inner = subset_of(t)->inner;

    CT_TRY(subset_check(t, from));
    return inner->ops->receive(inner, subset_of(t)->first + from, tag, data,
                               bytes, out);
}

static enum ct_status subset_test(struct ct_transport *t, struct ct_request *r,
                                  bool *done)
{
    struct ct_transport *inner = subset_of(t)->inner;

    return inner->ops->test(inner, r, done);
}

static bool subset_cancel(struct ct_transport *t, struct ct_request *r)
{
    struct ct_transport *inner = subset_of(t)->inner;

    return inner->ops->cancel(inner, r);
}

static void subset_abort(struct ct_transport *t, int code)
{
    struct ct_transport *inner = subset_of(t)->inner;

    inner->ops->abort(inner, code);
}

static void subset_over(struct ct_transport *t)
{
    struct ct_transport *inner = subset_of(t)->inner;

    if (inner->ops->over)
        inner->ops->over(inner);
}

static void subset_progress(struct ct_transport *t)
{
    ct_transport_progress(subset_of(t)->inner);
}

static void subset_destroy(struct ct_transport *t)
{
    ct_free(t);
}

static const struct ct_transport_ops subset_ops = {
    .name     = "subset",
    .send     = subset_send,
    .receive  = subset_receive,
    .test     = subset_test,
    .cancel   = subset_cancel,
    .abort    = subset_abort,
    .destroy  = subset_destroy,
    .over     = subset_over,
    .progress = subset_progress,
};

enum ct_status ct_subset_create(struct ct_transport *inner, int first, int size,
                                struct ct_transport **out)
{
    struct subset *s;

    if (first < 0 || size < 1 || first + size > inner->size ||
        inner->rank < first || inner->rank >= first + size)
        return ct_fail(CT_EINVAL, "rank %d of %d is not among %d ranks from "
                       "%d on", inner->rank, inner->size, size, first);
    CT_TRY(ct_alloc(1, sizeof(*s), "transport", &s));
    s->base = (struct ct_transport){
        .ops  = &subset_ops,
        .type = inner->type,
        .rank = inner->rank - first,
        .size = size,
        .host = inner->host ? inner->host + first : NULL,
        .threads = inner->threads,
        .is_over = inner->is_over,
    };
    s->inner = inner;
    s->first = first;
    *out     = &s->base;
    return CT_OK;
}
