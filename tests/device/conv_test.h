/* conv_test.h - convolutions of a named implementation, and what they work on;
 * for the tests of the CPU's. */
#ifndef CT_TESTS_DEVICE_CONV_TEST_H
#define CT_TESTS_DEVICE_CONV_TEST_H

#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/conv.h"
#include "testing/test.h"

enum { N_IMPLS = 6 };

static inline const char *impl_name(int i)
{
    static const char *const names[N_IMPLS] = { "cached", "winograd", "tiles",
                                                "onednn", "gemm", "ref" };

    return names[i];
}

/* What one problem uses; there are more problems than the harness defers. */
static struct {
    void (*fn)(void *);
    void *arg;
} kept[2048];
static int n_kept;

static inline void drop_all(void *unused)
{
    (void)unused;
    while (n_kept > 0) {
        n_kept--;
        kept[n_kept].fn(kept[n_kept].arg);
    }
}

static inline void keep(void (*fn)(void *), void *arg)
{
    if (n_kept == 0)
        test_defer(drop_all, NULL);
    ASSERT(n_kept < (int)(sizeof(kept) / sizeof(kept[0])));
    kept[n_kept].fn    = fn;
    kept[n_kept++].arg = arg;
}

static inline void unforce(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
}

static inline void conv_free(void *c)
{
    ct_conv_destroy(c);
}

/* NULL where the implementation does not take it. */
static inline struct ct_conv *make(const struct ct_conv_desc *d,
                                   const char *impl)
{
    struct ct_conv *c = NULL;
    enum ct_status st;
    char text[64];

    snprintf(text, sizeof(text), "pool:ref,conv:%s", impl);
    ASSERT(setenv("CORTADO_IMPL", text, 1) == 0);
    st = ct_conv_create(ct_device_cpu(), d, NULL, &c);
    unforce(NULL);
    if (st == CT_ENOTSUP)
        return NULL;
    ASSERT_OK(st);
    keep(conv_free, c);
    ASSERT_STR(impl, ct_conv_impl_name(c));
    return c;
}

static inline float *room(int64_t n, float value)
{
    float *p = ct_malloc((size_t)n * sizeof(*p), "test values");

    ASSERT(p != NULL);
    keep(ct_free, p);
    for (int64_t i = 0; i < n; i++)
        p[i] = value;
    return p;
}

static inline float *noise(int64_t n, uint64_t stream)
{
    float *p = room(n, 0);

    for (int64_t i = 0; i < n; i++)
        p[i] = 2 * ct_uniform(7, stream, (uint64_t)i) - 1;
    return p;
}

static inline void near(const char *what, const float *want, const float *got,
                        int64_t n)
{
    float scale = 1;

    for (int64_t i = 0; i < n; i++)
        scale = fmaxf(scale, fabsf(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(want[i] - got[i]) <= 2e-5f * scale))
            FAIL("%s: value %lld is %.9g, wanted %.9g", what, (long long)i,
                 (double)got[i], (double)want[i]);
}

#endif
