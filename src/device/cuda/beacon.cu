/* beacon.cu - a number that reaches the host while the GPU goes on.
 *
 * A kernel of one block makes the sum, in an order that depends on the counts
 * alone, and writes it and then its turn into pinned memory, which the host
 * looks at.  Turns are counted on the device, so that a recorded send can be
 * replayed. */
#include <sched.h>

#include "device/cuda/kernel.h"

extern "C" {
#include "base/mem.h"
#include "device/recording.h"
}

enum { PARTS = 8 }; /* of one kernel */

struct cell {
    double   value;
    uint64_t turn;
};

struct ct_beacon {
    const struct ct_device *dev;
    struct cell            *host;      /* pinned */
    struct cell            *on_device; /* sum so far, turns so far */
    uint64_t                seen;      /* turns that were waited for */
};

struct parts {
    struct ct_beacon_part part[PARTS];
    int                   n;
    bool                  first, last;
};

__global__ static void send(struct parts p, struct cell *sum,
                            struct cell *host, uint64_t *counter)
{
    CT_TURN();
    double all = 0;

    for (int k = 0; k < p.n; k++)
        for (int64_t i = threadIdx.x; i < p.part[k].n; i += blockDim.x)
            all += (double)p.part[k].x[i] * p.part[k].w[i];
    all = ct_block_sum(all);
    if (threadIdx.x > 0)
        return;
    all += p.first ? 0 : sum->value;
    sum->value = all;
    if (!p.last)
        return;
    if (counter)
        *counter += 1;
    sum->turn += 1;
    *(volatile double *)&host->value = all;
    __threadfence_system();
    *(volatile uint64_t *)&host->turn = sum->turn;
}

extern "C" enum ct_status ct_beacon_create(const struct ct_device *d,
                                           struct ct_beacon **out)
{
    struct ct_beacon *b =
        (struct ct_beacon *)ct_calloc(1, sizeof(*b), "beacon");
    void *cell;
    enum ct_status st;

    if (!b)
        return CT_ENOMEM;
    b->dev = d;
    st     = ct_cuda_check(d, cudaMallocHost((void **)&b->host,
                                             sizeof(*b->host)), "beacon");
    if (st == CT_OK) {
        *b->host = {};
        st       = d->ops->alloc(d, sizeof(*b->on_device), "beacon", &cell);
    }
    if (st != CT_OK) {
        ct_beacon_destroy(b);
        return st;
    }
    b->on_device = (struct cell *)cell;
    *out         = b;
    return CT_OK;
}

extern "C" void ct_beacon_destroy(struct ct_beacon *b)
{
    if (!b)
        return;
    (void)cudaStreamSynchronize(ct_cuda_stream(b->dev));
    if (b->on_device)
        b->dev->ops->free(b->dev, b->on_device);
    if (b->host)
        (void)cudaFreeHost(b->host);
    ct_free(b);
}

extern "C" enum ct_status ct_beacon_send(struct ct_beacon *b, int n,
                                         const struct ct_beacon_part *part,
                                         uint64_t *counter)
{
    int i = 0;

    do {
        struct parts p = {};

        p.first = i == 0;
        while (i < n && p.n < PARTS)
            p.part[p.n++] = part[i++];
        p.last = i == n;
        CT_TRY(CT_START(b->dev, 1, CT_BLOCK, 0, send, p, b->on_device, b->host,
                        counter));
    } while (i < n);
    return CT_OK;
}

/* A GPU that came to its end, or to grief, without a word sends no more. */
static enum ct_status ask(struct ct_beacon *b)
{
    cudaError_t e = cudaStreamQuery(ct_cuda_stream(b->dev));

    if (e == cudaErrorNotReady)
        return CT_OK;
    CT_TRY(ct_cuda_check(b->dev, e, "waiting for the loss"));
    if (__atomic_load_n(&b->host->turn, __ATOMIC_ACQUIRE) < b->seen)
        return ct_fail(CT_EINTERNAL, "GPU %d: the loss was never sent",
                       b->dev->id);
    return CT_OK;
}

extern "C" enum ct_status ct_beacon_wait(struct ct_beacon *b, double *out)
{
    enum { OFTEN = 1 << 10, LONG = 1 << 16 };
    int64_t n = 0;

    b->seen++;
    while (__atomic_load_n(&b->host->turn, __ATOMIC_ACQUIRE) < b->seen) {
        n++;
        if (n % OFTEN == 0)
            CT_TRY(ask(b));
        if (n > LONG)
            sched_yield();
    }
    *out = *(volatile double *)&b->host->value;
    return CT_OK;
}
