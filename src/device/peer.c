/* peer.c - arrays that other ranks of the host read; the CPU's are plain. */
#include "device/peer.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static bool is_cpu(const struct ct_near *w)
{
    return w->dev->kind == CT_CPU;
}

enum ct_status ct_near_create(const struct ct_device *d, int64_t n,
                              struct ct_near **out)
{
    struct ct_near *w;
    enum ct_status st;

    if (d->kind != CT_CPU)
        return ct_cuda_near_create(d, n, out);
    CT_TRY(ct_alloc(1, sizeof(*w), "near array", &w));
    w->dev = d;
    st     = ct_alloc((size_t)n, sizeof(float), "near array", &w->array);
    if (st != CT_OK)
        ct_near_destroy(w);
    else
        *out = w;
    return st;
}

void ct_near_destroy(struct ct_near *w)
{
    if (w && !is_cpu(w)) {
        ct_cuda_near_destroy(w);
    } else if (w) {
        ct_free(w->array);
        ct_free(w);
    }
}

float *ct_near_array(const struct ct_near *w)
{
    return w->array;
}

struct ct_near_address ct_near_address(const struct ct_near *w)
{
    struct ct_near_address a;

    memset(&a, 0, sizeof(a)); /* it is sent */
    a.process = getpid();
    a.device  = is_cpu(w) ? -1 : w->dev->id;
    a.at      = w->array;
    if (!is_cpu(w))
        ct_cuda_near_export(w, &a);
    return a;
}

enum ct_status ct_near_open(struct ct_near *w, const struct ct_near_address *a,
                            const float **out)
{
    if ((a->device < 0) != is_cpu(w))
        return ct_fail(CT_ENOTSUP, "one array is on a CPU, the other on a "
                       "GPU");
    if (!is_cpu(w))
        return ct_cuda_near_open(w, a, out);
    if (a->process != getpid())
        return ct_fail(CT_ENOTSUP, "another process's memory");
    *out = a->at;
    return CT_OK;
}

void ct_near_close(struct ct_near *w, const struct ct_near_address *a,
                   const float *x)
{
    if (x && a->process != getpid())
        ct_cuda_near_close(w, x);
}

enum ct_status ct_near_copy(struct ct_near *w, int64_t n, const float *x,
                            float *y)
{
    if (!is_cpu(w))
        return ct_cuda_near_run(w, false, n, x, y);
    memcpy(y, x, (size_t)n * sizeof(*y));
    return CT_OK;
}

enum ct_status ct_near_add(struct ct_near *w, int64_t n, const float *x,
                           float *y)
{
    if (!is_cpu(w))
        return ct_cuda_near_run(w, true, n, x, y);
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
    return CT_OK;
}
