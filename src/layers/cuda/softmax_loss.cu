/* softmax_loss.cu - SoftmaxWithLoss and Accuracy on a GPU; formulas and shapes
 * as in softmax_with_loss.c and accuracy.c. */
#include <float.h>

#include "layers/accuracy.h"
#include "layers/cuda/loss_kernels.h"
#include "layers/cuda/softmax_kernels.h"
#include "layers/softmax_with_loss.h"

/* -log p of the label. */
struct entropy {
    struct ct_loss loss;
    int64_t        classes, inner;
    const float   *p, *t;
    const float   *weights; /* of classes, or NULL */

    __device__ float weight(int64_t k) const
    {
        return weights && k >= 0 ? weights[k] : 1;
    }
    __device__ float operator()(int64_t i, bool *counts) const
    {
        const int64_t k = ct_label_class(t[i], classes);
        float of;

        if (ct_label_ignored(loss, t[i])) {
            *counts = false;
            return 0;
        }
        if (k < 0)
            return NAN;
        of = p[(i / inner * classes + k) * inner + i % inner];
        /* Written so that a NaN probability stays one. */
        return -logf(of < FLT_MIN ? FLT_MIN : of) * weight(k);
    }
};

__global__ static void each_term(int64_t n, struct entropy e, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        bool counts;

        y[i] = e(i, &counts);
    }
}

__global__ static void entropy_grad(struct entropy e, int64_t n,
                                    const float *weight, const float *z,
                                    float *dx)
{
    CT_TURN();
    const float scale = *weight / *z;

    CT_KERNEL_EACH (i, n) {
        const int64_t line = i / e.inner, at = i % e.inner;
        const float label  = e.t[line / e.classes * e.inner + at];
        const int64_t k    = ct_label_class(label, e.classes);

        dx[i] = ct_label_ignored(e.loss, label)
                    ? 0
                    : (scale * e.p[i] -
                       (line % e.classes == k ? scale : 0)) * e.weight(k);
    }
}

static struct entropy entropy_of(const struct softmax_with_loss *s,
                                 const struct ct_io *io)
{
    return { s->loss, s->classes, s->inner,
             ct_data(s->prob ? s->prob : io->top[1]), ct_data(io->bottom[1]),
             s->weights ? ct_data(s->weights) : NULL };
}

/* The normaliser is kept behind the terms. */
static float *normalizer(const struct softmax_with_loss *s)
{
    return ct_data(s->terms) + s->outer * s->inner;
}

enum { FEW_VALUES = 1 << 14, FEW_CLASSES = 16, ONE_BLOCK = 1024 };

/* Softmax of a short row by a thread: its values are read at once. */
__device__ static inline void short_softmax(int c, const float *x, float *p)
{
    float v[FEW_CLASSES], top = -INFINITY, sum = 0;

#pragma unroll
    for (int j = 0; j < FEW_CLASSES; j++)
        v[j] = j < c ? x[j] : -INFINITY;
#pragma unroll
    for (int j = 0; j < FEW_CLASSES; j++)
        top = v[j] > top ? v[j] : top;
#pragma unroll
    for (int j = 0; j < FEW_CLASSES; j++) {
        v[j] = j < c ? expf(v[j] - top) : 0;
        sum += v[j];
    }
    sum = 1 / sum;
#pragma unroll
    for (int j = 0; j < FEW_CLASSES; j++)
        if (j < c)
            p[j] = v[j] * sum;
}

/* Softmax of a row by a warp; its probabilities are there for all lanes. */
__device__ static inline void row_softmax(int64_t c, const float *x, float *p)
{
    const int lane = threadIdx.x % 32;
    float top = -INFINITY, sum = 0;

    for (int64_t j = lane; j < c; j += 32)
        top = x[j] > top ? x[j] : top;
    for (int o = 16; o > 0; o /= 2) {
        const float w = __shfl_xor_sync(~0u, top, o);

        top = w > top ? w : top;
    }
    for (int64_t j = lane; j < c; j += 32) {
        p[j] = expf(x[j] - top);
        sum += p[j];
    }
    for (int o = 16; o > 0; o /= 2)
        sum += __shfl_xor_sync(~0u, sum, o);
    sum = 1 / sum;
    for (int64_t j = lane; j < c; j += 32)
        p[j] *= sum;
    __syncwarp();
}

/* All of it in one block, where there is little: rows of classes, each by a
 * warp, or by a thread where it is short. */
__global__ static void few_rows(struct entropy e, int64_t rows, double fixed,
                                const float *x, float *p, float *z, float *out)
{
    CT_TURN();
    const int each = e.classes <= FEW_CLASSES ? 1 : 32; /* threads of a row */
    double sum = 0, valid = 0, by;

    for (int64_t i = threadIdx.x / each; i < rows; i += blockDim.x / each) {
        bool counts = true;

        if (each == 1)
            short_softmax((int)e.classes, x + i * e.classes,
                          p + i * e.classes);
        else
            row_softmax(e.classes, x + i * e.classes, p + i * e.classes);
        if (threadIdx.x % each == 0) {
            sum += (double)e(i, &counts);
            valid += counts;
        }
    }
    sum   = ct_block_sum(sum);
    valid = ct_block_sum(valid);
    by    = fixed > 0 ? fixed : valid > 1 ? valid : 1;
    if (threadIdx.x > 0)
        return;
    *z   = (float)by;
    *out = (float)(sum / by);
}

