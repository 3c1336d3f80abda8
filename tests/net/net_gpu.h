/* net_gpu.h - a GPU for tests of nets, and values for it. */
#ifndef CT_TESTS_NET_NET_GPU_H
#define CT_TESTS_NET_NET_GPU_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net_test.h"

static inline void net_gpu_close(void *d)
{
    ct_device_close(d);
}

static inline void net_gpu_forget(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
    unsetenv("CORTADO_CACHE");
}

/* The GPU, with choices of this test alone; skips the test without one. */
static inline const struct ct_device *net_gpu_open(enum ct_precision p)
{
    const char *name          = getenv("CORTADO_TEST_DEVICE");
    const struct ct_device *g = NULL;

    if (!name || strncmp(name, "cuda", 4) != 0)
        test_skip("CORTADO_TEST_DEVICE names no GPU");
    ASSERT(setenv("CORTADO_CACHE", "none", 1) == 0);
    ASSERT(unsetenv("CORTADO_CUDA_MEMORY") == 0);
    ASSERT_OK(ct_device_cuda_open(0, p, &g));
    test_defer(net_gpu_close, (void *)(uintptr_t)g);
    test_defer(net_gpu_forget, NULL);
    return g;
}

/* Values of an input, as the device has them. */
static inline void net_gpu_send(const struct ct_device *g,
                                const struct ct_blob *b, const float *v)
{
    ASSERT_INT(CT_F32, b->data.dtype);
    ASSERT_INT(CT_PLAIN, b->data.layout);
    ASSERT_OK(g->ops->from_host(g, (size_t)b->count * sizeof(float), v,
                                ct_data(b)));
    ASSERT_OK(g->ops->sync(g));
}

#endif
