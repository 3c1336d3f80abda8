/* histogram.c - how the values of an array are spread. */
#include "observe/histogram.h"

#include <math.h>

static void find_range(struct ct_histogram *h, int64_t n, const float *x,
                       float scale)
{
    h->min = INFINITY;
    h->max = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)(x[i] * scale);

        if (!isfinite(v)) {
            h->n_not_finite++;
            continue;
        }
        h->min = v < h->min ? v : h->min;
        h->max = v > h->max ? v : h->max;
        h->sum += v;
        h->squares += v * v;
        h->n++;
    }
    if (h->n == 0)
        h->min = h->max = 0;
}

void ct_histogram_make(struct ct_histogram *h, int64_t n, const float *x,
                       float scale)
{
    double per_bin;

    *h = (struct ct_histogram){ 0 };
    find_range(h, n, x, scale);
    per_bin = h->max > h->min ? CT_HISTOGRAM_BINS / (h->max - h->min) : 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)(x[i] * scale);
        int bin        = isfinite(v) ? (int)((v - h->min) * per_bin) : -1;

        if (bin < 0)
            continue;
        if (bin >= CT_HISTOGRAM_BINS) /* max itself */
            bin = CT_HISTOGRAM_BINS - 1;
        h->count[bin]++;
    }
}

double ct_histogram_limit(const struct ct_histogram *h, int i)
{
    const double width = h->max > h->min
                             ? (h->max - h->min) / CT_HISTOGRAM_BINS
                             : 1e-12;

    return i == CT_HISTOGRAM_BINS - 1 && h->max > h->min
               ? h->max
               : h->min + width * (i + 1);
}
