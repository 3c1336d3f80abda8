/* gradients.cu - norms, loss scale and skipped steps.
 *
 *     s = sum of x^2, in double          not finite: skip, scale / 2
 *     norm = sqrt(s) mean / scale
 *     factor = min(1, clip / norm) / scale                              */
#include <math.h>

#include "device/cuda/kernel.h"

extern "C" {
#include "base/mem.h"
#include "device/gradients.h"
}

enum { PARTS = 1024, SLOTS = 2 };

/* Beyond these a scale helps nobody. */
static const float least_scale = 1.0f / (1 << 14), most_scale = 1 << 24;

struct ct_gradients {
    const struct ct_device   *dev;
    bool                      scales;
    struct ct_gradient_state *state;        /* on the device */
    struct ct_gradient_state *host[SLOTS];  /* pinned: of earlier steps */
    cudaEvent_t               there[SLOTS];
    int                       step[SLOTS];
    int                       n_noted, n_read;
};

__global__ static void squares(int64_t n, const float *x, double *part)
{
    CT_TURN();
    const int64_t stride = (int64_t)gridDim.x * blockDim.x * 4;
    double sum           = 0;

    for (int64_t i = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) * 4;
         i < n; i += stride) {
        if (i + 4 <= n) {
            const float4 v = *(const float4 *)(x + i);

            sum += (double)v.x * v.x + (double)v.y * v.y +
                   (double)v.z * v.z + (double)v.w * v.w;
        } else {
            for (int64_t j = i; j < n; j++)
                sum += (double)x[j] * x[j];
        }
    }
    sum = ct_block_sum(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

__device__ static void count_step(struct ct_gradient_state *s)
{
    if (s->skip) {
        s->n_skipped++;
        s->n_good     = 0;
        s->loss_scale = fmaxf(s->loss_scale / 2, least_scale);
    } else if (++s->n_good == CT_LOSS_SCALE_GOOD_STEPS) {
        s->n_good     = 0;
        s->loss_scale = fminf(s->loss_scale * 2, most_scale);
    }
}

__global__ static void judge(int n, const double *part, float mean, float clip,
                             bool scales, struct ct_gradient_state *s)
{
    CT_TURN();
    double sum = (int)threadIdx.x < n ? part[threadIdx.x] : 0;

    sum = ct_block_sum(sum);
    if (threadIdx.x > 0)
        return;
    s->norm = sqrt(sum) * (double)mean / (double)s->loss_scale;
    s->skip = scales && !isfinite(sum);
    s->clip = clip >= 0 && s->norm > (double)clip
                  ? (float)((double)clip / s->norm)
                  : 1;
    s->factor = s->clip / s->loss_scale;
    if (scales)
        count_step(s);
}

static enum ct_status make(struct ct_gradients *g, float loss_scale)
{
    const struct ct_device *d      = g->dev;
    const struct ct_gradient_state first = {
        loss_scale, 1 / loss_scale, 0, 0, 0, 1, 0
    };
    void *memory;

    CT_TRY(d->ops->alloc(d, sizeof(*g->state), "loss scale", &memory));
    g->state = (struct ct_gradient_state *)memory;
    for (int i = 0; i < SLOTS; i++) {
        CT_TRY(ct_cuda_check(d, cudaMallocHost((void **)&g->host[i],
                                               sizeof(*g->host[i])),
                             "loss scale"));
        CT_TRY(ct_cuda_check(d, cudaEventCreateWithFlags(
                                 &g->there[i], cudaEventDisableTiming),
                             "loss scale"));
    }
    return ct_gradients_put(g, &first);
}

extern "C" enum ct_status ct_gradients_create(const struct ct_device *d,
                                              float loss_scale,
                                              struct ct_gradients **out)
{
    struct ct_gradients *g =
        (struct ct_gradients *)ct_calloc(1, sizeof(*g), "loss scale");
    enum ct_status st;

    if (!g)
        return CT_ENOMEM;
    g->dev    = d;
    g->scales = loss_scale > 0;
    st        = make(g, g->scales ? loss_scale : 1);
    if (st != CT_OK)
        ct_gradients_destroy(g);
    else
        *out = g;
    return st;
}

extern "C" void ct_gradients_destroy(struct ct_gradients *g)
{
    if (!g)
        return;
    for (int i = 0; i < SLOTS; i++) {
        if (g->there[i]) {
            (void)cudaEventSynchronize(g->there[i]);
            (void)cudaEventDestroy(g->there[i]);
        }
        if (g->host[i])
            (void)cudaFreeHost(g->host[i]);
    }
    g->dev->ops->free(g->dev, g->state);
    ct_free(g);
}

extern "C" enum ct_status ct_gradients_judge(struct ct_gradients *g, int64_t n,
                                             const float *x, float mean,
                                             float clip)
{
    const struct ct_device *d = g->dev;
    const int64_t want        = (n + 4 * CT_BLOCK - 1) / (4 * CT_BLOCK);
    const int parts = (int)(want < 1 ? 1 : want < PARTS ? want : PARTS);

    squares<<<(unsigned)parts, CT_BLOCK, 0, ct_cuda_stream(d)>>>(
        n, x, ct_cuda_parts(d));
    CT_TRY(CT_CUDA_LAUNCHED(d, "squares"));
    judge<<<1, PARTS, 0, ct_cuda_stream(d)>>>(parts, ct_cuda_parts(d), mean,
                                              clip, g->scales, g->state);
    return CT_CUDA_LAUNCHED(d, "judge");
}

extern "C" const struct ct_gradient_state *ct_gradients_state(
    const struct ct_gradients *g)
{
    return g->state;
}

extern "C" enum ct_status ct_gradients_get(const struct ct_gradients *g,
                                           struct ct_gradient_state *out)
{
    return g->dev->ops->to_host(g->dev, sizeof(*out), g->state, out);
}

extern "C" enum ct_status ct_gradients_put(
    struct ct_gradients *g, const struct ct_gradient_state *state)
{
    return g->dev->ops->from_host(g->dev, sizeof(*state), state, g->state);
}

extern "C" enum ct_status ct_gradients_noted(struct ct_gradients *g,
                                             struct ct_gradient_state *old,
                                             int *old_step, bool *any)
{
    const int i = g->n_read % SLOTS;

    *any = g->n_read < g->n_noted;
    if (!*any)
        return CT_OK;
    CT_TRY(ct_cuda_check(g->dev, cudaEventSynchronize(g->there[i]),
                         "loss scale"));
    *old      = *g->host[i];
    *old_step = g->step[i];
    g->n_read++;
    return CT_OK;
}

extern "C" enum ct_status ct_gradients_note(struct ct_gradients *g, int step,
                                            struct ct_gradient_state *old,
                                            int *old_step, bool *any)
{
    cudaStream_t stream = ct_cuda_stream(g->dev);
    const int i         = g->n_noted % SLOTS;

    *any = false;
    if (g->n_noted - g->n_read == SLOTS)
        CT_TRY(ct_gradients_noted(g, old, old_step, any));
    CT_TRY(ct_cuda_check(g->dev, cudaMemcpyAsync(g->host[i], g->state,
                                                 sizeof(*g->state),
                                                 cudaMemcpyDeviceToHost,
                                                 stream), "loss scale"));
    CT_TRY(ct_cuda_check(g->dev, cudaEventRecord(g->there[i], stream),
                         "loss scale"));
    g->step[i] = step;
    g->n_noted++;
    return CT_OK;
}
