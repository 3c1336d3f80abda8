/* tiles16.h - weights in tiles of 16 inputs x 16 outputs, CT_TILES16.
 *
 *     tiles: o/16 x i/16 x taps x 16 (i) x 16 (o)      plain: o x i x taps
 *
 * That is how oneDNN's convolutions for AVX-512 take weights forward and give
 * their gradients.  Its own reorder out of it runs at a fifth of the speed of
 * memory, which was 4 % of a training step of ResNet-50. */
#ifndef CT_DEVICE_CPU_TILES16_H
#define CT_DEVICE_CPU_TILES16_H

#include <stdbool.h>
#include <stdint.h>

enum { CT_TILE_SIDE = 16 };

/* o and i are multiples of the side; the arrays do not overlap. */
void ct_tiles_in(int64_t o, int64_t i, int64_t taps, const float *plain,
                 float *tiles);
/* plain = tiles, or += with `add`. */
void ct_tiles_out(int64_t o, int64_t i, int64_t taps, const float *tiles,
                  bool add, float *plain);

#endif
