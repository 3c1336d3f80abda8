/* branches.h - branches whose channels are joined: NHWC arrays of one type,
 * each with rows of its own channels, and one array of rows of all of them.
 *
 *     forward   y = the rows of all x, side by side
 *     backward  g = the sum of all dy, cut into the branches' channels
 *               dx = g, or 0 where a branch's `mask` is not above 0
 *               db += the sums of dx over rows, where db is not NULL
 *
 * Backward is what a Split, a Concat and the ReLUs and biases of convolutions
 * before it do one after the other, in one pass over memory. */
#ifndef CT_DEVICE_CUDA_BRANCHES_H
#define CT_DEVICE_CUDA_BRANCHES_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_BRANCHES = 8, CT_BRANCH_DIFFS = 6 }; /* at most */

struct ct_branch {
    int64_t     channels;
    const void *x;    /* forward */
    void       *dx;   /* backward; NULL: nobody wants it */
    const void *mask; /* or NULL: none */
    float      *db;   /* or NULL */
};

struct ct_branches {
    enum ct_dtype    dtype;
    int64_t          rows;
    int              n, n_dy;
    struct ct_branch of[CT_BRANCHES];
    void            *y;                   /* forward */
    const void      *dy[CT_BRANCH_DIFFS]; /* backward */
};

/* CT_ENOTSUP: the sizes or places do not fit, and nothing was done. */
CT_MUST_CHECK enum ct_status ct_cuda_branches_forward(
    const struct ct_device *d, const struct ct_branches *b);
CT_MUST_CHECK enum ct_status ct_cuda_branches_backward(
    const struct ct_device *d, const struct ct_branches *b);

#ifdef __cplusplus
}
#endif
#endif
