/* tiles.h - how kernels around convolution share their arrays among blocks.
 *
 * Plain C: the test without a GPU walks the same places as the kernels.  A
 * block has CT_TILE_THREADS threads. */
#ifndef CT_DEVICE_CUDA_TILES_H
#define CT_DEVICE_CUDA_TILES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define CT_TILE_FN static inline __host__ __device__
#else
#define CT_TILE_FN static inline
#endif

enum {
    CT_TILE_THREADS = 256,
    CT_TILE_VALUES  = 4096, /* of weights, in shared memory */
    CT_TILE_LINES   = 256,  /* most of a tile */
    CT_TILE_FEWEST  = 32    /* lines of a tile */
};

/* Weights lie outside as outputs x channels x taps, and inside as
 * outputs x taps x channels.  A line is the taps of one output and channel.  A
 * tile is some lines that follow each other: outside one run of values, inside
 * a run of channels for each output and tap. */
struct ct_weight_tiles {
    int channels, taps;
    int lines;   /* of a tile; a power of 2 */
    int n_lines; /* of all tiles */
    int n;       /* values outside; those of further lines are 0 */
    int n_tiles;
};

/* False where tiles are not for it.  Small weights get small tiles, down to a
 * tile for each of `blocks`. */
static inline bool ct_weight_tiles_make(int64_t outputs,
                                        int64_t outputs_inside,
                                        int64_t channels, int64_t taps,
                                        int64_t blocks,
                                        struct ct_weight_tiles *out)
{
    const int64_t n_lines = outputs_inside * channels;
    int64_t lines         = CT_TILE_LINES;

    if (taps > CT_TILE_VALUES / CT_TILE_FEWEST ||
        n_lines * taps > (int64_t)1 << 30)
        return false;
    while (lines > CT_TILE_FEWEST && (lines * taps > CT_TILE_VALUES ||
                                      n_lines / lines < blocks))
        lines /= 2;
    out->channels = (int)channels;
    out->taps     = (int)taps;
    out->lines    = (int)lines;
    out->n_lines  = (int)n_lines;
    out->n        = (int)(outputs * channels * taps);
    out->n_tiles  = (int)((n_lines + lines - 1) / lines);
    return true;
}

/* The first value outside of a tile's. */
CT_TILE_FN int ct_weight_first(const struct ct_weight_tiles *m, int tile)
{
    return tile * m->lines * m->taps;
}

/* What a thread does inside: `each` neighbouring channels of the tile's lines
 * from `line` on, and of them the taps `tap`, tap + step, ... */
struct ct_weight_column {
    int line, tap, step;
    int at; /* where tap 0 lies inside; below 0: nothing to do */
};

CT_TILE_FN struct ct_weight_column ct_weight_column_of(
    const struct ct_weight_tiles *m, int each, int tile, int thread)
{
    const int columns = m->lines / each;
    struct ct_weight_column c;
    int line;

    c.line = thread % columns * each;
    c.tap  = thread / columns;
    c.step = CT_TILE_THREADS / columns;
    line   = tile * m->lines + c.line;
    c.at   = line < m->n_lines ? line / m->channels * m->taps * m->channels +
                                   line % m->channels
                               : -1;
    return c;
}

/* Rows of channels, a vector of them to a thread.  Blocks take `width` vectors
 * of a row and as many rows at once as they have threads for, one share of the
 * rows each: groups x shares blocks. */
struct ct_columns {
    int rows, row; /* `row` vectors each */
    int width, groups, shares;
    int at_once;
};

/* Widths are 128 bytes or about that, so that a row's vectors are whole lines
 * of memory and few shares keep a GPU busy; 0: none fits. */
static inline int ct_columns_width(int64_t row, int vector)
{
    static const int good[] = { 8, 6, 10, 14, 4, 13, 11, 9, 15 };
    int64_t width           = row;

    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (row % good[i] == 0)
            return good[i];
    for (int64_t w = 16; w < row && width == row; w++)
        if (row % w == 0)
            width = w;
    return width <= CT_TILE_THREADS && width * vector <= 4 * CT_TILE_THREADS
               ? (int)width
               : 0;
}

/* Rows of `row` vectors of `vector` values, for `blocks` blocks of which each
 * thread has `ahead` rows at least; shares have `room` for their sums, and
 * groups `turns`. */
static inline bool ct_columns_make(int64_t rows, int64_t row, int vector,
                                   int64_t blocks, int ahead, int64_t room,
                                   int64_t turns, struct ct_columns *out)
{
    const int width = ct_columns_width(row, vector);
    int64_t at_once, shares, most;

    if (width == 0 || row / width > turns || row * vector > room)
        return false;
    at_once = CT_TILE_THREADS / width;
    shares  = (rows + at_once * ahead - 1) / (at_once * ahead);
    most    = blocks / (row / width);
    most    = most < room / (row * vector) ? most : room / (row * vector);
    most    = most < 1 ? 1 : most;
    out->rows    = (int)rows;
    out->row     = (int)row;
    out->width   = width;
    out->groups  = (int)(row / width);
    out->shares  = (int)(shares < most ? shares : most);
    out->at_once = (int)at_once;
    return true;
}

/* A thread's column and first row; further rows are `step` apart. */
struct ct_column {
    int column, row, step;
};

CT_TILE_FN struct ct_column ct_column_of(const struct ct_columns *m, int group,
                                         int share, int thread)
{
    const int mine = thread / m->width;
    struct ct_column c;

    c.column = group * m->width + thread % m->width;
    c.row    = mine < m->at_once ? share * m->at_once + mine : m->rows;
    c.step   = m->shares * m->at_once;
    return c;
}

#endif
