/* pad.h - what a Pad layer keeps, and which value goes where; see pad.c. */
#ifndef CT_LAYERS_PAD_H
#define CT_LAYERS_PAD_H

#include "base/rng.h"
#include "cortado/layer.h"

/* Numbered as in PadParameter. */
enum pad_type { PAD_ZERO, PAD_REPLICATE, PAD_REFLECT, PAD_REFLECT_101 };

struct pad {
    enum pad_type type;
    int     n_axes;
    float   value; /* of PAD_ZERO */
    int64_t before[CT_MAX_AXES], n[CT_MAX_AXES], n_out[CT_MAX_AXES];
};

/* The input that output o of an axis repeats; -1: none. */
CT_HOST_DEVICE static inline int64_t pad_from(const struct pad *p, int axis,
                                              int64_t o)
{
    const int64_t n = p->n[axis], i = o - p->before[axis];

    if (i >= 0 && i < n)
        return i;
    if (p->type == PAD_ZERO)
        return -1;
    if (p->type == PAD_REPLICATE)
        return i < 0 ? 0 : n - 1;
    if (p->type == PAD_REFLECT)
        return i < 0 ? -1 - i : 2 * n - 1 - i;
    return i < 0 ? -i : 2 * (n - 1) - i;
}

/* The k-th output of an axis that repeats input i, itself first, then those in
 * the border, in no order; -1 where there are no more. */
CT_HOST_DEVICE static inline int64_t pad_to(const struct pad *p, int axis,
                                            int64_t i, int64_t k)
{
    const int64_t n = p->n[axis], before = p->before[axis];
    const int64_t after = p->n_out[axis] - before - n;
    const int64_t edge  = p->type == PAD_REFLECT ? 1 : 0;

    if (k == 0)
        return before + i;
    k--;
    if (p->type == PAD_ZERO)
        return -1;
    if (p->type == PAD_REPLICATE) {
        if (i == 0 && k < before)
            return k;
        k -= i == 0 ? before : 0;
        return i == n - 1 && k < after ? before + n + k : -1;
    }
    /* Mirrored at the beginning by i + edge, at the end likewise. */
    if (i + edge > 0 && i + edge <= before && k-- == 0)
        return before - i - edge;
    if (n - 1 - i + edge > 0 && n - 1 - i + edge <= after && k == 0)
        return before + n - 1 + (n - 1 - i) + edge;
    return -1;
}

/* The place of output value o in the input; -1: none. */
CT_HOST_DEVICE static inline int64_t pad_source(const struct pad *p, int64_t o)
{
    int64_t at = 0, step = 1;

    for (int a = p->n_axes - 1; a >= 0; a--) {
        const int64_t i = pad_from(p, a, o % p->n_out[a]);

        if (i < 0)
            return -1;
        at += i * step;
        step *= p->n[a];
        o /= p->n_out[a];
    }
    return at;
}

/* The sum of dy over the outputs that repeat input value i: the border is only
 * along the last two axes where there are several. */
CT_HOST_DEVICE static inline float pad_sum(const struct pad *p, int64_t i,
                                           const float *dy)
{
    const int last = p->n_axes - 1;
    int64_t first = 0, step = 1, x = 0, y = 0;
    float sum = 0;

    for (int a = last; a >= 0; a--) {
        const int64_t at = i % p->n[a];

        if (a == last)
            x = at;
        else if (a == last - 1)
            y = at;
        else
            first += (p->before[a] + at) * step;
        step *= p->n_out[a];
        i /= p->n[a];
    }
    if (last == 0)
        return dy[pad_to(p, 0, x, 0)];
    for (int64_t k = 0, row; (row = pad_to(p, last - 1, y, k)) >= 0; k++)
        for (int64_t j = 0, o; (o = pad_to(p, last, x, j)) >= 0; j++)
            sum += dy[first + row * p->n_out[last] + o];
    return sum;
}

#endif
