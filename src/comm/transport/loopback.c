/* loopback.c - ranks as threads of one process, for tests and sanitizers.
 *
 * Each rank has a mailbox with two lists in the order of posting: sends to this
 * rank and its own receives, both without a partner so far.
 *
 *     mailbox of rank 2   sends:    (from 0, tag 5) (from 1, tag 5) ...
 *                         receives: (from 1, tag 7) ...
 *
 * A send and a receive are matched when sender and tag agree; then the bytes
 * are copied and both are done.  A send is never buffered: it waits for its
 * receive, which is the strictest behaviour that MPI allows.  With delays, some
 * sends can be matched only after a moment drawn from (seed, sender, receiver,
 * number).  So messages with other tags overtake them; those with the same tag
 * wait behind them. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/transport/transports.h"

enum {
    SLAB         = 64,  /* posts allocated at once */
    DELAY_EVERY  = 4,   /* one message in four is late */
    MOST_DELAY_US = 400 /* the longest delay */
};

/* A send or a receive.  The lock of its mailbox protects it. */
struct post {
    struct post   *next;
    int            from, to, tag;
    bool           is_send, done;
    void          *data; /* borrowed; that of a send is only read */
    size_t         bytes, got; /* got: a receive: bytes of the message */
    double         due;        /* a send: the earliest time to match it */
};

struct slab {
    struct slab *next;
    struct post  post[SLAB];
};

struct mailbox {
    pthread_mutex_t lock;
    struct post    *sends, *receives; /* not matched yet, oldest first */
    struct post    *unused;
    struct slab    *slabs;
};

struct hub {
    int             size;
    unsigned        delay_seed;
    struct mailbox *mailbox; /* per rank; owned */
    atomic_bool    *gone;    /* per rank: its end is destroyed; owned */
    atomic_int      n_ends;
    atomic_int      aborted_by; /* a rank; -1: none */
    int            *host; /* owned */
};

/* The end of one rank; only the thread of this rank uses it. */
struct loopback {
    struct ct_transport base;
    struct hub         *hub;
    uint64_t            n_sent; /* numbers the delays */
    atomic_bool         is_over;
};

static struct hub *hub_of(struct ct_transport *t)
{
    return ((struct loopback *)t)->hub;
}

static struct post *request_post(const struct ct_request *r)
{
    return (struct post *)(uintptr_t)r->word[0];
}

static struct mailbox *request_mailbox(struct hub *h,
                                       const struct ct_request *r)
{
    return &h->mailbox[r->word[1]];
}

/* ---- the mailbox is locked */

static struct post *mailbox_new(struct mailbox *m)
{
    struct post *p;

    if (!m->unused) {
        struct slab *s = ct_calloc(1, sizeof(*s), "loopback messages");

        if (!s)
            return NULL;
        s->next  = m->slabs;
        m->slabs = s;
        for (int i = 0; i < SLAB; i++) {
            s->post[i].next = m->unused;
            m->unused       = &s->post[i];
        }
    }
    p         = m->unused;
    m->unused = p->next;
    return p;
}

static void mailbox_recycle(struct mailbox *m, struct post *p)
{
    p->next   = m->unused;
    m->unused = p;
}

static void list_append(struct post **list, struct post *p)
{
    while (*list)
        list = &(*list)->next;
    p->next = NULL;
    *list   = p;
}

static bool list_remove(struct post **list, struct post *p)
{
    for (; *list; list = &(*list)->next)
        if (*list == p) {
            *list = p->next;
            return true;
        }
    return false;
}

/* The oldest send for this receive; NULL: there is none, or it is not due. */
static struct post *mailbox_find(const struct mailbox *m,
                                 const struct post *receive, double now)
{
    for (struct post *s = m->sends; s; s = s->next)
        if (s->from == receive->from && s->tag == receive->tag)
            return s->due <= now ? s : NULL;
    return NULL;
}

static void mailbox_progress(struct mailbox *m, double now)
{
    struct post *next;

    for (struct post *r = m->receives; r; r = next) {
        struct post *s = mailbox_find(m, r, now);

        next = r->next;
        if (!s)
            continue;
        r->got = s->bytes;
        if (r->got == r->bytes && r->bytes > 0)
            memcpy(r->data, s->data, r->bytes);
        list_remove(&m->sends, s);
        list_remove(&m->receives, r);
        s->done = r->done = true;
    }
}

/* ---- the ends */

