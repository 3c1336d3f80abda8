/* device.c - opening a GPU, its memory, and its table of operations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/choice.h"
#include "device/cpu/bf16.h"
#include "device/cuda/libs.h"
#include "device/device_inner.h"
#include "device/impl.h"
#include "device/kernels.h"
#include "device/nvml.h"

enum ct_status ct_cuda_check(const struct ct_device *d, cudaError_t e,
                             const char *what)
{
    if (e == cudaSuccess)
        return CT_OK;
    (void)cudaGetLastError();
    return ct_fail(e == cudaErrorMemoryAllocation ? CT_ENOMEM : CT_EDEVICE,
                   "GPU %d: %s: %s", d->id, what, cudaGetErrorString(e));
}

static enum ct_status cuda_alloc(const struct ct_device *d, size_t bytes,
                                 const char *name, void **out)
{
    size_t want = bytes ? bytes : 1;
    struct ct_device_memory m;
    cudaError_t e;

    CT_TRY(ct_cuda_check(d, cudaSetDevice(d->id), "choosing the GPU"));
    ct_cuda(d)->n_allocs++;
    if (ct_cuda(d)->host_memory) {
        CT_TRY(ct_cuda_check(d, cudaMallocHost(out, want), name));
        memset(*out, 0, want);
        return CT_OK;
    }
    e = cudaMallocAsync(out, want, ct_cuda_stream(d));
    if (e == cudaSuccess)
        return ct_cuda_check(d, cudaMemsetAsync(*out, 0, want,
                                                ct_cuda_stream(d)), name);
    if (e != cudaErrorMemoryAllocation)
        return ct_cuda_check(d, e, name);
    (void)cudaGetLastError();
    m = ct_device_memory(d);
    return ct_fail(CT_ENOMEM, "GPU %d (%s): %s take %.1f MB, and %.1f MB of "
                   "%.1f MB are free; use a smaller batch_size", d->id,
                   ct_cuda(d)->name, name, (double)bytes / 1e6,
                   (double)m.free / 1e6, (double)m.all / 1e6);
}

static void cuda_free(const struct ct_device *d, void *p)
{
    (void)cudaSetDevice(d->id);
    if (p && ct_cuda(d)->host_memory) {
        (void)cudaStreamSynchronize(ct_cuda_stream(d));
        (void)cudaFreeHost(p);
    } else if (p) {
        (void)cudaFreeAsync(p, ct_cuda_stream(d));
    }
}

static enum ct_status cuda_copy(const struct ct_device *d, int64_t n,
                                const float *x, float *y)
{
    return ct_cuda_check(d, cudaMemcpyAsync(y, x, (size_t)n * sizeof(*x),
                                            cudaMemcpyDeviceToDevice,
                                            ct_cuda_stream(d)), "copy");
}

static enum ct_status cuda_sync(const struct ct_device *d)
{
    return ct_cuda_check(d, cudaStreamSynchronize(ct_cuda_stream(d)),
                         "waiting for the GPU");
}

static enum ct_status cuda_to_host(const struct ct_device *d, size_t bytes,
                                   const void *from, void *to)
{
    CT_TRY(ct_cuda_check(d, cudaMemcpyAsync(to, from, bytes,
                                            cudaMemcpyDeviceToHost,
                                            ct_cuda_stream(d)),
                         "copy to the host"));
    return cuda_sync(d);
}

static enum ct_status cuda_from_host(const struct ct_device *d, size_t bytes,
                                     const void *from, void *to)
{
    CT_TRY(ct_cuda_check(d, cudaMemcpyAsync(to, from, bytes,
                                            cudaMemcpyHostToDevice,
                                            ct_cuda_stream(d)),
                         "copy from the host"));
    return cuda_sync(d);
}

static const struct ct_device_ops cuda_ops = {
    .name      = "CUDA",
    .alloc     = cuda_alloc,
    .free      = cuda_free,
    .gemm      = ct_cuda_gemm,
    .copy      = cuda_copy,
    .fill      = ct_cuda_fill,
    .scale     = ct_cuda_scale,
    .axpby     = ct_cuda_axpby,
    .dot       = ct_cuda_dot,
    .asum      = ct_cuda_asum,
    .to_host   = cuda_to_host,
    .from_host = cuda_from_host,
    .sync      = cuda_sync,
    .scale_by  = ct_cuda_scale_by,
    .tick      = ct_cuda_tick,
    .convert   = ct_cuda_layout_convert,
};

enum ct_status ct_cuda_workspace(const struct ct_device *d, size_t bytes,
                                 void **out)
{
    struct ct_cuda *g = ct_cuda(d);
    void *more;

    if (bytes > g->workspace_bytes) {
        if (g->capturing)
            return ct_fail(CT_EINTERNAL, "GPU %d: a captured step asks for "
                           "%zu bytes of scratch", d->id, bytes);
        CT_TRY(cuda_alloc(d, bytes, "workspace", &more));
        cuda_free(d, g->workspace); /* on the stream: after who uses it */
        g->workspace       = more;
        g->workspace_bytes = bytes;
        g->n_workspaces++;
    }
    *out = g->workspace;
    return CT_OK;
}

