/* conv_tiles.c - weights in tiles for implementations that know them not, and
 * plain ones for those that know nothing else.
 *
 * Whoever keeps weights in tiles does so because an implementation likes them
 * so.  When a new shape brings another one in, it works on plain copies. */
#include "base/mem.h"
#include "device/conv_impl.h"
#include "device/cpu/tiles16.h"

static int64_t n_weights(const struct ct_conv *c)
{
    return c->desc.out_channels * c->in_group * c->taps;
}

static void untile(const struct ct_conv *c, const float *tiles, float *plain)
{
    ct_tiles_out(c->desc.out_channels, c->in_group, c->taps, tiles, false,
                 plain);
}

bool ct_conv_always_tiles(const struct ct_conv *c)
{
    (void)c;
    return true;
}

const float *ct_conv_in_tiles(const struct ct_conv *c, const float *w)
{
    if (c->tiles)
        return w;
    ct_tiles_in(c->desc.out_channels, c->in_group, c->taps, w, c->work->ptr);
    return c->work->ptr;
}

float *ct_conv_gradient_tiles(const struct ct_conv *c, float *dw)
{
    return c->tiles ? dw : c->work->ptr;
}

void ct_conv_gradient_to_plain(const struct ct_conv *c, float *dw)
{
    if (!c->tiles)
        ct_tiles_out(c->desc.out_channels, c->in_group, c->taps, c->work->ptr,
                     !c->write, dw);
}

bool ct_conv_takes_tiles(const struct ct_conv *c)
{
    return c->impl->takes_tiles && c->impl->takes_tiles(c);
}

enum ct_status ct_conv_set_tiles(struct ct_conv *c, bool tiles)
{
    if (c->other)
        CT_TRY(ct_conv_set_tiles(c->other, tiles));
    c->tiles  = tiles && ct_conv_takes_tiles(c);
    c->copies = tiles && !c->tiles;
    if (!c->copies || c->plain)
        return CT_OK;
    return ct_alloc(2 * (size_t)n_weights(c), sizeof(*c->plain),
                    "plain weights", &c->plain);
}

const float *ct_conv_plain(const struct ct_conv *c, const float *w)
{
    if (!c->copies)
        return w;
    untile(c, w, c->plain);
    return c->plain;
}

enum ct_status ct_conv_tiled_gradient(struct ct_conv *c, const float *x,
                                      const float *dy, float *dw, float *db)
{
    float *plain = c->plain + n_weights(c);

    if (!c->write)
        untile(c, dw, plain);
    CT_TRY(c->impl->backward_weights(c, x, dy, plain, db));
    ct_tiles_in(c->desc.out_channels, c->in_group, c->taps, plain, dw);
    return CT_OK;
}
