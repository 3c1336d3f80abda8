/* patch_cut.h - how convolutions by patches are cut; for conv_patch.cu,
 * patch_sums.cu and their test.
 *
 * A patch is what some output rows of one image see of the input, padding
 * included.  It lies in shared memory position by position, a position's
 * channels together, and serves all taps of the kernel.
 *
 * Forward is a product: a position of y a row, 32 channels of y the columns,
 * and a sum over taps and channels of x in steps of 32 bytes.  The gradient of
 * data is the same with x and y in each other's place, and a kernel that is
 * turned around.  Positions have an odd number of 16-byte cells, so that eight
 * neighbours do not meet in the banks of shared memory; where 16 bytes hold
 * all channels, a position is one cell, and two neighbours make a step.
 *
 * The gradient of weights is a product, too: 32 channels of y the rows, a tap
 * and channel of x a column, and a sum over positions in steps of 8. */
#ifndef CT_DEVICE_CUDA_PATCH_CUT_H
#define CT_DEVICE_CUDA_PATCH_CUT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CT_PATCH_TILE   = 32,  /* positions of a warp, and channels of a block */
    CT_PATCH_LANES  = 32,
    CT_PATCH_TILES  = 4,   /* of 8 channels, in a block */
    CT_PATCH_WARPS  = 8,   /* of a block, at most */
    CT_PATCH_SHARED = 227 << 10,
    CT_SUMS_TILES   = 5,   /* of 8 columns, that a warp of a gradient has */
    CT_SUMS_PITCH   = 40,  /* of 32 channels of dy; 8 more than 32 k */
    CT_SUMS_SHARED  = 96 << 10,
    CT_SUMS_LEAST   = 256  /* positions that a strip should have */
};

/* A convolution without strides, forward: y has `outputs` channels. */
struct ct_patch_shape {
    int batch, channels, outputs, in[2], out[2], kernel[2], pad[2];
};

/* Warps that share out positions, at most, and steps. */
struct ct_patch_form {
    int positions, steps;
};

struct ct_patch {
    struct ct_patch_shape shape;
    int cell;    /* values of 16 bytes */
    int inside;  /* steps of a tap; 0: one step for two taps */
    int steps;   /* of a kernel row */
    int parts;   /* of 32 outputs */
    int words;   /* of a lane and tile of weights */
    int stage;   /* bytes of weights, of a part and kernel row */
    int pitch;   /* bytes of a position */
    int extra;   /* bytes between the steps of two taps */
    int rows;    /* output rows of a strip */
    int each;    /* strips of an image */
    int high, wide; /* of a patch */
    int warps, splits; /* that share out positions, and steps */
};

/* What does not depend on the form.  Factors of `bytes`; `sums`: of two
 * numbers each. */
static inline void ct_patch_set(const struct ct_patch_shape *s, int bytes,
                                bool sums, struct ct_patch *out)
{
    const int cell = 16 / bytes, step = 2 * cell;

    out->shape  = *s;
    out->cell   = cell;
    out->inside = s->channels <= cell ? 0 : (s->channels + step - 1) / step;
    out->steps  = out->inside ? s->kernel[1] * out->inside
                              : (s->kernel[1] + 1) / 2;
    out->parts  = (s->outputs + CT_PATCH_TILE - 1) / CT_PATCH_TILE;
    out->words  = sums ? 4 : 2;
    out->stage  = out->steps * CT_PATCH_TILES * CT_PATCH_LANES * out->words *
                 4;
    out->pitch  = out->inside ? 32 * out->inside + 16 : 16;
    out->extra  = out->inside ? 16 : 0;
}

/* Words of all weights inside. */
static inline int64_t ct_patch_words(const struct ct_patch *s)
{
    return (int64_t)s->parts * s->shape.kernel[0] * s->stage / 4;
}

/* Bytes of shared memory: weights of two kernel rows, and the patch; at the
 * end, sums of the steps. */
static inline int ct_patch_bytes(const struct ct_patch *s)
{
    const int stages = s->shape.kernel[0] > 1 ? 2 : 1;
    const int all    = stages * s->stage + s->high * s->wide * s->pitch;
    const int sums   = (s->splits - 1) * s->warps * CT_PATCH_TILE *
                     CT_PATCH_TILE * 4;

    return all > sums ? all : sums;
}

static inline bool ct_patch_small(const struct ct_patch_shape *s)
{
    for (int i = 0; i < 2; i++)
        if (s->kernel[i] > 15 || s->in[i] > 1024 || s->pad[i] > 1024 ||
            s->out[i] > 1024)
            return false;
    return s->channels <= 512 && s->outputs <= 1024;
}

/* False: this form does not take it. */
static inline bool ct_patch_cut(const struct ct_patch_shape *s, int bytes,
                                bool sums, const struct ct_patch_form *f,
                                struct ct_patch *out)
{
    const int most = f->positions * CT_PATCH_TILE;

