/* conv_cudnn.c - convolution by cuDNN.
 *
 * The library computes in one layout and one type: plain float32, or NHWC in
 * the type of the device's activations.  What arrives in another one is
 * converted on the way, through scratch.  Weights and their gradients are
 * plain float32 outside; inside they have the layout and type of the images.
 *
 * Algorithms are picked by measuring them, once for each description. */
#include <string.h>

#include "base/mem.h"
#include "device/conv_impl.h"
#include "device/cuda/conv.h"
#include "device/cuda/libs.h"

enum { MOST_DIMS = 5, CANDIDATES = 8 };

struct pick {
    int             algo;
    cudnnMathType_t math;
    size_t          bytes; /* of workspace */
    float           ms;    /* measured */
    bool            same;  /* its results repeat bit for bit */
};

struct cudnn_conv {
    cudnnTensorDescriptor_t      x, y;
    cudnnFilterDescriptor_t      w;
    cudnnConvolutionDescriptor_t conv;
    struct pick                  forward, data, weights;
    enum ct_layout               layout; /* inside */
    enum ct_dtype                dtype;
    int64_t                      n_x, n_y, n_w; /* values */
    bool                         stage_x, stage_y; /* are converted */
    void                        *w_inside; /* NULL: w is taken as it is */
};

static size_t round_up(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static cudnnDataType_t cudnn_type(enum ct_dtype t)
{
    return t == CT_BF16  ? CUDNN_DATA_BFLOAT16
           : t == CT_F16 ? CUDNN_DATA_HALF
                         : CUDNN_DATA_FLOAT;
}

/* Tensor cores for 16-bit types, and for float32 where TF32 may be used. */
static cudnnMathType_t math_of(const struct ct_conv *c)
{
    const struct cudnn_conv *s = c->state;

    if (s->dtype != CT_F32)
        return CUDNN_TENSOR_OP_MATH;
    return ct_cuda(c->dev)->precision == CT_FP32 ? CUDNN_FMA_MATH
                                                 : CUDNN_DEFAULT_MATH;
}

static void conv_destroy(struct ct_conv *c)
{
    struct cudnn_conv *s         = c->state;
    const struct ct_cuda_libs *l = ct_cuda(c->dev)->libs;

    if (!s)
        return;
    if (s->x)
        l->cudnnDestroyTensorDescriptor(s->x);
    if (s->y)
        l->cudnnDestroyTensorDescriptor(s->y);
    if (s->w)
        l->cudnnDestroyFilterDescriptor(s->w);
    if (s->conv)
        l->cudnnDestroyConvolutionDescriptor(s->conv);
    c->dev->ops->free(c->dev, s->w_inside);
    ct_free(s);
}

/* Sizes as cuDNN takes them: at least two spatial axes. */
static int spatial_dims(const struct ct_conv *c)
{
    return c->desc.n_spatial < 2 ? 2 : c->desc.n_spatial;
}

static void set_dims(const struct ct_conv *c, const int64_t *spatial, int n,
                     int channels, int *dim)
{
    int lead = spatial_dims(c) - c->desc.n_spatial;

    dim[0] = n;
    dim[1] = channels;
    for (int i = 0; i < spatial_dims(c); i++)
        dim[2 + i] = i < lead ? 1 : (int)spatial[i - lead];
}

static enum ct_status describe_tensor(const struct ct_conv *c,
                                      const int *dim,
                                      cudnnTensorDescriptor_t *out)
{
    const struct cudnn_conv *s = c->state;
    int n = 2 + spatial_dims(c), stride[MOST_DIMS] = { 0 }, step = 1;

    /* Channels innermost, or in their place. */
    if (s->layout == CT_NHWC) {
        stride[1] = 1;
        step      = dim[1];
    }
    for (int i = n - 1; i >= 0; i--)
        if (i != 1 || s->layout != CT_NHWC) {
            stride[i] = step;
            step *= dim[i];
        }
    CT_CUDNN(c->dev, cudnnCreateTensorDescriptor, out);
    CT_CUDNN(c->dev, cudnnSetTensorNdDescriptor, *out, cudnn_type(s->dtype), n,
             dim, stride);
    return CT_OK;
}

static enum ct_status describe_filter(const struct ct_conv *c)
{
    struct cudnn_conv *s = c->state;
    int dim[MOST_DIMS];

    set_dims(c, c->desc.kernel, (int)c->desc.out_channels, (int)c->in_group,
             dim);
    CT_CUDNN(c->dev, cudnnCreateFilterDescriptor, &s->w);
    CT_CUDNN(c->dev, cudnnSetFilterNdDescriptor, s->w, cudnn_type(s->dtype),
             s->layout == CT_NHWC ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
             2 + spatial_dims(c), dim);
    return CT_OK;
}

static enum ct_status describe_conv(const struct ct_conv *c)
{
    struct cudnn_conv *s = c->state;
    int n = spatial_dims(c), lead = n - c->desc.n_spatial;
    int pad[3], stride[3], dilation[3];

    for (int i = 0; i < n; i++) {
        int j = i - lead;

        pad[i]      = j < 0 ? 0 : (int)c->desc.pad[j];
        stride[i]   = j < 0 ? 1 : (int)c->desc.stride[j];
        dilation[i] = j < 0 ? 1 : (int)c->desc.dilation[j];
    }
    CT_CUDNN(c->dev, cudnnCreateConvolutionDescriptor, &s->conv);
    CT_CUDNN(c->dev, cudnnSetConvolutionNdDescriptor, s->conv, n, pad, stride,
             dilation, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    CT_CUDNN(c->dev, cudnnSetConvolutionGroupCount, s->conv,
             (int)c->desc.group);
    CT_CUDNN(c->dev, cudnnSetConvolutionMathType, s->conv, math_of(c));
    return CT_OK;
}

static enum ct_status describe(struct ct_conv *c)
{
    struct cudnn_conv *s = c->state;
    int dim[MOST_DIMS];

    set_dims(c, c->desc.in, (int)c->desc.batch, (int)c->desc.in_channels, dim);
    CT_TRY(describe_tensor(c, dim, &s->x));
    set_dims(c, c->out, (int)c->desc.batch, (int)c->desc.out_channels, dim);
    CT_TRY(describe_tensor(c, dim, &s->y));
    CT_TRY(describe_filter(c));
    return describe_conv(c);
}

/* The fastest algorithm that ran; one whose results repeat bit for bit where
 * that costs no more than a tenth. */
#define TAKE(found, n, to)                                                   \
    do {                                                                     \
        float ct_best = 0;                                                   \
                                                                             \
        (to)->algo = -1;                                                     \
        for (int ct_i = 0; ct_i < (n); ct_i++) {                             \
            bool ct_same = (found)[ct_i].determinism == CUDNN_DETERMINISTIC; \
                                                                             \
            if ((found)[ct_i].status != CUDNN_STATUS_SUCCESS ||              \
                (found)[ct_i].memory > most_workspace ||                     \
                ((to)->algo >= 0 &&                                          \
                 ((to)->same || !ct_same ||                                  \
                  (found)[ct_i].time > 1.1f * ct_best)))                     \
                continue;                                                    \
            (to)->algo  = (int)(found)[ct_i].algo;                           \
            (to)->math  = (found)[ct_i].mathType;                            \
            (to)->bytes = (found)[ct_i].memory;                              \
            (to)->ms    = (found)[ct_i].time;                                \
            (to)->same  = ct_same;                                           \
            ct_best     = ct_best > 0 ? ct_best : (to)->ms;                  \
        }                                                                    \
        if ((to)->algo < 0)                                                  \
            return CT_ENOTSUP;                                               \
    } while (0)

static const size_t most_workspace = (size_t)1 << 30;

/* Where arrays lie while algorithms are measured, and in a pass: behind each
 * other in the device's scratch, the library's own part last. */
struct places {
    void *x, *y, *w, *rest;
};

static enum ct_status find_places(const struct ct_conv *c, bool x, bool y,
                                  bool w, size_t rest, struct places *out)
{
    const struct cudnn_conv *s = c->state;
    size_t one = ct_dtype_bytes(s->dtype);
    size_t n_x = x ? round_up((size_t)s->n_x * one) : 0;
    size_t n_y = y ? round_up((size_t)s->n_y * one) : 0;
    size_t n_w = w ? round_up((size_t)s->n_w * one) : 0;
    void *at;

    CT_TRY(ct_cuda_workspace(c->dev, n_x + n_y + n_w + rest, &at));
    out->x    = at;
    out->y    = (char *)at + n_x;
    out->w    = (char *)at + n_x + n_y;
    out->rest = (char *)at + n_x + n_y + n_w;
    return CT_OK;
}

static enum ct_status measure(struct ct_conv *c)
{
    struct cudnn_conv *s         = c->state;
    const struct ct_cuda_libs *l = ct_cuda(c->dev)->libs;
    cudnnHandle_t h              = ct_cuda(c->dev)->cudnn;
    cudnnConvolutionFwdAlgoPerf_t f[CANDIDATES];
    cudnnConvolutionBwdDataAlgoPerf_t d[CANDIDATES];
    cudnnConvolutionBwdFilterAlgoPerf_t w[CANDIDATES];
    const size_t room = (size_t)256 << 20;
    struct places p;
    int n = 0;

    CT_TRY(find_places(c, true, true, true, room, &p));
    if (l->cudnnFindConvolutionForwardAlgorithmEx(
            h, s->x, p.x, s->w, p.w, s->conv, s->y, p.y, CANDIDATES, &n, f,
            p.rest, room) != CUDNN_STATUS_SUCCESS)
        return CT_ENOTSUP;
    TAKE(f, n, &s->forward);
    if (l->cudnnFindConvolutionBackwardDataAlgorithmEx(
            h, s->w, p.w, s->y, p.y, s->conv, s->x, p.x, CANDIDATES, &n, d,
            p.rest, room) != CUDNN_STATUS_SUCCESS)
        return CT_ENOTSUP;
    TAKE(d, n, &s->data);
    if (l->cudnnFindConvolutionBackwardFilterAlgorithmEx(
            h, s->x, p.x, s->y, p.y, s->conv, s->w, p.w, CANDIDATES, &n, w,
            p.rest, room) != CUDNN_STATUS_SUCCESS)
        return CT_ENOTSUP;
    TAKE(w, n, &s->weights);
    return CT_OK;
}

/* Asks by rule of thumb: for tests, which make thousands. */
static enum ct_status guess(struct ct_conv *c)
{
    struct cudnn_conv *s         = c->state;
    const struct ct_cuda_libs *l = ct_cuda(c->dev)->libs;
    cudnnHandle_t h              = ct_cuda(c->dev)->cudnn;
    cudnnConvolutionFwdAlgoPerf_t f[CANDIDATES];
    cudnnConvolutionBwdDataAlgoPerf_t d[CANDIDATES];
    cudnnConvolutionBwdFilterAlgoPerf_t w[CANDIDATES];
    int n = 0;

    if (l->cudnnGetConvolutionForwardAlgorithm_v7(
            h, s->x, s->w, s->conv, s->y, CANDIDATES, &n, f) !=
        CUDNN_STATUS_SUCCESS)
        return CT_ENOTSUP;
    TAKE(f, n, &s->forward);
    if (l->cudnnGetConvolutionBackwardDataAlgorithm_v7(
            h, s->w, s->y, s->conv, s->x, CANDIDATES, &n, d) !=
        CUDNN_STATUS_SUCCESS)
        return CT_ENOTSUP;
    TAKE(d, n, &s->data);
    if (l->cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            h, s->x, s->y, s->conv, s->w, CANDIDATES, &n, w) !=
        CUDNN_STATUS_SUCCESS)
        return CT_ENOTSUP;
    TAKE(w, n, &s->weights);
    return CT_OK;
}

/* Asks once for all that the passes will need. */
static enum ct_status reserve(const struct ct_conv *c)
{
    const struct cudnn_conv *s = c->state;
    size_t most = s->forward.bytes;
    struct places p;

    most = s->data.bytes > most ? s->data.bytes : most;
    most = s->weights.bytes > most ? s->weights.bytes : most;
    return find_places(c, s->stage_x, s->stage_y, s->w_inside != NULL, most,
                       &p);
}

static enum ct_status conv_init(struct ct_conv *c)
{
    struct cudnn_conv *s         = c->state;
    const struct ct_conv_desc *d = &c->desc;
    void *w;

    s->n_x     = d->batch * d->in_channels * c->in_spatial;
    s->n_y     = d->batch * d->out_channels * c->out_spatial;
    s->n_w     = d->out_channels * c->in_group * c->taps;
    s->stage_x = d->src_layout != s->layout || d->src_type != s->dtype;
    s->stage_y = d->dst_layout != s->layout || d->dst_type != s->dtype;
    CT_TRY(describe(c));
    if (s->layout != CT_PLAIN || s->dtype != CT_F32) {
        CT_TRY(c->dev->ops->alloc(c->dev,
                                  (size_t)s->n_w * ct_dtype_bytes(s->dtype),
                                  "weights", &w));
        s->w_inside = w;
    }
    CT_TRY(ct_cuda(c->dev)->host_memory ? guess(c) : measure(c));
    return reserve(c);
}

static enum ct_status create_as(struct ct_conv *c, enum ct_layout layout,
                                enum ct_dtype dtype)
{
    struct cudnn_conv *s;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*s), "convolution", &s));
    s->layout = layout;
    s->dtype  = dtype;
    c->state  = s;
    st        = conv_init(c);
    if (st != CT_OK) {
        conv_destroy(c);
        c->state = NULL;
    }
    return st == CT_EDEVICE ? CT_ENOTSUP : st;
}

