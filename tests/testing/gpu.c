/* gpu.c - the GPU of a test, and values there and back. */
#include "testing/gpu.h"

#include <stdlib.h>

#include "base/mem.h"

static void close_device(void *d)
{
    ct_device_close(d);
}

static void forget(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
    unsetenv("CORTADO_CACHE");
}

const struct ct_device *test_gpu(enum ct_precision p)
{
    const char *name          = getenv("CORTADO_TEST_DEVICE");
    const struct ct_device *g = NULL;

    if (!name || strncmp(name, "cuda", 4) != 0)
        test_skip("CORTADO_TEST_DEVICE names no GPU");
    ASSERT(setenv("CORTADO_CACHE", "none", 1) == 0);
    ASSERT(unsetenv("CORTADO_CUDA_MEMORY") == 0); /* test_device() sets it */
    ASSERT_OK(ct_device_cuda_open(0, p, &g));
    test_defer(close_device, (void *)(uintptr_t)g);
    test_defer(forget, NULL);
    return g;
}

void *gpu_room(const struct ct_device *g, int64_t bytes)
{
    void *p = NULL;

    ASSERT_OK(g->ops->alloc(g, (size_t)bytes, "test", &p));
    return p;
}

void *gpu_send(const struct ct_device *g, int64_t bytes, const void *from)
{
    void *to = gpu_room(g, bytes);

    ASSERT_OK(g->ops->from_host(g, (size_t)bytes, from, to));
    ASSERT_OK(g->ops->sync(g));
    return to;
}

void *gpu_bring(const struct ct_device *g, int64_t n, enum ct_dtype type,
                const float *v)
{
    void *flat = gpu_room(g, n * (int64_t)sizeof(float));
    void *out  = gpu_room(g, n * (int64_t)ct_dtype_bytes(type));

    if (v)
        ASSERT_OK(g->ops->from_host(g, (size_t)n * sizeof(float), v, flat));
    else
        ASSERT_OK(g->ops->fill(g, n, NAN, flat));
    ASSERT_OK(g->ops->convert(g, 1, 1, n, CT_PLAIN, CT_F32, flat, CT_PLAIN,
                              type, out));
    ASSERT_OK(g->ops->sync(g));
    g->ops->free(g, flat);
    return out;
}

void gpu_fetch(const struct ct_device *g, int64_t n, enum ct_dtype type,
               const void *from, float *v)
{
    void *flat = gpu_room(g, n * (int64_t)sizeof(float));

    ASSERT_OK(g->ops->convert(g, 1, 1, n, CT_PLAIN, type, from, CT_PLAIN,
                              CT_F32, flat));
    ASSERT_OK(g->ops->to_host(g, (size_t)n * sizeof(float), flat, v));
    g->ops->free(g, flat);
}

void *test_values(int64_t n, size_t each)
{
    void *v = ct_malloc((size_t)n * each, "test values");

    ASSERT(v != NULL);
    return v;
}
