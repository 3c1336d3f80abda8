/* cortado/device.h - where numbers live and what is done to them there.
 *
 * Every array is float32 on the device.  Matrices are row-major. */
#ifndef CT_DEVICE_H
#define CT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum ct_device_kind { CT_CPU, CT_CUDA, CT_DEVICE_KINDS };

enum ct_transpose { CT_N, CT_T };

/* How elements lie in memory.  In the blocked layouts channels come in groups
 * of 8 or 16, padded with zeros, innermost: n C/b h w b.  Tiles are for weights
 * of convolutions, whose channels are whole sixteens: O/16 I/16 h w 16i 16o. */
enum ct_layout {
    CT_PLAIN, CT_BLOCKED8, CT_BLOCKED16, CT_NHWC, CT_TILES16
};

/* What an element is.  Everything but activations and their gradients is
 * CT_F32. */
enum ct_dtype { CT_F32, CT_BF16, CT_F16 };

static inline size_t ct_dtype_bytes(enum ct_dtype t)
{
    return t == CT_F32 ? 4 : 2;
}

/* How a device computes.  TF32 rounds the factors of matrix products, BF16 and
 * F16 also what layers hand to each other; sums and weights stay float32.
 * BF16_FORCED is BF16 on CPUs without instructions for it, too. */
enum ct_precision {
    CT_FP32, CT_TF32, CT_BF16_MIXED, CT_FP16_MIXED, CT_BF16_FORCED
};

struct ct_device;

/* One table a device kind.  All slots are filled.  Streams: calls on one
 * device run in order; only `sync` waits. */
struct ct_device_ops {
    const char *name;
    enum ct_status (*alloc)(const struct ct_device *d, size_t bytes,
                            const char *name, void **out);
    void (*free)(const struct ct_device *d, void *p);
    /* C = alpha op(A) op(B) + beta C;  op(A) is m x k, op(B) k x n.
     * beta 0 overwrites C even where it holds NaN. */
    enum ct_status (*gemm)(const struct ct_device *d, enum ct_transpose ta,
                           enum ct_transpose tb, int64_t m, int64_t n,
                           int64_t k, float alpha, const float *a, int64_t lda,
                           const float *b, int64_t ldb, float beta, float *c,
                           int64_t ldc);
    enum ct_status (*copy)(const struct ct_device *d, int64_t n,
                           const float *x, float *y);
    enum ct_status (*fill)(const struct ct_device *d, int64_t n, float v,
                           float *y);
    enum ct_status (*scale)(const struct ct_device *d, int64_t n, float alpha,
                            float *x);
    /* y = alpha x + beta y; beta 0 overwrites. */
    enum ct_status (*axpby)(const struct ct_device *d, int64_t n, float alpha,
                            const float *x, float beta, float *y);
    /* Sums in double; *out is in host memory and ready on return. */
    enum ct_status (*dot)(const struct ct_device *d, int64_t n, const float *x,
                          const float *y, double *out);
    enum ct_status (*asum)(const struct ct_device *d, int64_t n,
                           const float *x, double *out);
    enum ct_status (*to_host)(const struct ct_device *d, size_t bytes,
                              const void *from, void *to);
    enum ct_status (*from_host)(const struct ct_device *d, size_t bytes,
                                const void *from, void *to);
    enum ct_status (*sync)(const struct ct_device *d);
    /* x *= *alpha, which is on the device. */
    enum ct_status (*scale_by)(const struct ct_device *d, int64_t n,
                               const float *alpha, float *x);
    /* *counter, on the device, += 1. */
    enum ct_status (*tick)(const struct ct_device *d, uint64_t *counter);
    /* y = x, n x c x positions, from one layout and type to another; padded
     * channels of y become zero. */
    enum ct_status (*convert)(const struct ct_device *d, int64_t n, int64_t c,
                              int64_t positions, enum ct_layout from,
                              enum ct_dtype from_type, const void *x,
                              enum ct_layout to, enum ct_dtype to_type,
                              void *y);
};

