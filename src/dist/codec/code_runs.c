/* code_runs.c - sums encoded runs over ranks. */
#include "dist/codec/code_runs.h"

#include <string.h>

#include "base/trace.h"
#include "comm/coll/coll.h"
#include "comm/coll/transfer.h"

static bool gathers(int size)
{
    return size <= 2;
}

/* Parts are whole chunks, so that the codes of a part are those of the run. */
struct dist_run_part dist_run_owned(int64_t n, int size, int rank)
{
    struct ct_part p  = ct_part(dist_chunks(n), size, rank);
    int64_t first     = p.first * DIST_CHUNK, end = first + p.n * DIST_CHUNK;

    first = first < n ? first : n;
    end   = end < n ? end : n;
    return (struct dist_run_part){ first, end - first };
}

static size_t part_bytes(const struct dist_codec_type *type, int64_t n,
                         int size, int rank)
{
    int64_t part = dist_run_owned(n, size, rank).n;

    return part ? type->bytes(part) : 0;
}

size_t dist_run_code_bytes(const struct dist_codec_type *type, int64_t n,
                           int size)
{
    size_t sum = 0;

    if (gathers(size))
        return (size_t)size * type->bytes(n);
    for (int r = 0; r < size; r++)
        sum += part_bytes(type, n, size, r);
    return sum;
}

size_t dist_run_taken_bytes(const struct dist_codec_type *type, int64_t n,
                            int size)
{
    return gathers(size) ? 0 : part_bytes(type, n, size, 0);
}

double dist_run_sends(const struct dist_codec_type *type, int64_t n, int rank,
                      int size)
{
    double whole = (double)dist_run_code_bytes(type, n, size);

    if (n == 0 || size == 1)
        return 0;
    if (gathers(size))
        return (size - 1) * (double)type->bytes(n);
    /* First all parts except the own one, then all except the next rank's. */
    return 2 * whole - (double)part_bytes(type, n, size, rank) -
           (double)part_bytes(type, n, size, (rank + 1) % size);
}

static enum ct_status sum_gathered(struct ct_comm *c, struct dist_run *q)
{
    size_t each = q->type->bytes(q->n);
    uint64_t start;

    for (int r = 0; r < c->size; r++)
        q->bytes[r] = each;
    if (q->owner) { /* from a snapshot that more ranks wrote */
        struct dist_run_part own = dist_run_owned(q->n, c->size, c->rank);

        ct_comm_add(own.n, q->owner, q->x + own.first);
        memset(q->owner, 0, (size_t)own.n * sizeof(float));
    }
    start = ct_trace_begin();
    q->type->encode(&q->draw, q->n, q->x, q->residual,
                    q->code + (size_t)c->rank * each);
    ct_trace_end(start, CT_TRACE_CODEC, q->type->name);
    CT_TRY(ct_allgather(c, q->code + (size_t)c->rank * each, q->bytes,
                        q->code));
    start = ct_trace_begin();
    for (int r = 0; r < c->size; r++)
        q->type->decode(q->n, q->code + (size_t)r * each, r > 0, q->x);
    ct_trace_end(start, CT_TRACE_CODEC, q->type->name);
    return CT_OK;
}

/* The address of the code of a rank's part. */
static uint8_t *code_of(const struct dist_run *q, int rank)
{
    uint8_t *at = q->code;

    for (int r = 0; r < rank; r++)
        at += q->bytes[r];
    return at;
}

static void encode_part(const struct dist_run *q, int rank,
                        struct dist_run_part p, float *residual)
{
    struct dist_draw draw = q->draw;
    const uint64_t start  = p.n ? ct_trace_begin() : 0;

    draw.at += (uint64_t)p.first;
    if (p.n)
        q->type->encode(&draw, p.n, q->x + p.first, residual,
                        code_of(q, rank));
    ct_trace_end(start, CT_TRACE_CODEC, q->type->name);
}

/* Adds the codes of the own part, from all ranks, to its floats. */
static enum ct_status scatter_sum(struct ct_comm *c, const struct dist_run *q,
                                  struct dist_run_part own)
{
    const int P = c->size;

    if (q->residual) {
        ct_comm_add(own.n, q->residual + own.first, q->x + own.first);
        memset(q->residual + own.first, 0, (size_t)own.n * sizeof(float));
    }
    ct_comm_begin(c, "scatter codes", (uint64_t)q->n * sizeof(float));
    for (int step = 1; step < P; step++) {
        int to = (c->rank + step) % P, from = (c->rank + P - step) % P;
        struct ct_transfer t = {
            .to         = to,
            .give       = code_of(q, to),
            .give_bytes = q->bytes[to],
            .from       = from,
            .take       = q->taken,
            .take_bytes = q->bytes[c->rank],
        };

        CT_TRY(ct_transfer(c, &t, ct_comm_tag(c, 0)));
        q->type->decode(own.n, q->taken, true, q->x + own.first);
    }
    return CT_OK;
}

static enum ct_status sum_owned(struct ct_comm *c, struct dist_run *q)
{
    const int P = c->size;
    struct dist_run_part own = dist_run_owned(q->n, P, c->rank);
    uint64_t start;

    for (int r = 0; r < P; r++)
        q->bytes[r] = part_bytes(q->type, q->n, P, r);
    for (int r = 0; r < P; r++) {
        struct dist_run_part p = dist_run_owned(q->n, P, r);

        if (r != c->rank)
            encode_part(q, r, p, q->residual ? q->residual + p.first : NULL);
    }
    CT_TRY(scatter_sum(c, q, own));
    q->draw.hi |= 1 << 16; /* the owner draws other random numbers */
    encode_part(q, c->rank, own, q->owner);
    CT_TRY(ct_allgather(c, code_of(q, c->rank), q->bytes, q->code));
    start = ct_trace_begin();
    for (int r = 0; r < P; r++) {
        struct dist_run_part p = dist_run_owned(q->n, P, r);

        if (p.n)
            q->type->decode(p.n, code_of(q, r), false, q->x + p.first);
    }
    ct_trace_end(start, CT_TRACE_CODEC, q->type->name);
    return CT_OK;
}

enum ct_status dist_run_sum(struct ct_comm *c, struct dist_run *run)
{
    if (run->n == 0 || c->size == 1)
        return CT_OK;
    run->draw.hi |= (uint64_t)c->rank;
    return gathers(c->size) ? sum_gathered(c, run) : sum_owned(c, run);
}
