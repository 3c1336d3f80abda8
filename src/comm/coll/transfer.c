/* transfer.c - messages in flight, and transfers in segments. */
#include "comm/coll/transfer.h"

void ct_flight_init(struct ct_flight *f, struct ct_comm *c, int peer, int tag)
{
    f->comm     = c;
    f->peer     = peer;
    f->tag      = tag;
    f->n_posted = f->n_done = 0;
}

enum ct_status ct_flight_wait(struct ct_flight *f, int64_t n)
{
    while (f->n_done < n) {
        int64_t i = f->n_done++ % CT_DEPTH;

        if (!f->empty[i])
            CT_TRY(ct_comm_wait(f->comm, f->peer, &f->request[i]));
    }
    return CT_OK;
}

/* Makes room for the next message. */
static enum ct_status flight_slot(struct ct_flight *f, size_t bytes, int64_t *i)
{
    CT_TRY(ct_flight_wait(f, f->n_posted - CT_DEPTH + 1));
    *i           = f->n_posted % CT_DEPTH;
    f->empty[*i] = bytes == 0;
    return CT_OK;
}

enum ct_status ct_flight_send(struct ct_flight *f, const void *data,
                              size_t bytes)
{
    int64_t i;

    CT_TRY(flight_slot(f, bytes, &i));
    if (bytes)
        CT_TRY(ct_comm_send(f->comm, f->peer, f->tag, data, bytes,
                            &f->request[i]));
    f->n_posted++;
    return CT_OK;
}

enum ct_status ct_flight_receive(struct ct_flight *f, void *data, size_t bytes)
{
    int64_t i;

    CT_TRY(flight_slot(f, bytes, &i));
    if (bytes)
        CT_TRY(ct_comm_receive(f->comm, f->peer, f->tag, data, bytes,
                               &f->request[i]));
    f->n_posted++;
    return CT_OK;
}

void ct_flight_cancel(struct ct_flight *f)
{
    for (; f->n_done < f->n_posted; f->n_done++)
        if (!f->empty[f->n_done % CT_DEPTH])
            (void)ct_comm_cancel(f->comm, &f->request[f->n_done % CT_DEPTH]);
}

struct ct_part ct_part(int64_t n, int64_t parts, int64_t i)
{
    int64_t base = n / parts, extra = n % parts;

    return (struct ct_part){ i * base + (i < extra ? i : extra),
                             base + (i < extra) };
}

static int64_t segments(size_t bytes)
{
    return (int64_t)((bytes + CT_SEGMENT_BYTES - 1) / CT_SEGMENT_BYTES);
}

static size_t segment_bytes(size_t bytes, int64_t s)
{
    size_t left = bytes - (size_t)s * CT_SEGMENT_BYTES;

    return left < CT_SEGMENT_BYTES ? left : CT_SEGMENT_BYTES;
}

/* Posts the receive of segment s, into staging if it will be added. */
static enum ct_status take_post(struct ct_flight *got,
                                const struct ct_transfer *t, char *staging,
                                int64_t s)
{
    char *into = t->add ? staging + s % CT_DEPTH * CT_SEGMENT_BYTES
                        : (char *)t->take + s * CT_SEGMENT_BYTES;

    return ct_flight_receive(got, into, segment_bytes(t->take_bytes, s));
}

static enum ct_status take_done(struct ct_flight *got,
                                const struct ct_transfer *t, char *staging,
                                int64_t s)
{
    CT_TRY(ct_flight_wait(got, s + 1));
    if (t->add)
        ct_comm_add((int64_t)(segment_bytes(t->take_bytes, s) / sizeof(float)),
                    (float *)(staging + s % CT_DEPTH * CT_SEGMENT_BYTES),
                    (float *)((char *)t->take + s * CT_SEGMENT_BYTES));
    return CT_OK;
}

/* CT_DEPTH receives are posted in advance, so that a peer's send finds one. */
enum ct_status ct_transfer(struct ct_comm *c, const struct ct_transfer *t,
                           int tag)
{
    const int64_t n_give = segments(t->give_bytes);
    const int64_t n_take = segments(t->take_bytes);
    struct ct_flight sent, got;
    char *staging = NULL;
    enum ct_status st;

    if (t->add && n_take)
        CT_TRY(ct_comm_staging(c, CT_DEPTH * CT_SEGMENT_BYTES, &staging));
    ct_flight_init(&sent, c, t->to, tag);
    ct_flight_init(&got, c, t->from, tag);
    for (int64_t s = 0; s < n_take && s < CT_DEPTH; s++)
        CT_TRY_GOTO(take_post(&got, t, staging, s), st, out);
    for (int64_t s = 0; s < n_give || s < n_take; s++) {
        if (s < n_give)
            CT_TRY_GOTO(ct_flight_send(&sent, (const char *)t->give +
                                                  s * CT_SEGMENT_BYTES,
                                       segment_bytes(t->give_bytes, s)),
                        st, out);
        if (s >= n_take)
            continue;
        CT_TRY_GOTO(take_done(&got, t, staging, s), st, out);
        if (s + CT_DEPTH < n_take)
            CT_TRY_GOTO(take_post(&got, t, staging, s + CT_DEPTH), st, out);
    }
    CT_TRY_GOTO(ct_flight_wait(&sent, n_give), st, out);
    return CT_OK;
out:
    ct_flight_cancel(&sent);
    ct_flight_cancel(&got);
    return st;
}
