/* tiles16.c - weights into tiles of 16 x 16 channels and out of them. */
#include "device/cpu/tiles16.h"

#include "device/cpu/simd.h"

enum { SIDE = CT_TILE_SIDE };

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

CT_SIMD
static void take_tile(int64_t taps, const float *restrict plain, int64_t step,
                      float *restrict tile)
{
    for (int o = 0; o < SIDE; o++, plain += step)
        for (int i = 0; i < SIDE; i++)
            for (int64_t t = 0; t < taps; t++)
                tile[(t * SIDE + i) * SIDE + o] = plain[i * taps + t];
}

void ct_tiles_out(int64_t o, int64_t i, int64_t taps, const float *tiles,
                  bool add, float *plain)
{
    const int64_t row = i * taps, down = o / SIDE, across = i / SIDE;
    const int64_t tile = taps * SIDE * SIDE;

#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t a = 0; a < down; a++)
        for (int64_t b = 0; b < across; b++)
            put_tile(taps, tiles + (a * across + b) * tile, add, row,
                     plain + a * SIDE * row + b * SIDE * taps);
}

void ct_tiles_in(int64_t o, int64_t i, int64_t taps, const float *plain,
                 float *tiles)
{
    const int64_t row = i * taps, down = o / SIDE, across = i / SIDE;
    const int64_t tile = taps * SIDE * SIDE;

#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t a = 0; a < down; a++)
        for (int64_t b = 0; b < across; b++)
            take_tile(taps, plain + a * SIDE * row + b * SIDE * taps, row,
                      tiles + (a * across + b) * tile);
}