/* What the three passes take, conversions included: they read and write each
 * image about three times, at some 2 GB/ms. */
static float cost_of(const struct cudnn_conv *s)
{
    float bytes = 3 * 6 * ((s->stage_x ? (float)s->n_x : 0) +
                           (s->stage_y ? (float)s->n_y : 0));

    return s->forward.ms + s->data.ms + s->weights.ms + bytes / 2e9f;
}

static bool fits(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;

    if (d->n_spatial < 1 || d->n_spatial > 3 || d->batch == 0 ||
        d->batch * d->in_channels * c->in_spatial > INT32_MAX ||
        d->batch * d->out_channels * c->out_spatial > INT32_MAX)
        return false;
    for (int i = 0; i < d->n_spatial; i++)
        if (d->dilation[i] < 1)
            return false;
    return true;
}

/* Tries each way to lay images out and keeps the fastest. */
static enum ct_status conv_create(struct ct_conv *c)
{
    const enum ct_dtype dtype = ct_device_dtype(c->dev);
    const struct {
        enum ct_layout layout;
        enum ct_dtype  dtype;
        bool           sensible;
    } ways[] = {
        { CT_NHWC, dtype, c->desc.n_spatial == 2 },
        { CT_PLAIN, dtype, dtype != CT_F32 },
        { CT_PLAIN, CT_F32, true },
    };
    const int first = ct_device_prefers_nhwc(c->dev) ? 0 : 2;
    void *best      = NULL;

