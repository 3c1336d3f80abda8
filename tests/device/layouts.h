/* layouts.h - arrays for device tests: random values, in every layout. */
#ifndef CT_TESTS_DEVICE_LAYOUTS_H
#define CT_TESTS_DEVICE_LAYOUTS_H

#include "base/mem.h"
#include "base/rng.h"
#include "device/layout.h"
#include "testing/test.h"

/* All arrays of a test, in a chain that is freed when it ends. */
struct test_array {
    struct test_array *next;
    float              values[];
};

static inline void test_arrays_free(void *chain)
{
    struct test_array **first = chain;

    while (*first) {
        struct test_array *next = (*first)->next;

        ct_free(*first);
        *first = next;
    }
}

static inline void *test_floats(int64_t n)
{
    static struct test_array *first;
    struct test_array *a = ct_calloc(
        1, sizeof(*a) + ((size_t)n + 1) * sizeof(float), "test floats");

    ASSERT(a);
    if (!first)
        test_defer(test_arrays_free, &first);
    a->next = first;
    first   = a;
    return a->values;
}

/* n values out of `steps` equally spaced ones in [-1, 1]: few steps make equal
 * values likely, 0 stands for any value. */
static inline float *test_values(int64_t n, uint64_t stream, int steps)
{
    float *x = test_floats(n);

    for (int64_t i = 0; i < n; i++) {
        x[i] = 2 * ct_uniform(7, stream, (uint64_t)i) - 1;
        if (steps)
            x[i] = roundf(x[i] * (float)steps) / (float)steps;
    }
    return x;
}

static inline int64_t test_elements(int64_t n, int64_t c, int64_t inner,
                                    enum ct_layout layout)
{
    return n * ct_layout_blocks(layout, c) * ct_layout_block(layout, c) * inner;
}

/* A plain n x c x inner array in `layout`; padding is zero. */
static inline float *test_in_layout(const float *x, int64_t n, int64_t c,
                                    int64_t inner, enum ct_layout layout)
{
    float *y = test_floats(test_elements(n, c, inner, layout));
    int64_t b = ct_layout_block(layout, c);

    for (int64_t i = 0; i < n * c * inner; i++)
        y[ct_layout_at(ct_layout_blocks(layout, c), inner, b, i / c / inner,
                       i / inner % c, i % inner)] = x[i];
    return y;
}

/* `got`, in `layout`, is the plain `want`, and its padding is zero. */
static inline void test_same(const char *what, const float *want,
                             const float *got, int64_t n, int64_t c,
                             int64_t inner, enum ct_layout layout, float tol)
{
    const float *laid = test_in_layout(want, n, c, inner, layout);

    for (int64_t i = 0; i < test_elements(n, c, inner, layout); i++)
        if (!(fabsf(laid[i] - got[i]) <= tol * fmaxf(1, fabsf(laid[i]))))
            FAIL("%s: value %lld in layout %d is %.9g, wanted %.9g", what,
                 (long long)i, (int)layout, (double)got[i], (double)laid[i]);
}

#endif
