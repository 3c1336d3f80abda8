/* rival.c - cuDNN's pooling, LRN, batch normalisation, softmax, dropout and
 * LSTM.  What it takes besides a layer's arrays has values that do not matter
 * for time. */
#include "cudnn_bench.h"

#include <cudnn.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/cuda/cuda.h"

#define FUNCTIONS(X)                                                         \
    X(cudnnCreateTensorDescriptor) X(cudnnDestroyTensorDescriptor)           \
    X(cudnnSetTensor4dDescriptor) X(cudnnSetTensorNdDescriptor)              \
    X(cudnnCreatePoolingDescriptor) X(cudnnDestroyPoolingDescriptor)         \
    X(cudnnSetPooling2dDescriptor)                                           \
    X(cudnnPoolingForward) X(cudnnPoolingBackward)                           \
    X(cudnnCreateLRNDescriptor) X(cudnnDestroyLRNDescriptor)                 \
    X(cudnnSetLRNDescriptor) X(cudnnLRNCrossChannelForward)                  \
    X(cudnnLRNCrossChannelBackward)                                          \
    X(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize)              \
    X(cudnnGetBatchNormalizationBackwardExWorkspaceSize)                     \
    X(cudnnGetBatchNormalizationTrainingExReserveSpaceSize)                  \
    X(cudnnBatchNormalizationForwardTrainingEx)                              \
    X(cudnnBatchNormalizationBackwardEx)                                     \
    X(cudnnSoftmaxForward) X(cudnnSoftmaxBackward)                           \
    X(cudnnCreateDropoutDescriptor) X(cudnnDestroyDropoutDescriptor)         \
    X(cudnnDropoutGetStatesSize) X(cudnnDropoutGetReserveSpaceSize)          \
    X(cudnnSetDropoutDescriptor) X(cudnnDropoutForward)                      \
    X(cudnnDropoutBackward)                                                  \
    X(cudnnCreateRNNDescriptor) X(cudnnDestroyRNNDescriptor)                 \
    X(cudnnSetRNNDescriptor_v8) X(cudnnCreateRNNDataDescriptor)              \
    X(cudnnDestroyRNNDataDescriptor) X(cudnnSetRNNDataDescriptor)            \
    X(cudnnGetRNNTempSpaceSizes) X(cudnnGetRNNWeightSpaceSize)               \
    X(cudnnRNNForward) X(cudnnRNNBackwardData_v8)                            \
    X(cudnnRNNBackwardWeights_v8)

static struct {
#define FIELD(name) __typeof__(&name) name;
    FUNCTIONS(FIELD)
} lib;

enum { AREAS = 10, MOST_STREAMS = 1024 };

struct rival {
    const struct ct_device  *dev;
    cudnnHandle_t            handle;
    struct work              w;
    struct arrays            a;
    cudnnTensorDescriptor_t  x, y, row; /* row: a channel's numbers; a state */
    cudnnPoolingDescriptor_t pool;
    cudnnLRNDescriptor_t     lrn;
    cudnnDropoutDescriptor_t dropout;
    cudnnRNNDescriptor_t     rnn;
    cudnnRNNDataDescriptor_t sequence;
    cudnnBatchNormMode_t     mode;
    void                    *area[AREAS]; /* owned; as each kind says */
    size_t                   bytes[AREAS];
};

static const float one = 1, zero = 0;

/* Of batch normalisation (the last two shared with others), and of an LSTM. */
enum { SCALE, BIAS, DSCALE, DBIAS, MEAN, INVERSE, SPACE, RESERVE };
enum { WEIGHTS, DWEIGHTS, LENGTHS, STATES };

static void open_library(void)
{
    static bool open;
    void *h;

    if (open)
        return;
    h = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!h)
        must(ct_fail(CT_ENOTFOUND, "%s", dlerror()));