static double loopback_due(struct loopback *l, int to)
{
    const unsigned seed = l->hub->delay_seed;
    struct ct_philox draw;

    if (!seed)
        return 0;
    draw = ct_philox(seed, (uint64_t)l->base.rank << 32 | (unsigned)to,
                     l->n_sent++);
    if (draw.v[0] % DELAY_EVERY)
        return 0;
    return ct_now() + 1e-6 * (draw.v[1] % MOST_DELAY_US);
}

static enum ct_status loopback_check(const struct ct_transport *t, int peer)
{
    if (peer < 0 || peer >= t->size || peer == t->rank)
        return ct_fail(CT_EINVAL, "rank %d of %d has no peer %d", t->rank,
                       t->size, peer);
    return ct_transport_check(t);
}

static enum ct_status loopback_post(struct ct_transport *t,
                                    const struct post *what,
                                    struct ct_request *out)
{
    struct hub *h     = hub_of(t);
    struct mailbox *m = &h->mailbox[what->to];
    struct post *p;

    pthread_mutex_lock(&m->lock);
    p = mailbox_new(m);
    if (p) {
        *p = *what;
        list_append(p->is_send ? &m->sends : &m->receives, p);
        mailbox_progress(m, h->delay_seed ? ct_now() : 0);
    }
    pthread_mutex_unlock(&m->lock);
    out->word[0] = (uintptr_t)p;
    out->word[1] = (uint64_t)what->to;
    return p ? CT_OK : CT_ENOMEM;
}

static enum ct_status loopback_send(struct ct_transport *t, int to, int tag,
                                    const void *data, size_t bytes,
                                    struct ct_request *out)
{
    struct post p = { .from = t->rank, .to = to, .tag = tag, .is_send = true,
                      .data = (void *)(uintptr_t)data, .bytes = bytes,
                      .due = loopback_due((struct loopback *)t, to) };

    CT_TRY(loopback_check(t, to));
    return loopback_post(t, &p, out);
}

static enum ct_status loopback_receive(struct ct_transport *t, int from,
                                       int tag, void *data, size_t bytes,
                                       struct ct_request *out)
{
    struct post p = { .from = from, .to = t->rank, .tag = tag, .data = data,
                      .bytes = bytes };

    CT_TRY(loopback_check(t, from));
    return loopback_post(t, &p, out);
}

/* Fails if a request without a partner will never have one. */
static enum ct_status loopback_hopeless(struct hub *h, const struct post *p)
{
    const int peer = p->is_send ? p->to : p->from;
    const int by   = atomic_load(&h->aborted_by);

    if (by >= 0)
        return ct_fail(CT_ECOMM, "rank %d aborted the job", by);
    if (atomic_load(&h->gone[peer]))
        return ct_fail(CT_ECOMM, "rank %d has left", peer);
    return CT_OK;
}

static enum ct_status loopback_test(struct ct_transport *t,
                                    struct ct_request *r, bool *done)
{
    struct hub *h     = hub_of(t);
    struct mailbox *m = request_mailbox(h, r);
    struct post *p    = request_post(r), was;
    enum ct_status st = ct_transport_check(t);

    pthread_mutex_lock(&m->lock);
    if (!p->done && st == CT_OK)
        mailbox_progress(m, h->delay_seed ? ct_now() : 0);
    was = *p;
    if (!was.done && st == CT_OK)
        st = loopback_hopeless(h, p);
    if (was.done && st == CT_OK && !was.is_send && was.got != was.bytes)
        st = ct_fail(CT_ECOMM, "rank %d: %zu bytes came from rank %d with tag "
                     "%d, not %zu", t->rank, was.got, was.from, was.tag,
                     was.bytes);
    *done = was.done && st == CT_OK;
    if (*done)
        mailbox_recycle(m, p);
    pthread_mutex_unlock(&m->lock);
    return st;
}

static bool loopback_cancel(struct ct_transport *t, struct ct_request *r)
{
    struct mailbox *m = request_mailbox(hub_of(t), r);
    struct post *p    = request_post(r);

    pthread_mutex_lock(&m->lock);
    if (!p->done)
        list_remove(p->is_send ? &m->sends : &m->receives, p);
    mailbox_recycle(m, p);
    pthread_mutex_unlock(&m->lock);
    return true;
}

static void loopback_abort(struct ct_transport *t, int code)
{
    int nobody = -1;

    (void)code;
    atomic_compare_exchange_strong(&hub_of(t)->aborted_by, &nobody, t->rank);
}

