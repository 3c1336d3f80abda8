/* norm_pieces.h - how channel-wise arithmetic walks memory; for norm_*.c.
 *
 * Memory is walked in pieces.  A piece is `rows` rows of `width` channels that
 * lie `stride` floats apart, or, in plain arrays, a run of one channel: then
 * it is one "row" whose values all belong to that channel.
 *
 *     plain, inner > 1    a piece of one channel's run      (RUN)
 *     plain, inner = 1    rows of c channels, in tiles      (LANES)
 *     NHWC                rows of c channels, in tiles      (LANES)
 *     blocked             rows of 8 or 16 channels          (LANES)
 *
 * Arrays of bfloat16 are NHWC: LANES read and write them where `shorts` says
 * so, which the compiler knows wherever it matters. */
#ifndef CT_DEVICE_CPU_NORM_PIECES_H
#define CT_DEVICE_CPU_NORM_PIECES_H

#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "device/layout.h"
#include "device/norm.h"

/* A tile of bfloat16 is WIDE: its rows are runs that the CPU fetches ahead. */
enum { PIECE = 4096, TILE = 64, WIDE = 256, SHORT_ROWS = 128 };

/* How one array falls into pieces. */
struct cut {
    int64_t groups;   /* groups of channels: c (RUN) or tiles or blocks */
    int64_t width;    /* channels of a group; 1 for RUN */
    int64_t stride;   /* floats from one row to the next */
    int64_t lots;     /* times that a group's rows come: n, or 1 */
    int64_t rows;     /* rows in each lot */
    int64_t group_at; /* floats from one group to the next */
    int64_t lot_at;   /* floats from one lot to the next */
    int64_t piece;    /* rows of a piece, but for the last of a lot */
    int64_t per_lot;  /* pieces in a lot */
    bool    run, blocked;
    bool    shorts;   /* of bfloat16 */
};

struct piece {
    int64_t at, rows; /* where it starts, how long it is */
    int64_t part;     /* of its group's rows */
    int64_t first;    /* channel */
    int64_t width;    /* channels in memory */
    int64_t real;     /* channels that are not padding */
};

static inline struct cut cut_of(const struct ct_channels *v)
{
    const int64_t all = v->all ? v->all : v->c;
    const int64_t b = ct_layout_block(v->layout, all);
    struct cut k = { .lots = v->n, .rows = v->inner,
                     .shorts = v->dtype == CT_BF16 };

    if (v->layout == CT_PLAIN && v->inner != 1) {
        k.run      = true;
        k.groups   = v->c;
        k.width    = 1;
        k.stride   = 1;
        k.group_at = v->inner;
        k.lot_at   = all * v->inner;
    } else if (v->layout == CT_PLAIN || v->layout == CT_NHWC) {
        k.width    = k.shorts ? WIDE : TILE;
        k.groups   = (v->c + k.width - 1) / k.width;
        k.stride   = all;
        k.group_at = k.width;
        k.lots     = 1;
        k.rows     = v->n * v->inner;
    } else {
        k.blocked  = true;
        k.groups   = (v->c + b - 1) / b;
        k.width    = b;
        k.stride   = b;
        k.group_at = v->inner * b;
        k.lot_at   = (all + b - 1) / b * v->inner * b;
    }
    k.piece   = k.run      ? PIECE / 2
                : k.shorts ? SHORT_ROWS
                           : PIECE / k.width;
    k.per_lot = (k.rows + k.piece - 1) / k.piece;
    return k;
}

static inline int64_t pieces(const struct cut *k)
{
    return k->lots * k->per_lot * k->groups;
}

/* The rows of the pieces that part i names. */
static inline double rows_of(const struct cut *k, int64_t i)
{
    int64_t rows = k->rows - i % k->per_lot * k->piece;

    return (double)(rows < k->piece ? rows : k->piece);
}

