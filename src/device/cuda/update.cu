/* update.cu - one step of an optimizer over whole arenas. */
#include <math.h>

#include "device/cuda/kernel.h"

extern "C" {
#include "base/mem.h"
#include "device/update.h"
}

/* Runs are cut into chunks of this many floats, one block each; where they are
 * no more than LITTLE together, into small ones, four floats a thread, because
 * then only a block's own time counts.  The numbers of FEW runs fit into the
 * parameters of a kernel; those of more are copied. */
enum {
    CHUNK       = 4096,
    SMALL_CHUNK = 4 * CT_BLOCK,
    LITTLE      = 1 << 20,
    SLOTS       = 2,
    FEW         = 200
};

/* What a step does with one run. */
struct rates {
    float rate, l2, l1, momentum;
};

struct few {
    struct ct_update_step step;
    struct rates          run[FEW];
};

struct chunk {
    int64_t first;
    int32_t n, run;
};

struct ct_update {
    const struct ct_device *dev;
    enum ct_update_rule     rule;
    int                     n_runs, n_chunks, slot;
    struct chunk           *chunk; /* on the device */
    struct few              few;
    /* A step's numbers: ct_update_step, then the runs; on the device, and
     * pinned on the host, where one copy may wait while the next is made.
     * NULL where they are few. */
    void                   *numbers, *host[SLOTS];
    cudaEvent_t             taken[SLOTS];
    size_t                  bytes;
};

__device__ static float sign(float w)
{
    return (float)((w > 0) - (w < 0));
}

template <int RULE>
__device__ static void step_one(const struct ct_update_step &s,
                                const struct rates &r, float g, float *w,
                                float *h, float *q)
{
    const float l2 = RULE == CT_UPDATE_ADAMW ? 0 : r.l2;

    g = s.scale * g + l2 * *w + r.l1 * sign(*w);
    if (RULE == CT_UPDATE_SGD) {
        *h = r.momentum * *h + r.rate * g;
        *w -= *h;
    } else if (RULE == CT_UPDATE_NESTEROV) {
        const float old = *h;

        *h = r.momentum * old + r.rate * g;
        *w -= (1 + r.momentum) * *h - r.momentum * old;
    } else if (RULE == CT_UPDATE_ADAGRAD) {
        *h += g * g;
        *w -= r.rate * g / (sqrtf(*h) + s.delta);
    } else if (RULE == CT_UPDATE_RMSPROP) {
        *h = s.rms_decay * *h + (1 - s.rms_decay) * g * g;
        *w -= r.rate * g / (sqrtf(*h) + s.delta);
    } else if (RULE == CT_UPDATE_ADADELTA) {
        *h            = r.momentum * *h + (1 - r.momentum) * g * g;
        const float u = g * sqrtf((*q + s.delta) / (*h + s.delta));
        *q            = r.momentum * *q + (1 - r.momentum) * u * u;
        *w -= r.rate * u;
    } else {
        const float shrink = RULE == CT_UPDATE_ADAMW ? 1 - r.rate * r.l2 : 1;

        *h = r.momentum * *h + (1 - r.momentum) * g;
        *q = s.momentum2 * *q + (1 - s.momentum2) * g * g;
        *w = shrink * *w -
             r.rate * s.correction * *h / (sqrtf(*q) + s.delta);
    }
}

template <int RULE>
__global__ static void update(const __grid_constant__ struct few few,
                              const struct chunk *chunks, const void *numbers,
                              const struct ct_gradient_state *state, float *w,
                              const float *g, float *h0, float *h1)
{
    CT_TURN();
    const struct chunk c = chunks[blockIdx.x];
    struct ct_update_step s =
        numbers ? *(const struct ct_update_step *)numbers : few.step;
    const struct rates r =
        numbers ? ((const struct rates *)((const char *)numbers + 64))[c.run]
                : few.run[c.run];
    const bool two = RULE >= CT_UPDATE_ADADELTA;

    if (state && state->skip)
        return;
    if (state)
        s.scale *= state->factor;
    /* Runs start on 64-byte lines, so four floats at a time are aligned. */
    for (int i = threadIdx.x * 4; i < c.n; i += blockDim.x * 4) {
        const int64_t at = c.first + i;

        if (i + 4 <= c.n) {
            float4 vw = *(float4 *)(w + at), vg = *(const float4 *)(g + at);
            float4 vh = *(float4 *)(h0 + at), vq = {};

            if (two)
                vq = *(float4 *)(h1 + at);
            step_one<RULE>(s, r, vg.x, &vw.x, &vh.x, &vq.x);
            step_one<RULE>(s, r, vg.y, &vw.y, &vh.y, &vq.y);
            step_one<RULE>(s, r, vg.z, &vw.z, &vh.z, &vq.z);
            step_one<RULE>(s, r, vg.w, &vw.w, &vh.w, &vq.w);
            *(float4 *)(w + at)  = vw;
            *(float4 *)(h0 + at) = vh;
            if (two)
                *(float4 *)(h1 + at) = vq;
        } else {
            for (int64_t j = at; j < c.first + c.n; j++)
                step_one<RULE>(s, r, g[j], w + j, h0 + j,
                               two ? h1 + j : h0 + j);
        }
    }
}

