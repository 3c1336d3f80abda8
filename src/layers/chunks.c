/* chunks.c - layers that take each value by itself, on bfloat16. */
#include "layers/chunks.h"

#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"

enum { CHUNK = 4096 };

/* A chunk of all blobs as floats: what a layer is called with. */
struct chunk {
    int64_t         from, n;
    struct ct_blob  bottom[CT_CHUNK_BLOBS], top[CT_CHUNK_BLOBS];
    struct ct_blob *bottoms[CT_CHUNK_BLOBS], *tops[CT_CHUNK_BLOBS];
    float           data[2 * CT_CHUNK_BLOBS][CHUNK];
    float           diff[2 * CT_CHUNK_BLOBS][CHUNK];
};

static void chunk_blob(struct chunk *c, const struct ct_blob *of, int i,
                       struct ct_blob *b)
{
    *b = (struct ct_blob){ .shape = CT_SHAPE(c->n), .count = c->n,
                           .dev = of->dev, .name = of->name, .version = 1,
                           .no_diff = !of->diff.ptr };
    b->data.ptr = c->data[i];
    b->diff.ptr = of->diff.ptr ? c->diff[i] : NULL;
    b->data.room_bytes = b->diff.room_bytes = sizeof(c->data[i]);
}

static struct ct_io chunk_init(struct chunk *c, const struct ct_io *io,
                               int64_t from, int64_t n)
{
    c->from = from;
    c->n    = n;
    for (int i = 0; i < io->n_bottom; i++) {
        chunk_blob(c, io->bottom[i], i, &c->bottom[i]);
        c->bottoms[i] = &c->bottom[i];
    }
    for (int i = 0; i < io->n_top; i++) {
        chunk_blob(c, io->top[i], CT_CHUNK_BLOBS + i, &c->top[i]);
        c->tops[i] = &c->top[i];
    }
    return (struct ct_io){ c->bottoms, c->tops, io->n_bottom, io->n_top,
                           io->want_grad };
}

static void in(const struct chunk *c, const struct ct_tensor *from,
               const struct ct_tensor *to)
{
    if (from->ptr)
        ct_widen_row(c->n, ct_bf16(from->ptr) + c->from, to->ptr);
}

static void out(const struct chunk *c, const struct ct_tensor *from,
                const struct ct_tensor *to)
{
    ct_narrow_row(c->n, from->ptr, ct_bf16_out(to->ptr) + c->from);
}

static enum ct_status forward_chunk(struct ct_layer *l, const struct ct_io *io,
                                    ct_layer_fn forward, int64_t from,
                                    int64_t n)
{
    struct chunk c;
    const struct ct_io part = chunk_init(&c, io, from, n);

    for (int i = 0; i < io->n_bottom; i++)
        in(&c, &io->bottom[i]->data, &c.bottom[i].data);
    CT_TRY(forward(l, &part));
    for (int i = 0; i < io->n_top; i++)
        if (i == 0 || ct_data(io->top[i]) != ct_data(io->top[0]))
            out(&c, &c.top[i].data, &io->top[i]->data);
    return CT_OK;
}

static enum ct_status backward_chunk(struct ct_layer *l,
                                     const struct ct_io *io,
                                     ct_layer_fn backward, int64_t from,
                                     int64_t n)
{
    struct chunk c;
    const struct ct_io part = chunk_init(&c, io, from, n);

    for (int i = 0; i < io->n_bottom && !(l->flags & CT_LAYER_NO_BOTTOM); i++)
        in(&c, &io->bottom[i]->data, &c.bottom[i].data);
    for (int i = 0; i < io->n_top; i++) {
        if (!(l->flags & CT_LAYER_NO_TOP))
            in(&c, &io->top[i]->data, &c.top[i].data);
        in(&c, &io->top[i]->diff, &c.top[i].diff);
    }
    CT_TRY(backward(l, &part));
    for (int i = 0; i < io->n_bottom; i++)
        if (io->want_grad[i])
            out(&c, &c.bottom[i].diff, &io->bottom[i]->diff);
    return CT_OK;
}

CT_INLINE void gather(int64_t n, const uint16_t *a, const uint16_t *b,
                      const uint16_t *y, float c, uint16_t *g)
{
    CT_SIMD_EACH (i, n) {
        const float d = c * (b ? ct_widen(a[i]) + ct_widen(b[i])
                               : ct_widen(a[i]));

        g[i] = ct_narrow(!y || ct_widen(y[i]) > 0 ? d : 0);
    }
}

CT_SIMD static void gather_row(int64_t n, const uint16_t *a, const uint16_t *b,
                               const uint16_t *y, float c, uint16_t *g)
{
    if (b && y)
        gather(n, a, b, y, c, g);
    else if (b)
        gather(n, a, b, NULL, c, g);
    else if (y)
        gather(n, a, NULL, y, c, g);
    else
        gather(n, a, NULL, NULL, c, g);
}

void ct_gather_shorts(int64_t n, const float *a, const float *b,
                      const float *y, float c, float *g)
{
    CT_FOR_ROWS (k, (n + CHUNK - 1) / CHUNK, CHUNK) {
        const int64_t at = k * CHUNK, left = n - at;

        gather_row(left < CHUNK ? left : CHUNK, ct_bf16(a) + at,
                   b ? ct_bf16(b) + at : NULL, y ? ct_bf16(y) + at : NULL, c,
                   ct_bf16_out(g) + at);
    }
}

typedef enum ct_status (*chunk_fn)(struct ct_layer *l, const struct ct_io *io,
                                   ct_layer_fn fn, int64_t from, int64_t n);

/* The functions fail only where they are given something impossible; then all
 * chunks do. */
static enum ct_status each_chunk(struct ct_layer *l, const struct ct_io *io,
                                 chunk_fn run, ct_layer_fn fn)
{
    const int64_t n = ct_elements(io->bottom[0]);
    enum ct_status st = CT_OK;

    CT_FOR_ROWS (k, (n + CHUNK - 1) / CHUNK, CHUNK) {
        const int64_t left      = n - k * CHUNK;
        const enum ct_status is = run(l, io, fn, k * CHUNK,
                                      left < CHUNK ? left : CHUNK);

        if (is != CT_OK)
            __atomic_store_n(&st, is, __ATOMIC_RELAXED);
    }
    return st;
}

enum ct_status ct_chunks_forward(struct ct_layer *l, const struct ct_io *io,
                                 ct_layer_fn forward)
{
    bool moves = !(l->flags & CT_LAYER_ALIAS_DATA);

    for (int i = 0; i < io->n_top; i++)
        moves |= ct_data(io->top[i]) != ct_data(io->bottom[0]);
    return moves ? each_chunk(l, io, forward_chunk, forward) : CT_OK;
}

enum ct_status ct_chunks_backward(struct ct_layer *l, const struct ct_io *io,
                                  ct_layer_fn backward)
{
    return each_chunk(l, io, backward_chunk, backward);
}
