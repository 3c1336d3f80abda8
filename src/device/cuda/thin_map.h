/* thin_map.h - where the positions that a stride reads lie in an image; for
 * gathered.h, and its test.
 *
 * A thin array has those positions alone, behind each other, and channels
 * last.  Each has a cell of the image: itself, and those behind it, right and
 * below, that no stride reads.
 *
 *     height 3, width 5, stride 2:    0 . 1 . 2
 *                                     . . . . .
 *                                     3 . 4 . 5
 */
#ifndef CT_DEVICE_CUDA_THIN_MAP_H
#define CT_DEVICE_CUDA_THIN_MAP_H

#include "device/cuda/divide.h"

/* Images of height x width positions of `channels`; in a thin array they have
 * rows of `across`, `down` of them. */
struct ct_thin {
    struct ct_divider channels, across, down;
    int               height, width, stride[2];
};

/* The cell of a value: its own place in images that are not thin, and the
 * cell's size. */
struct ct_thin_cell {
    int64_t place;
    int     rows, columns;
};

/* Positions along an axis that a stride reads. */
CT_DIVIDE_FN int64_t ct_thin_size(int64_t in, int64_t stride)
{
    return (in - 1) / stride + 1;
}

/* For images that have all at least one position. */
static inline struct ct_thin ct_thin_of(int64_t images, int64_t channels,
                                        const int64_t *in,
                                        const int64_t *stride)
{
    const int64_t down   = ct_thin_size(in[0], stride[0]);
    const int64_t across = ct_thin_size(in[1], stride[1]);
    const int64_t rows   = images * down * across;
    const struct ct_thin t = { ct_divider_of(channels, rows * channels),
                               ct_divider_of(across, rows),
                               ct_divider_of(down, rows),
                               (int)in[0], (int)in[1],
                               { (int)stride[0], (int)stride[1] } };

    return t;
}

/* The cell of value i of a thin array. */
CT_DIVIDE_FN struct ct_thin_cell ct_thin_find(const struct ct_thin *t,
                                              int64_t i)
{
    struct ct_thin_cell cell;
    int64_t c, x, y;
    int64_t image = ct_divide(t->channels, i, &c);

    image = ct_divide(t->across, image, &x);
    image = ct_divide(t->down, image, &y);
    x *= t->stride[1];
    y *= t->stride[0];
    cell.place = ((image * t->height + y) * t->width + x) * t->channels.d + c;
    cell.rows  = t->height - y < t->stride[0] ? (int)(t->height - y)
                                              : t->stride[0];
    cell.columns = t->width - x < t->stride[1] ? (int)(t->width - x)
                                               : t->stride[1];
    return cell;
}

/* How far position (y, x) of a cell is from its first one. */
CT_DIVIDE_FN int64_t ct_thin_offset(const struct ct_thin *t, int y, int x)
{
    return ((int64_t)y * t->width + x) * t->channels.d;
}

#endif