static void loopback_over(struct ct_transport *t)
{
    atomic_store(&((struct loopback *)t)->is_over, true);
}

static void hub_destroy(struct hub *h)
{
    for (int r = 0; h->mailbox && r < h->size; r++) {
        struct slab *next;

        for (struct slab *s = h->mailbox[r].slabs; s; s = next) {
            next = s->next;
            ct_free(s);
        }
        pthread_mutex_destroy(&h->mailbox[r].lock);
    }
    ct_free(h->mailbox);
    ct_free(h->gone);
    ct_free(h->host);
    ct_free(h);
}

/* Removes the posts of a rank that leaves, because their buffers will be
 * freed. */
static void mailbox_forget(struct mailbox *m, const struct hub *h, int rank)
{
    struct post *next;

    pthread_mutex_lock(&m->lock);
    for (struct post *p = m->sends; p; p = next) {
        next = p->next;
        if (p->from == rank && list_remove(&m->sends, p))
            mailbox_recycle(m, p);
    }
    for (struct post *p = m->receives; p && m == &h->mailbox[rank]; p = next) {
        next = p->next;
        list_remove(&m->receives, p);
        mailbox_recycle(m, p);
    }
    pthread_mutex_unlock(&m->lock);
}

static void loopback_destroy(struct ct_transport *t)
{
    struct hub *h = hub_of(t);

    for (int r = 0; r < h->size; r++)
        mailbox_forget(&h->mailbox[r], h, t->rank);
    /* A rank whose view is over does not tell the others that it leaves. */
    if (!atomic_load(&((struct loopback *)t)->is_over))
        atomic_store(&h->gone[t->rank], true);
    ct_free(t);
    if (atomic_fetch_sub(&h->n_ends, 1) == 1)
        hub_destroy(h);
}

static const struct ct_transport_ops loopback_ops = {
    .name    = "loopback",
    .send    = loopback_send,
    .receive = loopback_receive,
    .test    = loopback_test,
    .cancel  = loopback_cancel,
    .abort   = loopback_abort,
    .destroy = loopback_destroy,
    .over    = loopback_over,
};

static enum ct_status hub_create(int size,
                                 const struct ct_loopback_options *options,
                                 struct hub **out)
{
    struct hub *h;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*h), "loopback", &h));
    h->size       = size;
    h->delay_seed = options ? options->delay_seed : 0;
    atomic_init(&h->n_ends, 0);
    atomic_init(&h->aborted_by, -1);
    CT_TRY_GOTO(ct_alloc((size_t)size, sizeof(*h->gone), "loopback", &h->gone),
                st, out);
    CT_TRY_GOTO(ct_alloc((size_t)size, sizeof(*h->host), "loopback", &h->host),
                st, out);
    CT_TRY_GOTO(ct_alloc((size_t)size, sizeof(*h->mailbox), "loopback",
                         &h->mailbox), st, out);
    for (int r = 0; r < size; r++) {
        pthread_mutex_init(&h->mailbox[r].lock, NULL);
        h->host[r] = options && options->host ? options->host[r] : 0;
    }
    *out = h;
    return CT_OK;
out:
    hub_destroy(h);
    return st;
}

enum ct_status ct_loopback_create(int size,
                                  const struct ct_loopback_options *options,
                                  struct ct_transport **out)
{
    struct loopback *l;
    struct hub *h;

    if (size < 1)
        return ct_fail(CT_EINVAL, "%d ranks", size);
    CT_TRY(hub_create(size, options, &h));
    for (int r = 0; r < size; r++) {
        if (ct_alloc(1, sizeof(*l), "transport", &l) != CT_OK) {
            if (r == 0)
                hub_destroy(h);
            while (r-- > 0) /* the last one frees the hub */
                out[r]->ops->destroy(out[r]);
            return CT_ENOMEM;
        }
        l->base = (struct ct_transport){ .ops = &loopback_ops,
                                         .type = &ct_transport_loopback,
                                         .rank = r, .size = size,
                                         .host = h->host, .threads = true,
                                         .is_over = &l->is_over };
        atomic_init(&l->is_over, false);
        l->hub  = h;
        out[r]  = &l->base;
        atomic_fetch_add(&h->n_ends, 1);
    }
    return CT_OK;
}

static enum ct_status loopback_create(struct ct_transport **out)
{
    return ct_loopback_create(1, NULL, out);
}

const struct ct_transport_type ct_transport_loopback = {
    .name   = "loopback",
    .about  = "one rank, as tests have them",
    .create = loopback_create,
};
