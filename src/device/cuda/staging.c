/* staging.c - two places on the device, and the stream that fills them. */
#include "device/staging.h"

#include "base/mem.h"
#include "device/cuda/cuda.h"

enum { PLACES = 2, ALIGN = 256 };

struct place {
    char       *memory;
    size_t      bytes;
    cudaEvent_t there, done; /* the copy; who reads it */
};

struct ct_staging {
    const struct ct_device *dev;
    cudaStream_t            stream;
    struct place            place[PLACES];
    int                     next;   /* to be filled */
    int                     n_sent;
};

static enum ct_status init(struct ct_staging *s)
{
    const struct ct_device *d = s->dev;

    CT_TRY(ct_cuda_check(d, cudaSetDevice(d->id), "choosing the GPU"));
    CT_TRY(ct_cuda_check(d, cudaStreamCreateWithFlags(
                             &s->stream, cudaStreamNonBlocking), "stream"));
    for (int i = 0; i < PLACES; i++) {
        CT_TRY(ct_cuda_check(d, cudaEventCreateWithFlags(
                                 &s->place[i].there, cudaEventDisableTiming),
                             "event"));
        CT_TRY(ct_cuda_check(d, cudaEventCreateWithFlags(
                                 &s->place[i].done, cudaEventDisableTiming),
                             "event"));
    }
    return CT_OK;
}

enum ct_status ct_staging_create(const struct ct_device *d,
                                 struct ct_staging **out)
{
    struct ct_staging *s;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*s), "staging", &s));
    s->dev = d;
    st     = init(s);
    if (st != CT_OK)
        ct_staging_destroy(s);
    else
        *out = s;
    return st;
}

void ct_staging_destroy(struct ct_staging *s)
{
    if (!s)
        return;
    (void)cudaSetDevice(s->dev->id);
    if (s->stream) {
        (void)cudaStreamSynchronize(s->stream);
        (void)cudaStreamDestroy(s->stream);
    }
    for (int i = 0; i < PLACES; i++) {
        if (s->place[i].there)
            (void)cudaEventDestroy(s->place[i].there);
        if (s->place[i].done)
            (void)cudaEventDestroy(s->place[i].done);
        s->dev->ops->free(s->dev, s->place[i].memory);
    }
    ct_free(s);
}

/* Memory comes and goes on the device's stream, which knows who reads the old
 * one; the copies wait for that stream then. */
static enum ct_status grow(struct ct_staging *s, struct place *p, size_t bytes)
{
    void *more;

    if (bytes <= p->bytes)
        return CT_OK;
    CT_TRY(s->dev->ops->alloc(s->dev, bytes, "batches", &more));
    s->dev->ops->free(s->dev, p->memory);
    p->memory = more;
    p->bytes  = bytes;
    return ct_cuda_check(s->dev, cudaEventRecord(p->done,
                                                 ct_cuda_stream(s->dev)),
                         "event");
}

enum ct_status ct_staging_send(struct ct_staging *s, int n,
                               struct ct_span *span)
{
    struct place *p = &s->place[s->next];
    size_t bytes = 0, at = 0;

    for (int i = 0; i < n; i++)
        bytes += (span[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
    CT_TRY(grow(s, p, bytes));
    CT_TRY(ct_cuda_check(s->dev, cudaStreamWaitEvent(s->stream, p->done, 0),
                         "staging"));
    for (int i = 0; i < n; i++) {
        span[i].there = p->memory + at;
        CT_TRY(ct_cuda_check(s->dev, cudaMemcpyAsync(
                                 span[i].there, span[i].from, span[i].bytes,
                                 cudaMemcpyHostToDevice, s->stream),
                             "copy of a batch"));
        at += (span[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    CT_TRY(ct_cuda_check(s->dev, cudaEventRecord(p->there, s->stream),
                         "event"));
    s->next = (s->next + 1) % PLACES;
    s->n_sent++;
    return CT_OK;
}

static struct place *last_of(struct ct_staging *s, int before)
{
    return &s->place[(s->next + 2 * PLACES - 1 - before) % PLACES];
}

enum ct_status ct_staging_take(struct ct_staging *s)
{
    return ct_cuda_check(s->dev, cudaStreamWaitEvent(ct_cuda_stream(s->dev),
                                                     last_of(s, 0)->there, 0),
                         "staging");
}

enum ct_status ct_staging_done(struct ct_staging *s)
{
    return ct_cuda_check(s->dev, cudaEventRecord(last_of(s, 0)->done,
                                                 ct_cuda_stream(s->dev)),
                         "event");
}

enum ct_status ct_staging_wait(struct ct_staging *s, int n)
{
    if (s->n_sent <= n)
        return CT_OK;
    return ct_cuda_check(s->dev, cudaEventSynchronize(last_of(s, n)->there),
                         "copy of a batch");
}

void ct_pin(const struct ct_device *d, void *memory, size_t bytes)
{
    if (d->kind != CT_CUDA || cudaSetDevice(d->id) != cudaSuccess ||
        cudaHostRegister(memory, bytes, cudaHostRegisterPortable) !=
            cudaSuccess)
        (void)cudaGetLastError();
}

void ct_unpin(const struct ct_device *d, void *memory)
{
    if (d->kind == CT_CUDA && cudaHostUnregister(memory) != cudaSuccess)
        (void)cudaGetLastError();
}
