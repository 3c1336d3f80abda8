/* softmax_kernels.h - softmax over the middle axis of an outer x c x inner
 * array on a GPU, as device/softmax_ops.h; for .cu files alone. */
#ifndef CT_LAYERS_CUDA_SOFTMAX_KERNELS_H
#define CT_LAYERS_CUDA_SOFTMAX_KERNELS_H

#include "device/cuda/cuda.h"

/* y may be x. */
enum ct_status ct_softmax_run(const struct ct_device *d, int64_t outer,
                              int64_t c, int64_t inner, const float *x,
                              float *y);

#endif
