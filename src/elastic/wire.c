/* wire.c - messages of the agreement as bytes. */
#include "elastic/wire.h"

#include <string.h>

#include "elastic/bytes.h"

/* ---- Writing. */

static void put_view(struct writer *w, const struct elastic_view *v)
{
    put(w, v->number, 4);
    put(w, (uint32_t)v->base, 4);
    put(w, (uint32_t)v->n, 4);
    put(w, (uint32_t)v->n_full, 4);
    for (int i = 0; i < v->n; i++)
        put(w, v->id[i], 8);
}

static bool has_view(enum elastic_kind kind, uint64_t accepted)
{
    return kind == ELASTIC_ACCEPT || kind == ELASTIC_INSTALL ||
           (kind == ELASTIC_PROMISE && accepted != 0);
}

size_t elastic_message_write(const struct elastic_message *m, uint8_t *out)
{
    struct writer w = { out };

    put(&w, (uint64_t)m->kind, 1);
    put(&w, m->view, 4);
    put(&w, m->ballot, 8);
    put(&w, m->about, 8);
    put(&w, (uint32_t)m->ready, 4);
    put(&w, m->accepted, 8);
    if (has_view(m->kind, m->accepted))
        put_view(&w, &m->next);
    return (size_t)(w.at - out);
}

size_t elastic_will_write(const struct elastic_will *will, uint8_t *out)
{
    struct writer w = { out };

    put_view(&w, &will->view);
    put(&w, will->promised, 8);
    put(&w, will->accepted, 8);
    put_view(&w, &will->next);
    return (size_t)(w.at - out);
}

/* ---- Reading. */

static enum ct_status take_view(struct reader *r, struct elastic_view *v)
{
    uint64_t n, n_full;

    memset(v, 0, sizeof(*v));
    v->number = (uint32_t)take(r, 4);
    v->base   = (int32_t)(uint32_t)take(r, 4);
    n         = take(r, 4);
    n_full    = take(r, 4);
    if (n > ELASTIC_MEMBERS || n_full > n || v->base < ELASTIC_NOTHING)
        return ct_fail(CT_EPARSE, "a view of %llu members, %llu of them with "
                       "parameters, after %d iterations",
                       (unsigned long long)n, (unsigned long long)n_full,
                       v->base);
    v->n      = (int)n;
    v->n_full = (int)n_full;
    for (int i = 0; i < v->n; i++) {
        v->id[i] = take(r, 8);
        for (int k = 0; k < i; k++)
            if (v->id[k] == v->id[i])
                return ct_fail(CT_EPARSE, "a view with a member twice");
        if (v->id[i] == 0)
            return ct_fail(CT_EPARSE, "a view with a member that is nobody");
    }
    return CT_OK;
}

enum ct_status elastic_message_read(const uint8_t *data, size_t bytes,
                                    struct elastic_message *out)
{
    struct reader r     = { data, data + bytes, false };
    const uint64_t kind = take(&r, 1);

    memset(out, 0, sizeof(*out));
    if (kind >= ELASTIC_N_KINDS)
        return ct_fail(CT_EPARSE, "a message of the unknown kind %d",
                       (int)kind);
    out->kind     = (enum elastic_kind)kind;
    out->view     = (uint32_t)take(&r, 4);
    out->ballot   = take(&r, 8);
    out->about    = take(&r, 8);
    out->ready    = (int32_t)(uint32_t)take(&r, 4);
    out->accepted = take(&r, 8);
    if (out->ready < ELASTIC_NOTHING)
        return ct_fail(CT_EPARSE, "a message that counts %d iterations",
                       out->ready);
    if (has_view(out->kind, out->accepted))
        CT_TRY(take_view(&r, &out->next));
    return reader_end(&r, "a message");
}

enum ct_status elastic_will_read(const uint8_t *data, size_t bytes,
                                 struct elastic_will *out)
{
    struct reader r = { data, data + bytes, false };

    memset(out, 0, sizeof(*out));
    CT_TRY(take_view(&r, &out->view));
    out->promised = take(&r, 8);
    out->accepted = take(&r, 8);
    CT_TRY(take_view(&r, &out->next));
    return reader_end(&r, "a will");
}
