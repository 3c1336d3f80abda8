/* loss_kernels.h - sums over positions and their normaliser on a GPU; for .cu
 * files alone.
 *
 *     out = sum of terms / z        z as layers/loss.h says, kept for backward
 *
 * Nothing comes to the host.  So a label outside of the classes cannot be
 * refused as on the CPU: its term is NaN, which the loss becomes. */
#ifndef CT_LAYERS_CUDA_LOSS_KERNELS_H
#define CT_LAYERS_CUDA_LOSS_KERNELS_H

#include "device/cuda/kernel.h"
#include "layers/cuda/slots.h"
#include "layers/loss.h"

enum { CT_LOSS_BLOCKS = 512 };

__device__ static inline bool ct_label_ignored(const struct ct_loss &loss,
                                               float label)
{
    return loss.ignores && truncf(label) == (float)loss.ignore_label;
}

/* The class that a label names; -1 where there is none. */
__device__ static inline int64_t ct_label_class(float label, int64_t classes)
{
    return label > -1 && label < (float)classes ? (int64_t)label : -1;
}

/* f(i, &valid) gives term i and says whether it counts for VALID. */
template <typename F>
__global__ static void ct_loss_parts(int64_t n, F f, double *part)
{
    CT_TURN();
    double sum = 0, valid = 0;

    CT_KERNEL_EACH (i, n) {
        bool counts = true;

        sum += (double)f(i, &counts);
        valid += counts;
    }
    sum   = ct_block_sum(sum);
    valid = ct_block_sum(valid);
    if (threadIdx.x == 0) {
        part[2 * blockIdx.x]     = sum;
        part[2 * blockIdx.x + 1] = valid;
    }
}

/* z NULL: nobody asks for it. */
__global__ static void ct_loss_join(int n, const double *part, double fixed,
                                    float *z, float *out)
{
    CT_TURN();
    double sum   = (int)threadIdx.x < n ? part[2 * threadIdx.x] : 0;
    double valid = (int)threadIdx.x < n ? part[2 * threadIdx.x + 1] : 0;
    double by;

    sum   = ct_block_sum(sum);
    valid = ct_block_sum(valid);
    by    = fixed > 0 ? fixed : valid > 1 ? valid : 1;
    if (threadIdx.x > 0)
        return;
    if (z)
        *z = (float)by;
    *out = (float)(sum / by);
}

/* fixed: what to divide by; 0: the number of terms that count, at least 1. */
template <typename F>
static enum ct_status ct_loss_run(const struct ct_device *d, int64_t n, F f,
                                  double fixed, float *z, float *out)
{
    const int64_t want  = (n + CT_BLOCK - 1) / CT_BLOCK;
    const int64_t most  = want < CT_LOSS_BLOCKS ? want : CT_LOSS_BLOCKS;
    const unsigned parts = (unsigned)(most > 1 ? most : 1);

    ct_loss_parts<F><<<parts, CT_BLOCK, 0, ct_cuda_stream(d)>>>(
        n, f, ct_cuda_parts(d));
    CT_TRY(CT_CUDA_LAUNCHED(d, "terms of the loss"));
    ct_loss_join<<<1, CT_LOSS_BLOCKS, 0, ct_cuda_stream(d)>>>(
        (int)parts, ct_cuda_parts(d), fixed, z, out);
    return CT_CUDA_LAUNCHED(d, "loss");
}

/* ct_loss_run()'s `fixed` for a loss of outer x inner positions. */
static inline double ct_loss_fixed(const struct ct_loss *loss, int64_t outer,
                                   int64_t inner)
{
    int64_t n = 1;

    if (loss->mode == CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID)
        return 0;
    if (loss->mode == CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__FULL)
        n = outer * inner;
    if (loss->mode == CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE)
        n = outer;
    if (loss->mode == CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__PRE_FIXED)
        return loss->fixed > 1 ? (double)loss->fixed : 1;
    return n > 1 ? (double)n : 1;
}

#endif
