/* conv_amx_pack.c - a convolution's weights as the tiles of AMX want them. */
#include <string.h>

#include "device/cpu/amx_pack.h"
#include "device/cpu/conv_amx.h"
#include "device/cpu/loop.h"
#include "device/cpu/tiles16.h"

enum { SIDE = CT_AMX_SIDE, HALF = SIDE / 2 };

/* The weight of a step's k and output 0, or NULL; other outputs lie `apart`
 * floats behind it each. */
static const float *weight_at(const struct ct_conv *c,
                              const struct ct_amx_run *r, const float *w,
                              int64_t step, int64_t k)
{
    const struct ct_amx_conv *s  = c->state;
    const struct ct_amx_way *way = &r->way;
    const int64_t across = c->desc.kernel[1];
    int64_t tap = way->which[step % way->taps];
    int64_t i   = step / way->taps * SIDE + k;

    if (way->merged) {
        if (k >= across * way->channels)
            return NULL;
        tap = tap * across + k / way->channels;
        i   = k % way->channels;
    }
    if (i >= way->channels)
        return NULL;
    return w + (r == &s->run[0] ? i : i * c->in_group) * c->taps + tap;
}

static void pack_plain(const struct ct_conv *c, const struct ct_amx_run *r,
                       const float *w, int64_t block, uint16_t *to)
{
    const struct ct_amx_conv *s = c->state;
    const bool forward          = r == &s->run[0];
    const int64_t apart         = (forward ? c->in_group : 1) * c->taps;

    for (int64_t step = 0; step < r->steps; step++)
        for (int64_t k = 0; k < SIDE; k += 2) {
            const float *even = weight_at(c, r, w, step, k);
            const float *odd  = weight_at(c, r, w, step, k + 1);

            for (int64_t j = 0; j < 2; j++) {
                const int64_t n    = block * SIDE + j * HALF;
                const int64_t left = r->way.out_channels - n;

                ct_amx_weights_row(even && left > 0 ? even + n * apart : NULL,
                                   odd && left > 0 ? odd + n * apart : NULL,
                                   left, apart,
                                   to + step * CT_AMX_STEP + j * CT_AMX_TILE +
                                       k / 2 * SIDE);
            }
        }
}

/* 16 x 16 weights that the run sums over k and has as outputs n. */
static const float *weights_at(const struct ct_conv *c,
                               const struct ct_amx_run *r,
                               const struct ct_amx_lie *l, int64_t k, int64_t n,
                               int64_t tap)
{
    const struct ct_amx_conv *s = c->state;
    const bool forward          = r == &s->run[0];
    const int64_t o = forward ? n : k, i = forward ? k : n;

    if (!l->tiles)
        return l->w + (o * c->in_group + i) * HALF;
    return l->w + ((o * (c->in_group / HALF) + i) * c->taps +
                   r->way.which[tap]) * CT_AMX_SUMS;
}

static void pack_block(const struct ct_conv *c, const struct ct_amx_run *r,
                       const struct ct_amx_lie *l, int64_t block, uint16_t *to)
{
    const struct ct_amx_conv *s = c->state;
    const int64_t ks   = r->way.channels / HALF, taps = r->way.taps;
    const int64_t ns   = r->way.out_channels / HALF;
    const int64_t step = l->tiles ? HALF : c->in_group;
    const bool turned  = (r == &s->run[0]) != l->tiles;

    for (int64_t n = block * 2; n < block * 2 + 2 && n < ns; n++)
        for (int64_t k = 0; k < ks; k += 1 + turned)
            for (int64_t t = 0; t < taps; t++) {
                const float *w = weights_at(c, r, l, k, n, t);
                uint16_t *at   = to + (k / 2 * taps + t) * CT_AMX_STEP +
                               n % 2 * CT_AMX_TILE;

                if (turned)
                    ct_amx_weights_turned(
                        w, k + 1 < ks ? weights_at(c, r, l, k + 1, n, t) : NULL,
                        step, at);
                else
                    ct_amx_weights(w, step, at + k % 2 * (CT_AMX_TILE / 2));
            }
}

void ct_amx_pack_run(const struct ct_conv *c, const struct ct_amx_run *r,
                     const struct ct_amx_lie *l, uint16_t *to)
{
    const int64_t each = r->steps * CT_AMX_STEP;
    const bool odd = c->desc.in_channels % SIDE || c->desc.out_channels % SIDE;

    CT_FOR_ROWS (i, r->blocks, each) {
        uint16_t *at = to + i * each;

        if (l->fits && odd)
            memset(at, 0, (size_t)each * sizeof(*at));
        if (l->fits)
            pack_block(c, r, l, i, at);
        else
            pack_plain(c, r, l->w, i, at);
    }
}

struct ct_amx_lie ct_amx_lie_of(const struct ct_conv *c, const float *w)
{
    struct ct_amx_lie l = { w, ct_amx_takes_tiles(c), c->tiles };

    if (l.fits && !l.tiles && c->taps > 1) {
        ct_tiles_in(c->desc.out_channels, c->in_group, c->taps, w,
                    c->work->ptr);
        l.w     = c->work->ptr;
        l.tiles = true;
    }
    return l;
}
