/* lanes.c - work that runs beside the rest of a GPU's.
 *
 *     main  --o------------------o-->      begin: the side lane starts where
 *              \                /          the main one is
 *     side      +---- ... -----+           join: the main one waits for it
 *
 * Operations do not know where they run: between begin and end the device has
 * the side lane's stream and scratch.  A recording follows the events into the
 * side lane, so a graph has two branches there. */
#include "device/cuda/libs.h"
#include "device/recording.h"

static enum ct_status open_side(const struct ct_device *d)
{
    struct ct_cuda *g       = ct_cuda(d);
    struct ct_cuda_lane *to = &g->other;
    int lowest = 0, highest = 0;
    void *sum;

    if (g->capturing)
        return ct_fail(CT_EINTERNAL, "GPU %d: a captured step opens the side "
                       "lane", d->id);
    CT_TRY(d->ops->alloc(d, CT_CUDA_GEMM_BYTES, "scratch", &to->gemm_work));
    CT_TRY(d->ops->alloc(d, CT_CUDA_SUM_BYTES, "sums", &sum));
    to->sum = sum;
    for (int i = 0; i < 2; i++)
        CT_TRY(ct_cuda_check(d, cudaEventCreateWithFlags(
                                 &g->turn[i], cudaEventDisableTiming),
                             "side lane"));
    /* The main lane, which others wait for, has the highest. */
    CT_TRY(ct_cuda_check(d, cudaDeviceGetStreamPriorityRange(&lowest,
                                                             &highest),
                         "side lane"));
    return ct_cuda_check(d, cudaStreamCreateWithPriority(
                             &to->stream, cudaStreamNonBlocking, lowest),
                         "side lane");
}

static enum ct_status change(const struct ct_device *d)
{
    struct ct_cuda *g        = ct_cuda(d);
    struct ct_cuda_lane here = { g->stream, g->workspace, g->workspace_bytes,
                                 g->gemm_work, g->sum };

    g->stream          = g->other.stream;
    g->workspace       = g->other.workspace;
    g->workspace_bytes = g->other.workspace_bytes;
    g->gemm_work       = g->other.gemm_work;
    g->sum             = g->other.sum;
    g->other           = here;
    g->aside           = !g->aside;
    CT_CUDNN(d, cudnnSetStream, g->cudnn, g->stream);
    return CT_OK;
}

/* The lane in use waits for the other one. */
static enum ct_status follow(const struct ct_device *d, cudaEvent_t turn,
                             cudaStream_t leader)
{
    CT_TRY(ct_cuda_check(d, cudaEventRecord(turn, leader), "side lane"));
    return ct_cuda_check(d, cudaStreamWaitEvent(ct_cuda_stream(d), turn, 0),
                         "side lane");
}

enum ct_status ct_side_begin(const struct ct_device *d)
{
    struct ct_cuda *g = ct_cuda(d);

    if (d->kind == CT_CPU)
        return CT_OK;
    if (!g->other.stream)
        CT_TRY(open_side(d));
    CT_TRY(change(d));
    return follow(d, g->turn[0], g->other.stream);
}

enum ct_status ct_side_end(const struct ct_device *d)
{
    if (d->kind == CT_CPU || !ct_cuda(d)->aside)
        return CT_OK;
    ct_cuda(d)->beside = true;
    return change(d);
}

enum ct_status ct_side_join(const struct ct_device *d)
{
    struct ct_cuda *g = d->kind == CT_CPU ? NULL : ct_cuda(d);

    if (!g || !g->beside)
        return CT_OK;
    g->beside = false;
    return follow(d, g->turn[1], g->other.stream);
}

/* A recording allocates nothing: either lane gets what the other has. */
enum ct_status ct_cuda_lanes_level(const struct ct_device *d)
{
    struct ct_cuda *g = ct_cuda(d);
    size_t most = g->workspace_bytes;
    void *at;

    if (!g->other.stream)
        return CT_OK;
    most = g->other.workspace_bytes > most ? g->other.workspace_bytes : most;
    CT_TRY(ct_cuda_workspace(d, most, &at));
    CT_TRY(ct_side_begin(d));
    CT_TRY(ct_cuda_workspace(d, most, &at));
    CT_TRY(ct_side_end(d));
    return ct_side_join(d);
}

void ct_cuda_lanes_close(const struct ct_device *d)
{
    struct ct_cuda *g = ct_cuda(d);

    if (g->aside && ct_side_end(d) != CT_OK)
        return;
    if (g->other.stream) {
        (void)cudaStreamSynchronize(g->other.stream);
        (void)cudaStreamDestroy(g->other.stream);
    }
    for (int i = 0; i < 2; i++)
        if (g->turn[i])
            (void)cudaEventDestroy(g->turn[i]);
    d->ops->free(d, g->other.workspace);
    d->ops->free(d, g->other.gemm_work);
    d->ops->free(d, g->other.sum);
}
