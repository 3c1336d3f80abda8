/* ends_cut.h - how the gradient at the end of a residual block is cut; for
 * conv_ends.cu, and its test.
 *
 * The product has a row for each position of the images and a column for each
 * channel of that end; its sum is over the channels that the convolution makes
 * of it.  Tiles have 128 rows and `slabs` times 64 columns.  A block of threads
 * has one strip of columns, whose weights it keeps, and goes down a share of
 * the rows.  The blocks of one share are neighbours and go side by side, so
 * that memory brings what they all read once. */
#ifndef CT_DEVICE_CUDA_ENDS_CUT_H
#define CT_DEVICE_CUDA_ENDS_CUT_H

#include "device/cuda/points_cut.h"

enum {
    CT_ENDS_EXTRA = 2 << 10, /* bytes of a block besides tiles */
    CT_ENDS_BOTH  = 2        /* tiles of what is added and of x, two ahead */
};

struct ct_ends {
    int rows, channels, outputs; /* of the product; sums are over channels */
    int down, across;            /* tiles */
    int steps;                   /* slabs of channels */
    int shares;                  /* of the rows */
    int stages, ahead;           /* tiles of dy; of those of both others */
};

/* The first tile of a share. */
CT_POINTS_FN int ct_ends_first(const struct ct_ends *p, int share)
{
    return (int)((int64_t)p->down * share / p->shares);
}

/* Bytes of a tile of dy, of the strip's weights, and of a tile of both
 * others. */
CT_POINTS_FN int ct_ends_stage(void)
{
    return CT_POINTS_ROWS * CT_POINTS_SLAB * 2;
}

CT_POINTS_FN int ct_ends_weights(const struct ct_ends *p, int slabs)
{
    return p->steps * slabs * CT_POINTS_SLAB * CT_POINTS_SLAB * 2;
}

CT_POINTS_FN int ct_ends_others(int slabs)
{
    return 2 * slabs * CT_POINTS_ROWS * CT_POINTS_SLAB * 2;
}

/* A thread of the four warps of a half has two neighbours in every eighth
 * column of two rows, h = 0 and 1: the row, and the column of the first
 * neighbour in the i-th eight. */
CT_POINTS_FN int ct_ends_row(int thread, int h)
{
    return thread % 128 / 32 * 16 + thread % 32 / 4 + 8 * h;
}

CT_POINTS_FN int ct_ends_column(int thread, int i)
{
    return i * 8 + thread % 4 * 2;
}

/* The byte at which they lie in a tile, whose slabs of 64 columns lie behind
 * each other: rows of 128 bytes, in which the copy engine gives the 16 bytes of
 * eight columns another order in each of eight rows. */
CT_POINTS_FN int ct_ends_place(int row, int column)
{
    const int slab = column / CT_POINTS_SLAB, in = column % CT_POINTS_SLAB;

    return slab * CT_POINTS_ROWS * CT_POINTS_SLAB * 2 +
           row * CT_POINTS_SLAB * 2 + (in / 8 ^ row % 8) * 16 + in % 8 * 2;
}

/* False: this form does not take it. */
static inline bool ct_ends_cut(int64_t rows, int64_t channels, int64_t outputs,
                               const struct ct_points_form *f,
                               int multiprocessors, struct ct_ends *out)
{
    const int64_t wide = f->slabs * CT_POINTS_SLAB;
    const int64_t down = (rows + CT_POINTS_ROWS - 1) / CT_POINTS_ROWS;
    const int64_t blocks = (int64_t)multiprocessors * f->resident;
    int64_t room = CT_POINTS_SHARED / f->resident - (1 << 10);

    if (rows < 1 || rows > INT32_MAX - CT_POINTS_ROWS || channels % 8 ||
        channels < 8 || channels > 4096 || outputs % wide || outputs < wide ||
        outputs / wide > blocks)
        return false;
    out->rows     = (int)rows;
    out->channels = (int)channels;
    out->outputs  = (int)outputs;
    out->down     = (int)down;
    out->across   = (int)(outputs / wide);
    out->steps    = (int)((channels + CT_POINTS_SLAB - 1) / CT_POINTS_SLAB);
    out->shares   = (int)(blocks / out->across);
    out->shares   = out->shares < out->down ? out->shares : out->down;
    room -= CT_ENDS_EXTRA + ct_ends_weights(out, f->slabs);
    for (out->ahead = CT_ENDS_BOTH; out->ahead > 0; out->ahead--) {
        out->stages = (int)((room - out->ahead * ct_ends_others(f->slabs)) /
                            ct_ends_stage());
        if (out->stages > CT_POINTS_STAGES)
            out->stages = CT_POINTS_STAGES;
        if (out->stages >= 2)
            return true;
    }
    return false;
}

#endif
