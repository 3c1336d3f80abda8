/* tiles_out.c - weight gradients out of oneDNN's tiles of 16 x 16 channels. */
#ifdef CT_HAVE_ONEDNN
#include "device/cpu/tiles_out.h"

#include "device/cpu/simd.h"

enum { SIDE = 16 };

bool ct_tiles_are(const struct ct_conv *c,
                  const struct ct_prim *backward_weights)
{
    const struct ct_conv_desc *d = &c->desc;
    const int64_t dims[] = { d->out_channels, c->in_group, d->kernel[0],
                             d->kernel[1] };
    struct ct_md own = { 0 }, tiles = { 0 };
    bool are;

    if (d->n_spatial != 2 || d->group != 1 || dims[0] % SIDE || dims[1] % SIDE)
        return false;
    are = ct_md_query(&own, backward_weights->pd, dnnl_query_diff_weights_md,
                      0) == CT_OK &&
          ct_md_tiles(&tiles, dims) == CT_OK && ct_md_equal(&own, &tiles);
    ct_md_fini(&own);
    ct_md_fini(&tiles);
    return are;
}

/* One tile of all taps to the 16 rows that it belongs to, `step` apart. */
CT_SIMD
static void put_tile(int64_t taps, const float *restrict tile, bool add,
                     int64_t step, float *restrict plain)
{
    for (int o = 0; o < SIDE; o++, plain += step)
        for (int i = 0; i < SIDE; i++)
            for (int64_t t = 0; t < taps; t++) {
                float v = tile[(t * SIDE + i) * SIDE + o];

                plain[i * taps + t] = add ? plain[i * taps + t] + v : v;
            }
}

void ct_tiles_out(const struct ct_conv *c, const float *tiles, float *dw)
{
    const int64_t taps = c->taps, row = c->in_group * taps;
    const int64_t down = c->desc.out_channels / SIDE;
    const int64_t across = c->in_group / SIDE, tile = taps * SIDE * SIDE;
    const bool add       = !c->write;

#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t a = 0; a < down; a++)
        for (int64_t b = 0; b < across; b++)
            put_tile(taps, tiles + (a * across + b) * tile, add, row,
                     dw + a * SIDE * row + b * SIDE * taps);
}

#endif
