/* batch_norm_ref.c - batch normalisation out of norm.h's operations.
 *
 * They follow each other slice by slice, so that what one reads and writes is
 * still in a cache for the next. */
#include <math.h>

#include "device/cpu/batch_norm_impl.h"

/* The rows of c floats behind the scratch of the sums. */
enum { INVERSE, SLOPE, OFFSET };

static float *row_of(const struct ct_batch_norm *p, float *scratch, int row)
{
    return scratch + ct_channel_scratch(&p->view) + row * p->view.c;
}

static void invert(const struct ct_batch_norm *p, const struct ct_slice *part,
                   const float *var, float *inverse)
{
    for (int64_t c = part->first; c < part->first + part->view.c; c++)
        inverse[c] = 1 / sqrtf(var[c] + p->eps);
}

static enum ct_status ref_forward(const struct ct_batch_norm *p,
                                  const float *x, float *scratch, float *mean,
                                  float *var, float *y, float *kept)
{
    float *inverse = row_of(p, scratch, INVERSE);

    for (int64_t i = 0; i < ct_channel_slices(&p->view); i++) {
        const struct ct_slice s = ct_channel_slice(&p->view, i);

        ct_channel_moments(&s.view, x + s.at, scratch, mean + s.first,
                           var + s.first);
        invert(p, &s, var, inverse);
        ct_channel_map(&s.view, x + s.at, mean + s.first, inverse + s.first,
                       NULL, y + s.at, kept ? kept + s.at : NULL);
    }
    return CT_OK;
}

/* With v = 1 / sqrt(var + eps) and z = x - mean, so that y = v z:
 *     dx = v dy - v^3 mean(dy z) z - v mean(dy)                             */
static enum ct_status ref_backward(const struct ct_batch_norm *p,
                                   const float *x, const float *dy,
                                   const float *mean, const float *var,
                                   float *scratch, float *dx)
{
    const float m = (float)(p->view.n * p->view.inner);
    float *v = row_of(p, scratch, INVERSE), *slope = row_of(p, scratch, SLOPE);
    float *offset = row_of(p, scratch, OFFSET);

    for (int64_t i = 0; i < ct_channel_slices(&p->view); i++) {
        const struct ct_slice s = ct_channel_slice(&p->view, i);
        const int64_t from = s.first;

        invert(p, &s, var, v);
        ct_channel_sums(&s.view, dy + s.at, x + s.at, mean + from, scratch,
                        offset + from, slope + from);
        for (int64_t c = from; c < from + s.view.c; c++) {
            slope[c] *= -v[c] * v[c] * v[c] / m;
            offset[c] *= -v[c] / m;
        }
        ct_channel_join(&s.view, dy + s.at, x + s.at,
                        &(struct ct_channel_line){ v + from, slope + from,
                                                   mean + from,
                                                   offset + from },
                        dx + s.at);
    }
    return CT_OK;
}

const struct ct_batch_norm_impl ct_batch_norm_ref = {
    .head     = { .name = "ref" },
    .forward  = ref_forward,
    .backward = ref_backward,
};
