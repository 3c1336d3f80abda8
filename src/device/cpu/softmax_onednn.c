/* softmax_onednn.c - softmax by oneDNN. */
#ifdef CT_HAVE_ONEDNN
#include "base/mem.h"
#include "device/cpu/onednn.h"
#include "device/cpu/softmax_impl.h"

enum { N_AXES = 3, AXIS = 1 };

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
    const struct ct_softmax *p = op;

    return p->outer * p->c * p->inner > 0;
}

/* The primitive of one pass; a backward one follows from its forward one. */
static enum ct_status softmax_pd(enum ct_pass pass, const struct ct_md *x,
                                 dnnl_primitive_desc_t *out)
{
    dnnl_primitive_desc_t hint;
    enum ct_status st;

    CT_TRY(ct_pd_softmax_forward(&hint, x, AXIS));
    if (pass == CT_FORWARD) {
        *out = hint;
        return CT_OK;
    }
    st = ct_pd_softmax_backward(out, x, AXIS, hint);
    dnnl_primitive_desc_destroy(hint);
    return st;
}

static enum ct_status build(enum ct_pass pass, const struct ct_md *x,
                            struct ct_prim *prim)
{
    dnnl_primitive_desc_t pd;
    void *scratch;

    CT_TRY(softmax_pd(pass, x, &pd));
    CT_TRY(ct_prim_init(prim, pd));
    CT_TRY(ct_prim_arg_md(prim, DNNL_ARG_DST, x));
    if (pass == CT_FORWARD) {
        CT_TRY(ct_prim_arg_md(prim, DNNL_ARG_SRC, x));
    } else {
        CT_TRY(ct_prim_arg_md(prim, DNNL_ARG_DIFF_DST, x));
        CT_TRY(ct_prim_arg_md(prim, DNNL_ARG_DIFF_SRC, x));
    }
    return ct_prim_own(prim, DNNL_ARG_SCRATCHPAD, &scratch, NULL);
}

static enum ct_status onednn_create(const void *op, enum ct_pass pass,
                                    void **state)
{
    const struct ct_softmax *p = op;
    struct ct_md x = { 0 };
    enum ct_status st;

    CT_TRY(ct_dnnl_start());
    CT_TRY(ct_alloc(1, sizeof(struct ct_prim), "softmax by oneDNN", state));
    CT_TRY(ct_md_layout(&x, N_AXES,
                        (const int64_t[]){ p->outer, p->c, p->inner },
                        CT_PLAIN));
    st = build(pass, &x, *state);
    ct_md_fini(&x);
    return st == CT_EDEVICE ? CT_ENOTSUP : st;
}

static enum ct_status onednn_forward(const struct ct_softmax *p,
                                     const float *x, float *y)
{
    struct ct_prim *prim = p->pass[CT_FORWARD].state;

    CT_TRY(ct_prim_set(prim, DNNL_ARG_SRC, x));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_DST, y));
    return ct_prim_run(prim);
}

static enum ct_status onednn_backward(const struct ct_softmax *p,
                                      const float *y, const float *dy,
                                      float *dx)
{
    struct ct_prim *prim = p->pass[CT_BACKWARD].state;

    CT_TRY(ct_prim_set(prim, DNNL_ARG_DST, y));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_DIFF_DST, dy));
    CT_TRY(ct_prim_set(prim, DNNL_ARG_DIFF_SRC, dx));
    return ct_prim_run(prim);
}

const struct ct_softmax_impl ct_softmax_onednn = {
    .head     = { "onednn", onednn_takes, onednn_create, onednn_destroy,
                  onednn_slow },
    .forward  = onednn_forward,
    .backward = onednn_backward,
};

#endif