    if (!fits(c))
        return CT_ENOTSUP;
    for (int i = first; i < 3; i++) {
        enum ct_status st = !ways[i].sensible
                                ? CT_ENOTSUP
                                : create_as(c, ways[i].layout, ways[i].dtype);

        if (st != CT_OK && st != CT_ENOTSUP) {
            c->state = best;
            return st;
        }
        if (st == CT_OK && best && cost_of(c->state) >= cost_of(best)) {
            conv_destroy(c);
        } else if (st == CT_OK) {
            void *better = c->state;

            c->state = best;
            conv_destroy(c);
            best = better;
        }
    }
    c->state = best;
    return best ? CT_OK : CT_ENOTSUP;
}

static enum ct_status images_in(const struct ct_conv *c, int64_t channels,
                                int64_t spatial, enum ct_layout layout,
                                enum ct_dtype dtype, const void *from,
                                void *to)
{
    const struct cudnn_conv *s = c->state;

    return ct_cuda_layout_convert(c->dev, c->desc.batch, channels, spatial,
                                  layout, dtype, from, s->layout, s->dtype,
                                  to);
}

static enum ct_status images_out(const struct ct_conv *c, int64_t channels,
                                 int64_t spatial, const void *from,
                                 enum ct_layout layout, enum ct_dtype dtype,
                                 void *to)
{
    const struct cudnn_conv *s = c->state;

    return ct_cuda_layout_convert(c->dev, c->desc.batch, channels, spatial,
                                  s->layout, s->dtype, from, layout, dtype,
                                  to);
}