    if (!ct_patch_small(s) || s->out[1] > most)
        return false;
    ct_patch_set(s, bytes, sums, out);
    out->rows   = most / s->out[1] < s->out[0] ? most / s->out[1] : s->out[0];
    out->each   = (s->out[0] + out->rows - 1) / out->rows;
    out->rows   = (s->out[0] + out->each - 1) / out->each;
    out->high   = out->rows + s->kernel[0] - 1;
    out->wide   = s->out[1] + s->kernel[1] - 1;
    /* Two taps a step read one position more where taps are odd. */
    out->wide += out->inside ? 0 : s->kernel[1] % 2;
    out->warps  = (out->rows * s->out[1] + CT_PATCH_TILE - 1) / CT_PATCH_TILE;
    out->splits = f->steps < out->steps ? f->steps : out->steps;
    if (out->warps * out->splits > CT_PATCH_WARPS)
        out->splits = CT_PATCH_WARPS / out->warps;
    return ct_patch_bytes(out) <= CT_PATCH_SHARED;
}

/* Warps that share out columns, at most, and positions; blocks of a
 * multiprocessor. */
struct ct_sums_form {
    int columns, positions, turns;
};

/* The gradient of weights. */
struct ct_sums {
    struct ct_patch_shape shape;
    int channels; /* of a tap's columns: many are filled up to eights */
    int pitch;    /* of a position of x, in values */
    int row_tiles; /* tiles of 8 columns, of a kernel row */
    int tiles;    /* of all */
    int rows, each, high, wide; /* as of a patch */
    int columns;  /* of a strip's rows of dy, filled up to eights */
    int warps, splits; /* that share out columns, and positions */
    int parts, o_parts; /* of the columns, and of 32 outputs */
    int shares;   /* of the strips */
};

static inline int ct_sums_bytes(const struct ct_sums *s)
{
    const int x    = s->high * s->wide * s->pitch + 8;
    const int y    = s->rows * s->columns * CT_SUMS_PITCH;
    const int sums = (s->splits - 1) * s->warps * CT_SUMS_TILES * 8 * 32;

    return (x + 3) / 4 * 16 + y * 4 > sums * 4 ? (x + 3) / 4 * 16 + y * 4
                                               : sums * 4;
}

static inline void ct_sums_rows(struct ct_sums *s, int rows)
{
    s->each = (s->shape.out[0] + rows - 1) / rows;
    s->rows = (s->shape.out[0] + s->each - 1) / s->each;
    s->high = s->rows + s->shape.kernel[0] - 1;
}

/* Values of a gradient's scratch. */
static inline int64_t ct_sums_values(const struct ct_sums *s)
{
    return (int64_t)s->shares * s->shape.outputs * s->tiles * 8;
}

static inline bool ct_sums_cut(const struct ct_patch_shape *s,
                               const struct ct_sums_form *f,
                               int multiprocessors, struct ct_sums *out)
{
    const bool few = s->channels <= 4;
    int rows       = 1, blocks, strips;

    if (!ct_patch_small(s))
        return false;
    out->shape     = *s;
    out->channels  = few ? s->channels : (s->channels + 7) / 8 * 8;
    out->pitch     = few ? s->channels : (out->channels + 23) / 32 * 32 + 8;
    out->row_tiles = (s->kernel[1] * out->channels + 7) / 8;
    out->tiles     = s->kernel[0] * out->row_tiles;
    out->columns   = (s->out[1] + 7) / 8 * 8;
    out->wide      = out->columns + s->kernel[1] - 1;
    out->warps     = (out->tiles + CT_SUMS_TILES - 1) / CT_SUMS_TILES;
    out->warps     = out->warps < f->columns ? out->warps : f->columns;
    out->splits    = f->positions;
    ct_sums_rows(out, rows);
    if (ct_sums_bytes(out) > CT_SUMS_SHARED)
        return false;
    while (rows < s->out[0] && rows * out->columns < CT_SUMS_LEAST) {
        ct_sums_rows(out, rows + 1);
        if (ct_sums_bytes(out) > CT_SUMS_SHARED)
            break;
        rows++;
    }
    ct_sums_rows(out, rows);
    out->parts   = (out->tiles + out->warps * CT_SUMS_TILES - 1) /
                 (out->warps * CT_SUMS_TILES);
    out->o_parts = (s->outputs + CT_PATCH_TILE - 1) / CT_PATCH_TILE;
    blocks       = out->parts * out->o_parts;
    strips       = s->batch * out->each;
    out->shares  = multiprocessors * f->turns / blocks;
    out->shares  = out->shares < strips ? out->shares : strips;
    out->shares  = out->shares < 1 ? 1 : out->shares;
    return out->parts <= 65535 && ct_sums_values(out) <= INT32_MAX;
}

#endif
