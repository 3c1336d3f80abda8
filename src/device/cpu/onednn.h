/* onednn.h - oneDNN 2 and 3 behind one face.
 *
 * Every difference between the two C interfaces lives in onednn.c and
 * onednn_pd.c; the operations (conv_onednn.c, ...) see memory descriptions,
 * primitive descriptions and primitives of one kind:
 *
 *     describe   struct ct_md x;      ct_md_layout(&x, 4, dims, layout)
 *     choose     dnnl_primitive_desc_t pd;   ct_pd_conv_forward(&pd, ...)
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
/* Scratchpads come from the caller; the only attributes we use. */
const_dnnl_primitive_attr_t ct_dnnl_attr(void);

/* How an array of floats lies in memory.  Embedded; zeroed is a description
 * of nothing, which stands for "no bias" and may be given to fini. */
struct ct_md {
    dnnl_memory_desc_t d; /* a struct in 2, a handle in 3 */
};

/* Axes are n c [d] [h] w; plain takes any number up to 6, so it also describes
 * weights (o i h w, or g o i h w); the other layouts take 3, 4 or 5 axes. */
CT_MUST_CHECK enum ct_status ct_md_layout(struct ct_md *m, int n_axes,
                                          const int64_t *dims,
                                          enum ct_layout layout);
/* The primitive chooses the layout. */
CT_MUST_CHECK enum ct_status ct_md_any(struct ct_md *m, int n_axes,
                                       const int64_t *dims);
/* What `pd` chose: dnnl_query_src_md, _weights_md, _scratchpad_md, ... */
CT_MUST_CHECK enum ct_status ct_md_query(struct ct_md *m,
                                         const_dnnl_primitive_desc_t pd,
                                         dnnl_query_t what, int index);
bool   ct_md_equal(const struct ct_md *a, const struct ct_md *b);
size_t ct_md_bytes(const struct ct_md *m);
void   ct_md_fini(struct ct_md *m);

enum { CT_PRIM_ARGS = 12 };

/* A primitive and its arguments.  Embedded; zeroed is empty, and fini takes
 * it.  It owns the memory objects; the floats belong to the caller. */
struct ct_prim {
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t      prim;
    dnnl_exec_arg_t       arg[CT_PRIM_ARGS];
    int                   n_arg;
};

/* Takes pd, also on failure.  Adds DNNL_ARG_SCRATCHPAD where one is needed. */
CT_MUST_CHECK enum ct_status ct_prim_init(struct ct_prim *p,
                                          dnnl_primitive_desc_t pd);
CT_MUST_CHECK enum ct_status ct_prim_arg(struct ct_prim *p, int arg,
                                         dnnl_query_t what, int index);
/* An argument described by the caller instead of by the primitive. */
CT_MUST_CHECK enum ct_status ct_prim_arg_md(struct ct_prim *p, int arg,
                                            const struct ct_md *m);
/* `to` = `from` in another layout (+= with `add`); DNNL_ARG_FROM and _TO. */
CT_MUST_CHECK enum ct_status ct_prim_reorder(struct ct_prim *p,
                                             const struct ct_md *from,
                                             const struct ct_md *to, bool add);
size_t ct_prim_scratch_bytes(const struct ct_prim *p);
/* "jit:avx512_core", "gemm:jit", "ref:any"; lives as long as p. */
const char *ct_prim_impl(const struct ct_prim *p);
void ct_prim_fini(struct ct_prim *p);

/* Where argument `arg` lies in this run; an argument that the primitive does
 * not have is left out.  The pointer is only written to if oneDNN's meaning of
 * the argument is an output (or to zero a blocked layout's padding). */
CT_MUST_CHECK enum ct_status ct_prim_set(struct ct_prim *p, int arg,
                                         const float *ptr);
CT_MUST_CHECK enum ct_status ct_prim_run(struct ct_prim *p);

/* The primitives that we use, as oneDNN 3 has them.  Zeroed bias: none.
 * `hint` is the forward pass's description. */

/* Spatial values, front axis first.  Dilation counts from 1, Caffe's way. */
struct ct_pd_window {
    dnnl_dims_t     stride, dilation, pad_left, pad_right;
    dnnl_alg_kind_t algorithm; /* dnnl_convolution_direct or _winograd */
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

#endif
#endif
