/* stage.c - copies between a GPU and the CPU's memory, on two streams beside
 * the one that computes.
 *
 * A mark is a word of pinned memory that gets the number of the turn, copied
 * behind the arrays on the same stream.  Unlike an event it can be recorded in
 * a graph and read by the CPU for every replay. */
#include "device/stage.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pace.h"
#include "device/cuda/cuda.h"

struct cuda_stage {
    struct ct_stage    head;
    cudaStream_t       out, in;
    cudaEvent_t        fork, joined, arrived;
    uint64_t          *turn; /* on the GPU */
    volatile uint64_t *mark; /* pinned */
};

/* From one look at the GPU's health to the next, while it is waited for. */
static const double health_s = 2e-3;
/* A moment alone, then turns: other ranks may share the core. */
static const struct ct_pace pace = { .spin_s = 5e-6, .yield_s = 1e9 };

static struct cuda_stage *of(struct ct_stage *s)
{
    return (struct cuda_stage *)s;
}

static enum ct_status cuda_alloc_host(const struct ct_device *d, size_t bytes,
                                      const char *name, void **out)
{
    size_t want = bytes ? bytes : 1;

    CT_TRY(ct_cuda_check(d, cudaSetDevice(d->id), "choosing the GPU"));
    CT_TRY(ct_cuda_check(d, cudaMallocHost(out, want), name));
    memset(*out, 0, want);
    return CT_OK;
}

static void cuda_free_host(const struct ct_device *d, void *p)
{
    (void)cudaSetDevice(d->id);
    (void)cudaStreamSynchronize(ct_cuda_stream(d));
    (void)cudaFreeHost(p);
}

static void cuda_destroy(struct ct_stage *head)
{
    struct cuda_stage *s      = of(head);
    const struct ct_device *d = head->dev;

    (void)cudaSetDevice(d->id);
    (void)cudaStreamSynchronize(ct_cuda_stream(d));
    if (s->out) {
        (void)cudaStreamSynchronize(s->out);
        (void)cudaStreamDestroy(s->out);
    }
    if (s->in) {
        (void)cudaStreamSynchronize(s->in);
        (void)cudaStreamDestroy(s->in);
    }
    if (s->fork)
        (void)cudaEventDestroy(s->fork);
    if (s->joined)
        (void)cudaEventDestroy(s->joined);
    if (s->arrived)
        (void)cudaEventDestroy(s->arrived);
    if (s->turn)
        d->ops->free(d, s->turn);
    if (s->mark)
        (void)cudaFreeHost((void *)(uintptr_t)s->mark);
    ct_free(s);
}

static enum ct_status open_streams(struct cuda_stage *s,
                                   const struct ct_device *d)
{
    cudaEvent_t *event[] = { &s->fork, &s->joined, &s->arrived };

    CT_TRY(ct_cuda_check(d, cudaSetDevice(d->id), "choosing the GPU"));
    CT_TRY(ct_cuda_check(d, cudaStreamCreateWithFlags(
                             &s->out, cudaStreamNonBlocking), "stream"));
    CT_TRY(ct_cuda_check(d, cudaStreamCreateWithFlags(
                             &s->in, cudaStreamNonBlocking), "stream"));
    for (int i = 0; i < 3; i++)
        CT_TRY(ct_cuda_check(d, cudaEventCreateWithFlags(
                                 event[i], cudaEventDisableTiming), "event"));
    return CT_OK;
}

static enum ct_status cuda_create(const struct ct_device *d, int n_marks,
                                  struct ct_stage **out)
{
    size_t bytes = ((size_t)n_marks + 1) * sizeof(uint64_t);
    struct cuda_stage *s;
    void *turn = NULL, *mark = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*s), "stage", &s));
    s->head.dev = d;
    CT_TRY_GOTO(open_streams(s, d), st, out);
    CT_TRY_GOTO(d->ops->alloc(d, sizeof(*s->turn), "turns", &turn), st, out);
    s->turn = turn;
    CT_TRY_GOTO(cuda_alloc_host(d, bytes, "marks", &mark), st, out);
    s->mark = mark;
    CT_TRY_GOTO(d->ops->sync(d), st, out); /* the turn is zero */
out:
    if (st != CT_OK)
        cuda_destroy(&s->head);
    else
        *out = &s->head;
    return st;
}

/* What a wait that lasts finds: the GPU at work, broken, or done without. */
static enum ct_status health(struct cuda_stage *s, int i)
{
    const struct ct_device *d = s->head.dev;
    cudaError_t e             = cudaStreamQuery(ct_cuda_stream(d));

