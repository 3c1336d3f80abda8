/* norm_repeat.c - coefficients repeated over an array in any layout.
 *
 * Plain arrays are outer x coefficients x inner, and a blocked one whose
 * coefficients are its channels is an array of channels: both are norm_ref.c's.
 * Anything else, a blocked array scaled along other axes, is walked in the
 * order of memory, one value at a time. */
#include "device/cpu/loop.h"
#include "device/layout.h"
#include "device/norm.h"

struct ct_repeat ct_repeat_of(const struct ct_channels *array, int64_t outer,
                              int64_t c, int64_t inner)
{
    struct ct_repeat r = { *array, { outer, c, inner, CT_PLAIN, 0, CT_F32 },
                           true };

    if (array->layout == CT_PLAIN)
        return r;
    r.direct = outer == array->n && c == array->c && inner == array->inner;
    if (r.direct)
        r.view = *array;
    return r;
}

int64_t ct_repeat_scratch(const struct ct_repeat *r)
{
    return r->direct ? ct_channel_scratch(&r->view) : 0;
}

/* The coefficient of the value at `i` in memory; -1 for padding. */
static int64_t coefficient(const struct ct_repeat *r, int64_t i)
{
    const struct ct_channels *a = &r->array;
    const int64_t b = ct_layout_block(a->layout, a->c);
    const int64_t blocks = ct_layout_blocks(a->layout, a->c);
    const int64_t position = i / b % a->inner, block = i / b / a->inner;
    const int64_t c = block % blocks * b + i % b, n = block / blocks;

    if (c >= a->c)
        return -1;
    return ((n * a->c + c) * a->inner + position) / r->view.inner % r->view.c;
}

static int64_t elements(const struct ct_channels *a)
{
    return a->n * ct_layout_blocks(a->layout, a->c) *
           ct_layout_block(a->layout, a->c) * a->inner;
}

void ct_repeat_map(const struct ct_repeat *r, const float *x,
                   const float *scale, const float *bias, float *y,
                   float *kept)
{
    if (r->direct) {
        ct_channel_map(&r->view, x, NULL, scale, bias, y, kept);
        return;
    }
    CT_FOR_ROWS (i, elements(&r->array), 1) {
        int64_t q = coefficient(r, i);

        if (kept)
            kept[i] = x[i];
        y[i] = q < 0 ? 0
                     : x[i] * (scale ? scale[q] : 1) + (bias ? bias[q] : 0);
    }
}

static void any_sums(const struct ct_repeat *r, const float *dy,
                     const float *x, const struct ct_repeat_grads *out)
{
    for (int64_t q = 0; q < r->view.c; q++) {
        out->sum[q] = 0;
        if (x)
            out->dot[q] = 0;
    }
    for (int64_t i = 0; i < elements(&r->array); i++) {
        int64_t q = coefficient(r, i);

        if (q < 0)
            continue;
        out->sum[q] += dy[i];
        if (x)
            out->dot[q] += dy[i] * x[i];
    }
}

void ct_repeat_backward(const struct ct_repeat *r, const float *dy,
                        const float *x, const float *scale, float *scratch,
                        const struct ct_repeat_grads *out)
{
    if (!r->direct) {
        if (out->sum)
            any_sums(r, dy, x, out);
        if (out->dx)
            ct_repeat_map(r, dy, scale, NULL, out->dx, NULL);
        return;
    }
    for (int64_t i = 0; i < ct_channel_slices(&r->view); i++) {
        const struct ct_slice s = ct_channel_slice(&r->view, i);

        if (out->sum)
            ct_channel_sums(&s.view, dy + s.at, x ? x + s.at : NULL, NULL,
                            scratch, out->sum + s.first,
                            x ? out->dot + s.first : NULL);
        if (out->dx)
            ct_channel_map(&s.view, dy + s.at, NULL,
                           scale ? scale + s.first : NULL, NULL,
                           out->dx + s.at, NULL);
    }
}
