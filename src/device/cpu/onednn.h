/* onednn.h - oneDNN 2 and 3 behind one face.
 *
 * Every difference between the two C interfaces lives in onednn.c and
 * onednn_pd.c; the operations (conv_onednn.c, ...) see memory descriptions,
 * primitive descriptions and primitives of one kind:
 *
 *     describe   struct ct_md x;      ct_md_layout(&x, 4, dims, layout)
 *     choose     dnnl_primitive_desc_t pd;   ct_pd_pool_forward(&pd, ...)
 *     build      struct ct_prim p;    ct_prim_init(&p, pd)     takes pd
 *                ct_prim_arg(&p, DNNL_ARG_SRC, dnnl_query_src_md, 0)
 *                ct_prim_arg(&p, DNNL_ARG_DST, dnnl_query_dst_md, 0)
 *     run        ct_prim_set(&p, DNNL_ARG_SRC, ptr); ...
 *                ct_prim_set(&p, DNNL_ARG_SCRATCHPAD, scratch)
 *                ct_prim_run(&p)
 *
 * Nothing is allocated after building: scratchpads belong to the caller.  One
 * object runs on one thread at a time; engine, stream and attributes are the
 * process's, made once, never changed, and used by all threads. */
#ifndef CT_DEVICE_CPU_ONEDNN_H
#define CT_DEVICE_CPU_ONEDNN_H
#ifdef CT_HAVE_ONEDNN

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortado/device.h"
#include "cortado/status.h"

/* oneDNN's status as ours; dnnl_unimplemented is CT_ENOTSUP and sets no error
 * text, because the next implementation in the list may do the work. */
