/* conv_graph.c - one pass of a convolution in cuDNN's graph interface. */
#include "device/cuda/conv_graph.h"

#include <string.h>

#include "base/mem.h"

enum { GUESSES = 40, ENGINES = 160 }; /* most of a list, and of all */
enum { PARTS = 16 };                 /* descriptors of a graph, at most */
/* The tensors' names; the last ones are between operations. */
enum { X = 'x', Y = 'y', W = 'w', B = 'b', SUM = 's', BIASED = 't' };

typedef cudnnBackendDescriptor_t desc;

struct ct_conv_graph {
    const struct ct_device *dev;
    struct ct_conv_problem  problem;
    desc                    part[PARTS]; /* of the graph */
    int                     n_part;
    desc                    graph;
    desc                    config[ENGINES];
    int                     n;
};

static void drop(const struct ct_device *d, desc *p)
{
    if (*p)
        ct_cuda(d)->libs->cudnnBackendDestroyDescriptor(*p);
    *p = NULL;
}

static enum ct_status make(const struct ct_device *d,
                           cudnnBackendDescriptorType_t type, desc *out)
{
    *out = NULL;
    CT_CUDNN(d, cudnnBackendCreateDescriptor, type, out);
    return CT_OK;
}

static enum ct_status set(const struct ct_device *d, desc to,
                          cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t n,
                          const void *value)
{
    CT_CUDNN(d, cudnnBackendSetAttribute, to, name, type, n, value);
    return CT_OK;
}