static enum ct_status softmax_and_loss(const struct ct_layer *l,
                                       const struct ct_io *io)
{
    const struct softmax_with_loss *s =
        (const struct softmax_with_loss *)l->state;
    float *p = ct_data(s->prob ? s->prob : io->top[1]);

    if (s->inner == 1 && s->outer * s->classes <= FEW_VALUES) {
        const int64_t each = s->classes <= FEW_CLASSES ? 1 : 32;
        const int64_t want = (s->outer * each + 31) / 32 * 32;
        const int64_t most = want < ONE_BLOCK ? want : ONE_BLOCK;

        return CT_START(l->dev, 1, (unsigned)(most > 32 ? most : 32), 0,
                        few_rows, entropy_of(s, io), s->outer,
                        ct_loss_fixed(&s->loss, s->outer, s->inner),
                        ct_data(io->bottom[0]), p, normalizer(s),
                        ct_data(io->top[0]));
    }
    CT_TRY(ct_softmax_run(l->dev, s->outer, s->classes, s->inner,
                          ct_data(io->bottom[0]), p));
    return ct_loss_run(l->dev, s->outer * s->inner, entropy_of(s, io),
                       ct_loss_fixed(&s->loss, s->outer, s->inner),
                       normalizer(s), ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_softmax_with_loss_forward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct softmax_with_loss *s =
        (const struct softmax_with_loss *)l->state;
    const int64_t n = s->outer * s->inner;

    CT_TRY(softmax_and_loss(l, io));
    if (io->n_top < 3 || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, each_term, n, entropy_of(s, io),
                     ct_data(io->top[2]));
}

extern "C" enum ct_status ct_cuda_softmax_with_loss_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct softmax_with_loss *s =
        (const struct softmax_with_loss *)l->state;
    const int64_t n = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, entropy_grad, entropy_of(s, io), n,
                     (const float *)ct_diff(io->top[0]),
                     (const float *)normalizer(s), ct_diff(io->bottom[0]));
}

/* right[i]: a warp counts the classes that score as well as the label. */
__global__ static void accuracy_right(int64_t n, int64_t classes,
                                      int64_t inner, int64_t top_k,
                                      struct ct_loss labels, const float *x,
                                      const float *t, float *right)
{
    CT_TURN();
    const int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);

    for (int64_t i = blockIdx.x * (int64_t)(blockDim.x / 32) +
                     threadIdx.x / 32;
         i < n; i += warps) {
        const float *of = x + i / inner * classes * inner + i % inner;
        const int64_t k = ct_label_class(t[i], classes);
        const bool asks = k >= 0 && !ct_label_ignored(labels, t[i]);
        long long better = 0;

        for (int64_t c = threadIdx.x % 32; asks && c < classes; c += 32)
            better += c != k && of[c * inner] >= of[k * inner];
        for (int o = 16; o > 0; o /= 2)
            better += __shfl_xor_sync(~0u, better, o);
        if (threadIdx.x % 32 == 0)
            right[i] = asks && better < top_k ? 1 : 0;
    }
}

struct rights {
    struct ct_loss labels;
    int64_t        classes;
    const float   *right, *t;

    __device__ float operator()(int64_t i, bool *counts) const
    {
        *counts = !ct_label_ignored(labels, t[i]);
        if (*counts && ct_label_class(t[i], classes) < 0)
            return NAN;
        return right[i];
    }
};

/* A thread a class: how often its items are right. */
__global__ static void accuracy_classes(int64_t n, struct rights r, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (c, r.classes) {
        float right = 0, seen = 0;

        for (int64_t i = 0; i < n; i++)
            if (ct_label_class(r.t[i], r.classes) == c &&
                !ct_label_ignored(r.labels, r.t[i])) {
                right += r.right[i];
                seen += 1;
            }
        y[c] = seen > 0 ? right / seen : 0;
    }
}

extern "C" enum ct_status ct_cuda_accuracy_forward(struct ct_layer *l,
                                                   const struct ct_io *io)
{
    const struct accuracy *a = (const struct accuracy *)l->state;
    const int64_t n          = a->outer * a->inner;
    const float *t           = ct_data(io->bottom[1]);
    const struct rights r    = { a->labels, a->classes, ct_data(a->right), t };

    if (n > 0)
        CT_TRY(CT_LAUNCH(l->dev, n * 32, accuracy_right, n, a->classes,
                         a->inner, a->top_k, a->labels,
                         (const float *)ct_data(io->bottom[0]), t,
                         ct_data(a->right)));
    CT_TRY(ct_loss_run(l->dev, n, r, 0, NULL, ct_data(io->top[0])));
    if (io->n_top < 2 || a->classes == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, a->classes, accuracy_classes, n, r,
                     ct_data(io->top[1]));
}
