/* histogram.h - how the values of an array are spread. */
#ifndef CT_OBSERVE_HISTOGRAM_H
#define CT_OBSERVE_HISTOGRAM_H

#include <stdint.h>

enum { CT_HISTOGRAM_BINS = 40 };

/* Bins of one width from min to max.  Values that are not finite are counted
 * apart and in nothing else. */
struct ct_histogram {
    int64_t n, n_not_finite;
    double  min, max, sum, squares;
    int64_t count[CT_HISTOGRAM_BINS];
};

/* Of x times scale. */
void ct_histogram_make(struct ct_histogram *h, int64_t n, const float *x,
                       float scale);
/* The upper end of bin i. */
double ct_histogram_limit(const struct ct_histogram *h, int i);

#endif
