/* batch_norm_onednn.c - batch normalisation by oneDNN, on whole arrays. */
#ifdef CT_HAVE_ONEDNN
#include "base/mem.h"
#include "device/cpu/batch_norm_impl.h"
#include "device/cpu/onednn.h"
#include "device/layout.h"

static void onednn_destroy(void *state)
{
    ct_prim_fini(state);
    ct_free(state);
}

static bool onednn_slow(const void *state)
{
    return ct_prim_slow(state);
}

static bool onednn_takes(const void *op)
{
    const struct ct_channels *v = &((const struct ct_batch_norm *)op)->view;

    return v->n * v->c * v->inner > 0 && v->all == 0;
}

/* The primitive of one pass; a backward one follows from its forward one. */
static enum ct_status norm_pd(const struct ct_batch_norm *p, enum ct_pass pass,
                              const struct ct_md *x,
                              dnnl_primitive_desc_t *out)
{
    dnnl_primitive_desc_t hint;
    enum ct_status st;

    CT_TRY(ct_pd_batch_norm_forward(&hint, x, p->eps));
    if (pass == CT_FORWARD) {
        *out = hint;
        return CT_OK;
    }
    st = ct_pd_batch_norm_backward(out, x, p->eps, hint);
    dnnl_primitive_desc_destroy(hint);
    return st;
}

static enum ct_status build(const struct ct_batch_norm *p, enum ct_pass pass,
                            const struct ct_md *x, const struct ct_md *stat,
                            struct ct_prim *prim)
{
    dnnl_primitive_desc_t pd;
    void *scratch;

    CT_TRY(norm_pd(p, pass, x, &pd));
    CT_TRY(ct_prim_init(prim, pd));
    CT_TRY(ct_prim_arg_md(prim, DNNL_ARG_SRC, x));
    CT_TRY(ct_prim_arg_md(prim, DNNL_ARG_MEAN, stat));
    CT_TRY(ct_prim_arg_md(prim, DNNL_ARG_VARIANCE, stat));
    if (pass == CT_FORWARD) {
        CT_TRY(ct_prim_arg_md(prim, DNNL_ARG_DST, x));
    } else {
        CT_TRY(ct_prim_arg_md(prim, DNNL_ARG_DIFF_DST, x));
        CT_TRY(ct_prim_arg_md(prim, DNNL_ARG_DIFF_SRC, x));
    }
    return ct_prim_own(prim, DNNL_ARG_SCRATCHPAD, &scratch, NULL);
}

static enum ct_status onednn_create(const void *op, enum ct_pass pass,
                                    void **state)
{
    const struct ct_batch_norm *p = op;
    const struct ct_channels *v = &p->view;
    struct ct_md x = { 0 }, stat = { 0 };
    enum ct_status st;

    CT_TRY(ct_dnnl_start());
    CT_TRY(ct_alloc(1, sizeof(struct ct_prim), "BatchNorm by oneDNN", state));
    CT_TRY_GOTO(ct_md_layout(&x, 4,
                             (const int64_t[]){ v->n, v->c, 1, v->inner },
                             v->layout), st, out);
    CT_TRY_GOTO(ct_md_layout(&stat, 1, &v->c, CT_PLAIN), st, out);
    st = build(p, pass, &x, &stat, *state);
out:
    ct_md_fini(&x);
    ct_md_fini(&stat);
    return st == CT_EDEVICE ? CT_ENOTSUP : st;
}

static enum ct_status onednn_forward(const struct ct_batch_norm *p,
                                     const float *x, float *scratch,
                                     float *mean, float *var, float *y,
                                     float *kept)
{
    const struct ct_channels *v = &p->view;
    struct ct_prim *prim = p->pass[CT_FORWARD].state;

    (void)scratch;
    if (kept)
        CT_TRY(ct_copy(ct_device_cpu(),
                       v->n * ct_layout_blocks(v->layout, v->c) *
                           ct_layout_block(v->layout, v->c) * v->inner,
                       x, kept));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_SRC, kept ? kept : x));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_MEAN, mean));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_VARIANCE, var));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_DST, y));
    return ct_prim_run(prim);
}

static enum ct_status onednn_backward(const struct ct_batch_norm *p,
                                      const float *x, const float *dy,
                                      const float *mean, const float *var,
                                      float *scratch, float *dx)
{
    struct ct_prim *prim = p->pass[CT_BACKWARD].state;

    (void)scratch;
    CT_TRY(ct_prim_set(prim, DNNL_ARG_SRC, x));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_MEAN, mean));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_VARIANCE, var));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_DIFF_DST, dy));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_DIFF_SRC, dx));
    return ct_prim_run(prim);
}

const struct ct_batch_norm_impl ct_batch_norm_onednn = {
    .head     = { "onednn", onednn_takes, onednn_create, onednn_destroy,
                  onednn_slow },
    .forward  = onednn_forward,
    .backward = onednn_backward,
};

#endif
