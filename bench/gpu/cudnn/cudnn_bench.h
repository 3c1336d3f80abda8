/* cudnn_bench.h - a layer of a well-known net, run by us and by cuDNN. */
#ifndef CT_BENCH_GPU_CUDNN_H
#define CT_BENCH_GPU_CUDNN_H

#include <cuda_runtime_api.h>

#include "cortado/device.h"
#include "cortado/status.h"

enum kind { MAX_POOL, AVE_POOL, LRN, NORM, SOFTMAX, DROPOUT, LSTM };

/* n x c x h x w in; windows of k x k with stride s and padding p.  An LSTM has
 * h steps of n streams with c values, and c units. */
struct work {
    const char *net;
    enum kind   kind;
    int         n, c, h, w, k, s, p;
};

/* Where both find and leave values, on the device. */
struct arrays {
    void         *x, *y, *dx, *dy;
    int           out_h, out_w;
    enum ct_dtype dtype;
    bool          nhwc;
};

typedef enum ct_status (*run_fn)(void *arg, bool backward);

void must(enum ct_status st);

/* Microseconds of one call, the best of some recorded runs; INFINITY: it does
 * not do that. */
double time_run(const struct ct_device *d, run_fn run, void *arg);

/* convolutions.c: small convolutions by each of their ways. */
void bench_convolutions(const struct ct_device *d, const char *precision);
/* points.c: tables of their own, in bf16. */
void points_compare(const struct ct_device *d);
void ends_compare(const struct ct_device *d);

/* ours.c: one of our layers, with arrays of drawn values. */
struct ours;
struct ours *ours_create(const struct ct_device *d, const struct work *w);
struct arrays ours_arrays(const struct ours *o);
CT_MUST_CHECK enum ct_status ours_run(void *o, bool backward);
void ours_destroy(struct ours *o);

/* rival.c: cuDNN's for the same arrays.  Some kinds have two ways; NULL: cuDNN
 * does not do it that way. */
struct rival;
int rival_ways(enum kind kind);
struct rival *rival_create(const struct ct_device *d, const struct work *w,
                           const struct arrays *a, int way);
CT_MUST_CHECK enum ct_status rival_run(void *r, bool backward);
void rival_destroy(struct rival *r); /* takes NULL */

#endif