static enum ct_status set_desc(const struct ct_device *d, desc to,
                               cudnnBackendAttributeName_t name, desc value)
{
    return set(d, to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

/* Refusals are answers, not errors: no text is made of them. */
static bool finished(const struct ct_device *d, desc p)
{
    return ct_cuda(d)->libs->cudnnBackendFinalize(p) == CUDNN_STATUS_SUCCESS;
}

/* A descriptor that lives as long as the graph. */
static enum ct_status own(struct ct_conv_graph *g,
                          cudnnBackendDescriptorType_t type, desc *out)
{
    CT_ASSERT(g->n_part < PARTS);
    CT_TRY(make(g->dev, type, out));
    g->part[g->n_part++] = *out;
    return CT_OK;
}

static enum ct_status describe_tensor(struct ct_conv_graph *g, int64_t name,
                                      enum ct_dtype dtype, const int64_t *dim,
                                      const int64_t *step, desc *out)
{
    const struct ct_device *d       = g->dev;
    const struct ct_conv_problem *p = &g->problem;
    const cudnnDataType_t type = dtype == CT_BF16 ? CUDNN_DATA_BFLOAT16
                                 : dtype == CT_F16 ? CUDNN_DATA_HALF
                                                   : CUDNN_DATA_FLOAT;
    const int64_t align = CT_CONV_ALIGN;
    const bool between  = name == SUM || name == BIASED;

    CT_TRY(own(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, out));
    if (between)
        CT_TRY(set(d, *out, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN,
                   1, &between));
    CT_TRY(set(d, *out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
               &type));
    CT_TRY(set(d, *out, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
               2 + p->n_spatial, dim));
    CT_TRY(set(d, *out, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
               2 + p->n_spatial, step));
    CT_TRY(set(d, *out, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1,
               &name));
    CT_TRY(set(d, *out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
               &align));
    return finished(d, *out) ? CT_OK : CT_ENOTSUP;
}

static enum ct_status describe_conv(struct ct_conv_graph *g, desc *out)
{
    const struct ct_conv_problem *p  = &g->problem;
    const struct ct_device *d        = g->dev;
    const cudnnDataType_t type       = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t how = CUDNN_CROSS_CORRELATION;
    const int64_t n                  = p->n_spatial;

    desc conv;

    CT_TRY(own(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, &conv));
    CT_TRY(set(d, conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
               CUDNN_TYPE_INT64, 1, &n));
    CT_TRY(set(d, conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
               CUDNN_TYPE_DATA_TYPE, 1, &type));
    CT_TRY(set(d, conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
               CUDNN_TYPE_CONVOLUTION_MODE, 1, &how));
    CT_TRY(set(d, conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
               CUDNN_TYPE_INT64, n, p->pad));
    CT_TRY(set(d, conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
               CUDNN_TYPE_INT64, n, p->pad));
    CT_TRY(set(d, conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64,
               n, p->dilation));
    CT_TRY(set(d, conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
               CUDNN_TYPE_INT64, n, p->stride));
    *out = conv;
    return finished(d, conv) ? CT_OK : CT_ENOTSUP;
}

/* The names of one operation's parts. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t  conv, x, y, w, alpha, beta;
} words[CT_WEIGHTED_PASSES] = {
    [CT_FORWARD] = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
    [CT_BACKWARD] = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
    [CT_BACKWARD_WEIGHTS] = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

/* The convolution, between x, w and `y`, whatever that is. */
static enum ct_status describe_product(struct ct_conv_graph *g, desc y,
                                       desc *op)
{
    const struct ct_conv_problem *p = &g->problem;
    const struct ct_device *d       = g->dev;
    const float one = 1, zero = 0;
    desc x, w, conv;

    CT_TRY(describe_tensor(g, X, p->dtype, p->x, p->x_step, &x));
    CT_TRY(describe_tensor(g, W, p->dtype, p->w, p->w_step, &w));
    CT_TRY(describe_conv(g, &conv));
    CT_TRY(own(g, words[p->pass].type, op));
    CT_TRY(set_desc(d, *op, words[p->pass].conv, conv));
    CT_TRY(set_desc(d, *op, words[p->pass].x, x));
    CT_TRY(set_desc(d, *op, words[p->pass].y, y));
    CT_TRY(set_desc(d, *op, words[p->pass].w, w));
    CT_TRY(set(d, *op, words[p->pass].alpha, CUDNN_TYPE_FLOAT, 1, &one));
    CT_TRY(set(d, *op, words[p->pass].beta, CUDNN_TYPE_FLOAT, 1, &zero));
    return finished(d, *op) ? CT_OK : CT_ENOTSUP;
}

/* y = x + b, or y = max(x, 0) where b is NULL. */
static enum ct_status describe_point(struct ct_conv_graph *g, desc x, desc b,
                                     desc y, desc *op)
{
    const struct ct_device *d        = g->dev;
    const cudnnPointwiseMode_t mode  = b ? CUDNN_POINTWISE_ADD
                                         : CUDNN_POINTWISE_RELU_FWD;
    const cudnnDataType_t type       = CUDNN_DATA_FLOAT;
    desc how;

    CT_TRY(own(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &how));
    CT_TRY(set(d, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
               &mode));
    CT_TRY(set(d, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
               &type));
    if (!finished(d, how))
        return CT_ENOTSUP;
    CT_TRY(own(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, op));
    CT_TRY(set_desc(d, *op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                    how));
    CT_TRY(set_desc(d, *op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x));
    if (b)
        CT_TRY(set_desc(d, *op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b));
    CT_TRY(set_desc(d, *op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y));
    return finished(d, *op) ? CT_OK : CT_ENOTSUP;
}

/* The sum in float32, the bias on it, and what becomes of that.  The bias has
 * the type of the arrays, as in cuDNN's own call for all three. */
static enum ct_status describe_finish(struct ct_conv_graph *g, desc y,
                                      desc *sum, desc *op, int *n)
{
    const struct ct_conv_problem *p = &g->problem;
    int64_t dim[CT_CONV_DIMS], step[CT_CONV_DIMS];
    desc b, biased = y;

    for (int i = 0; i < 2 + p->n_spatial; i++) {
        dim[i]  = i == 1 ? p->y[1] : 1;
        step[i] = i == 1 || (i > 1 && p->y_step[1] != 1) ? 1 : p->y[1];
    }
    CT_TRY(describe_tensor(g, B, p->dtype, dim, step, &b));
    CT_TRY(describe_tensor(g, SUM, CT_F32, p->y, p->y_step, sum));
    if (p->relu)
        CT_TRY(describe_tensor(g, BIASED, CT_F32, p->y, p->y_step, &biased));
    CT_TRY(describe_point(g, *sum, b, biased, &op[(*n)++]));
    return p->relu ? describe_point(g, biased, NULL, y, &op[(*n)++]) : CT_OK;
}

static enum ct_status describe_graph(struct ct_conv_graph *g)
{
    const struct ct_conv_problem *p = &g->problem;
    const struct ct_device *d       = g->dev;
    cudnnHandle_t handle            = ct_cuda(d)->cudnn;
    desc op[3], y, to;
    int n = 1;

    CT_TRY(describe_tensor(g, Y, p->dtype, p->y, p->y_step, &y));
    to = y;
    if (p->bias)
        CT_TRY(describe_finish(g, y, &to, op, &n));
    CT_TRY(describe_product(g, to, &op[0]));
    CT_TRY(own(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &g->graph));
    CT_TRY(set(d, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
               CUDNN_TYPE_HANDLE, 1, &handle));
    CT_TRY(set(d, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS,
               CUDNN_TYPE_BACKEND_DESCRIPTOR, n, op));
    return finished(d, g->graph) ? CT_OK : CT_ENOTSUP;
}

/* The library's own list, best first. */
static enum ct_status add_guesses(struct ct_conv_graph *g,
                                  cudnnBackendHeurMode_t mode)
{
    const struct ct_cuda_libs *l = ct_cuda(g->dev)->libs;
    int64_t n = 0, room = GUESSES;
    desc heur;
    enum ct_status st = make(g->dev, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                             &heur);

    CT_TRY_GOTO(st, st, out);
    CT_TRY_GOTO(set_desc(g->dev, heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                         g->graph), st, out);
    CT_TRY_GOTO(set(g->dev, heur, CUDNN_ATTR_ENGINEHEUR_MODE,
                    CUDNN_TYPE_HEUR_MODE, 1, &mode), st, out);
    if (!finished(g->dev, heur))
        goto out;
    for (int64_t i = 0; i < room; i++)
        CT_TRY_GOTO(make(g->dev, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                         &g->config[g->n + i]), st, out);
    if (l->cudnnBackendGetAttribute(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &n,
                                    &g->config[g->n]) != CUDNN_STATUS_SUCCESS)
        n = 0;
    n = n < room ? n : room;
    for (int64_t i = n; i < room; i++)
        drop(g->dev, &g->config[g->n + i]);
    g->n += (int)n;
out:
    drop(g->dev, &heur);
    return st;
}

/* The number of the engine that a config is for; -1 where it has none. */
static int64_t number_of(const struct ct_conv_graph *g, desc config)
{
    const struct ct_cuda_libs *l = ct_cuda(g->dev)->libs;
    int64_t number = -1, n = 0;
    desc engine;

    if (make(g->dev, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CT_OK)
        return -1;
    if (l->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                    &engine) != CUDNN_STATUS_SUCCESS ||
        l->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                    CUDNN_TYPE_INT64, 1, &n,
                                    &number) != CUDNN_STATUS_SUCCESS)
        number = -1;
    drop(g->dev, &engine);
    return number;
}

/* An engine by its number, as it comes. */
static enum ct_status add_engine(struct ct_conv_graph *g, int64_t number)
{
    const struct ct_device *d = g->dev;
    desc engine = NULL, config = NULL;
    enum ct_status st;

    CT_TRY_GOTO(make(d, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), st, out);
    CT_TRY_GOTO(set_desc(d, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                         g->graph), st, out);
    CT_TRY_GOTO(set(d, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                    CUDNN_TYPE_INT64, 1, &number), st, out);
    if (!finished(d, engine))
        goto out;
    CT_TRY_GOTO(make(d, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config), st, out);
    CT_TRY_GOTO(set_desc(d, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine), st,
                out);
    if (finished(d, config)) {
        g->config[g->n++] = config;
        config            = NULL;
    }
out:
    drop(d, &config);
    drop(d, &engine);
    return st;
}

/* Engines that are not in the list yet. */
static enum ct_status add_all(struct ct_conv_graph *g)
{
    bool listed[256] = { false };
    int64_t count = 0, n = 0;

    for (int i = 0; i < g->n; i++) {
        int64_t number = number_of(g, g->config[i]);

        if (number >= 0 && number < 256)
            listed[number] = true;
    }
    CT_CUDNN(g->dev, cudnnBackendGetAttribute, g->graph,
             CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64,
             1, &n, &count);
    for (int64_t i = 0; i < count && g->n < ENGINES; i++)
        if (i >= 256 || !listed[i])
            CT_TRY(add_engine(g, i));
    return CT_OK;
}

void ct_conv_graph_destroy(struct ct_conv_graph *g)
{
    if (!g)
        return;
    for (int i = 0; i < ENGINES; i++)
        drop(g->dev, &g->config[i]);
    while (g->n_part > 0)
        drop(g->dev, &g->part[--g->n_part]);
    ct_free(g);
}

enum ct_status ct_conv_graph_create(const struct ct_device *d,
                                    const struct ct_conv_problem *p, bool all,
                                    struct ct_conv_graph **out)
{
    struct ct_conv_graph *g;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*g), "convolution graph", &g));
    g->dev     = d;
    g->problem = *p;
    CT_TRY_GOTO(describe_graph(g), st, out);
    CT_TRY_GOTO(add_guesses(g, CUDNN_HEUR_MODE_A), st, out);
    CT_TRY_GOTO(add_guesses(g, CUDNN_HEUR_MODE_FALLBACK), st, out);
    if (all)
        CT_TRY_GOTO(add_all(g), st, out);
    if (g->n > 0) {
        *out = g;
        return CT_OK;
    }
    st = CT_ENOTSUP;