    if (s->head.judge)
        CT_TRY(s->head.judge(s->head.judge_arg));
    if (e == cudaErrorNotReady)
        return CT_OK;
    CT_TRY(ct_cuda_check(d, e, "waiting for gradients"));
    e = cudaStreamQuery(s->out);
    if (e == cudaErrorNotReady)
        return CT_OK;
    CT_TRY(ct_cuda_check(d, e, "copying gradients to the host"));
    if (s->mark[i] == s->head.turn)
        return CT_OK;
    return ct_fail(CT_EINTERNAL, "GPU %d: nothing sets mark %d", d->id, i);
}

static enum ct_status cuda_wait(struct ct_stage *head, int i)
{
    struct cuda_stage *s = of(head);
    const double start   = ct_now();
    double next          = start + health_s;

    while (s->mark[i] != head->turn) {
        const double now = ct_now();

        (void)ct_pace_turn(&pace, now - start);
        if (now < next)
            continue;
        CT_TRY(health(s, i));
        next = now + health_s;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return CT_OK;
}

static enum ct_status cuda_begin(struct ct_stage *head)
{
    return head->dev->ops->tick(head->dev, of(head)->turn);
}

static enum ct_status fork_out(struct cuda_stage *s)
{
    const struct ct_device *d = s->head.dev;

    CT_TRY(ct_cuda_check(d, cudaEventRecord(s->fork, ct_cuda_stream(d)),
                         "event"));
    return ct_cuda_check(d, cudaStreamWaitEvent(s->out, s->fork, 0), "event");
}

static enum ct_status cuda_out(struct ct_stage *head, size_t bytes,
                               const void *from, void *to)
{
    struct cuda_stage *s = of(head);

    CT_TRY(fork_out(s));
    return ct_cuda_check(head->dev,
                         cudaMemcpyAsync(to, from, bytes,
                                         cudaMemcpyDeviceToHost, s->out),
                         "copy to the host");
}

static enum ct_status cuda_mark(struct ct_stage *head, int i)
{
    struct cuda_stage *s = of(head);

    CT_TRY(fork_out(s));
    return ct_cuda_check(head->dev,
                         cudaMemcpyAsync((void *)(uintptr_t)&s->mark[i],
                                         s->turn, sizeof(*s->turn),
                                         cudaMemcpyDeviceToHost, s->out),
                         "copy to the host");
}

static enum ct_status cuda_join(struct ct_stage *head)
{
    struct cuda_stage *s      = of(head);
    const struct ct_device *d = head->dev;

    CT_TRY(ct_cuda_check(d, cudaEventRecord(s->joined, s->out), "event"));
    return ct_cuda_check(d, cudaStreamWaitEvent(ct_cuda_stream(d), s->joined,
                                                0), "event");
}

static enum ct_status cuda_in(struct ct_stage *head, size_t bytes,
                              const void *from, void *to)
{
    return ct_cuda_check(head->dev,
                         cudaMemcpyAsync(to, from, bytes,
                                         cudaMemcpyHostToDevice,
                                         of(head)->in),
                         "copy from the host");
}

static enum ct_status cuda_follow_in(struct ct_stage *head)
{
    struct cuda_stage *s      = of(head);
    const struct ct_device *d = head->dev;

    CT_TRY(ct_cuda_check(d, cudaEventRecord(s->arrived, s->in), "event"));
    return ct_cuda_check(d, cudaStreamWaitEvent(ct_cuda_stream(d), s->arrived,
                                                0), "event");
}

static const struct ct_stage_ops cuda_ops = {
    .alloc     = cuda_alloc_host,
    .free      = cuda_free_host,
    .create    = cuda_create,
    .destroy   = cuda_destroy,
    .wait      = cuda_wait,
    .begin     = cuda_begin,
    .out       = cuda_out,
    .mark      = cuda_mark,
    .join      = cuda_join,
    .in        = cuda_in,
    .follow_in = cuda_follow_in,
};

const struct ct_stage_ops *ct_cuda_stage_ops(void)
{
    return &cuda_ops;
}

struct ct_device_uuid ct_device_uuid(const struct ct_device *d)
{
    struct ct_device_uuid u = { { 0 } };
    struct cudaDeviceProp prop;

    if (d->kind == CT_CUDA &&
        cudaGetDeviceProperties(&prop, d->id) == cudaSuccess)
        memcpy(u.byte, prop.uuid.bytes, sizeof(u.byte));
    return u;
}
