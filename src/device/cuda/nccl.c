/* nccl.c - sums over ranks by NCCL, which is opened when it is asked for. */
#include "device/nccl.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "device/cuda/cuda.h"

_Static_assert(sizeof(ncclUniqueId) == sizeof(struct ct_nccl_id),
               "an id of NCCL fits ours");

static struct {
    pthread_once_t once;
    char           missing[256]; /* "" when all is there */
#define CT_NCCL_FN(name) __typeof__(&name) name;
#include "device/cuda/nccl.def"
#undef CT_NCCL_FN
} lib = { .once = PTHREAD_ONCE_INIT };

struct ct_nccl {
    const struct ct_device *dev;
    ncclComm_t              comm;
    cudaStream_t            stream;
    cudaEvent_t             fork, joined;
    int                     rank, size;
    bool                    failed;
};

static void take(void *library, const char *name, void *to)
{
    void *fn = library ? dlsym(library, name) : NULL;

    if (library && !fn)
        snprintf(lib.missing, sizeof(lib.missing), "libnccl.so.2 has no %s",
                 name);
    memcpy(to, &fn, sizeof(fn));
}

static void open_library(void)
{
    static const char *const files[] = { "libnccl.so.2",
                                         "/usr/local/cuda/lib64/libnccl.so.2",
                                         "/usr/local/cuda/lib/libnccl.so.2" };
    void *h = NULL;

    for (size_t i = 0; !h && i < sizeof(files) / sizeof(files[0]); i++)
        h = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!h)
        snprintf(lib.missing, sizeof(lib.missing),
                 "libnccl.so.2 cannot be opened");
#define CT_NCCL_FN(name) take(h, #name, &lib.name);
#include "device/cuda/nccl.def"
#undef CT_NCCL_FN
}

enum ct_status ct_nccl_available(void)
{
    pthread_once(&lib.once, open_library);
    if (lib.missing[0])
        return ct_fail(CT_ENOTFOUND, "%s: install NCCL or add its folder to "
                       "LD_LIBRARY_PATH", lib.missing);
    return CT_OK;
}

enum ct_status ct_nccl_new_id(struct ct_nccl_id *out)
{
    ncclUniqueId id;
    ncclResult_t e;

    CT_TRY(ct_nccl_available());
    e = lib.ncclGetUniqueId(&id);
    if (e != ncclSuccess)
        return ct_fail(CT_ECOMM, "NCCL: %s", lib.ncclGetErrorString(e));
    memcpy(out, &id, sizeof(id));
    return CT_OK;
}

static enum ct_status check(struct ct_nccl *n, ncclResult_t e,
                            const char *what)
{
    if (e == ncclSuccess || e == ncclInProgress)
        return CT_OK;
    n->failed = true;
    return ct_fail(CT_ECOMM, "rank %d of %d, GPU %d (%s): NCCL, %s: %s",
                   n->rank, n->size, n->dev->id, ct_device_name(n->dev), what,
                   lib.ncclGetErrorString(e));
}

static enum ct_status open_comm(struct ct_nccl *n, const struct ct_nccl_id *id)
{
    const struct ct_device *d = n->dev;
    ncclUniqueId theirs;

    memcpy(&theirs, id, sizeof(theirs));
    CT_TRY(ct_cuda_check(d, cudaSetDevice(d->id), "choosing the GPU"));
    CT_TRY(ct_cuda_check(d, cudaStreamCreateWithFlags(
                             &n->stream, cudaStreamNonBlocking), "stream"));
    CT_TRY(ct_cuda_check(d, cudaEventCreateWithFlags(
                             &n->fork, cudaEventDisableTiming), "event"));
    CT_TRY(ct_cuda_check(d, cudaEventCreateWithFlags(
                             &n->joined, cudaEventDisableTiming), "event"));
    return check(n, lib.ncclCommInitRank(&n->comm, n->size, theirs, n->rank),
                 "joining the others");
}

enum ct_status ct_nccl_create(const struct ct_device *d,
                              const struct ct_nccl_id *id, int rank, int size,
                              struct ct_nccl **out)
{
    struct ct_nccl *n;
    enum ct_status st;

    CT_TRY(ct_nccl_available());
    CT_TRY(ct_alloc(1, sizeof(*n), "NCCL", &n));
    n->dev  = d;
    n->rank = rank;
    n->size = size;
    st      = open_comm(n, id);
    if (st != CT_OK)
        ct_nccl_destroy(n);
    else
        *out = n;
    return st;
}

void ct_nccl_destroy(struct ct_nccl *n)
{
    if (!n)
        return;
    (void)cudaSetDevice(n->dev->id);
    if (n->comm && ct_nccl_check(n) == CT_OK)
        (void)lib.ncclCommDestroy(n->comm);
    else if (n->comm)
        (void)lib.ncclCommAbort(n->comm);
    if (n->fork)
        (void)cudaEventDestroy(n->fork);
    if (n->joined)
        (void)cudaEventDestroy(n->joined);
    if (n->stream)
        (void)cudaStreamDestroy(n->stream);
    ct_free(n);
}

enum ct_status ct_nccl_sum(struct ct_nccl *n, float *x, int64_t count)
{
    const struct ct_device *d = n->dev;

    CT_TRY(ct_cuda_check(d, cudaEventRecord(n->fork, ct_cuda_stream(d)),
                         "event"));
    CT_TRY(ct_cuda_check(d, cudaStreamWaitEvent(n->stream, n->fork, 0),
                         "event"));
    return check(n, lib.ncclAllReduce(x, x, (size_t)count, ncclFloat, ncclSum,
                                      n->comm, n->stream), "a sum");
}

enum ct_status ct_nccl_join(struct ct_nccl *n)
{
    const struct ct_device *d = n->dev;

    CT_TRY(ct_cuda_check(d, cudaEventRecord(n->joined, n->stream), "event"));
    return ct_cuda_check(d, cudaStreamWaitEvent(ct_cuda_stream(d), n->joined,
                                                0), "event");
}

enum ct_status ct_nccl_check(struct ct_nccl *n)
{
    ncclResult_t e = ncclSuccess;

    if (n->failed)
        return CT_ECOMM;
    CT_TRY(check(n, lib.ncclCommGetAsyncError(n->comm, &e), "its state"));
    return check(n, e, "a sum");
}