#define TAKE(name)                                                           \
    do {                                                                     \
        void *fn = dlsym(h, #name);                                          \
        if (!fn)                                                             \
            must(ct_fail(CT_ENOTFOUND, "cuDNN has no " #name));              \
        memcpy(&lib.name, &fn, sizeof(fn));                                  \
    } while (0);
    FUNCTIONS(TAKE)
    open = true;
}

static void area(struct rival *r, int i, size_t bytes)
{
    r->bytes[i] = bytes;
    must(r->dev->ops->alloc(r->dev, bytes, "cuDNN's memory", &r->area[i]));
}

static cudnnDataType_t type_of(const struct arrays *a)
{
    return a->dtype == CT_F32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
}

static bool good(cudnnStatus_t st)
{
    return st == CUDNN_STATUS_SUCCESS;
}

/* Windows that reach over the end: cuDNN rounds down, so they get padding. */
static int padding(const struct work *w, int out)
{
    int p = w->p;

    while (p < w->k && (w->h + 2 * p - w->k) / w->s + 1 < out)
        p++;
    return p;
}

static bool make_pool(struct rival *r)
{
    const struct work *w = &r->w;
    const int p          = padding(w, r->a.out_h);

    return good(lib.cudnnCreatePoolingDescriptor(&r->pool)) &&
           good(lib.cudnnSetPooling2dDescriptor(
               r->pool, w->kind == MAX_POOL
                            ? CUDNN_POOLING_MAX
                            : CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
               CUDNN_NOT_PROPAGATE_NAN, w->k, w->k, p, p, w->s, w->s));
}

static bool make_norm(struct rival *r, int way)
{
    const size_t each = (size_t)r->w.c * sizeof(float);
    size_t forward = 0, backward = 0, reserve = 0;

    r->mode = way ? CUDNN_BATCHNORM_SPATIAL_PERSISTENT
                  : CUDNN_BATCHNORM_SPATIAL;
    for (int i = SCALE; i <= INVERSE; i++)
        area(r, i, each);
    if (!good(lib.cudnnSetTensor4dDescriptor(r->row, CUDNN_TENSOR_NCHW,
                                             CUDNN_DATA_FLOAT, 1, r->w.c, 1,
                                             1)) ||
        !good(lib.cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
            r->handle, r->mode, CUDNN_BATCHNORM_OPS_BN, r->x, NULL, r->y,
            r->row, NULL, &forward)) ||
        !good(lib.cudnnGetBatchNormalizationBackwardExWorkspaceSize(
            r->handle, r->mode, CUDNN_BATCHNORM_OPS_BN, r->x, NULL, r->y, NULL,
            r->x, r->row, NULL, &backward)) ||
        !good(lib.cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
            r->handle, r->mode, CUDNN_BATCHNORM_OPS_BN, NULL, r->x,
            &reserve)))
        return false;
    area(r, SPACE, forward > backward ? forward : backward);
    area(r, RESERVE, reserve);
    return true;
}

static bool make_dropout(struct rival *r, float ratio)
{
    size_t states, reserve;

    if (!good(lib.cudnnCreateDropoutDescriptor(&r->dropout)) ||
        !good(lib.cudnnDropoutGetStatesSize(r->handle, &states)) ||
        !good(lib.cudnnDropoutGetReserveSpaceSize(r->x, &reserve)))
        return false;
    area(r, SPACE, states);
    area(r, RESERVE, reserve);
    return good(lib.cudnnSetDropoutDescriptor(r->dropout, r->handle, ratio,
                                              r->area[SPACE], states, 3));
}

static bool make_lengths(struct rival *r, int *length)
{
    for (int i = 0; i < r->w.n; i++)
        length[i] = r->w.h;
    area(r, LENGTHS, (size_t)r->w.n * sizeof(*length));
    must(r->dev->ops->from_host(r->dev, r->bytes[LENGTHS], length,
                                r->area[LENGTHS]));
    return true;
}

static bool make_lstm(struct rival *r, int way)
{
    const struct work *w   = &r->w;
    const int state[3]     = { 1, w->n, w->c };
    const int step[3]      = { w->n * w->c, w->c, 1 };
    size_t weights, space, reserve;
    int length[MOST_STREAMS];

    if (w->n > MOST_STREAMS || !make_lengths(r, length) ||
        !good(lib.cudnnSetTensorNdDescriptor(r->row, CUDNN_DATA_FLOAT, 3,
                                             state, step)) ||
        !good(lib.cudnnCreateDropoutDescriptor(&r->dropout)) ||
        !good(lib.cudnnSetDropoutDescriptor(r->dropout, r->handle, 0, NULL, 0,
                                            0)) ||
        !good(lib.cudnnCreateRNNDescriptor(&r->rnn)) ||
        !good(lib.cudnnCreateRNNDataDescriptor(&r->sequence)) ||
        !good(lib.cudnnSetRNNDescriptor_v8(
            r->rnn, way ? CUDNN_RNN_ALGO_PERSIST_STATIC
                        : CUDNN_RNN_ALGO_STANDARD,
            CUDNN_LSTM, CUDNN_RNN_SINGLE_INP_BIAS, CUDNN_UNIDIRECTIONAL,
            CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT,
            CUDNN_FMA_MATH, w->c, w->c, w->c, 1, r->dropout,
            CUDNN_RNN_PADDED_IO_DISABLED)) ||
        !good(lib.cudnnSetRNNDataDescriptor(
            r->sequence, CUDNN_DATA_FLOAT,
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, w->h, w->n, w->c, length,
            NULL)) ||
        !good(lib.cudnnGetRNNWeightSpaceSize(r->handle, r->rnn, &weights)) ||
        !good(lib.cudnnGetRNNTempSpaceSizes(r->handle, r->rnn,
                                            CUDNN_FWD_MODE_TRAINING,
                                            r->sequence, &space, &reserve)))
        return false;
    area(r, WEIGHTS, weights);
    area(r, DWEIGHTS, weights);
    area(r, STATES, 6 * (size_t)(w->n * w->c) * sizeof(float));
    area(r, SPACE, space);
    area(r, RESERVE, reserve);
    return true;
}

