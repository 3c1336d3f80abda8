/* merge.c - statistics of channels over ranks. */
#include "layers/merge.h"

#include <math.h>

/* Sums of 1, x and x^2, in double, where the last keeps what the square of the
 * mean takes away again. */
enum ct_status ct_merge_moments(const struct ct_layer *l, int64_t n,
                                double *room, double *m, float *mean,
                                float *var)
{
    double *sum = room, *squares = room + n;

    for (int64_t c = 0; c < n; c++) {
        const double mu = (double)mean[c];

        sum[c]     = *m * mu;
        squares[c] = *m * ((double)var[c] + mu * mu);
    }
    sum[2 * n] = *m;
    CT_TRY(l->run->peers->sum(l->run->peers, sum, 2 * n + 1));
    *m = sum[2 * n];
    for (int64_t c = 0; c < n; c++) {
        const double mu = sum[c] / *m;

        mean[c] = (float)mu;
        var[c]  = (float)fmax(squares[c] / *m - mu * mu, 0);
    }
    return CT_OK;
}

enum ct_status ct_merge_sums(const struct ct_layer *l, int64_t n, double *room,
                             float *a, float *b)
{
    for (int64_t c = 0; c < n; c++) {
        room[c]     = (double)a[c];
        room[n + c] = (double)b[c];
    }
    CT_TRY(l->run->peers->sum(l->run->peers, room, 2 * n));
    for (int64_t c = 0; c < n; c++) {
        a[c] = (float)room[c];
        b[c] = (float)room[n + c];
    }
    return CT_OK;
}
