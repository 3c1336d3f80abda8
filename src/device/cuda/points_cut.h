/* points_cut.h - how a convolution with a kernel of one point is cut; for
 * conv_points.cu, and its test.
 *
 * Such a convolution is a product: a position of the images a row, an output
 * channel a column, and a sum over input channels.  It falls into tiles of 128
 * rows and `slabs` times 64 columns.  Tiles are counted down the rows, then
 * across; a block of threads has a run of neighbours, so that most of its tiles
 * have the same columns, and adds up the channels of y as it goes: one slot for
 * each of its halves of a tile and each strip of columns that it touches. */
#ifndef CT_DEVICE_CUDA_POINTS_CUT_H
#define CT_DEVICE_CUDA_POINTS_CUT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define CT_POINTS_FN __host__ __device__ static inline
#else
#define CT_POINTS_FN static inline
#endif

enum {
    CT_POINTS_ROWS   = 128, /* of a tile */
    CT_POINTS_SLAB   = 64,  /* columns, or steps of a sum */
    CT_POINTS_HALVES = 2,   /* of a tile's rows, each of four warps */
    CT_POINTS_STAGES = 8,
    /* Bytes of a multiprocessor's shared memory, of what a block may have of
     * it, and of what it needs besides tiles. */
    CT_POINTS_SHARED = 228 << 10,
    CT_POINTS_MOST   = 227 << 10,
    CT_POINTS_EXTRA  = 7 << 10
};

/* Slabs of columns in a tile: 1, 2 or 4; blocks of a multiprocessor. */
struct ct_points_form {
    int slabs, resident;
};

struct ct_points {
    int rows, channels, outputs; /* of the product; sums are over channels */
    int down, tiles;             /* in a strip of columns, and in all */
    int steps;                   /* slabs of channels */
    int blocks, slots, stages;
};

/* The block that has tile t. */
CT_POINTS_FN int ct_points_owner(const struct ct_points *p, int t)
{
    return (int)((((int64_t)t + 1) * p->blocks - 1) / p->tiles);
}

/* The first tile of a block. */
CT_POINTS_FN int ct_points_first(const struct ct_points *p, int block)
{
    return (int)((int64_t)p->tiles * block / p->blocks);
}

/* The first block that has tiles of a strip, and how many do. */
CT_POINTS_FN int ct_points_from(const struct ct_points *p, int strip)
{
    return ct_points_owner(p, strip * p->down);
}

CT_POINTS_FN int ct_points_blocks(const struct ct_points *p, int strip)
{
    return ct_points_owner(p, (strip + 1) * p->down - 1) -
           ct_points_from(p, strip) + 1;
}

/* Bytes of a stage, and of y on its way out. */
CT_POINTS_FN int ct_points_stage(int slabs)
{
    return (CT_POINTS_ROWS + slabs * CT_POINTS_SLAB) * CT_POINTS_SLAB * 2;
}

CT_POINTS_FN int ct_points_out(int slabs)
{
    return CT_POINTS_ROWS * slabs * CT_POINTS_SLAB * 2;
}

/* False: this form does not take it. */
static inline bool ct_points_cut(int64_t rows, int64_t channels,
                                 int64_t outputs,
                                 const struct ct_points_form *f,
                                 int multiprocessors, struct ct_points *out)
{
    const int wide = f->slabs * CT_POINTS_SLAB;
    int64_t down = (rows + CT_POINTS_ROWS - 1) / CT_POINTS_ROWS;
    int64_t across, room;

    if (rows < 1 || rows > INT32_MAX - CT_POINTS_ROWS || channels % 8 ||
        outputs % 8 || channels < 8 || outputs < 8 || channels > INT32_MAX / 2)
        return false;
    across = (outputs + wide - 1) / wide;
    if (across > INT32_MAX / 2 / down ||
        (f->slabs > 1 && outputs <= wide / 2)) /* half of it for nothing */
        return false;
    out->rows     = (int)rows;
    out->channels = (int)channels;
    out->outputs  = (int)outputs;
    out->down     = (int)down;
    out->tiles    = (int)(down * across);
    out->steps    = (int)((channels + CT_POINTS_SLAB - 1) / CT_POINTS_SLAB);
    out->blocks   = multiprocessors * f->resident;
    out->blocks   = out->blocks < out->tiles ? out->blocks : out->tiles;
    room = CT_POINTS_SHARED / f->resident;
    room = (room < CT_POINTS_MOST ? room : CT_POINTS_MOST) - CT_POINTS_EXTRA -
           ct_points_out(f->slabs);
    out->stages = (int)(room / ct_points_stage(f->slabs));
    if (out->stages > CT_POINTS_STAGES)
        out->stages = CT_POINTS_STAGES;
    out->slots = 0;
    for (int i = 0; i < across; i++) {
        const int n = ct_points_blocks(out, i) * CT_POINTS_HALVES;

        out->slots = n > out->slots ? n : out->slots;
    }
    return out->stages >= 2;
}

#endif
