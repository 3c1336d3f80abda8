/* under_way.c - a transport in front of another that sees what is under way. */
#include "testing/under_way.h"

#include "base/mem.h"

enum { MOST = 256 };

/* A send; word 0 of its request names it. */
struct sent {
    uint64_t id;
    size_t   bytes;
    int      tag;
};

struct watcher {
    struct ct_transport  base;
    struct ct_transport *inner; /* owned */
    struct under_way    *seen;
    struct sent          sent[MOST];
    int                  n;
};

static struct watcher *watcher_of(struct ct_transport *t)
{
    return (struct watcher *)t;
}

static int count_tags(const struct watcher *w)
{
    int n = 0;

    for (int i = 0; i < w->n; i++) {
        bool first = true;

        for (int k = 0; k < i; k++)
            first &= w->sent[k].tag != w->sent[i].tag;
        n += first;
    }
    return n;
}

static void note(struct watcher *w)
{
    struct under_way *s = w->seen;
    size_t bytes        = 0;

    for (int i = 0; i < w->n; i++)
        bytes += w->sent[i].bytes;
    atomic_store(&s->n, w->n);
    atomic_store(&s->bytes, bytes);
    if (w->n > atomic_load(&s->most))
        atomic_store(&s->most, w->n);
    if (bytes > atomic_load(&s->most_bytes))
        atomic_store(&s->most_bytes, bytes);
    if (count_tags(w) > atomic_load(&s->most_tags))
        atomic_store(&s->most_tags, count_tags(w));
}

static void forget(struct watcher *w, uint64_t id)
{
    for (int i = 0; i < w->n; i++)
        if (w->sent[i].id == id) {
            w->sent[i] = w->sent[--w->n];
            note(w);
            return;
        }
}

static enum ct_status watch_send(struct ct_transport *t, int to, int tag,
                                 const void *data, size_t bytes,
                                 struct ct_request *out)
{
    struct watcher *w = watcher_of(t);

    CT_TRY(w->inner->ops->send(w->inner, to, tag, data, bytes, out));
    if (bytes < w->seen->least)
        return CT_OK;
    CT_ASSERT(w->n < MOST);
    w->sent[w->n++] = (struct sent){ out->word[0], bytes, tag };
    note(w);
    return CT_OK;
}

static enum ct_status watch_receive(struct ct_transport *t, int from, int tag,
                                    void *data, size_t bytes,
                                    struct ct_request *out)
{
    struct ct_transport *inner = watcher_of(t)->inner;

    return inner->ops->receive(inner, from, tag, data, bytes, out);
}

static enum ct_status watch_test(struct ct_transport *t, struct ct_request *r,
                                 bool *done)
{
    struct watcher *w = watcher_of(t);
    const uint64_t id = r->word[0];

    CT_TRY(w->inner->ops->test(w->inner, r, done));
    if (*done)
        forget(w, id);
    return CT_OK;
}

static bool watch_cancel(struct ct_transport *t, struct ct_request *r)
{
    struct watcher *w = watcher_of(t);

    forget(w, r->word[0]);
    return w->inner->ops->cancel(w->inner, r);
}

static void watch_abort(struct ct_transport *t, int code)
{
    struct ct_transport *inner = watcher_of(t)->inner;

    inner->ops->abort(inner, code);
}

static void watch_destroy(struct ct_transport *t)
{
    struct watcher *w = watcher_of(t);

    w->inner->ops->destroy(w->inner);
    ct_free(w);
}

static const struct ct_transport_ops watch_ops = {
    .name    = "under_way",
    .send    = watch_send,
    .receive = watch_receive,
    .test    = watch_test,
    .cancel  = watch_cancel,
    .abort   = watch_abort,
    .destroy = watch_destroy,
};

enum ct_status under_way_create(struct ct_transport *inner,
                                struct under_way *seen,
                                struct ct_transport **out)
{
    struct watcher *w;

    CT_TRY(ct_alloc(1, sizeof(*w), "watcher", &w));
    w->base       = *inner;
    w->base.ops   = &watch_ops;
    w->inner      = inner;
    w->seen       = seen;
    *out          = &w->base;
    return CT_OK;
}