enum ct_status ct_cuda_choices(const struct ct_device *d,
                               struct ct_choices **out)
{
    struct ct_cuda *g = ct_cuda(d);

    if (!g->choices)
        CT_TRY(ct_choices_open("gpu", &g->choices));
    *out = g->choices;
    return CT_OK;
}

int ct_device_cuda_count(void)
{
    int n = 0;

    if (cudaGetDeviceCount(&n) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return n;
}

bool ct_device_cuda_bus(int id, char *out, size_t bytes)
{
    const cudaError_t e = cudaDeviceGetPCIBusId(out, (int)bytes, id);

    if (e != cudaSuccess)
        (void)cudaGetLastError();
    return e == cudaSuccess;
}

bool ct_cuda_kernels(const struct ct_device *d, char *text, size_t bytes)
{
    int runtime = 0, driver = 0, cudnn;

    if (d->kind != CT_CUDA || cudaRuntimeGetVersion(&runtime) != cudaSuccess ||
        cudaDriverGetVersion(&driver) != cudaSuccess)
        return false;
    cudnn = (int)ct_cuda(d)->libs->cudnnGetVersion();
    snprintf(text, bytes, "CUDA %d.%d, driver %d.%d, cuDNN %d.%d.%d",
             runtime / 1000, runtime % 1000 / 10, driver / 1000,
             driver % 1000 / 10, cudnn / 10000, cudnn % 10000 / 100,
             cudnn % 100);
    return true;
}

struct ct_device_memory ct_device_memory(const struct ct_device *d)
{
    struct ct_device_memory m = { 0 };
    uint64_t used = 0, kept = 0;
    cudaMemPool_t pool;

    if (d->kind != CT_CUDA || cudaSetDevice(d->id) != cudaSuccess ||
        cudaMemGetInfo(&m.free, &m.all) != cudaSuccess ||
        cudaDeviceGetDefaultMemPool(&pool, d->id) != cudaSuccess ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) !=
            cudaSuccess ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent,
                                &kept) != cudaSuccess) {
        (void)cudaGetLastError();
        return m;
    }
    m.used    = (size_t)used;
    m.n_calls = ct_cuda(d)->n_allocs;
    m.free += (size_t)(kept - used);
    return m;
}

void ct_device_trim(const struct ct_device *d)
{
    struct ct_cuda *g = d->kind == CT_CUDA ? ct_cuda(d) : NULL;
    cudaMemPool_t pool;

    if (!g)
        return;
    cuda_free(d, g->workspace);
    cuda_free(d, g->other.workspace); /* nothing is under way beside */
    g->workspace       = g->other.workspace       = NULL;
    g->workspace_bytes = g->other.workspace_bytes = 0;
    g->n_workspaces++;
    (void)cudaStreamSynchronize(g->stream);
    if (cudaDeviceGetDefaultMemPool(&pool, d->id) == cudaSuccess)
        (void)cudaMemPoolTrimTo(pool, 0);
    (void)cudaGetLastError();
}

uint64_t ct_device_stamp(const struct ct_device *d)
{
    return d->kind == CT_CUDA ? ct_cuda(d)->n_workspaces : 0;
}

/* Memory that is given back stays ours: a net that is built again does not
 * wait for the driver. */
static enum ct_status keep_pool(const struct ct_device *d)
{
    cudaMemPool_t pool;
    uint64_t keep = UINT64_MAX;

    CT_TRY(ct_cuda_check(d, cudaDeviceGetDefaultMemPool(&pool, d->id),
                         "memory pool"));
    return ct_cuda_check(d, cudaMemPoolSetAttribute(
                             pool, cudaMemPoolAttrReleaseThreshold, &keep),
                         "memory pool");
}

static enum ct_status open_libraries(struct ct_cuda *g)
{
    const struct ct_device *d = &g->device;
    cudnnHandle_t dnn         = NULL;
    cublasLtHandle_t blas     = NULL;

    CT_TRY(ct_cuda_libs(&g->libs));
    CT_CUDNN(d, cudnnCreate, &dnn);
    g->cudnn = dnn;
    CT_CUDNN(d, cudnnSetStream, dnn, g->stream);
    if (g->libs->cublasLtCreate(&blas) != CUBLAS_STATUS_SUCCESS)
        return ct_fail(CT_EDEVICE, "GPU %d: cuBLASLt does not start", d->id);
    g->cublaslt = blas;
    return CT_OK;
}

