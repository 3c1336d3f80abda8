/* select.c - finds the largest of many values: first a bound from a sample,
 * then exactly. */
#include "dist/codec/select.h"

#include <stdbool.h>
#include <string.h>

#include "device/cpu/simd.h"

enum { SAMPLE_LEAST = 1024 };

/* Magnitudes are compared as integers; values that are not finite are the
 * largest. */
CT_INLINE uint32_t magnitude(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    return u & 0x7fffffff;
}

/* The k-th largest of n, k from 1; x is reordered.  Each step makes three
 * parts, so that equal values, which gradients have often, are fast. */
static uint32_t kth_largest(uint32_t *x, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1, at = k - 1;

    while (low < high) {
        uint32_t a = x[low], b = x[low + (high - low) / 2], c = x[high], t;
        int64_t more = low, less = high, i = low;

        t = a < b ? (b < c ? b : a < c ? c : a) : a < c ? a : b < c ? c : b;
        while (i <= less) {
            uint32_t v = x[i];

            if (v > t) {
                x[i++]    = x[more];
                x[more++] = v;
            } else if (v < t) {
                x[i]      = x[less];
                x[less--] = v;
            } else {
                i++;
            }
        }
        if (at < more)
            high = more - 1;
        else if (at > less)
            low = less + 1;
        else
            return t;
    }
    return x[low];
}

/* A bound that is probably below the k-th largest, from 1 % of the values. */
static uint32_t guess(int64_t n, const float *v, int64_t k, uint32_t *scratch)
{
    int64_t step = n / SAMPLE_LEAST < 100 ? n / SAMPLE_LEAST : 100, count = 0;
    int64_t want;

    if (step < 4 || k > n / 8)
        return 0;
    for (int64_t i = 0; i < n; i += step)
        scratch[count++] = magnitude(v[i]);
    want = k / step + k / step / 4 + 16;
    return want < count ? kth_largest(scratch, count, want) : 0;
}

/* The indices of magnitudes of at least `least`, in ascending order. */
static int64_t survivors(int64_t n, const float *v, uint32_t least,
                         uint32_t *index)
{
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++) {
        index[count] = (uint32_t)i;
        count += magnitude(v[i]) >= least;
    }
    return count;
}

void dist_largest(int64_t n, const float *v, int64_t k, uint32_t *index,
                  uint32_t *scratch)
{
    int64_t count = survivors(n, v, guess(n, v, k, scratch), index), out = 0;
    int64_t spare = k; /* how many values equal to the k-th are taken */
    uint32_t kth;

    if (count < k)
        count = survivors(n, v, 0, index);
    if (count == k)
        return;
    for (int64_t i = 0; i < count; i++)
        scratch[i] = magnitude(v[index[i]]);
    kth = kth_largest(scratch, count, k);
    for (int64_t i = 0; i < count; i++)
        spare -= magnitude(v[index[i]]) > kth;
    for (int64_t i = 0; i < count; i++) {
        uint32_t m = magnitude(v[index[i]]);
        bool take  = m > kth || (m == kth && spare > 0);

        spare -= take && m == kth;
        index[out] = index[i];
        out += take;
    }
}