/* x and y (or their diffs) inside; `p` has the room where they are staged. */
static enum ct_status x_in(const struct ct_conv *c, const void *x, void *room,
                           const void **out)
{
    const struct cudnn_conv *s = c->state;

    *out = s->stage_x ? room : x;
    return s->stage_x ? images_in(c, c->desc.in_channels, c->in_spatial,
                                  c->desc.src_layout, c->desc.src_type, x,
                                  room)
                      : CT_OK;
}

static enum ct_status y_in(const struct ct_conv *c, const void *y, void *room,
                           const void **out)
{
    const struct cudnn_conv *s = c->state;

    *out = s->stage_y ? room : y;
    return s->stage_y ? images_in(c, c->desc.out_channels, c->out_spatial,
                                  c->desc.dst_layout, c->desc.dst_type, y,
                                  room)
                      : CT_OK;
}

static enum ct_status w_in(const struct ct_conv *c, const float *w,
                           const void **out)
{
    const struct cudnn_conv *s = c->state;

    *out = s->w_inside ? s->w_inside : w;
    return s->w_inside
               ? ct_cuda_layout_convert(c->dev, c->desc.out_channels,
                                        c->in_group, c->taps, CT_PLAIN, CT_F32,
                                        w, s->layout, s->dtype, s->w_inside)
               : CT_OK;
}