/* Piece i, in the order of memory: groups are far apart, or side by side. */
static inline struct piece piece_of(const struct ct_channels *v,
                                    const struct cut *k, int64_t i)
{
    const bool beside = !k->run && !k->blocked; /* there is one lot */
    int64_t part  = beside ? i / k->groups : i % k->per_lot;
    int64_t group = beside ? i % k->groups : i / k->per_lot % k->groups;
    int64_t lot   = beside ? 0 : i / k->per_lot / k->groups;
    int64_t row   = part * k->piece;
    struct piece p;

    p.part  = lot * k->per_lot + part;
    p.at    = lot * k->lot_at + group * k->group_at + row * k->stride;
    p.rows  = k->rows - row < k->piece ? k->rows - row : k->piece;
    p.first = group * k->width;
    p.real  = v->c - p.first < k->width ? v->c - p.first : k->width;
    p.width = k->blocked ? k->width : p.real;
    return p;
}

/* Value i of an array of either type, and where it stands. */
CT_INLINE float get(const float *x, int64_t i, bool shorts)
{
    return shorts ? ct_widen(ct_bf16(x)[i]) : x[i];
}

CT_INLINE void put(float *y, int64_t i, bool shorts, float v)
{
    if (shorts)
        ct_bf16_out(y)[i] = ct_narrow(v);
    else
        y[i] = v;
}

CT_INLINE const float *at(const float *x, int64_t i, bool shorts)
{
    return shorts ? (const float *)(const void *)(ct_bf16(x) + i) : x + i;
}

CT_INLINE float *out_at(float *y, int64_t i, bool shorts)
{
    return shorts ? (float *)(void *)(ct_bf16_out(y) + i) : y + i;
}

/* f(stride, width, shorts) with all that can be known of them. */
#define EACH_LANES(k, p, f)                                                  \
    do {                                                                     \
        if ((k)->shorts && (p)->width == WIDE)                               \
            f((k)->stride, WIDE, true);                                      \
        else if ((k)->shorts && (p)->width == TILE)                          \
            f((k)->stride, TILE, true);                                      \
        else if ((k)->shorts)                                                \
            f((k)->stride, (p)->width, true);                                \
        else                                                                 \
            f((k)->stride, (p)->width, false);                               \
    } while (0)

/* A blocked piece is a row of vectors of eight: every one holds the same
 * channels (b = 8), or the even ones the first half of a block and the odd
 * ones the second (b = 16).  Sums run in four registers; this adds up what
 * belongs together: [0] for even vectors, [1] for odd ones. */
CT_INLINE void fold(int64_t b, ct_v8f *sum)
{
    sum[0] += sum[2];
    sum[1] += sum[3];
    if (b == CT_LANES)
        sum[0] = sum[1] = sum[0] + sum[1];
}

/* f(i, j) for every vector i, j being its register. */
#define EACH_VECTOR(n, f)                                                    \
    do {                                                                     \
        int64_t vec_i = 0;                                                   \
                                                                             \
        for (; vec_i + 4 <= (n); vec_i += 4) {                               \
            f(vec_i, 0);                                                     \
            f(vec_i + 1, 1);                                                 \
            f(vec_i + 2, 2);                                                 \
            f(vec_i + 3, 3);                                                 \
        }                                                                    \
        if (vec_i < (n))                                                     \
            f(vec_i, 0);                                                     \
        if (vec_i + 1 < (n))                                                 \
            f(vec_i + 1, 1);                                                 \
        if (vec_i + 2 < (n))                                                 \
            f(vec_i + 2, 2);                                                 \
    } while (0)

/* The channels of piece p out of an array that may be NULL; padding gets 0. */
static inline void take(const struct piece *p, const float *from,
                        float otherwise, float *to)
{
    for (int64_t l = 0; l < p->width; l++)
        to[l] = l >= p->real ? 0 : from ? from[p->first + l] : otherwise;
}

/* What the parts of each group's rows came to, added up in double: c sums, then
 * c dots, a part.  dot NULL: sums alone. */
static inline void add_parts(const struct ct_channels *v, const struct cut *k,
                             const float *scratch, float *sum, float *dot)
{
    const int64_t parts = k->lots * k->per_lot;
    const float *sums = scratch, *dots = scratch + parts * v->c;

    CT_FOR_ROWS (c, v->c, 2 * parts) {
        double s = 0, d = 0;

        for (int64_t i = 0; i < parts; i++) {
            s += (double)sums[i * v->c + c];
            d += (double)dots[i * v->c + c];
        }
        sum[c] = (float)s;
        if (dot)
            dot[c] = (float)d;
    }
}

#endif
