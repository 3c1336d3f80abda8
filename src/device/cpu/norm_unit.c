/* norm_unit.c - vectors brought to length one.
 *
 * Work is cut into tiles of TILE neighbouring positions of one item, with all
 * their channels.  `parts` holds a row of c values per tile. */
#include <math.h>

#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "device/norm.h"

enum { TILE = 64 };

static int64_t tiles_of(const struct ct_unit *v)
{
    return (v->inner + TILE - 1) / TILE;
}

int64_t ct_unit_vectors(const struct ct_unit *v)
{
    return v->whole ? v->n : v->n * v->inner;
}

int64_t ct_unit_parts(const struct ct_unit *v)
{
    return v->n * tiles_of(v) * v->c;
}

struct tile {
    int64_t at;     /* of its first channel in x, y, ... */
    int64_t n;      /* positions */
    int64_t vector; /* of its first position in `inverse` */
};

static struct tile tile_of(const struct ct_unit *v, int64_t i)
{
    const int64_t item = i / tiles_of(v), from = i % tiles_of(v) * TILE;

    return (struct tile){
        item * v->c * v->inner + from,
        v->inner - from < TILE ? v->inner - from : TILE,
        v->whole ? item : item * v->inner + from
    };
}

/* sum[i] = start + the squares of position i. */
CT_SIMD static void tile_squares(const struct ct_unit *v, int64_t n,
                                 float start, const float *x, float *sum)
{
    CT_SIMD_EACH (i, n)
        sum[i] = start;
    for (int64_t c = 0; c < v->c; c++)
        CT_SIMD_EACH (i, n)
            sum[i] += x[c * v->inner + i] * x[c * v->inner + i];
}

CT_SIMD static void tile_inverse(const struct ct_unit *v, int64_t n,
                                 const float *x, float *inverse)
{
    tile_squares(v, n, v->eps, x, inverse);
    CT_SIMD_EACH (i, n)
        inverse[i] = 1 / sqrtf(inverse[i]);
}

/* 1 / r of each position of a tile. */
CT_INLINE void tile_lengths(const struct ct_unit *v, int64_t n,
                            const float *inverse, float *out)
{
    CT_SIMD_EACH (i, n)
        out[i] = inverse[v->whole ? 0 : i];
}

CT_SIMD static void tile_forward(const struct ct_unit *v, int64_t n,
                                 const float *x, const float *scale,
                                 const float *inverse, float *y)
{
    float r[TILE];

    tile_lengths(v, n, inverse, r);
    for (int64_t c = 0; c < v->c; c++) {
        const float s = scale[v->shared ? 0 : c];

        CT_SIMD_EACH (i, n)
            y[c * v->inner + i] = x[c * v->inner + i] * (s * r[i]);
    }
}

/* part[c] = the tile's sum of dy x / r. */
CT_SIMD static void tile_part(const struct ct_unit *v, int64_t n,
                              const float *x, const float *dy,
                              const float *inverse, float *part)
{
    float r[TILE];

    tile_lengths(v, n, inverse, r);
    for (int64_t c = 0; c < v->c; c++) {
        float sum = 0;

        CT_SIMD_SUM (i, n, sum)
            sum += dy[c * v->inner + i] * x[c * v->inner + i] * r[i];
        part[c] = sum;
    }
}

/* `whole`: the item's sum of dy scale x / r; otherwise made here. */
CT_SIMD static void tile_backward(const struct ct_unit *v, int64_t n,
                                  const float *x, const float *dy,
                                  const float *scale, const float *inverse,
                                  float whole, float *dx)
{
    float r[TILE], dot[TILE];

    tile_lengths(v, n, inverse, r);
    CT_SIMD_EACH (i, n)
        dot[i] = v->whole ? whole : 0;
    for (int64_t c = 0; !v->whole && c < v->c; c++) {
        const float s = scale[v->shared ? 0 : c];

        CT_SIMD_EACH (i, n)
            dot[i] += dy[c * v->inner + i] * x[c * v->inner + i] * (s * r[i]);
    }
    CT_SIMD_EACH (i, n)
        dot[i] *= r[i] * r[i];
    for (int64_t c = 0; c < v->c; c++) {
        const float s = scale[v->shared ? 0 : c];

        CT_SIMD_EACH (i, n)
            dx[c * v->inner + i] = dy[c * v->inner + i] * (s * r[i]) -
                                   x[c * v->inner + i] * dot[i];
    }
}

/* 1 / r of whole items; parts holds one sum per tile. */
static void whole_inverse(const struct ct_unit *v, const float *x,
                          float *parts, float *inverse)
{
    const int64_t tiles = tiles_of(v);

    CT_FOR_ROWS (i, v->n * tiles, v->c * TILE) {
        struct tile t = tile_of(v, i);
        float sum[TILE], all = 0;

        tile_squares(v, t.n, 0, x + t.at, sum);
        for (int64_t j = 0; j < t.n; j++)
            all += sum[j];
        parts[i] = all;
    }
    for (int64_t k = 0; k < v->n; k++) {
        double sum = v->eps;

        for (int64_t i = 0; i < tiles; i++)
            sum += (double)parts[k * tiles + i];
        inverse[k] = (float)(1 / sqrt(sum));
    }
}

void ct_unit_forward(const struct ct_unit *v, const float *x,
                     const float *scale, float *parts, float *inverse,
                     float *y)
{
    if (v->whole)
        whole_inverse(v, x, parts, inverse);
    CT_FOR_ROWS (i, v->n * tiles_of(v), v->c * TILE) {
        struct tile t = tile_of(v, i);

        if (!v->whole)
            tile_inverse(v, t.n, x + t.at, inverse + t.vector);
        tile_forward(v, t.n, x + t.at, scale, inverse + t.vector, y + t.at);
    }
}

/* The item's sum of dy scale x / r, out of its tiles' parts. */
static float whole_dot(const struct ct_unit *v, const float *parts,
                       const float *scale)
{
    double sum = 0;

    for (int64_t i = 0; i < tiles_of(v) * v->c; i++)
        sum += (double)parts[i] * (double)scale[v->shared ? 0 : i % v->c];
    return (float)sum;
}

void ct_unit_backward(const struct ct_unit *v, const float *x,
                      const float *dy, const float *scale,
                      const float *inverse, float *parts, float *dx,
                      float *dscale)
{
    const int64_t tiles = tiles_of(v);

    if (dscale || v->whole)
        CT_FOR_ROWS (i, v->n * tiles, v->c * TILE) {
            struct tile t = tile_of(v, i);

            tile_part(v, t.n, x + t.at, dy + t.at, inverse + t.vector,
                      parts + i * v->c);
        }
    for (int64_t c = 0; dscale && c < v->c; c++) {
        double sum = 0;

        for (int64_t i = 0; i < v->n * tiles; i++)
            sum += (double)parts[i * v->c + c];
        dscale[v->shared ? 0 : c] += (float)sum;
    }
    for (int64_t k = 0; dx && k < v->n; k++) {
        const float dot =
            v->whole ? whole_dot(v, parts + k * tiles * v->c, scale) : 0;

        CT_FOR_ROWS (i, tiles, v->c * TILE) {
            struct tile t = tile_of(v, k * tiles + i);

            tile_backward(v, t.n, x + t.at, dy + t.at, scale,
                          inverse + t.vector, dot, dx + t.at);
        }
    }
}
