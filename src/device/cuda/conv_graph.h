/* conv_graph.h - one pass of a convolution in cuDNN's graph interface.
 *
 * A problem is a single operation on three tensors, or forward with its bias
 * and ReLU behind it, which are then done before y is written.  Its graph
 * lists engines that may do it, best guess first; one of them becomes a plan,
 * which runs. */
#ifndef CT_DEVICE_CUDA_CONV_GRAPH_H
#define CT_DEVICE_CUDA_CONV_GRAPH_H

#include "device/cuda/libs.h"
#include "device/impl.h"

enum { CT_CONV_DIMS = 5 }; /* most: images or outputs, channels, 3 axes */

/* Sizes and steps count values.  CT_FORWARD reads x and w, CT_BACKWARD w and
 * y, CT_BACKWARD_WEIGHTS x and y; each overwrites the third. */
struct ct_conv_problem {
    enum ct_pass  pass;
    enum ct_dtype dtype;
    bool          strict;    /* no products in fewer bits than float32's */
    bool          bias;      /* y + b, one a channel, of `dtype` */
    bool          relu;      /* then max(y, 0); with bias only */
    int           n_spatial; /* 2 or 3 */
    int64_t       x[CT_CONV_DIMS], y[CT_CONV_DIMS], w[CT_CONV_DIMS];
    int64_t       x_step[CT_CONV_DIMS], y_step[CT_CONV_DIMS];
    int64_t       w_step[CT_CONV_DIMS];
    int64_t       pad[3], stride[3], dilation[3];
};

enum { CT_CONV_ALIGN = 16 }; /* of arrays, in bytes */

struct ct_conv_graph;

/* A plan lives on without its graph. */
struct ct_conv_plan {
    cudnnBackendDescriptor_t config, plan;
    enum ct_pass             pass;
    size_t                   bytes;   /* of scratch */
    bool                     repeats; /* its results, bit for bit */
    bool                     bias;    /* it takes one */
};

/* CT_ENOTSUP: cuDNN cannot.  `all`: also engines that it does not think of by
 * itself. */
CT_MUST_CHECK enum ct_status ct_conv_graph_create(
    const struct ct_device *d, const struct ct_conv_problem *p, bool all,
    struct ct_conv_graph **out);
void ct_conv_graph_destroy(struct ct_conv_graph *g); /* takes NULL */

/* Engines are counted from 0, in the same order each time. */
int ct_conv_graph_engines(const struct ct_conv_graph *g);
/* CT_ENOTSUP: not this one.  An engine makes one plan. */
CT_MUST_CHECK enum ct_status ct_conv_graph_plan(struct ct_conv_graph *g,
                                                int engine,
                                                struct ct_conv_plan *out);

/* `work` has plan->bytes; of x, w, y the one that the pass makes is written.
 * b is NULL unless the problem has a bias. */
CT_MUST_CHECK enum ct_status ct_conv_plan_run(const struct ct_device *d,
                                              const struct ct_conv_plan *p,
                                              const void *x, const void *w,
                                              const void *b, const void *y,
                                              void *work);
void ct_conv_plan_fini(const struct ct_device *d, struct ct_conv_plan *p);

#endif
