/* winograd.h - the changes of basis behind Winograd's convolution.
 *
 * A tile of 6 x 6 inputs d gives m x m outputs of an r x r kernel g, with
 * m + r = 7, by 36 products instead of m^2 r^2 (144 for 3 x 3, 100 for 5 x 5):
 *
 *     y = A^T [ (G g G^T) . (B^T d B) ] A
 *
 * The points of the basis are 0, 1, -1, 2, -2 and infinity; B is the same for
 * both kernels.  Tiles overlap by r - 1.  The gradients of the three changes
 * are their transposes, so the backward passes use the same tiles:
 *
 *     y:  A dy A^T       d:  B . B^T, overlaps added       g:  G^T . G
 *
 * Over many tiles and channels the products of one of the 36 places make a
 * matrix product.  Its operands lie as place x tile x channel; `plane` floats
 * separate places, `step` floats tiles.  Images are blocked: a plane of h x w
 * positions of b = 8 or 16 channels. */
#ifndef CT_DEVICE_CPU_WINOGRAD_H
#define CT_DEVICE_CPU_WINOGRAD_H

#include <stdbool.h>
#include <stdint.h>

enum { CT_WINO_PLACES = 36 };

/* How an image falls into tiles. */
struct ct_wino {
    int64_t m, r;           /* 4 and 3, or 2 and 5 */
    int64_t b;              /* channels of a block */
    int64_t h, w, out_h, out_w;
    int64_t pad_h, pad_w;
    int64_t rows, columns;  /* of tiles */
    bool    sum, relu;      /* how y ends: added to, clamped at zero */
};

/* Where operands lie. */
struct ct_wino_at {
    int64_t plane, step;
};

/* One block of channels of one image, all its tiles. */
void ct_wino_input(const struct ct_wino *g, const float *x,
                   const struct ct_wino_at *at, float *v);
void ct_wino_output(const struct ct_wino *g, const float *v,
                    const struct ct_wino_at *at, const float *bias, float *y);
void ct_wino_output_grad(const struct ct_wino *g, const float *dy,
                         const struct ct_wino_at *at, float *dv);
/* Overwrites dx. */
void ct_wino_input_grad(const struct ct_wino *g, const float *dv,
                        const struct ct_wino_at *at, float *dx);

/* Kernels of r x r values, `row_at` and `column_at` floats apart, as place x
 * row x column: all rows, and eight columns from `first` on of `columns`.  The
 * gradient is ADDED to dw. */
struct ct_wino_kernels {
    int64_t rows, columns, first;
    int64_t row_at, column_at;
};
void ct_wino_weights(const struct ct_wino *g, const struct ct_wino_kernels *k,
                     const float *w, const struct ct_wino_at *at, float *u);
void ct_wino_weights_grad(const struct ct_wino *g,
                          const struct ct_wino_kernels *k, const float *du,
                          const struct ct_wino_at *at, float *dw);

/* 16 x 16 kernels of 3 x 3 values in one tile (tiles16.h) as place x in x out;
 * `turned` as place x out x in, and each kernel from its end, which is what
 * the gradient of the input is a convolution with.  dw = or += the gradient of
 * the former. */
void ct_wino_tile(const float *w, bool turned, const struct ct_wino_at *at,
                  float *u);
/* A tile with its two sides exchanged and each kernel from its end. */
void ct_wino_turn_tile(const float *w, float *turned);
void ct_wino_tile_grad(const float *du, const struct ct_wino_at *at, bool add,
                       float *dw);

#endif