CT_MUST_CHECK enum ct_status ct_dnnl_check(dnnl_status_t s, const char *call);
#define CT_DNNL(call) CT_TRY(ct_dnnl_check((call), #call))
#define CT_DNNL_GOTO(call, st, label)                                        \
    CT_TRY_GOTO(ct_dnnl_check((call), #call), st, label)

/* Fails where oneDNN cannot make an engine; call before anything below. */
CT_MUST_CHECK enum ct_status ct_dnnl_start(void);
dnnl_engine_t ct_dnnl_engine(void);
/* Scratchpads come from the caller; with `add` the result is added to what is
 * there, with `relu` clamped at zero then.  We use no other attributes. */
const_dnnl_primitive_attr_t ct_dnnl_attr(void);
const_dnnl_primitive_attr_t ct_dnnl_end_attr(bool add, bool relu);

/* How an array lies in memory.  Embedded; zeroed is a description
 * of nothing, which stands for "no bias" and may be given to fini. */
struct ct_md {
    dnnl_memory_desc_t d; /* a struct in 2, a handle in 3 */
};

/* Axes are n c [d] [h] w; plain takes any number up to 6, so it also describes
 * weights (o i h w, or g o i h w); the other layouts take 3, 4 or 5 axes. */
CT_MUST_CHECK enum ct_status ct_md_layout(struct ct_md *m, int n_axes,
                                          const int64_t *dims,
                                          enum ct_layout layout);
/* ct_md_layout() of another type than float32. */
CT_MUST_CHECK enum ct_status ct_md_typed(struct ct_md *m, int n_axes,
                                         const int64_t *dims,
                                         enum ct_layout layout,
                                         enum ct_dtype dtype);
/* o x i x h x w weights in tiles of 16 inputs x 16 outputs. */
CT_MUST_CHECK enum ct_status ct_md_tiles(struct ct_md *m, const int64_t *dims);
/* A rows x cols matrix; with `turned` it lies as cols x rows. */
CT_MUST_CHECK enum ct_status ct_md_matrix(struct ct_md *m, int64_t rows,
                                          int64_t cols, bool turned);
/* The primitive chooses the layout. */
CT_MUST_CHECK enum ct_status ct_md_any(struct ct_md *m, int n_axes,
                                       const int64_t *dims,
                                       enum ct_dtype dtype);
/* What `pd` chose: dnnl_query_src_md, _weights_md, _scratchpad_md, ... */
CT_MUST_CHECK enum ct_status ct_md_query(struct ct_md *m,
                                         const_dnnl_primitive_desc_t pd,
                                         dnnl_query_t what, int index);
bool   ct_md_equal(const struct ct_md *a, const struct ct_md *b);
size_t ct_md_bytes(const struct ct_md *m);
void   ct_md_fini(struct ct_md *m);

enum { CT_PRIM_ARGS = 12, CT_PRIM_OWN = 4 };

/* A primitive and its arguments.  Embedded; zeroed is empty, and fini takes
 * it.  It owns the memory objects; the floats belong to the caller, but for
 * those of ct_prim_own(). */
struct ct_prim {
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t      prim;
    dnnl_exec_arg_t       arg[CT_PRIM_ARGS];
    void                 *own[CT_PRIM_OWN];
    int                   n_arg, n_own;
};

/* Takes pd, also on failure.  Adds DNNL_ARG_SCRATCHPAD where one is needed. */
CT_MUST_CHECK enum ct_status ct_prim_init(struct ct_prim *p,
                                          dnnl_primitive_desc_t pd);
CT_MUST_CHECK enum ct_status ct_prim_arg(struct ct_prim *p, int arg,
                                         dnnl_query_t what, int index);
/* An argument described by the caller instead of by the primitive. */
CT_MUST_CHECK enum ct_status ct_prim_arg_md(struct ct_prim *p, int arg,
                                            const struct ct_md *m);
/* Gives argument `arg` memory of its own, which fini frees; *bytes may be NULL.
 * An argument that the primitive does not have: *out is NULL. */
CT_MUST_CHECK enum ct_status ct_prim_own(struct ct_prim *p, int arg,
                                         void **out, size_t *bytes);
/* `to` = `from` in another layout (+= with `add`); DNNL_ARG_FROM and _TO. */
CT_MUST_CHECK enum ct_status ct_prim_reorder(struct ct_prim *p,
                                             const struct ct_md *from,
                                             const struct ct_md *to, bool add);
size_t ct_prim_scratch_bytes(const struct ct_prim *p);
/* Whether oneDNN has only its plain loops for this: "ref:any" and the like
 * instead of "jit:avx512_core" or "gemm:jit". */
bool ct_prim_slow(const struct ct_prim *p);
void ct_prim_fini(struct ct_prim *p);

/* Where argument `arg` lies in this run; an argument that the primitive does
 * not have is left out.  The pointer is only written to if oneDNN's meaning of
 * the argument is an output (or to zero a blocked layout's padding). */
CT_MUST_CHECK enum ct_status ct_prim_set(struct ct_prim *p, int arg,
                                         const void *ptr);
CT_MUST_CHECK enum ct_status ct_prim_run(struct ct_prim *p);

/* The primitives that we use, as oneDNN 3 has them.  Zeroed bias: none.
 * `hint` is the forward pass's description. */

/* Spatial values, front axis first.  Dilation counts from 1 (Caffe's way) and
 * is not read by pooling, which reads kernel; convolution does not.  Padding
 * is given for both sides, for windows that overhang on the right. */
struct ct_pd_window {
    dnnl_dims_t     stride, kernel, dilation, pad_left, pad_right;
    dnnl_alg_kind_t algorithm; /* dnnl_convolution_direct or _winograd */
    /* Of a convolution: how it ends, and that no backward pass follows. */
    bool            add, relu, forward_only;
};

CT_MUST_CHECK enum ct_status ct_pd_conv_forward(
    dnnl_primitive_desc_t *out, const struct ct_md *src,
    const struct ct_md *weights, const struct ct_md *bias,
    const struct ct_md *dst, const struct ct_pd_window *w);
CT_MUST_CHECK enum ct_status ct_pd_conv_backward_data(
    dnnl_primitive_desc_t *out, const struct ct_md *diff_src,
    const struct ct_md *weights, const struct ct_md *diff_dst,
    const struct ct_pd_window *w, const_dnnl_primitive_desc_t hint);
CT_MUST_CHECK enum ct_status ct_pd_conv_backward_weights(
    dnnl_primitive_desc_t *out, const struct ct_md *src,
    const struct ct_md *diff_weights, const struct ct_md *diff_bias,
    const struct ct_md *diff_dst, const struct ct_pd_window *w,
    const_dnnl_primitive_desc_t hint);

/* alg: dnnl_pooling_max, dnnl_pooling_avg_include_padding or _exclude_. */
CT_MUST_CHECK enum ct_status ct_pd_pool_forward(
    dnnl_primitive_desc_t *out, dnnl_prop_kind_t prop, dnnl_alg_kind_t alg,
    const struct ct_md *src, const struct ct_md *dst,
    const struct ct_pd_window *w);
CT_MUST_CHECK enum ct_status ct_pd_pool_backward(
    dnnl_primitive_desc_t *out, dnnl_alg_kind_t alg,
    const struct ct_md *diff_src, const struct ct_md *diff_dst,
    const struct ct_pd_window *w, const_dnnl_primitive_desc_t hint);

/* From here on source and destination lie alike, as do their gradients. */
CT_MUST_CHECK enum ct_status ct_pd_lrn_forward(
    dnnl_primitive_desc_t *out, dnnl_prop_kind_t prop, dnnl_alg_kind_t alg,
    const struct ct_md *data, int64_t local_size, float alpha, float beta,
    float k);
CT_MUST_CHECK enum ct_status ct_pd_lrn_backward(
    dnnl_primitive_desc_t *out, dnnl_alg_kind_t alg, const struct ct_md *data,
    int64_t local_size, float alpha, float beta, float k,
    const_dnnl_primitive_desc_t hint);

/* Statistics of the batch and no scale, shift or ReLU. */
CT_MUST_CHECK enum ct_status ct_pd_batch_norm_forward(
    dnnl_primitive_desc_t *out, const struct ct_md *data, float epsilon);
CT_MUST_CHECK enum ct_status ct_pd_batch_norm_backward(
    dnnl_primitive_desc_t *out, const struct ct_md *data, float epsilon,
    const_dnnl_primitive_desc_t hint);

CT_MUST_CHECK enum ct_status ct_pd_softmax_forward(
    dnnl_primitive_desc_t *out, const struct ct_md *data, int axis);
CT_MUST_CHECK enum ct_status ct_pd_softmax_backward(
    dnnl_primitive_desc_t *out, const struct ct_md *data, int axis,
    const_dnnl_primitive_desc_t hint);

/* The inner product y = x W^T + b of matrices; with `add` y += x W^T. */
CT_MUST_CHECK enum ct_status ct_pd_product_forward(
    dnnl_primitive_desc_t *out, const struct ct_md *src,
    const struct ct_md *weights, const struct ct_md *bias,
    const struct ct_md *dst, bool add);
CT_MUST_CHECK enum ct_status ct_pd_product_backward_data(
    dnnl_primitive_desc_t *out, const struct ct_md *diff_src,
    const struct ct_md *weights, const struct ct_md *diff_dst,
    const_dnnl_primitive_desc_t hint);

/* C += A B. */
CT_MUST_CHECK enum ct_status ct_pd_matmul_add(dnnl_primitive_desc_t *out,
                                              const struct ct_md *a,
                                              const struct ct_md *b,
                                              const struct ct_md *c);

#endif
#endif