static enum ct_status open_gpu(struct ct_cuda *g)
{
    const struct ct_device *d = &g->device;
    struct cudaDeviceProp prop;
    int lowest = 0, highest = 0, driver = 0;
    void *sum;

    CT_TRY(ct_cuda_check(d, cudaSetDevice(d->id), "choosing the GPU"));
    CT_TRY(ct_cuda_check(d, cudaGetDeviceProperties(&prop, d->id),
                         "asking for properties"));
    g->n_multiprocessors = prop.multiProcessorCount;
    g->major             = prop.major;
    CT_TRY(ct_cuda_check(d, cudaDriverGetVersion(&driver),
                         "asking for the driver"));
    /* Recorded steps know of it since then. */
    g->early = driver >= 12030 && ct_cuda_kernels_wait() &&
               ct_impl_allowed("launch", "early");
    snprintf(g->name, sizeof(g->name), "%.60s", prop.name);
    CT_TRY(ct_cuda_check(d, cudaDeviceGetStreamPriorityRange(&lowest,
                                                             &highest),
                         "stream"));
    CT_TRY(ct_cuda_check(d, cudaStreamCreateWithPriority(
                             &g->stream, cudaStreamNonBlocking, highest),
                         "stream"));
    CT_TRY(keep_pool(d));
    CT_TRY(open_libraries(g));
    CT_TRY(cuda_alloc(d, CT_CUDA_SUM_BYTES, "sums", &sum));
    g->sum = sum;
    CT_TRY(cuda_alloc(d, CT_CUDA_GEMM_BYTES, "scratch", &g->gemm_work));
    return ct_cuda_check(d, cudaMallocHost((void **)&g->host_sum,
                                           sizeof(double)), "pinned memory");
}

enum ct_status ct_device_cuda_open(int id, enum ct_precision precision,
                                   const struct ct_device **out)
{
    const char *memory = getenv("CORTADO_CUDA_MEMORY");
    int n              = ct_device_cuda_count();
    struct ct_cuda *g;
    enum ct_status st;

    CT_TRY(ct_impl_check());
    if (n == 0)
        return ct_fail(CT_ENOTFOUND, "there is no GPU here, or no driver for "
                       "it; leave out --gpu to run on the CPU");
    if (id < 0 || id >= n)
        return ct_fail(CT_EINVAL, "there is no GPU %d; this machine has %d, "
                       "counted from 0", id, n);
    CT_TRY(ct_alloc(1, sizeof(*g), "GPU", &g));
    g->device    = (struct ct_device){ CT_CUDA, id, &cuda_ops, g };
    g->precision   = precision == CT_BF16_FORCED ? CT_BF16_MIXED : precision;
    g->host_memory = memory && strcmp(memory, "host") == 0;
    st             = open_gpu(g);
    if (st != CT_OK)
        ct_device_close(&g->device);
    else
        *out = &g->device;
    return st;
}

void ct_device_close(const struct ct_device *d)
{
    struct ct_cuda *g = d && d->kind == CT_CUDA ? ct_cuda(d) : NULL;

    if (!g)
        return;
    (void)cudaSetDevice(d->id);
    ct_cuda_lanes_close(d);
    ct_cuda_gemms_free(g->gemms);
    ct_choices_close(g->choices);
    if (g->cudnn)
        g->libs->cudnnDestroy(g->cudnn);
    if (g->cublaslt)
        g->libs->cublasLtDestroy(g->cublaslt);
    cuda_free(d, g->workspace);
    cuda_free(d, g->gemm_work);
    cuda_free(d, g->sum);
    if (g->host_sum)
        (void)cudaFreeHost(g->host_sum);
    if (g->stream) {
        (void)cudaStreamSynchronize(g->stream);
        (void)cudaStreamDestroy(g->stream);
    }
    ct_free(g);
}

const char *ct_device_name(const struct ct_device *d)
{
    return d->kind == CT_CUDA ? ct_cuda(d)->name : "CPU";
}

enum ct_dtype ct_device_dtype(const struct ct_device *d)
{
    enum ct_precision p = d->kind == CT_CUDA            ? ct_cuda(d)->precision
                          : d == ct_device_cpu_bf16() ? CT_BF16_MIXED
                                                      : CT_FP32;

    return p == CT_BF16_MIXED ? CT_BF16 : p == CT_FP16_MIXED ? CT_F16 : CT_F32;
}

/* Tensor cores want channels innermost; plain float32 products do not. */
bool ct_device_prefers_nhwc(const struct ct_device *d)
{
    return d->kind == CT_CUDA ? ct_cuda(d)->precision != CT_FP32
                              : d == ct_device_cpu_bf16();
}
