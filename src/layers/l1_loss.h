/* l1_loss.h - what an L1Loss layer keeps, and its terms; see l1_loss.c. */
#ifndef CT_LAYERS_L1_LOSS_H
#define CT_LAYERS_L1_LOSS_H

#include <math.h>

#include "base/rng.h"
#include "cortado/layer.h"

struct l1_loss {
    int64_t         outer, channels, inner; /* of bottom 0 */
    int64_t         n_terms;
    bool            lengths;  /* l2_per_location */
    bool            masks;    /* NaN in bottom 1 is a value that nobody knows */
    bool            counts;   /* normalize_by_num_entries */
    float           share, epsilon, plateau;
    float           times;    /* what a term is multiplied by */
    struct ct_blob *z;        /* the normaliser, one value */
};

/* The values that terms read; b may be NULL. */
struct l1_values {
    const float *a, *b;
    int64_t      channels, inner;
    bool         lengths, masks;
    float        share, epsilon, plateau;
};

static inline struct l1_values l1_values_of(const struct l1_loss *s,
                                            const struct ct_io *io)
{
    struct l1_values v = { ct_data(io->bottom[0]),
                           io->n_bottom > 1 ? ct_data(io->bottom[1]) : NULL,
                           s->channels, s->inner, s->lengths, s->masks,
                           s->share, s->epsilon, s->plateau };
    return v;
}

/* Value i's difference; false where there is none. */
CT_HOST_DEVICE static inline bool l1_difference(const struct l1_values *v,
                                                int64_t i, float *d)
{
    if (v->masks && v->b && isnan(v->b[i]))
        return false;
    *d = v->b ? v->a[i] - v->b[i] : v->a[i];
    return true;
}

/* The sum of squares at position i; -1 where it does not count. */
CT_HOST_DEVICE static inline float l1_square(const struct l1_values *v,
                                             int64_t i)
{
    const int64_t first = i / v->inner * v->channels * v->inner + i % v->inner;
    float sum = 0, d;

    for (int64_t c = 0; c < v->channels; c++) {
        if (!l1_difference(v, first + c * v->inner, &d))
            return -1;
        sum += d * d;
    }
    return sum * v->share;
}

/* Term i: of a value, or of a position with `lengths`; false: it does not
 * count. */
CT_HOST_DEVICE static inline bool l1_term(const struct l1_values *v, int64_t i,
                                          float *term)
{
    float d = 0;

    *term = 0;
    if (v->lengths) {
        d = l1_square(v, i);
        if (d < 0)
            return false;
        if (!(sqrtf(d) <= v->plateau && v->plateau > 0))
            *term = sqrtf(d + v->epsilon);
        return true;
    }
    if (!l1_difference(v, i, &d))
        return false;
    if (!(fabsf(d) <= v->plateau))
        *term = fabsf(d);
    return true;
}

/* The derivative of value i's term by its difference; `square` is that of its
 * position, with `lengths`. */
CT_HOST_DEVICE static inline float l1_slope(const struct l1_values *v,
                                            int64_t i, float square)
{
    float d = 0;

    if (!l1_difference(v, i, &d) || square < 0)
        return 0;
    if (v->lengths)
        return sqrtf(square) <= v->plateau && v->plateau > 0
                   ? 0
                   : v->share * d / sqrtf(square + v->epsilon);
    return fabsf(d) <= v->plateau ? 0 : d > 0 ? 1 : d < 0 ? -1 : d;
}

#endif
