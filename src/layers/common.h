/* common.h - small things that many layer types do alike. */
#ifndef CT_LAYERS_COMMON_H
#define CT_LAYERS_COMMON_H

#include <string.h>

#include "core/buffer.h"
#include "cortado/layer.h"
#include "device/cpu/loop.h"

/* A ready reshape(): top 0 has the shape of bottom 0. */
static inline enum ct_status ct_layer_same_shape(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    (void)l;
    return ct_reshape(io->top[0], io->bottom[0]->shape);
}

/* ct_axis() whose refusal names the layer. */
CT_MUST_CHECK static inline enum ct_status ct_layer_axis(
    const struct ct_layer *l, const struct ct_blob *b, int axis, int *out)
{
    if (ct_axis(b, axis, out) != CT_OK)
        return ct_fail_in(CT_EINVAL, "layer %s", l->name);
    return CT_OK;
}

/* Whether its net hands bfloat16 from layer to layer on the CPU. */
static inline bool ct_layer_shorts(const struct ct_layer *l)
{
    return l->dev->kind == CT_CPU && ct_device_dtype(l->dev) == CT_BF16;
}

/* The shape of scratch with one float for each value that a blob of shape `s`
 * can hold, whatever layout its net gives it. */
static inline struct ct_shape ct_any_layout(const struct ct_shape *s)
{
    return CT_SHAPE(ct_layout_count(s, s->n_axes > 1 ? CT_BLOCKED16
                                                     : CT_PLAIN));
}

/* Whether top 0 took the place of bottom 0. */
static inline bool ct_in_place(const struct ct_io *io)
{
    return ct_data(io->bottom[0]) == ct_data(io->top[0]);
}

/* For reshape() of layers with CT_LAYER_KEEPS: `kept`, scratch that may be
 * NULL, has room for bottom 0 where the layer works in place.  A net may have
 * given the bottom memory of its own since setup. */
CT_MUST_CHECK static inline enum ct_status ct_layer_keep(
    const struct ct_layer *l, const struct ct_io *io, struct ct_blob *kept)
{
    if (!kept)
        return CT_OK;
    if (io->bottom[0] == io->top[0] && !l->absorbed)
        return ct_reshape(kept, CT_SHAPE(ct_elements(io->bottom[0])));
    ct_tensor_clear(&kept->data);
    return CT_OK;
}

/* Its values; NULL where the layer keeps nothing. */
static inline float *ct_layer_kept(const struct ct_blob *kept)
{
    return kept ? ct_data(kept) : NULL;
}

/* On the CPU: `rows` rows of `width` values from x to y, whose rows begin
 * x_step and y_step values apart. */
static inline void ct_copy_rows(int64_t rows, int64_t width, const float *x,
                                int64_t x_step, float *y, int64_t y_step)
{
    if (rows == 1)
        CT_FOR_EACH (i, width)
            y[i] = x[i];
    else if (width > 0)
        CT_FOR_ROWS (r, rows, width)
            memcpy(y + r * y_step, x + r * x_step,
                   (size_t)width * sizeof(*y));
}

/* On the CPU: the values of a blob's data or diff, of either type. */
static inline void ct_copy_values(const struct ct_blob *b, const float *from,
                                  float *to)
{
    const int64_t bytes =
        ct_elements(b) * (int64_t)ct_dtype_bytes(b->data.dtype);
    const int64_t row = 1 << 16;

    if (from != to)
        CT_FOR_ROWS (r, (bytes + row - 1) / row, row / 4)
            memcpy((char *)to + r * row, (const char *)from + r * row,
                   (size_t)(bytes - r * row < row ? bytes - r * row : row));
}

/* Values that stay in the first cache while several arrays are combined:
 *     CT_FOR_ROWS (c, ct_chunks(n), CT_CHUNK)
 *         sum(c * CT_CHUNK, ct_chunk_end(c, n)); */
enum { CT_CHUNK = 2048 };

static inline int64_t ct_chunks(int64_t n)
{
    return (n + CT_CHUNK - 1) / CT_CHUNK;
}

static inline int64_t ct_chunk_end(int64_t c, int64_t n)
{
    return (c + 1) * CT_CHUNK < n ? (c + 1) * CT_CHUNK : n;
}

/* Adds `value`, an expression in i, for i from 0 to n - 1 to the double `sum`
 * on this thread, in partial sums that a vector unit holds side by side. */
#define CT_SUM_ROW(i, n, sum, value)                                         \
    do {                                                                     \
        double ct_lane[8] = { 0 };                                           \
        int64_t ct_at     = 0;                                               \
                                                                             \
        for (; ct_at + 8 <= (n); ct_at += 8)                                 \
            for (int ct_k = 0; ct_k < 8; ct_k++) {                           \
                const int64_t i = ct_at + ct_k;                              \
                                                                             \
                ct_lane[ct_k] += (double)(value);                            \
            }                                                                \
        for (int64_t i = ct_at; i < (n); i++)                                \
            (sum) += (double)(value);                                        \
        for (int ct_k = 0; ct_k < 8; ct_k++)                                 \
            (sum) += ct_lane[ct_k];                                          \
    } while (0)

#endif
