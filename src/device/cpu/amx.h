/* amx.h - products of bfloat16 in the tiles of AMX.
 *
 * A tile register holds 16 rows of 64 bytes.  One instruction adds the product
 * of 16 x 32 and 32 x 16 bfloat16 values to 16 x 16 floats.  The 32 x 16 ones
 * lie in pairs: a row holds two neighbouring k of each of 16 columns.
 *
 * Eight registers make a block of 32 x 32 sums, four of them, and two of each
 * factor.  CPUs that have AVX512_BF16 alone make such blocks in vectors, of the
 * same factors.  Tests can have it done in plain C on any CPU. */
#ifndef CT_DEVICE_CPU_AMX_H
#define CT_DEVICE_CPU_AMX_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CT_AMX_SIDE = 32,                 /* rows and columns of a block, and k */
    CT_AMX_TILE = 512,                /* values of bfloat16 in a tile */
    CT_AMX_STEP = 2 * CT_AMX_TILE,    /* values of b that one step takes */
    CT_AMX_SUMS = 16 * 16             /* floats in a tile */
};

/* Whether this CPU has it and the system lets us use it, or it is emulated. */
bool ct_amx_runs(void);
/* Whether this CPU has vectors of bfloat16: who asks rounds in them, too. */
bool ct_amx_vectors(void);
void ct_amx_emulate(bool on); /* for tests */

/* Around the products of one thread: they set the tiles up and free them. */
void ct_amx_begin(void);
void ct_amx_end(void);

/* sum over i < n of  a_i (32 x 32) b_i (32 x 32) */
struct ct_amx_sum {
    int64_t         n;
    int64_t         rows;   /* that count, the others may be left out; 0: all */
    const uint16_t *a;      /* a_i begins at a + at[i] */
    int64_t         a_step; /* values from one row of it to the next */
    const int64_t  *at;
    const uint16_t *b;      /* b_i: two tiles at b + i * CT_AMX_STEP */
    float          *c[4];   /* its tiles: upper left and right, lower ... */
    float          *next[4]; /* those that the next block adds to, or NULL */
    int64_t         c_step; /* floats from one row of them to the next */
};

/* c = the sum, or += with `add`.  Between ct_amx_begin() and ct_amx_end(). */
void ct_amx_block(const struct ct_amx_sum *s, bool add);

#endif
