/* amx_pack.h - values of bfloat16 into the order that tiles of AMX want. */
#ifndef CT_DEVICE_CPU_AMX_PACK_H
#define CT_DEVICE_CPU_AMX_PACK_H

#include <stdbool.h>
#include <stdint.h>

/* to[j][i] = x[i][j] for 32 columns j and n rows i, a multiple of 32; `step`
 * and `pitch` are values from one row to the next. */
void ct_amx_turn(int64_t n, const uint16_t *x, int64_t step, uint16_t *to,
                 int64_t pitch);

/* Two rows of n values in pairs, 32 of each at a time: 16 into a row of one
 * tile, 16 into that of the next, and the others `step` values further on.
 * NULL is a row of zeros, and so is what lacks to whole 32s. */
void ct_amx_pair(int64_t n, const uint16_t *first, const uint16_t *second,
                 uint16_t *to, int64_t step);

/* 16 x 16 weights, rows `step` floats apart.  Where rows are k: 8 rows of
 * pairs of k.  Where columns are k, two of them side by side in k make 16 rows
 * of such pairs; the second may be NULL, for zeros. */
void ct_amx_weights(const float *w, int64_t step, uint16_t *to);
void ct_amx_weights_turned(const float *w, const float *next, int64_t step,
                           uint16_t *to);
/* A row of pairs: those of n outputs, as far as there are 16, which are `step`
 * floats apart; NULL is a k of zeros. */
void ct_amx_weights_row(const float *even, const float *odd, int64_t n,
                        int64_t step, uint16_t *to);
/* The same of 16 x 32 values that are rounded already, whose columns are k. */
void ct_amx_rows_turned(const uint16_t *x, int64_t step, uint16_t *to);

/* n positions of planes of floats, channel after channel, rounded: the channels
 * of a position become neighbours. */
void ct_amx_merge(int64_t n, int64_t channels, const float *x, int64_t plane,
                  uint16_t *to);

/* Rows of 32 sums, of which n count, go out: y = sum + bias, + y with `sum`,
 * and at least 0 with `relu`.  Rows of y are `step` values apart. */
struct ct_amx_end {
    const float *bias; /* 32 values */
    int64_t      n, step;
    bool         sum, relu;
};
void ct_amx_finish(const struct ct_amx_end *e, int64_t rows, const float *c,
                   uint16_t *y);

#endif