out:
    ct_conv_graph_destroy(g);
    return st == CT_EDEVICE ? CT_ENOTSUP : st;
}

int ct_conv_graph_engines(const struct ct_conv_graph *g)
{
    return g->n;
}

/* Transforms of large tiles, or of anything but 3x3 kernels, lose digits of
 * float32. */
static bool is_winograd(cudnnBackendNumericalNote_t note, bool strict)
{
    return note == CUDNN_NUMERICAL_NOTE_WINOGRAD ||
           (strict && (note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 ||
                       note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 ||
                       note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13));
}

/* Does the engine of `config` carry a note that tells against it? */
static enum ct_status read_notes(const struct ct_conv_graph *g, desc config,
                                 bool *fit, bool *repeats)
{
    const struct ct_device *d    = g->dev;
    const struct ct_cuda_libs *l = ct_cuda(d)->libs;
    const bool strict            = g->problem.strict;
    const bool rough = g->problem.dtype != CT_F32 || g->problem.w[2] != 3 ||
                       g->problem.w[3] != 3;
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendBehaviorNote_t habit[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t n = 0, n_habit = 0;
    desc engine;

    CT_TRY(make(d, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
    if (l->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                    &engine) != CUDNN_STATUS_SUCCESS ||
        l->cudnnBackendGetAttribute(
            engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
            CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n,
            note) != CUDNN_STATUS_SUCCESS)
        n = -1;
    if (l->cudnnBackendGetAttribute(
            engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
            CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n_habit,
            habit) != CUDNN_STATUS_SUCCESS)
        n_habit = 0;
    drop(d, &engine);
    *fit     = n >= 0;
    *repeats = true;
    for (int64_t i = 0; i < n; i++) {
        *repeats = *repeats && note[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        if (note[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
            note[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
            (strict && note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) ||
            (rough && is_winograd(note[i], strict)))
            *fit = false;
    }
    /* To compile a kernel takes longer than most of them ever save. */
    for (int64_t i = 0; i < n_habit; i++)
        if (habit[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)
            *fit = false;
    return CT_OK;
}

enum ct_status ct_conv_graph_plan(struct ct_conv_graph *g, int engine,
                                  struct ct_conv_plan *out)
{
    const struct ct_device *d = g->dev;
    cudnnHandle_t handle      = ct_cuda(d)->cudnn;
    struct ct_conv_plan p     = { .pass = g->problem.pass,
                                  .bias = g->problem.bias };
    int64_t bytes = 0, n = 0;
    bool fit = false;
    enum ct_status st;

    if (engine < 0 || engine >= g->n || !g->config[engine])
        return CT_ENOTSUP;
    CT_TRY(read_notes(g, g->config[engine], &fit, &p.repeats));
    if (!fit)
        return CT_ENOTSUP;
    CT_TRY(make(d, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p.plan));
    CT_TRY_GOTO(set(d, p.plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                    CUDNN_TYPE_HANDLE, 1, &handle), st, out);
    CT_TRY_GOTO(set_desc(d, p.plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                         g->config[engine]), st, out);
    st = CT_ENOTSUP;
    if (!finished(d, p.plan) ||
        ct_cuda(d)->libs->cudnnBackendGetAttribute(
            p.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
            CUDNN_TYPE_INT64, 1, &n, &bytes) != CUDNN_STATUS_SUCCESS)
        goto out;
    p.bytes           = (size_t)bytes;
    p.config          = g->config[engine];
    g->config[engine] = NULL;
    *out              = p;
    return CT_OK;
out:
    drop(d, &p.plan);
    return st;
}

void ct_conv_plan_fini(const struct ct_device *d, struct ct_conv_plan *p)
{
    drop(d, &p->plan);
    drop(d, &p->config);
}

enum ct_status ct_conv_plan_run(const struct ct_device *d,
                                const struct ct_conv_plan *p, const void *x,
                                const void *w, const void *b, const void *y,
                                void *work)
{
    const int64_t name[4]   = { X, W, Y, B };
    const void *const at[4] = { x, w, y, b };
    const int64_t n         = p->bias ? 4 : 3;
    desc pack;
    enum ct_status st;

    CT_TRY(make(d, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    CT_TRY_GOTO(set(d, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                    CUDNN_TYPE_INT64, n, name), st, out);
    CT_TRY_GOTO(set(d, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                    CUDNN_TYPE_VOID_PTR, n, at), st, out);
    CT_TRY_GOTO(set(d, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                    CUDNN_TYPE_VOID_PTR, 1, &work), st, out);
    if (finished(d, pack))
        st = ct_cudnn_check(d, ct_cuda(d)->libs->cudnnBackendExecute(
                                ct_cuda(d)->cudnn, p->plan, pack),
                            "cudnnBackendExecute");
    else
        st = ct_fail(CT_EDEVICE, "GPU %d: cuDNN does not take the arrays of "
                     "a convolution", d->id);
out:
    drop(d, &pack);
    return st;
}
