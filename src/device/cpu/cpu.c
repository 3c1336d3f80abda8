/* cpu.c - the CPU's table of operations.
 *
 * Matrix products go to oneDNN where it is built in (its JIT knows newer
 * vector units than Debian's BLAS) and to OpenBLAS otherwise. */
#include <cblas.h>
#include <math.h>
#include <string.h>
#ifdef CT_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

#include "base/mem.h"
#include "cortado/device.h"
#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "device/layout.h"

/* Long vectors go to the threads in rows of this many values. */
enum { ROW = 16384 };

static int64_t n_rows(int64_t n)
{
    return (n + ROW - 1) / ROW;
}

static int64_t row_length(int64_t r, int64_t n)
{
    return (r + 1) * ROW < n ? ROW : n - r * ROW;
}

static enum ct_status cpu_alloc(const struct ct_device *d, size_t bytes,
                                const char *name, void **out)
{
    (void)d;
    return ct_alloc(1, bytes, name, out);
}

static void cpu_free(const struct ct_device *d, void *p)
{
    (void)d;
    ct_free(p);
}

CT_SIMD static void scale_row(int64_t n, float alpha, float *x)
{
    CT_SIMD_EACH (i, n)
        x[i] *= alpha;
}

static enum ct_status cpu_scale(const struct ct_device *d, int64_t n,
                                float alpha, float *x)
{
    (void)d;
    CT_FOR_ROWS (r, n_rows(n), ROW)
        scale_row(row_length(r, n), alpha, x + r * ROW);
    return CT_OK;
}

static enum ct_status cpu_fill(const struct ct_device *d, int64_t n, float v,
                               float *y)
{
    (void)d;
    /* The library's zeroing of long rows does not read them first. */
    if (v == 0 && !signbit(v))
        CT_FOR_ROWS (r, n_rows(n), ROW)
            memset(y + r * ROW, 0,
                   (size_t)row_length(r, n) * sizeof(*y));
    else
        CT_FOR_EACH (i, n)
            y[i] = v;
    return CT_OK;
}

/* The library's answer to an empty sum over k, which BLAS leaves open. */
static enum ct_status cpu_gemm_empty(const struct ct_device *d, int64_t m,
                                     int64_t n, float beta, float *c,
                                     int64_t ldc)
{
    for (int64_t i = 0; i < m; i++) {
        if (beta == 0)
            CT_TRY(cpu_fill(d, n, 0, c + i * ldc));
        else
            CT_TRY(cpu_scale(d, n, beta, c + i * ldc));
    }
    return CT_OK;
}

static enum ct_status cpu_gemm(const struct ct_device *d, enum ct_transpose ta,
                               enum ct_transpose tb, int64_t m, int64_t n,
                               int64_t k, float alpha, const float *a,
                               int64_t lda, const float *b, int64_t ldb,
                               float beta, float *c, int64_t ldc)
{
    if (m == 0 || n == 0)
        return CT_OK;
    if (k == 0)
        return cpu_gemm_empty(d, m, n, beta, c, ldc);
#ifdef CT_HAVE_ONEDNN
    if (dnnl_sgemm(ta == CT_T ? 'T' : 'N', tb == CT_T ? 'T' : 'N', m, n, k,
                   alpha, a, lda, b, ldb, beta, c, ldc) != dnnl_success)
        return ct_fail(CT_EDEVICE, "oneDNN refused a matrix product");
#else
    if (m > INT32_MAX || n > INT32_MAX || k > INT32_MAX || lda > INT32_MAX ||
        ldb > INT32_MAX || ldc > INT32_MAX)
        return ct_fail(CT_ENOTSUP, "a matrix is too large for BLAS");
    cblas_sgemm(CblasRowMajor, ta == CT_T ? CblasTrans : CblasNoTrans,
                tb == CT_T ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k,
                alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
#endif
    return CT_OK;
}

static enum ct_status cpu_copy(const struct ct_device *d, int64_t n,
                               const float *x, float *y)
{
    (void)d;
    if (n > CT_GRAIN)
        CT_FOR_ROWS (r, n_rows(n), ROW)
            memmove(y + r * ROW, x + r * ROW,
                    (size_t)row_length(r, n) * sizeof(*y));
    else if (n > 0)
        memmove(y, x, (size_t)n * sizeof(*y));
    return CT_OK;
}

CT_SIMD static void axpby_row(int64_t n, float alpha, const float *x,
                              float beta, float *y)
{
    if (beta == 0)
        CT_SIMD_EACH (i, n)
            y[i] = alpha * x[i];
    else if (beta == 1)
        CT_SIMD_EACH (i, n)
            y[i] += alpha * x[i];
    else
        CT_SIMD_EACH (i, n)
            y[i] = alpha * x[i] + beta * y[i];
}

static enum ct_status cpu_axpby(const struct ct_device *d, int64_t n,
                                float alpha, const float *x, float beta,
                                float *y)
{
    (void)d;
    CT_FOR_ROWS (r, n_rows(n), ROW)
        axpby_row(row_length(r, n), alpha, x + r * ROW, beta, y + r * ROW);
    return CT_OK;
}

static enum ct_status cpu_dot(const struct ct_device *d, int64_t n,
                              const float *x, const float *y, double *out)
{
    double sum = 0;

    (void)d;
    CT_SUM_EACH (i, n, sum)
        sum += (double)x[i] * (double)y[i];
    *out = sum;
    return CT_OK;
}

static enum ct_status cpu_asum(const struct ct_device *d, int64_t n,
                               const float *x, double *out)
{
    double sum = 0;

    (void)d;
    CT_SUM_EACH (i, n, sum)
        sum += fabs((double)x[i]);
    *out = sum;
    return CT_OK;
}

static enum ct_status cpu_move(const struct ct_device *d, size_t bytes,
                               const void *from, void *to)
{
    (void)d;
    memcpy(to, from, bytes);
    return CT_OK;
}

static enum ct_status cpu_sync(const struct ct_device *d)
{
    (void)d;
    return CT_OK;
}

static enum ct_status cpu_scale_by(const struct ct_device *d, int64_t n,
                                   const float *alpha, float *x)
{
    return d->ops->scale(d, n, *alpha, x);
}

static enum ct_status cpu_tick(const struct ct_device *d, uint64_t *counter)
{
    (void)d;
    ++*counter;
    return CT_OK;
}

static const struct ct_device_ops cpu_ops = {
    .name      = "cpu",
    .alloc     = cpu_alloc,
    .free      = cpu_free,
    .gemm      = cpu_gemm,
    .copy      = cpu_copy,
    .fill      = cpu_fill,
    .scale     = cpu_scale,
    .axpby     = cpu_axpby,
    .dot       = cpu_dot,
    .asum      = cpu_asum,
    .to_host   = cpu_move,
    .from_host = cpu_move,
    .sync      = cpu_sync,
    .scale_by  = cpu_scale_by,
    .tick      = cpu_tick,
    .convert   = ct_cpu_convert,
};

static const struct ct_device cpu_f32  = { CT_CPU, 0, &cpu_ops, NULL };
static const struct ct_device cpu_bf16 = { CT_CPU, 0, &cpu_ops, NULL };

const struct ct_device *ct_device_cpu(void)
{
    return &cpu_f32;
}

const struct ct_device *ct_device_cpu_bf16(void)
{
    return &cpu_bf16;
}
