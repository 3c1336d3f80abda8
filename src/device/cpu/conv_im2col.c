/* conv_im2col.c - samples to windows and back, over any number of axes.
 *
 * The last axis is the inner loop.  Along each axis the output positions that
 * fall inside x are one range, worked out once a row, so that inner loops have
 * no conditions. */
#include "device/cpu/conv_im2col.h"

#include <string.h>

#include "device/cpu/loop.h"

/* Output positions [lo, hi) along one axis read x at first + p * stride. */
struct span {
    int64_t lo, hi, first, stride;
};

static struct span span_of(const struct ct_im2col *m, int axis, int64_t tap)
{
    const struct ct_conv_desc *d = m->desc;
    int64_t s = d->stride[axis], in = d->in[axis], out = m->out[axis];
    int64_t first = tap * d->dilation[axis] - d->pad[axis];
    int64_t lo    = first < 0 ? (-first + s - 1) / s : 0;
    int64_t hi    = first < in ? (in - 1 - first) / s + 1 : 0;

    lo = lo < out ? lo : out;
    hi = hi < out ? hi : out;
    return (struct span){ lo, hi > lo ? hi : lo, first, s };
}

/* The spans of every axis for kernel tap number `tap`. */
static void spans_of(const struct ct_im2col *m, int64_t tap, struct span *s)
{
    for (int i = m->desc->n_spatial - 1; i >= 0; i--) {
        s[i] = span_of(m, i, tap % m->desc->kernel[i]);
        tap /= m->desc->kernel[i];
    }
}

void ct_im2col_init(struct ct_im2col *m, const struct ct_conv_desc *d,
                    int64_t channels)
{
    memset(m, 0, sizeof(*m));
    m->desc        = d;
    m->channels    = channels;
    m->in_spatial  = 1;
    m->out_spatial = 1;
    m->taps        = 1;
    for (int i = 0; i < d->n_spatial; i++) {
        m->out[i] = ct_conv_out(d, i);
        m->in_spatial *= d->in[i];
        m->out_spatial *= m->out[i];
        m->taps *= d->kernel[i];
    }
}

static void gather(const struct span *s, int64_t n, const float *x, float *to)
{
    const float *from = x + s->first + s->lo * s->stride;
    int64_t n_in      = s->hi - s->lo;

    memset(to, 0, (size_t)s->lo * sizeof(*to));
    if (s->stride == 1)
        memcpy(to + s->lo, from, (size_t)n_in * sizeof(*to));
    else
        for (int64_t i = 0; i < n_in; i++)
            to[s->lo + i] = from[i * s->stride];
    memset(to + s->hi, 0, (size_t)(n - s->hi) * sizeof(*to));
}

static void scatter(const struct span *s, float *x, const float *from)
{
    float *restrict to = x + s->first + s->lo * s->stride;
    int64_t n_in       = s->hi - s->lo;

    from += s->lo;
    if (s->stride == 1)
        for (int64_t i = 0; i < n_in; i++)
            to[i] += from[i];
    else
        for (int64_t i = 0; i < n_in; i++)
            to[i * s->stride] += from[i];
}

/* One row of col and the axes from `axis` on; fills or adds, by `x_out`. */
static void walk(const struct ct_im2col *m, const struct span *s, int axis,
                 int64_t in_below, int64_t out_below, const float *x,
                 float *x_out, const float *col, float *col_out)
{
    const struct ct_conv_desc *d = m->desc;
    int64_t in_step = in_below / d->in[axis];
    int64_t step    = out_below / m->out[axis];

    if (axis == d->n_spatial - 1) {
        if (x_out)
            scatter(s + axis, x_out, col);
        else
            gather(s + axis, m->out[axis], x, col_out);
        return;
    }
    for (int64_t p = 0; p < m->out[axis]; p++) {
        int64_t at = (s[axis].first + p * s[axis].stride) * in_step;

        if (p >= s[axis].lo && p < s[axis].hi)
            walk(m, s, axis + 1, in_step, step, x ? x + at : NULL,
                 x_out ? x_out + at : NULL, col ? col + p * step : NULL,
                 col_out ? col_out + p * step : NULL);
        else if (col_out)
            memset(col_out + p * step, 0, (size_t)step * sizeof(*col_out));
    }
}

void ct_im2col(const struct ct_im2col *m, const float *x, float *col)
{
    if (m->desc->n_spatial == 0 || m->in_spatial == 0) {
        size_t bytes = (size_t)m->channels * sizeof(*col);

        if (m->in_spatial)
            memcpy(col, x, bytes);
        else
            memset(col, 0, bytes * (size_t)(m->taps * m->out_spatial));
        return;
    }
    CT_FOR_ROWS (r, m->channels * m->taps, m->out_spatial) {
        struct span s[CT_CONV_MAX];

        spans_of(m, r % m->taps, s);
        walk(m, s, 0, m->in_spatial, m->out_spatial,
             x + r / m->taps * m->in_spatial, NULL, NULL,
             col + r * m->out_spatial);
    }
}

void ct_col2im(const struct ct_im2col *m, const float *col, float *x)
{
    if (m->desc->n_spatial == 0) {
        memcpy(x, col, (size_t)m->channels * sizeof(*x));
        return;
    }
    if (m->in_spatial == 0)
        return;
    CT_FOR_ROWS (c, m->channels, m->taps * m->out_spatial) {
        struct span s[CT_CONV_MAX];
        float *to = x + c * m->in_spatial;

        memset(to, 0, (size_t)m->in_spatial * sizeof(*to));
        for (int64_t tap = 0; tap < m->taps; tap++) {
            spans_of(m, tap, s);
            walk(m, s, 0, m->in_spatial, m->out_spatial, NULL, to,
                 col + (c * m->taps + tap) * m->out_spatial, NULL);
        }
    }
}
