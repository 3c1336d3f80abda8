/* product_cut.h - how a small matrix product is cut; for product.cu, and its
 * test.
 *
 * Tiles have 16 x 32 values.  A tile's blocks, one or some that share it, are
 * eight warps each, and all of these share out k in runs.  A warp brings 16
 * steps of its run at a time. */
#ifndef CT_DEVICE_CUDA_PRODUCT_CUT_H
#define CT_DEVICE_CUDA_PRODUCT_CUT_H

#include <stdbool.h>

#ifdef __CUDACC__
#define CT_PRODUCT_FN __host__ __device__ static inline
#else
#define CT_PRODUCT_FN static inline
#endif

enum {
    CT_PRODUCT_M     = 16, /* of a tile: rows */
    CT_PRODUCT_N     = 32, /* and columns */
    CT_PRODUCT_TILE  = CT_PRODUCT_M * CT_PRODUCT_N,
    CT_PRODUCT_DEEP  = 16, /* k that a warp has in shared memory */
    CT_PRODUCT_WARPS = 8   /* of a block */
};

/* Where a lane's values of `tile` x 16 operands lie: value `at` of line `line`,
 * and of every `step`-th behind it.  A line is what is contiguous in memory:
 * all rows of one k (by_rows), or all k of one row. */
struct ct_product_place {
    int line, at, step;
};

CT_PRODUCT_FN struct ct_product_place ct_product_place_of(int tile,
                                                          bool by_rows,
                                                          int lane)
{
    const int wide = by_rows ? tile : CT_PRODUCT_DEEP;
    const struct ct_product_place p = { lane / wide, lane % wide, 32 / wide };

    return p;
}

/* [from, to); none where `from` is not below. */
struct ct_product_run {
    int from, to;
};

/* The k of a warp: `walk` of all that have the tile. */
CT_PRODUCT_FN struct ct_product_run ct_product_steps(int k, int shares,
                                                     int walk)
{
    const int walks = CT_PRODUCT_WARPS * shares;
    const int each  = (k + walks - 1) / walks, from = walk * each;
    const struct ct_product_run r = { from,
                                      from + each < k ? from + each : k };

    return r;
}

/* The values of a tile that block `rank` of `shares` stores. */
CT_PRODUCT_FN struct ct_product_run ct_product_part(int shares, int rank)
{
    const int part = (CT_PRODUCT_TILE + shares - 1) / shares;
    const int end  = (rank + 1) * part;
    const struct ct_product_run r = {
        rank * part, end < CT_PRODUCT_TILE ? end : (int)CT_PRODUCT_TILE
    };

    return r;
}

#endif
