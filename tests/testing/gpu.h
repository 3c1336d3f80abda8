/* gpu.h - a GPU for tests of kernels and of nets, and values there and back. */
#ifndef CT_TESTING_GPU_H
#define CT_TESTING_GPU_H

#include "testing/test.h"

/* The GPU until the test ends, with its arrays in its own memory and with
 * choices of this test alone; skips the test where CORTADO_TEST_DEVICE names
 * none. */
const struct ct_device *test_gpu(enum ct_precision p);

/* So many bytes there; the caller frees them with g->ops->free(). */
void *gpu_room(const struct ct_device *g, int64_t bytes);
void *gpu_send(const struct ct_device *g, int64_t bytes, const void *from);
/* n values there, as `type`; v NULL: NaNs. */
void *gpu_bring(const struct ct_device *g, int64_t n, enum ct_dtype type,
                const float *v);
/* n values of a type, as floats here. */
void gpu_fetch(const struct ct_device *g, int64_t n, enum ct_dtype type,
               const void *from, float *v);

/* Room for n things of `each` bytes here; the caller frees it. */
void *test_values(int64_t n, size_t each);

#endif
