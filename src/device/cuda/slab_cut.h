/* slab_cut.h - how the gradient of a convolution's weights is cut; for
 * conv_slabs.cu, and its test.
 *
 * The gradient is a product: an output channel a row; an input channel, seen
 * through one tap of the kernel, a column; and a sum over positions of y.
 * Channels come in slabs of 64.  A block of threads has some slabs of rows and
 * some of columns, and adds up a share of the positions.  These come in boxes
 * of columns x rows x images of y: the copy engine takes a box of dy and, moved
 * by the tap, one of x, and puts zeros where x ends.  So boxes should fill y
 * well, and have a multiple of 16 positions. */
#ifndef CT_DEVICE_CUDA_SLAB_CUT_H
#define CT_DEVICE_CUDA_SLAB_CUT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CT_SLAB        = 64,  /* channels */
    CT_SLAB_ROW    = 128, /* bytes of one position */
    CT_SLAB_SHARED = 225 << 10, /* bytes for stages */
    CT_SLAB_STAGES = 8,
    CT_SLAB_BOX    = 256 /* of the copy engine, along an axis */
};

/* Slabs of rows and of columns that a block has; a group of four warps has one
 * of rows and `slabs` of columns.  `turns`: how many blocks a multiprocessor
 * has, one after the other. */
struct ct_slab_form {
    int rows, groups, slabs, positions, turns;
};

/* What is cut; two axes each, rows first. */
struct ct_slab_shape {
    int64_t batch, channels, outputs, out[2], kernel[2], stride[2], pad[2];
    int64_t dilation[2];
};

struct ct_slabs {
    int outputs, channels, taps, k_w;
    int stride[2], pad[2], dilation[2];
    int box[3];      /* columns, rows and images */
    int n_box[2];    /* along columns and rows */
    int boxes;       /* in all */
    int positions;   /* of a box */
    int n_rows, n_columns;       /* slabs */
    int across_rows, across_columns; /* blocks that they make */
    int stages, shares;
};

static inline int ct_slab_quotient(int64_t n, int64_t d)
{
    return (int)((n + d - 1) / d);
}

static inline int64_t ct_slab_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The box of at most `most` positions that covers y with the fewest; of equal
 * ones the larger, then the wider. */
static inline bool ct_slab_box(const struct ct_slab_shape *s, int most,
                               struct ct_slabs *out)
{
    int64_t best = INT64_MAX;

    for (int n = 1; n <= ct_slab_least(s->batch, most); n++)
        for (int y = 1; y <= ct_slab_least(s->out[0], most / n); y++)
            for (int x = 1; x <= ct_slab_least(s->out[1], most / n / y); x++) {
                const int each = n * y * x;
                const int64_t across = ct_slab_quotient(s->out[1], x);
                const int64_t down   = ct_slab_quotient(s->out[0], y);
                const int64_t boxes  = ct_slab_quotient(s->batch, n) * across *
                                      down;
                /* Every box costs as much as a few positions. */
                const int64_t cost = boxes * (each + 4) * 1024 - x;

                if (each % 16 || x * s->stride[1] > CT_SLAB_BOX ||
                    y * s->stride[0] > CT_SLAB_BOX || boxes > INT32_MAX / 2 ||
                    cost >= best)
                    continue;
                best           = cost;
                out->box[0]    = x;
                out->box[1]    = y;
                out->box[2]    = n;
                out->n_box[0]  = (int)across;
                out->n_box[1]  = (int)down;
                out->boxes     = (int)boxes;
                out->positions = each;
            }
    return best < INT64_MAX;
}

/* Bytes of a stage: a box of each slab. */
static inline int ct_slab_stage(const struct ct_slabs *s,
                                const struct ct_slab_form *f)
{
    return s->positions * CT_SLAB_ROW *
           (f->rows + f->groups / f->rows * f->slabs);
}

/* False: this form does not take it. */
static inline bool ct_slabs_cut(const struct ct_slab_shape *s,
                                const struct ct_slab_form *f,
                                int multiprocessors, struct ct_slabs *out)
{
    const int columns = f->groups / f->rows * f->slabs;
    int64_t blocks, shares;

    if (s->channels % 8 || s->outputs % 8 || !ct_slab_box(s, f->positions, out))
        return false;
    for (int i = 0; i < 2; i++) {
        if (s->stride[i] > 8) /* of the copy engine */
            return false;
        out->stride[i]   = (int)s->stride[i];
        out->pad[i]      = (int)s->pad[i];
        out->dilation[i] = (int)s->dilation[i];
    }
    out->outputs   = (int)s->outputs;
    out->channels  = (int)s->channels;
    out->taps      = (int)(s->kernel[0] * s->kernel[1]);
    out->k_w       = (int)s->kernel[1];
    out->n_rows    = ct_slab_quotient(s->outputs, CT_SLAB);
    out->n_columns = ct_slab_quotient(s->channels, CT_SLAB) * out->taps;
    out->across_rows    = ct_slab_quotient(out->n_rows, f->rows);
    out->across_columns = ct_slab_quotient(out->n_columns, columns);
    out->stages = (int)ct_slab_least(CT_SLAB_SHARED / ct_slab_stage(out, f),
                                     CT_SLAB_STAGES);
    if (out->stages < 2)
        return false;
    blocks = (int64_t)out->across_rows * out->across_columns;
    shares = (int64_t)multiprocessors * f->turns / blocks;
    shares = ct_slab_least(shares, out->boxes / 2);
    out->shares = shares > 1 ? (int)shares : 1;
    return blocks <= INT32_MAX && out->shares <= 65535;
}

#endif