static enum ct_status use(const struct ct_conv *c, const struct pick *p)
{
    const struct cudnn_conv *s = c->state;

    CT_CUDNN(c->dev, cudnnSetConvolutionMathType, s->conv, p->math);
    return CT_OK;
}

static enum ct_status conv_forward(struct ct_conv *c, const float *x,
                                   const float *w, const float *b, float *y)
{
    const struct cudnn_conv *s     = c->state;
    const float one = 1, zero = 0;
    const struct ct_bias_desc bias = { c->desc.batch, c->desc.out_channels,
                                       c->out_spatial, c->desc.dst_layout,
                                       c->desc.dst_type };
    const void *xi, *wi;
    struct places p;
    void *yi;

    CT_TRY(find_places(c, s->stage_x, s->stage_y, false, s->forward.bytes,
                       &p));
    CT_TRY(x_in(c, x, p.x, &xi));
    CT_TRY(w_in(c, w, &wi));
    CT_TRY(use(c, &s->forward));
    yi = s->stage_y ? p.y : y;
    CT_CUDNN(c->dev, cudnnConvolutionForward, ct_cuda(c->dev)->cudnn, &one,
             s->x, xi, s->w, wi, s->conv,
             (cudnnConvolutionFwdAlgo_t)s->forward.algo, p.rest,
             s->forward.bytes, &zero, s->y, yi);
    if (s->stage_y)
        CT_TRY(images_out(c, c->desc.out_channels, c->out_spatial, yi,
                          c->desc.dst_layout, c->desc.dst_type, y));
    return b ? ct_bias_forward(c->dev, &bias, b, y) : CT_OK;
}

static enum ct_status conv_backward_data(struct ct_conv *c, const float *w,
                                         const float *dy, float *dx)
{
    const struct cudnn_conv *s = c->state;
    const float one = 1, zero = 0;
    const void *yi, *wi;
    struct places p;
    void *xi;

    CT_TRY(find_places(c, s->stage_x, s->stage_y, false, s->data.bytes, &p));
    CT_TRY(y_in(c, dy, p.y, &yi));
    CT_TRY(w_in(c, w, &wi));
    CT_TRY(use(c, &s->data));
    xi = s->stage_x ? p.x : dx;
    CT_CUDNN(c->dev, cudnnConvolutionBackwardData, ct_cuda(c->dev)->cudnn,
             &one, s->w, wi, s->y, yi, s->conv,
             (cudnnConvolutionBwdDataAlgo_t)s->data.algo, p.rest,
             s->data.bytes, &zero, s->x, xi);
    return s->stage_x ? images_out(c, c->desc.in_channels, c->in_spatial, xi,
                                   c->desc.src_layout, c->desc.src_type, dx)
                      : CT_OK;
}

static enum ct_status conv_backward_weights(struct ct_conv *c, const float *x,
                                            const float *dy, float *dw,
                                            float *db)
{
    const struct cudnn_conv *s     = c->state;
    const float one = 1, zero = 0;
    const bool inside              = s->w_inside != NULL;
    const struct ct_bias_desc bias = { c->desc.batch, c->desc.out_channels,
                                       c->out_spatial, c->desc.dst_layout,
                                       c->desc.dst_type };
    const void *xi, *yi;
    struct places p;

    CT_TRY(find_places(c, s->stage_x, s->stage_y, inside, s->weights.bytes,
                       &p));
    CT_TRY(x_in(c, x, p.x, &xi));
    CT_TRY(y_in(c, dy, p.y, &yi));
    CT_TRY(use(c, &s->weights));
    CT_CUDNN(c->dev, cudnnConvolutionBackwardFilter, ct_cuda(c->dev)->cudnn,
             &one, s->x, xi, s->y, yi, s->conv,
             (cudnnConvolutionBwdFilterAlgo_t)s->weights.algo, p.rest,
             s->weights.bytes, inside ? &zero : &one, s->w,
             inside ? p.w : (void *)dw);
    if (inside)
        CT_TRY(ct_cuda_weights_add(c->dev, c->desc.out_channels, c->in_group,
                                   c->taps, s->layout, s->dtype, p.w, dw));
    return db ? ct_bias_backward(c->dev, &bias, dy, db) : CT_OK;
}

const struct ct_conv_impl ct_conv_cudnn = {
    .name             = "cudnn",
    .create           = conv_create,
    .destroy          = conv_destroy,
    .forward          = conv_forward,
    .backward_data    = conv_backward_data,
    .backward_weights = conv_backward_weights,
};
