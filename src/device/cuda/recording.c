/* recording.c - CUDA graphs. */
#include "device/recording.h"

#include "base/mem.h"
#include "device/cuda/cuda.h"

struct ct_graph {
    const struct ct_device *dev;
    cudaGraphExec_t         exec;
};

enum ct_status ct_graph_begin(const struct ct_device *d)
{
    CT_TRY(ct_cuda_lanes_level(d));
    CT_TRY(ct_cuda_check(d, cudaStreamBeginCapture(
                             ct_cuda_stream(d),
                             cudaStreamCaptureModeThreadLocal),
                         "recording a step"));
    ct_cuda(d)->capturing = true;
    return CT_OK;
}

enum ct_status ct_graph_end(const struct ct_device *d, struct ct_graph **out)
{
    cudaGraph_t graph  = NULL;
    struct ct_graph *g = NULL;
    enum ct_status st;

    *out                  = NULL;
    ct_cuda(d)->capturing = false;
    CT_TRY(ct_side_end(d)); /* where it broke off */
    ct_cuda(d)->beside = false;
    CT_TRY(ct_cuda_check(d, cudaStreamEndCapture(ct_cuda_stream(d), &graph),
                         "recording a step"));
    CT_TRY_GOTO(ct_alloc(1, sizeof(*g), "graph", &g), st, out);
    g->dev = d;
    st     = ct_cuda_check(d, cudaGraphInstantiate(&g->exec, graph, 0),
                           "recording a step");
    if (st == CT_OK) {
        *out = g;
        g    = NULL;
    }
out:
    if (graph)
        (void)cudaGraphDestroy(graph);
    ct_free(g);
    return st;
}

enum ct_status ct_graph_launch(struct ct_graph *g)
{
    return ct_cuda_check(g->dev, cudaGraphLaunch(g->exec,
                                                 ct_cuda_stream(g->dev)),
                         "replaying a step");
}

void ct_graph_destroy(struct ct_graph *g)
{
    if (!g)
        return;
    (void)cudaStreamSynchronize(ct_cuda_stream(g->dev));
    (void)cudaGraphExecDestroy(g->exec);
    ct_free(g);
}
