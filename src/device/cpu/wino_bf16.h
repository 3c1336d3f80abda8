/* wino_bf16.h - Winograd's changes of basis and their products in bfloat16.
 *
 * A tile of 5 x 5 inputs gives 3 x 3 outputs of a 3 x 3 kernel by 25 products
 * instead of 81 (winograd.h says how).  The points of the basis are -a, a, -b,
 * b and infinity with a = 3/8 and b = 5/4: of all choices these lose the least
 * where a tile is rounded to bfloat16.  One value of the result is then off by
 * 0.6 % of the root of the mean square, where rounded weights alone make 0.2 %.
 *
 * Images are NHWC and bfloat16.  Tiles lie as place x tile x channel, `plane`
 * values between places and `step` values between tiles.  The products take two
 * factors of a sum at once, which lie side by side: two channels, or, where
 * tiles are `paired`, the same channel of two tiles, as place x tile / 2 x
 * channel x 2.  `step` values then separate pairs of tiles.
 *
 * For CPUs with AVX512_BF16. */
#ifndef CT_DEVICE_CPU_WINO_BF16_H
#define CT_DEVICE_CPU_WINO_BF16_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CT_SHORT_SIDE    = 3,                 /* outputs of a tile, per axis */
    CT_SHORT_PLACES  = 25,
    CT_SHORT_ROWS    = 8,                 /* of a product */
    CT_SHORT_COLUMNS = 32
};

bool ct_short_runs(void); /* on this CPU */

/* How images fall into tiles, which are counted through all images. */
struct ct_short_tiles {
    int64_t h, w, out_h, out_w, pad_h, pad_w;
    int64_t in, out;         /* channels */
    int64_t in_all, out_all; /* those of a position: of all groups */
    int64_t rows, columns;   /* of tiles, per image */
};

/* How y ends. */
struct ct_short_end {
    bool         sum, relu;
    const float *bias; /* borrowed */
};

struct ct_short_at {
    int64_t plane, step;
};

/* Tiles [from, to) of x, all channels.  Where tiles are paired and their number
 * is odd, a tile of zeros follows. */
void ct_short_input(const struct ct_short_tiles *g, const uint16_t *x,
                    int64_t from, int64_t to, bool paired,
                    const struct ct_short_at *at, uint16_t *v);
/* The gradient of y's change, for channels [first, first + 32), as far as there
 * are any: the others are zeros.  Always paired. */
void ct_short_output_grad(const struct ct_short_tiles *g, const uint16_t *dy,
                          int64_t first, int64_t from, int64_t to,
                          const struct ct_short_at *at, uint16_t *v);
/* The same for tiles [from, to) of an image, each in a pair with that of the
 * next image, or with zeros where `both` says that there is none. */
void ct_short_input_images(const struct ct_short_tiles *g, const uint16_t *x,
                           int64_t image, bool both, int64_t from, int64_t to,
                           const struct ct_short_at *at, uint16_t *v);
void ct_short_output_grad_images(const struct ct_short_tiles *g,
                                 const uint16_t *dy, int64_t first,
                                 int64_t image, bool both,
                                 const struct ct_short_at *at, uint16_t *v);
/* Channels [first, first + 32) of y from floats in rows of 32. */
void ct_short_output(const struct ct_short_tiles *g, const float *m,
                     int64_t plane, int64_t first, int64_t from, int64_t to,
                     const struct ct_short_end *end, uint16_t *y);

/* 16 x 16 kernels in one tile of weights (tiles16.h) as
 * place x in / 2 x out x 2, of which the caller has rows of 32 outputs;
 * `turned` as in winograd.h. */
void ct_short_weights(const float *w, bool turned, int64_t plane, uint16_t *u);
/* dw = or += the gradient, from floats in rows of 32 outputs. */
void ct_short_weights_grad(const float *du, int64_t plane, bool add,
                           float *dw);

/* c (8 x 32) = sum over k of a_k b_k, or +=; two factors each.  The rows of a
 * are `row` pairs apart and the a_k `next` pairs; b and c lie in rows of 32. */
void ct_short_product(int64_t n, const uint16_t *a, int64_t row, int64_t next,
                      const uint16_t *b, bool add, float *c);
/* The same where the sum is of several parts, of n pairs each: part i of the
 * rows is a[i] values behind their begin, and its factors are b[i] behind b. */
struct ct_short_parts {
    int64_t n, parts;
    int64_t a[4], b[4];
};
void ct_short_product_rows(const struct ct_short_parts *s,
                           const uint16_t *const row[CT_SHORT_ROWS],
                           const uint16_t *b, float *c);
/* The same where rows are neighbours, and the a_k begin at[k] pairs behind a;
 * b is in one piece. */
void ct_short_product_steps(int64_t n, const int32_t *at, const uint16_t *a,
                            const uint16_t *b, bool add, float *c);

#endif
