/* conv_amx.h - what the passes of convolution in AMX's tiles share. */
#ifndef CT_DEVICE_CPU_CONV_AMX_H
#define CT_DEVICE_CPU_CONV_AMX_H

#include "device/cpu/amx_way.h"

enum { CT_AMX_WAYS = 5 }; /* forward, and at most four phases of the gradient */

/* A way that runs forward: a core takes a chunk and some blocks of outputs. */
struct ct_amx_run {
    struct ct_amx_way way;
    int64_t  steps, blocks; /* of k, and of 32 outputs */
    int64_t  shares;        /* into which the blocks fall */
    int64_t *at;            /* what each step adds to a place; owned */
    int64_t  weights;       /* where its own begin, values of bfloat16 */
};

/* The gradient of weights: chunks fall into parts, which are summed apart and
 * joined in their order; how many there are depends on the shape alone. */
struct ct_amx_grad {
    struct ct_amx_way way;
    int64_t  parts, chunks;
    int64_t  in_blocks, out_blocks, in_shares, out_shares, tap_shares;
    int64_t  in_tiles, out_tiles, n; /* tiles of 16, and floats of all */
    int64_t  pitch, steps;           /* of turned cells; most of a chunk */
    int64_t *at, *nowhere;           /* 32 more a step, and zeros; owned */
};

struct ct_amx_conv {
    struct ct_amx_run  run[CT_AMX_WAYS];
    int                n_runs;
    struct ct_amx_grad grad;
    int64_t            workers;
    int64_t            n_weights; /* of the forward run, bfloat16 */
    size_t             own;       /* bytes of a worker */
    uint16_t          *packed;    /* weights that stay; owned */
};

/* conv_amx_pack.c */
/* Where weights lie that are packed 16 x 16 at a time: in tiles, or plain ones
 * of a 1x1 kernel, which are a matrix.  Rows are inputs there, outputs here. */
struct ct_amx_lie {
    const float *w;
    bool         fits, tiles; /* else one by one */
};
/* Plain weights of several taps are brought into tiles in the workspace. */
struct ct_amx_lie ct_amx_lie_of(const struct ct_conv *c, const float *w);
/* Weights of a run, all blocks. */
void ct_amx_pack_run(const struct ct_conv *c, const struct ct_amx_run *r,
                     const struct ct_amx_lie *l, uint16_t *to);

/* conv_amx_weights.c */
CT_MUST_CHECK enum ct_status ct_amx_grad_init(const struct ct_conv *c,
                                              struct ct_amx_conv *s);
/* Bytes of the workspace for all, and for a worker. */
size_t ct_amx_grad_room(const struct ct_amx_grad *g);
size_t ct_amx_grad_own(const struct ct_amx_grad *g);
CT_MUST_CHECK enum ct_status ct_amx_backward_weights(struct ct_conv *c,
                                                     const float *x,
                                                     const float *dy,
                                                     float *dw, float *db);
/* Whether weights in tiles are as good as they can be. */
bool ct_amx_takes_tiles(const struct ct_conv *c);

/* The first of n items that is worker i's; its last is before that of i + 1. */
static inline int64_t ct_amx_from(int64_t i, int64_t workers, int64_t n)
{
    return i * n / workers;
}

static inline size_t ct_amx_bytes(size_t n)
{
    return (n + 63) / 64 * 64;
}

#endif
