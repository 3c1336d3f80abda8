/* cuda.h - inside one GPU: its stream, its libraries, its scratch memory.
 *
 * Everything on a device runs on one stream, in order; nothing here waits but
 * what hands a number to the host.  So a step can be captured as a graph: the
 * addresses of all arrays stay, and what changes from step to step (the pass
 * number that random draws are keyed by, the learning rate) is read by kernels
 * from device memory.
 *
 * The file is included by C and by CUDA C. */
#ifndef CT_DEVICE_CUDA_CUDA_H
#define CT_DEVICE_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "cortado/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_cuda_libs;
struct ct_cuda_gemms;
struct ct_conv_pick;
struct ct_choices;

enum { CT_CUDA_GEMM_BYTES = 32 << 20 }; /* scratch of matrix products */

/* Where operations run, and their scratch. */
struct ct_cuda_lane {
    cudaStream_t stream;
    void        *workspace;
    size_t       workspace_bytes;
    void        *gemm_work;
    double      *sum;
};

struct ct_cuda {
    struct ct_device       device; /* first: what the rest of us sees */
    enum ct_precision      precision;
    int                    n_multiprocessors;
    int                    major; /* of its compute capability */
    cudaStream_t           stream;
    const struct ct_cuda_libs *libs;
    void                  *cudnn;    /* cudnnHandle_t, on the stream */
    void                  *cublaslt; /* cublasLtHandle_t */
    struct ct_cuda_gemms  *gemms;    /* plans of matrix products, by shape */
    struct ct_conv_pick   *convs;    /* plans of convolutions; not owned */
    struct ct_choices     *choices;  /* of implementations, once measured */
    /* Scratch of whichever operation runs; grows outside of captures only. */
    void                  *workspace;
    size_t                 workspace_bytes;
    uint64_t               n_workspaces; /* that there have been */
    uint64_t               n_allocs;
    void                  *gemm_work; /* apart: its operands lie above */
    double                *sum;      /* CT_CUDA_SUMS, the parts, turns */
    double                *host_sum; /* pinned */
    /* The lane that is not in use: the side lane, which is opened when it is
     * first asked for, or the main one while `aside`; see lanes.c. */
    struct ct_cuda_lane    other;
    cudaEvent_t            turn[2];
    bool                   aside;
    bool                   beside; /* the side lane has work to be waited for */
    bool                   capturing;
    bool                   early; /* kernels of a recording: see kernel.h */
    /* CORTADO_CUDA_MEMORY=host: arrays lie in pinned host memory, which both
     * sides can read; slow, and what tests and debuggers want. */
    bool                   host_memory;
    char                   name[64];
};

static inline struct ct_cuda *ct_cuda(const struct ct_device *d)
{
    return (struct ct_cuda *)d->state;
}

/* Partial sums of the operation that runs: of ops.cu, and of layers. */
enum { CT_CUDA_SUMS = 512, CT_CUDA_PARTS = 1 << 19, CT_CUDA_TURNS = 4096 };
#define CT_CUDA_SUM_BYTES                                                    \
    ((CT_CUDA_SUMS + CT_CUDA_PARTS) * sizeof(double) +                       \
     CT_CUDA_TURNS * sizeof(unsigned))

static inline double *ct_cuda_parts(const struct ct_device *d)
{
    return ct_cuda(d)->sum + CT_CUDA_SUMS;
}

/* Zeros, with which blocks count who of them is last; zeros again after it. */
static inline unsigned *ct_cuda_turns(const struct ct_device *d)
{
    return (unsigned *)(void *)(ct_cuda_parts(d) + CT_CUDA_PARTS);
}

static inline cudaStream_t ct_cuda_stream(const struct ct_device *d)
{
    return ct_cuda(d)->stream;
}

/* The status for what a CUDA call returned; `what` names it in the message. */
CT_MUST_CHECK enum ct_status ct_cuda_check(const struct ct_device *d,
                                           cudaError_t e, const char *what);
/* After a launch: did the kernel start? */
#define CT_CUDA_LAUNCHED(d, name) ct_cuda_check((d), cudaGetLastError(), (name))

/* At least `bytes` of scratch in *out, the same for everyone: valid until the
 * next operation on the stream asks.  Ask in reshape for what forward needs,
 * so that nothing is allocated in a step. */
CT_MUST_CHECK enum ct_status ct_cuda_workspace(const struct ct_device *d,
                                               size_t bytes, void **out);

/* ops.cu: y = x, from one type to another; n values. */
CT_MUST_CHECK enum ct_status ct_cuda_convert(const struct ct_device *d,
                                             int64_t n, enum ct_dtype from,
                                             const void *x, enum ct_dtype to,
                                             void *y);

/* lanes.c: before a recording, and at the end. */
CT_MUST_CHECK enum ct_status ct_cuda_lanes_level(const struct ct_device *d);
void ct_cuda_lanes_close(const struct ct_device *d);

/* The operations of ct_device_ops that are kernels. */
enum ct_status ct_cuda_scale_by(const struct ct_device *d, int64_t n,
                                const float *alpha, float *x);
/* Whether kernels were compiled such that they wait: CT_TURN(). */
bool ct_cuda_kernels_wait(void);
enum ct_status ct_cuda_tick(const struct ct_device *d, uint64_t *counter);
enum ct_status ct_cuda_fill(const struct ct_device *d, int64_t n, float v,
                            float *y);
enum ct_status ct_cuda_scale(const struct ct_device *d, int64_t n, float alpha,
                             float *x);
enum ct_status ct_cuda_axpby(const struct ct_device *d, int64_t n, float alpha,
                             const float *x, float beta, float *y);
enum ct_status ct_cuda_dot(const struct ct_device *d, int64_t n,
                           const float *x, const float *y, double *out);
enum ct_status ct_cuda_asum(const struct ct_device *d, int64_t n,
                            const float *x, double *out);

/* y = x between plain and NHWC, and between types: n x c x positions. */
CT_MUST_CHECK enum ct_status ct_cuda_layout_convert(
    const struct ct_device *d, int64_t n, int64_t c, int64_t positions,
    enum ct_layout from, enum ct_dtype from_type, const void *x,
    enum ct_layout to, enum ct_dtype to_type, void *y);

/* gemm.c: a matrix product, row-major as ct_gemm().  `bias`, where
 * not NULL, has n values and is added to every row; `relu` follows it. */
struct ct_cuda_gemm {
    enum ct_transpose ta, tb;
    int64_t           m, n, k, lda, ldb, ldc;
    enum ct_dtype     a_type, b_type, c_type;
    const float      *bias;
    bool              relu;
};
CT_MUST_CHECK enum ct_status ct_cuda_gemm_run(const struct ct_device *d,
                                              const struct ct_cuda_gemm *g,
                                              float alpha, const void *a,
                                              const void *b, float beta,
                                              void *c);
enum ct_status ct_cuda_gemm(const struct ct_device *d, enum ct_transpose ta,
                            enum ct_transpose tb, int64_t m, int64_t n,
                            int64_t k, float alpha, const float *a,
                            int64_t lda, const float *b, int64_t ldb,
                            float beta, float *c, int64_t ldc);
void ct_cuda_gemms_free(struct ct_cuda_gemms *g); /* takes NULL */

/* product.cu: the same without a library, where it takes the types. */
bool ct_cuda_product_takes(const struct ct_cuda_gemm *g);
CT_MUST_CHECK enum ct_status ct_cuda_product(const struct ct_device *d,
                                             const struct ct_cuda_gemm *g,
                                             float alpha, const void *a,
                                             const void *b, float beta,
                                             void *c);

#ifdef __cplusplus
}
#endif
#endif
