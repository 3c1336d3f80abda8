/* peer.cu - arrays of a GPU that other ranks of the host read.
 *
 * The array is an allocation of its own, because the driver hands out whole
 * ones, and none of a pool. */
#include "device/peer.h"

#include <string.h>

extern "C" {
#include "base/mem.h"
#include "base/rng.h"
}
#include "device/cuda/kernel.h"

struct gpu_memory {
    struct ct_peer_memory base;
    cudaStream_t   stream;
};

static struct gpu_memory *memory_of(struct ct_peer_memory *w)
{
    return (struct gpu_memory *)w;
}

static enum ct_status choose_gpu(const struct ct_device *d)
{
    return ct_cuda_check(d, cudaSetDevice(d->id), "choosing the GPU");
}

static enum ct_status allocate(struct gpu_memory *w, int64_t n)
{
    const struct ct_device *d = w->base.dev;

    CT_TRY(choose_gpu(d));
    CT_TRY(ct_cuda_check(d, cudaStreamCreateWithFlags(
                             &w->stream, cudaStreamNonBlocking), "stream"));
    return ct_cuda_check(d, cudaMalloc((void **)&w->base.array,
                                       (size_t)n * sizeof(float)),
                         "gradients for peers");
}

extern "C" enum ct_status ct_cuda_peer_create(const struct ct_device *d,
                                              int64_t n,
                                              struct ct_peer_memory **out)
{
    struct gpu_memory *w;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*w), "peer memory", &w));
    w->base.dev = d;
    st          = allocate(w, n);
    if (st != CT_OK)
        ct_cuda_peer_destroy(&w->base);
    else
        *out = &w->base;
    return st;
}

extern "C" void ct_cuda_peer_destroy(struct ct_peer_memory *base)
{
    struct gpu_memory *w = memory_of(base);

    (void)cudaSetDevice(base->dev->id);
    if (w->stream)
        (void)cudaStreamDestroy(w->stream);
    if (base->array)
        (void)cudaFree(base->array);
    ct_free(w);
}

extern "C" void ct_cuda_peer_export(const struct ct_peer_memory *w,
                                    struct ct_peer_address *a)
{
    cudaIpcMemHandle_t handle;

    static_assert(sizeof(handle) == sizeof(a->handle), "a handle fits");
    if (cudaSetDevice(w->dev->id) == cudaSuccess &&
        cudaIpcGetMemHandle(&handle, w->array) == cudaSuccess) {
        memcpy(a->handle, &handle, sizeof(handle));
        a->exported = 1;
    }
    (void)cudaGetLastError();
}

/* Of this process, on another GPU. */
static enum ct_status reach(const struct ct_device *d, int peer)
{
    int can = peer == d->id;
    cudaError_t e;

    if (can)
        return CT_OK;
    if (cudaDeviceCanAccessPeer(&can, d->id, peer) != cudaSuccess || !can)
        return ct_fail(CT_ENOTSUP, "GPU %d does not reach GPU %d", d->id,
                       peer);
    e = cudaDeviceEnablePeerAccess(peer, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        return CT_OK;
    }
    return ct_cuda_check(d, e, "reaching another GPU");
}

extern "C" enum ct_status ct_cuda_peer_open(struct ct_peer_memory *w,
                                            const struct ct_peer_address *a,
                                            const float **out)
{
    const struct ct_device *d = w->dev;
    cudaIpcMemHandle_t handle;
    void *p = NULL;
    cudaError_t e;

    CT_TRY(choose_gpu(d));
    if (a->process == ct_process_token()) {
        CT_TRY(reach(d, a->device));
        *out = a->at;
        return CT_OK;
    }
    if (!a->exported)
        return ct_fail(CT_ENOTSUP, "the driver does not share memory between "
                       "processes");
    memcpy(&handle, a->handle, sizeof(handle));
    e = cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess);
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        return ct_fail(CT_ENOTSUP, "another process's memory cannot be "
                       "opened: %s", cudaGetErrorString(e));
    }
    *out = (const float *)p;
    return CT_OK;
}

extern "C" void ct_cuda_peer_close(struct ct_peer_memory *w, const float *x)
{
    (void)cudaSetDevice(w->dev->id);
    (void)cudaIpcCloseMemHandle((void *)(uintptr_t)x);
}

__global__ static void add(int64_t n, const float *x, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        y[i] += x[i];
}

extern "C" enum ct_status ct_cuda_peer_run(struct ct_peer_memory *base,
                                           bool adds,
                                           int64_t n, const float *x,
                                           float *y)
{
    const struct ct_device *d = base->dev;
    cudaStream_t s            = memory_of(base)->stream;

    CT_TRY(choose_gpu(d));
    if (adds) {
        add<<<ct_blocks(d, n), CT_BLOCK, 0, s>>>(n, x, y);
        CT_TRY(CT_CUDA_LAUNCHED(d, "add"));
    } else {
        CT_TRY(ct_cuda_check(d, cudaMemcpyAsync(y, x,
                                                (size_t)n * sizeof(*y),
                                                cudaMemcpyDefault, s),
                             "copy between ranks"));
    }
    return ct_cuda_check(d, cudaStreamSynchronize(s), "sum over ranks");
}