struct ct_device {
    enum ct_device_kind         kind;
    int                         id;
    const struct ct_device_ops *ops;
    void                       *state;
};

/* The CPU in float32; lives for ever. */
CT_API const struct ct_device *ct_device_cpu(void);
/* The CPU at another precision; lives for ever.  A CPU without instructions
 * for bfloat16 computes in float32 and says so, unless that is forced; so does
 * every CPU for tf32.  CT_ENOTSUP: fp16. */
CT_API CT_MUST_CHECK enum ct_status ct_device_cpu_open(
    enum ct_precision precision, const struct ct_device **out);

/* GPUs of this machine that this build can use. */
CT_API int ct_device_cuda_count(void);
/* GPU `id` with a stream of its own; close it after everything on it.
 * CT_ENOTSUP in a build without CUDA. */
CT_API CT_MUST_CHECK enum ct_status ct_device_cuda_open(
    int id, enum ct_precision precision, const struct ct_device **out);
CT_API void ct_device_close(const struct ct_device *d); /* takes NULL, CPU */
/* "fp32", "tf32", "bf16", "fp16", "bf16!". */
CT_API CT_MUST_CHECK enum ct_status ct_precision_parse(
    const char *text, enum ct_precision *out);
CT_API const char *ct_precision_name(enum ct_precision p);
/* The type of activations, and whether NHWC suits the convolutions. */
CT_API enum ct_dtype ct_device_dtype(const struct ct_device *d);
CT_API bool ct_device_prefers_nhwc(const struct ct_device *d);
/* A GPU's memory in bytes: all of it, what can still be had, and what this
 * process has taken of it through the device.  Zeros for the CPU. */
struct ct_device_memory {
    size_t   all, free, used;
    uint64_t n_calls; /* allocations made on it since it was opened */
};
CT_API struct ct_device_memory ct_device_memory(const struct ct_device *d);
/* "NVIDIA H200", "CPU"; lives as long as the device. */
CT_API const char *ct_device_name(const struct ct_device *d);

/* CPU threads of the parallel loops, oneDNN and BLAS.  0: one a core. */
CT_API void ct_device_cpu_set_threads(int n);
CT_API int  ct_device_cpu_threads(void);

static inline enum ct_status ct_gemm_ld(
    const struct ct_device *d, enum ct_transpose ta, enum ct_transpose tb,
    int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
    const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    return d->ops->gemm(d, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c,
                        ldc);
}

/* ct_gemm_ld() for matrices without gaps between rows. */
static inline enum ct_status ct_gemm(const struct ct_device *d,
                                     enum ct_transpose ta,
                                     enum ct_transpose tb, int64_t m,
                                     int64_t n, int64_t k, float alpha,
                                     const float *a, const float *b,
                                     float beta, float *c)
{
    return d->ops->gemm(d, ta, tb, m, n, k, alpha, a, ta == CT_T ? m : k, b,
                        tb == CT_T ? k : n, beta, c, n);
}

static inline enum ct_status ct_copy(const struct ct_device *d, int64_t n,
                                     const float *x, float *y)
{
    return x == y ? CT_OK : d->ops->copy(d, n, x, y);
}

static inline enum ct_status ct_fill(const struct ct_device *d, int64_t n,
                                     float v, float *y)
{
    return d->ops->fill(d, n, v, y);
}

static inline enum ct_status ct_scale(const struct ct_device *d, int64_t n,
                                      float alpha, float *x)
{
    return d->ops->scale(d, n, alpha, x);
}

static inline enum ct_status ct_axpby(const struct ct_device *d, int64_t n,
                                      float alpha, const float *x, float beta,
                                      float *y)
{
    return d->ops->axpby(d, n, alpha, x, beta, y);
}

static inline enum ct_status ct_axpy(const struct ct_device *d, int64_t n,
                                     float alpha, const float *x, float *y)
{
    return d->ops->axpby(d, n, alpha, x, 1, y);
}

#ifdef __cplusplus
}
#endif
#endif
