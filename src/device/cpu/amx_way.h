/* amx_way.h - a convolution of channels-last bfloat16 as products of tiles.
 *
 * The source is copied, some rows or images at a time, to an array of cells in
 * which every output position is a place f, and tap t of it lies at cell
 * f + at(t).  So 32 neighbouring places are 32 rows of a factor, whatever the
 * size of the image:
 *
 *     cells      rows x columns of an image, with zeros around it; neighbours
 *                share them.  A few places fall between the rows: what is
 *                computed there is dropped.
 *     a cell     the channels of one position, filled up to whole 32s
 *     stride     positions that one tap meets lie side by side: there are
 *                stride x stride arrays of cells (phases), and none is left out
 *     merged     few channels: a cell holds as many neighbouring positions as
 *                the stride has, and 32 values from its begin on hold all taps
 *                of a row; weights of what is none of them are zeros
 *     direct     1x1 kernels: where channels are whole 32s nothing is copied
 *
 * The gradient of the input is such a convolution for each phase of it. */
#ifndef CT_DEVICE_CPU_AMX_WAY_H
#define CT_DEVICE_CPU_AMX_WAY_H

#include "device/conv_impl.h"
#include "device/cpu/amx.h"

enum {
    CT_AMX_TAPS  = 128, /* at most */
    CT_AMX_SLACK = 64   /* cells behind the last that are read, too */
};

struct ct_amx_way {
    /* The source. */
    bool    floats; /* plain floats instead of channels-last bfloat16 */
    bool    flat;   /* 1x1: all positions of the batch are one image's */
    bool    merged, direct;
    int64_t batch, h, w, channels;
    int64_t step[2], phases[2];
    int64_t pad[2]; /* cells of zeros before the first; may be below 0 */
    /* Its cells. */
    int64_t rows, columns; /* of an image */
    int64_t below;         /* rows that are read below that of an output */
    int64_t cell;          /* values */
    /* Taps: phase, row and column of what they meet, place among weights. */
    int64_t taps, phase[CT_AMX_TAPS], row[CT_AMX_TAPS], column[CT_AMX_TAPS];
    int64_t which[CT_AMX_TAPS];
    /* The outputs, and where they go. */
    int64_t out_h, out_w, out_channels;
    int64_t to_h, to_w, to_step[2], to_first[2];
    /* A chunk: some images, or some rows of one. */
    int64_t images, out_rows;
};

struct ct_amx_chunk {
    int64_t image, images, row, rows, places;
};

/* Of the forward pass, and of phase i of the gradient of the input; false:
 * that phase has no positions. */
void ct_amx_way_forward(const struct ct_conv *c, struct ct_amx_way *w);
bool ct_amx_way_back(const struct ct_conv *c, int64_t i, int64_t j,
                     struct ct_amx_way *w);

int64_t ct_amx_chunks(const struct ct_amx_way *w);
struct ct_amx_chunk ct_amx_chunk_at(const struct ct_amx_way *w, int64_t i);
int64_t ct_amx_places(const struct ct_amx_way *w, int64_t images,
                      int64_t rows);
/* Cells of a chunk, without slack, and rows of them in a phase. */
int64_t ct_amx_cells(const struct ct_amx_way *w);
int64_t ct_amx_rows(const struct ct_amx_way *w);
/* Where tap t of place 0 lies, in cells. */
int64_t ct_amx_tap_at(const struct ct_amx_way *w, int64_t t);

/* `n` channels from `first` on of a chunk's source, as cells of n in whole
 * 32s; merged, all of them.  What is slack is zero, too. */
void ct_amx_gather(const struct ct_amx_way *w, const struct ct_amx_chunk *k,
                   const float *x, int64_t first, int64_t n, uint16_t *cells);

/* Goes from place to place. */
struct ct_amx_place {
    int64_t image, row, column;
};
struct ct_amx_place ct_amx_place_at(const struct ct_amx_way *w, int64_t f);

static inline void ct_amx_place_next(const struct ct_amx_way *w,
                                     struct ct_amx_place *p)
{
    if (++p->column < w->columns)
        return;
    p->column = 0;
    if (++p->row < w->rows)
        return;
    p->row = 0;
    p->image++;
}

/* Whether an output of the chunk is there, and its position. */
static inline bool ct_amx_place_counts(const struct ct_amx_way *w,
                                       const struct ct_amx_chunk *k,
                                       const struct ct_amx_place *p)
{
    return p->column < w->out_w && p->row < k->rows && p->image < k->images;
}

static inline int64_t ct_amx_position(const struct ct_amx_way *w,
                                      const struct ct_amx_chunk *k,
                                      const struct ct_amx_place *p)
{
    const int64_t y = (k->row + p->row) * w->to_step[0] + w->to_first[0];
    const int64_t x = p->column * w->to_step[1] + w->to_first[1];

    return ((k->image + p->image) * w->to_h + y) * w->to_w + x;
}

static inline int64_t ct_amx_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

#endif