static bool make(struct rival *r, int way)
{
    const struct work *w = &r->w;
    const cudnnTensorFormat_t format = r->a.nhwc ? CUDNN_TENSOR_NHWC
                                                 : CUDNN_TENSOR_NCHW;

    if (!good(lib.cudnnCreateTensorDescriptor(&r->x)) ||
        !good(lib.cudnnCreateTensorDescriptor(&r->y)) ||
        !good(lib.cudnnCreateTensorDescriptor(&r->row)) ||
        !good(lib.cudnnSetTensor4dDescriptor(r->x, format, type_of(&r->a),
                                             w->n, w->c, w->h, w->w)) ||
        !good(lib.cudnnSetTensor4dDescriptor(r->y, format, type_of(&r->a),
                                             w->n, w->c, r->a.out_h,
                                             r->a.out_w)))
        return false;
    switch (w->kind) {
    case MAX_POOL:
    case AVE_POOL:
        return make_pool(r);
    case LRN:
        return good(lib.cudnnCreateLRNDescriptor(&r->lrn)) &&
               good(lib.cudnnSetLRNDescriptor(r->lrn, 5, 1e-4, 0.75, 1));
    case NORM:
        return make_norm(r, way);
    case DROPOUT:
        return make_dropout(r, 0.5f);
    case LSTM:
        return make_lstm(r, way);
    case SOFTMAX:
        break;
    }
    return true;
}

int rival_ways(enum kind kind)
{
    return kind == NORM || kind == LSTM ? 2 : 1;
}

struct rival *rival_create(const struct ct_device *d, const struct work *w,
                           const struct arrays *a, int way)
{
    struct rival *r = ct_calloc(1, sizeof(*r), "cuDNN");

    open_library();
    r->dev    = d;
    r->handle = ct_cuda(d)->cudnn;
    r->w      = *w;
    r->a      = *a;
    if (make(r, way))
        return r;
    rival_destroy(r);
    return NULL;
}

static cudnnStatus_t run_norm(struct rival *r, bool backward)
{
    void *const *m = r->area;

    if (!backward)
        return lib.cudnnBatchNormalizationForwardTrainingEx(
            r->handle, r->mode, CUDNN_BATCHNORM_OPS_BN, &one, &zero, r->x,
            r->a.x, NULL, NULL, r->y, r->a.y, r->row, m[SCALE], m[BIAS], 0.1,
            NULL, NULL, 1e-5, m[MEAN], m[INVERSE], NULL, m[SPACE],
            r->bytes[SPACE], m[RESERVE], r->bytes[RESERVE]);
    return lib.cudnnBatchNormalizationBackwardEx(
        r->handle, r->mode, CUDNN_BATCHNORM_OPS_BN, &one, &zero, &one, &zero,
        r->x, r->a.x, NULL, NULL, r->y, r->a.dy, NULL, NULL, r->x, r->a.dx,
        r->row, m[SCALE], m[BIAS], m[DSCALE], m[DBIAS], 1e-5, m[MEAN],
        m[INVERSE], NULL, m[SPACE], r->bytes[SPACE], m[RESERVE],
        r->bytes[RESERVE]);
}

