/* peer.c - arrays that other ranks of the host read; the CPU's are plain. */
#include "device/peer.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

static bool is_cpu(const struct ct_peer_memory *w)
{
    return w->dev->kind == CT_CPU;
}

enum ct_status ct_peer_create(const struct ct_device *d, int64_t n,
                              struct ct_peer_memory **out)
{
    struct ct_peer_memory *w;
    enum ct_status st;

    if (d->kind != CT_CPU)
        return ct_cuda_peer_create(d, n, out);
    CT_TRY(ct_alloc(1, sizeof(*w), "peer memory", &w));
    w->dev = d;
    st     = ct_alloc((size_t)n, sizeof(float), "peer memory", &w->array);
    if (st != CT_OK)
        ct_peer_destroy(w);
    else
        *out = w;
    return st;
}

void ct_peer_destroy(struct ct_peer_memory *w)
{
    if (w && !is_cpu(w)) {
        ct_cuda_peer_destroy(w);
    } else if (w) {
        ct_free(w->array);
        ct_free(w);
    }
}

float *ct_peer_array(const struct ct_peer_memory *w)
{
    return w->array;
}

struct ct_peer_address ct_peer_address(const struct ct_peer_memory *w)
{
    struct ct_peer_address a;

    memset(&a, 0, sizeof(a)); /* it is sent */
    a.process = ct_process_token();
    a.device  = is_cpu(w) ? -1 : w->dev->id;
    a.at      = w->array;
    if (!is_cpu(w))
        ct_cuda_peer_export(w, &a);
    return a;
}

enum ct_status ct_peer_open(struct ct_peer_memory *w,
                            const struct ct_peer_address *a,
                            const float **out)
{
    if ((a->device < 0) != is_cpu(w))
        return ct_fail(CT_ENOTSUP, "one array is on a CPU, the other on a "
                       "GPU");
    if (!is_cpu(w))
        return ct_cuda_peer_open(w, a, out);
    if (a->process != ct_process_token())
        return ct_fail(CT_ENOTSUP, "another process's memory");
    *out = a->at;
    return CT_OK;
}

void ct_peer_close(struct ct_peer_memory *w, const struct ct_peer_address *a,
                   const float *x)
{
    if (x && a->process != ct_process_token())
        ct_cuda_peer_close(w, x);
}

enum ct_status ct_peer_copy(struct ct_peer_memory *w, int64_t n, const float *x,
                            float *y)
{
    if (!is_cpu(w))
        return ct_cuda_peer_run(w, false, n, x, y);
    memcpy(y, x, (size_t)n * sizeof(*y));
    return CT_OK;
}

enum ct_status ct_peer_add(struct ct_peer_memory *w, int64_t n, const float *x,
                           float *y)
{
    if (!is_cpu(w))
        return ct_cuda_peer_run(w, true, n, x, y);
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
    return CT_OK;
}
