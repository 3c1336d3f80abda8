/* limit.c - limits the bytes per second of another transport.
 *
 * A send that finds no tokens waits in a queue.  Each test of any request sends
 * the first of the queue if there are tokens, so receives never wait for sends.
 * The queue keeps the order of all sends.  Each request has a slot; its first
 * word is the index of the slot. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/rate.h"
#include "comm/transport.h"

struct slot {
    struct ct_request inner;
    enum ct_status sent; /* result of the inner send; CT_OK: inner is valid */
    bool        waits; /* in the queue, with the message below */
    int         to, tag;
    const void *data;
    size_t      bytes;
    int         next;  /* in the queue or the list of unused slots; -1: none */
};

/* Owned and called by the thread that calls the transport. */
struct limit {
    struct ct_transport  base;
    struct ct_transport *inner; /* owned */
    struct ct_rate       rate;
    double             (*now)(void *arg);
    void                *arg;
    struct slot         *slot; /* owned */
    int                  n_slots;
    int                  unused, first, last; /* slots; -1: none */
};

static struct limit *limit_of(struct ct_transport *t)
{
    return (struct limit *)t;
}

static double system_clock(void *arg)
{
    (void)arg;
    return ct_now();
}

static enum ct_status slot_take(struct limit *l, struct ct_request *out,
                                int *index)
{
    if (l->unused < 0) {
        int more          = l->n_slots ? 2 * l->n_slots : 32;
        struct slot *slot = ct_realloc(l->slot, (size_t)more * sizeof(*slot),
                                       "limited messages");

        if (!slot)
            return CT_ENOMEM;
        l->slot = slot;
        for (int i = l->n_slots; i < more; i++) {
            slot[i].next = l->unused;
            l->unused    = i;
        }
        l->n_slots = more;
    }
    *index         = l->unused;
    l->unused      = l->slot[*index].next;
    l->slot[*index] = (struct slot){ .next = -1 };
    *out = (struct ct_request){ { (uint64_t)*index } };
    return CT_OK;
}

static void slot_drop(struct limit *l, int i)
{
    l->slot[i].next = l->unused;
    l->unused       = i;
}

/* Sends from the queue while there are tokens.  If a send fails, its test
 * reports the failure. */
static void line_move(struct limit *l)
{
    while (l->first >= 0) {
        struct slot *s = &l->slot[l->first];

        if (!ct_rate_take(&l->rate, l->now(l->arg), s->bytes))
            return;
        l->first = s->next;
        l->last  = l->first < 0 ? -1 : l->last;
        s->waits = false;
        s->sent  = l->inner->ops->send(l->inner, s->to, s->tag, s->data,
                                       s->bytes, &s->inner);
    }
}

static enum ct_status limit_send(struct ct_transport *t, int to, int tag,
                                 const void *data, size_t bytes,
                                 struct ct_request *out)
{
    struct limit *l = limit_of(t);
    int i;

    CT_TRY(slot_take(l, out, &i));
    l->slot[i].waits = true;
    l->slot[i].to    = to;
    l->slot[i].tag   = tag;
    l->slot[i].data  = data;
    l->slot[i].bytes = bytes;
    if (l->last >= 0)
        l->slot[l->last].next = i;
    else
        l->first = i;
    l->last = i;
    line_move(l);
    return CT_OK;
}

static enum ct_status limit_receive(struct ct_transport *t, int from, int tag,
                                    void *data, size_t bytes,
                                    struct ct_request *out)
{
    struct limit *l = limit_of(t);
    enum ct_status st;
    int i;

    CT_TRY(slot_take(l, out, &i));
    st = l->inner->ops->receive(l->inner, from, tag, data, bytes,
                                &l->slot[i].inner);
    if (st != CT_OK)
        slot_drop(l, i);
    return st;
}

static enum ct_status limit_test(struct ct_transport *t, struct ct_request *r,
                                 bool *done)
{
    struct limit *l = limit_of(t);
    int i           = (int)r->word[0];
    enum ct_status st;

    line_move(l);
    *done = false;
    if (l->slot[i].waits)
        return ct_transport_check(l->inner);
    if (l->slot[i].sent != CT_OK)
        return ct_fail(l->slot[i].sent, "rank %d: nothing can be sent to rank "
                       "%d any more", t->rank, l->slot[i].to);
    st = l->inner->ops->test(l->inner, &l->slot[i].inner, done);
    if (*done)
        slot_drop(l, i);
    return st;
}

static void line_leave(struct limit *l, int i)
{
    int *link = &l->first, before = -1;

    while (*link != i) {
        before = *link;
        link   = &l->slot[*link].next;
    }
    *link = l->slot[i].next;
    if (l->last == i)
        l->last = before;
}

static bool limit_cancel(struct ct_transport *t, struct ct_request *r)
{
    struct limit *l = limit_of(t);
    int i           = (int)r->word[0];
    bool free_to_go = true;

    if (l->slot[i].waits)
        line_leave(l, i);
    else if (l->slot[i].sent == CT_OK)
        free_to_go = l->inner->ops->cancel(l->inner, &l->slot[i].inner);
    slot_drop(l, i);
    return free_to_go;
}

static void limit_abort(struct ct_transport *t, int code)
{
    struct limit *l = limit_of(t);

    l->inner->ops->abort(l->inner, code);
}

static void limit_over(struct ct_transport *t)
{
    struct limit *l = limit_of(t);

    if (l->inner->ops->over)
        l->inner->ops->over(l->inner);
}

static void limit_destroy(struct ct_transport *t)
{
    struct limit *l = limit_of(t);

    l->inner->ops->destroy(l->inner);
    ct_free(l->slot);
    ct_free(l);
}

static void limit_progress(struct ct_transport *t)
{
    ct_transport_progress(limit_of(t)->inner);
}

/* There is no `sum`, because the bytes that a library sends for it are
 * unknown. */
static const struct ct_transport_ops limit_ops = {
    .name     = "limit",
    .send     = limit_send,
    .receive  = limit_receive,
    .test     = limit_test,
    .cancel   = limit_cancel,
    .abort    = limit_abort,
    .destroy  = limit_destroy,
    .over     = limit_over,
    .progress = limit_progress,
};

enum ct_status ct_limit_create(struct ct_transport *inner, double bytes_s,
                               double (*now)(void *arg), void *arg,
                               struct ct_transport **out)
{
    struct limit *l;

    CT_TRY(ct_alloc(1, sizeof(*l), "transport", &l));
    l->base   = (struct ct_transport){ .ops = &limit_ops,
                                       .type = inner->type, .rank = inner->rank,
                                       .size = inner->size,
                                       .host = inner->host,
                                       .threads = inner->threads,
                                       .is_over = inner->is_over };
    l->inner  = inner;
    l->now    = now ? now : system_clock;
    l->arg    = arg;
    l->unused = l->first = l->last = -1;
    ct_rate_init(&l->rate, bytes_s, l->now(arg));
    *out = &l->base;
    return CT_OK;
}

double ct_limit_tokens(struct ct_transport *t)
{
    struct limit *l = limit_of(t);

    return ct_rate_level(&l->rate, l->now(l->arg));
}
