/* net_gpu.h - nets on a GPU: numbers for them, and how near theirs are to those
 * of another net. */
#ifndef CT_TESTS_NET_NET_GPU_H
#define CT_TESTS_NET_NET_GPU_H

#include <stdlib.h>
#include <string.h>

#include "net/training.h"
#include "net_test.h"
#include "testing/gpu.h"

/* A net with these words of CORTADO_IMPL. */
static inline struct ct_net *net_gpu(const struct ct_device *g,
                                     const char *text, Caffe__Phase phase,
                                     const char *impl)
{
    ASSERT(setenv("CORTADO_IMPL", impl, 1) == 0);
    return net_with(text, phase, (struct ct_net_options){ .device = g });
}

static inline void net_gpu_send(const struct ct_device *g,
                                const struct ct_blob *b, const float *v)
{
    ASSERT_INT(CT_F32, b->data.dtype);
    ASSERT_INT(CT_PLAIN, b->data.layout);
    ASSERT_OK(g->ops->from_host(g, (size_t)b->count * sizeof(float), v,
                                ct_data(b)));
    ASSERT_OK(g->ops->sync(g));
}

/* Normal values of a turn around `mean`; `key` tells blobs apart. */
static inline void net_gpu_draw(const struct ct_device *g,
                                const struct ct_blob *b, uint64_t key,
                                uint64_t turn, float mean)
{
    float *v = test_values(b->count, sizeof(*v));

    for (int64_t i = 0; i < b->count; i++)
        v[i] = ct_normal(key, turn, (uint64_t)i) + mean;
    net_gpu_send(g, b, v);
    ct_free(v);
}

/* Classes in turns. */
static inline void net_gpu_label(const struct ct_device *g,
                                 const struct ct_blob *b, int n_classes)
{
    float *v = test_values(b->count, sizeof(*v));

    for (int64_t i = 0; i < b->count; i++)
        v[i] = (float)(i % n_classes);
    net_gpu_send(g, b, v);
    ct_free(v);
}

/* One pass forward and backward, whose loss it returns; `fresh`: gradients are
 * cleared before. */
static inline double net_gpu_pass(const struct ct_device *g,
                                  struct ct_net *net, bool fresh)
{
    double loss;

    ASSERT_OK(ct_net_forward_backward(net, fresh, &loss));
    ASSERT_OK(g->ops->sync(g));
    return loss;
}

/* Of n values none is further from what is wanted than `off` of the largest
 * one.  Returns how many are not the same to the last bit. */
static inline size_t net_gpu_near(const struct ct_device *g, const char *what,
                                  size_t n, const float *want,
                                  const float *got, double off)
{
    float *a = test_values(2 * (int64_t)n, sizeof(*a)), *b = a + n;
    size_t n_others = 0;

    ASSERT_OK(g->ops->to_host(g, n * sizeof(*a), want, a));
    ASSERT_OK(g->ops->to_host(g, n * sizeof(*b), got, b));
    ASSERT(net_near(what, (int64_t)n, a, b, off) > 1e-3);
    for (size_t i = 0; i < n; i++)
        n_others += memcmp(a + i, b + i, sizeof(*a)) != 0;
    ct_free(a);
    return n_others;
}

#endif