static cudnnStatus_t run_lstm(struct rival *r, bool backward)
{
    void *const *m     = r->area;
    float *const state = m[STATES];
    const size_t n     = (size_t)(r->w.n * r->w.c);
    cudnnStatus_t st;

    if (!backward)
        return lib.cudnnRNNForward(
            r->handle, r->rnn, CUDNN_FWD_MODE_TRAINING, m[LENGTHS],
            r->sequence, r->a.x, r->sequence, r->a.y, r->row, state, state + n,
            r->row, state + 2 * n, state + 3 * n, r->bytes[WEIGHTS],
            m[WEIGHTS], r->bytes[SPACE], m[SPACE], r->bytes[RESERVE],
            m[RESERVE]);
    st = lib.cudnnRNNBackwardData_v8(
        r->handle, r->rnn, m[LENGTHS], r->sequence, r->a.y, r->a.dy,
        r->sequence, r->a.dx, r->row, state, NULL, state + 4 * n, r->row,
        state + 2 * n, NULL, state + 5 * n, r->bytes[WEIGHTS], m[WEIGHTS],
        r->bytes[SPACE], m[SPACE], r->bytes[RESERVE], m[RESERVE]);
    return good(st) ? lib.cudnnRNNBackwardWeights_v8(
                          r->handle, r->rnn, CUDNN_WGRAD_MODE_ADD, m[LENGTHS],
                          r->sequence, r->a.x, r->row, state, r->sequence,
                          r->a.y, r->bytes[WEIGHTS], m[DWEIGHTS],
                          r->bytes[SPACE], m[SPACE], r->bytes[RESERVE],
                          m[RESERVE])
                    : st;
}

static cudnnStatus_t run_forward(struct rival *r)
{
    const struct arrays *a = &r->a;

    switch (r->w.kind) {
    case MAX_POOL:
    case AVE_POOL:
        return lib.cudnnPoolingForward(r->handle, r->pool, &one, r->x, a->x,
                                       &zero, r->y, a->y);
    case LRN:
        return lib.cudnnLRNCrossChannelForward(
            r->handle, r->lrn, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, r->x, a->x,
            &zero, r->y, a->y);
    case SOFTMAX:
        return lib.cudnnSoftmaxForward(r->handle, CUDNN_SOFTMAX_ACCURATE,
                                       CUDNN_SOFTMAX_MODE_CHANNEL, &one, r->x,
                                       a->x, &zero, r->y, a->y);
    case DROPOUT:
        return lib.cudnnDropoutForward(r->handle, r->dropout, r->x, a->x, r->y,
                                       a->y, r->area[RESERVE],
                                       r->bytes[RESERVE]);
    case NORM:
        return run_norm(r, false);
    case LSTM:
        break;
    }
    return run_lstm(r, false);
}

static cudnnStatus_t run_backward(struct rival *r)
{
    const struct arrays *a = &r->a;

    switch (r->w.kind) {
    case MAX_POOL:
    case AVE_POOL:
        return lib.cudnnPoolingBackward(r->handle, r->pool, &one, r->y, a->y,
                                        r->y, a->dy, r->x, a->x, &zero, r->x,
                                        a->dx);
    case LRN:
        return lib.cudnnLRNCrossChannelBackward(
            r->handle, r->lrn, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, r->y, a->y,
            r->y, a->dy, r->x, a->x, &zero, r->x, a->dx);
    case SOFTMAX:
        return lib.cudnnSoftmaxBackward(r->handle, CUDNN_SOFTMAX_ACCURATE,
                                        CUDNN_SOFTMAX_MODE_CHANNEL, &one, r->y,
                                        a->y, r->y, a->dy, &zero, r->x,
                                        a->dx);
    case DROPOUT:
        return lib.cudnnDropoutBackward(r->handle, r->dropout, r->y, a->dy,
                                        r->x, a->dx, r->area[RESERVE],
                                        r->bytes[RESERVE]);
    case NORM:
        return run_norm(r, true);
    case LSTM:
        break;
    }
    return run_lstm(r, true);
}

enum ct_status rival_run(void *arg, bool backward)
{
    struct rival *r        = arg;
    const cudnnStatus_t st = backward ? run_backward(r) : run_forward(r);

    return good(st) ? CT_OK
                    : ct_fail(CT_ENOTSUP, "cuDNN: status %d", (int)st);
}

void rival_destroy(struct rival *r)
{
    if (!r)
        return;
    (void)r->dev->ops->sync(r->dev);
    if (r->sequence)
        lib.cudnnDestroyRNNDataDescriptor(r->sequence);
    if (r->rnn)
        lib.cudnnDestroyRNNDescriptor(r->rnn);
    if (r->dropout)
        lib.cudnnDestroyDropoutDescriptor(r->dropout);
    if (r->lrn)
        lib.cudnnDestroyLRNDescriptor(r->lrn);
    if (r->pool)
        lib.cudnnDestroyPoolingDescriptor(r->pool);
    lib.cudnnDestroyTensorDescriptor(r->row);
    lib.cudnnDestroyTensorDescriptor(r->y);
    lib.cudnnDestroyTensorDescriptor(r->x);
    for (int i = 0; i < AREAS; i++)
        if (r->area[i])
            r->dev->ops->free(r->dev, r->area[i]);
    ct_free(r);
}