static enum ct_status make_chunks(struct ct_update *u,
                                  const struct ct_update_run *runs)
{
    struct chunk *host = NULL;
    void *on_device;
    enum ct_status st;
    int64_t all = 0, each;
    int k       = 0;

    for (int i = 0; i < u->n_runs; i++)
        all += runs[i].n;
    each = all > LITTLE ? CHUNK : SMALL_CHUNK;
    for (int i = 0; i < u->n_runs; i++)
        u->n_chunks += (int)((runs[i].n + each - 1) / each);
    host = (struct chunk *)ct_calloc((size_t)u->n_chunks + 1, sizeof(*host),
                                     "update");
    if (!host)
        return CT_ENOMEM;
    for (int i = 0; i < u->n_runs; i++)
        for (int64_t at = 0; at < runs[i].n; at += each, k++) {
            const int64_t left = runs[i].n - at;

            host[k].first = runs[i].first + at;
            host[k].n     = (int32_t)(left < each ? left : each);
            host[k].run   = i;
        }
    st = u->dev->ops->alloc(u->dev, (size_t)(k + 1) * sizeof(*host), "update",
                            &on_device);
    if (st == CT_OK) {
        u->chunk = (struct chunk *)on_device;
        st = u->dev->ops->from_host(u->dev, (size_t)k * sizeof(*host), host,
                                    on_device);
    }
    ct_free(host);
    return st;
}

extern "C" enum ct_status ct_update_create(const struct ct_device *d,
                                           enum ct_update_rule rule, int n,
                                           const struct ct_update_run *runs,
                                           struct ct_update **out)
{
    struct ct_update *u =
        (struct ct_update *)ct_calloc(1, sizeof(*u), "update");
    enum ct_status st;

    if (!u)
        return CT_ENOMEM;
    u->dev    = d;
    u->rule   = rule;
    u->n_runs = n;
    u->bytes  = 64 + (size_t)n * sizeof(struct rates);
    st        = make_chunks(u, runs);
    if (st == CT_OK && n > FEW)
        st = d->ops->alloc(d, u->bytes, "update", &u->numbers);
    for (int i = 0; st == CT_OK && n > FEW && i < SLOTS; i++) {
        st = ct_cuda_check(d, cudaMallocHost(&u->host[i], u->bytes), "update");
        if (st == CT_OK)
            st = ct_cuda_check(d, cudaEventCreateWithFlags(
                                   &u->taken[i], cudaEventDisableTiming),
                               "update");
    }
    if (st != CT_OK) {
        ct_update_destroy(u);
        return st;
    }
    *out = u;
    return CT_OK;
}

extern "C" void ct_update_destroy(struct ct_update *u)
{
    if (!u)
        return;
    for (int i = 0; i < SLOTS; i++) {
        if (u->taken[i]) {
            (void)cudaEventSynchronize(u->taken[i]);
            (void)cudaEventDestroy(u->taken[i]);
        }
        if (u->host[i])
            (void)cudaFreeHost(u->host[i]);
    }
    u->dev->ops->free(u->dev, u->chunk);
    u->dev->ops->free(u->dev, u->numbers);
    ct_free(u);
}

static void take_rates(const struct ct_update *u,
                       const struct ct_update_run *runs, struct rates *out)
{
    for (int i = 0; i < u->n_runs; i++)
        out[i] = { runs[i].rate, runs[i].l2, runs[i].l1, runs[i].momentum };
}

extern "C" enum ct_status ct_update_set(struct ct_update *u,
                                        const struct ct_update_run *runs,
                                        const struct ct_update_step *step)
{
    cudaStream_t stream = ct_cuda_stream(u->dev);
    const int i         = u->slot;

    if (!u->numbers) {
        u->few.step = *step;
        take_rates(u, runs, u->few.run);
        return CT_OK;
    }
    u->slot = (i + 1) % SLOTS;
    CT_TRY(ct_cuda_check(u->dev, cudaEventSynchronize(u->taken[i]),
                         "update"));
    memcpy(u->host[i], step, sizeof(*step));
    take_rates(u, runs, (struct rates *)((char *)u->host[i] + 64));
    CT_TRY(ct_cuda_check(u->dev, cudaMemcpyAsync(u->numbers, u->host[i],
                                                 u->bytes,
                                                 cudaMemcpyHostToDevice,
                                                 stream), "update"));
    return ct_cuda_check(u->dev, cudaEventRecord(u->taken[i], stream),
                         "update");
}

#define LAUNCH(rule)                                                         \
    case rule:                                                               \
        return CT_START(u->dev, (unsigned)u->n_chunks, CT_BLOCK, 0,          \
                        update<rule>, u->few, u->chunk, u->numbers, state,   \
                        w, g, h0, h1)

extern "C" enum ct_status ct_update_launch(
    struct ct_update *u, const struct ct_gradient_state *state, float *w,
    const float *g, float *h0, float *h1)
{
    if (u->n_chunks == 0)
        return CT_OK;
    switch (u->rule) {
        LAUNCH(CT_UPDATE_SGD);
        LAUNCH(CT_UPDATE_NESTEROV);
        LAUNCH(CT_UPDATE_ADAGRAD);
        LAUNCH(CT_UPDATE_RMSPROP);
        LAUNCH(CT_UPDATE_ADADELTA);
        LAUNCH(CT_UPDATE_ADAM);
        LAUNCH(CT_UPDATE_ADAMW);
    }
    return CT_OK;
}
