/* lrn_onednn.c - local response normalization by oneDNN.
 *
 * Its backward pass reads a workspace that its forward pass wrote.  As with
 * our own kernels that is made again, not kept: the backward pass is oneDNN's
 * forward pass, whose y lies in dx until that is known, and its backward pass.
 * Some of its kernels need no workspace. */
#ifdef CT_HAVE_ONEDNN
#include "base/mem.h"
#include "device/cpu/lrn_impl.h"
#include "device/cpu/onednn.h"

struct onednn_lrn {
    struct ct_prim forward, backward; /* the latter only for that pass */
    bool           again; /* backward needs forward's workspace */
};

static void onednn_destroy(void *state)
{
    struct onednn_lrn *s = state;

    ct_prim_fini(&s->forward);
    ct_prim_fini(&s->backward);
    ct_free(s);
}

static bool onednn_slow(const void *state)
{
    const struct onednn_lrn *s = state;

    return ct_prim_slow(&s->forward) ||
           (s->backward.pd && ct_prim_slow(&s->backward));
}

static bool onednn_takes(const void *op)
{
    const struct ct_lrn *p = op;

    /* oneDNN 2.6 crashes while it makes a window of one channel. */
    return p->n > 0 && p->c > 0 && p->h > 0 && p->w > 0 && p->size > 1;
}

static dnnl_alg_kind_t algorithm(const struct ct_lrn *p)
{
    return p->within ? dnnl_lrn_within_channel : dnnl_lrn_across_channels;
}

static enum ct_status own_scratch(struct ct_prim *p)
{
    void *scratch;

    return ct_prim_own(p, DNNL_ARG_SCRATCHPAD, &scratch, NULL);
}

static enum ct_status forward_init(const struct ct_lrn *p, enum ct_pass pass,
                                   const struct ct_md *x, struct ct_prim *f)
{
    dnnl_primitive_desc_t pd;

    CT_TRY(ct_pd_lrn_forward(&pd,
                             pass == CT_BACKWARD ? dnnl_forward_training
                                                 : dnnl_forward_inference,
                             algorithm(p), x, p->size, p->alpha, p->beta,
                             p->k));
    CT_TRY(ct_prim_init(f, pd));
    CT_TRY(ct_prim_arg_md(f, DNNL_ARG_SRC, x));
    CT_TRY(ct_prim_arg_md(f, DNNL_ARG_DST, x));
    return own_scratch(f);
}

static enum ct_status backward_init(const struct ct_lrn *p,
                                    const struct ct_md *x,
                                    struct onednn_lrn *s)
{
    struct ct_prim *b = &s->backward;
    struct ct_md ws = { 0 };
    dnnl_primitive_desc_t pd;
    enum ct_status st = CT_OK;
    void *room;

    CT_TRY(ct_pd_lrn_backward(&pd, algorithm(p), x, p->size, p->alpha,
                              p->beta, p->k, s->forward.pd));
    CT_TRY(ct_prim_init(b, pd));
    CT_TRY(ct_prim_arg_md(b, DNNL_ARG_SRC, x));
    CT_TRY(ct_prim_arg_md(b, DNNL_ARG_DIFF_DST, x));
    CT_TRY(ct_prim_arg_md(b, DNNL_ARG_DIFF_SRC, x));
    CT_TRY(own_scratch(b));
    if (ct_md_query(&ws, pd, dnnl_query_workspace_md, 0) != CT_OK ||
        ct_md_bytes(&ws) == 0)
        goto out;
    CT_TRY_GOTO(ct_prim_arg_md(b, DNNL_ARG_WORKSPACE, &ws), st, out);
    CT_TRY_GOTO(ct_prim_arg_md(&s->forward, DNNL_ARG_WORKSPACE, &ws), st, out);
    CT_TRY_GOTO(ct_prim_own(b, DNNL_ARG_WORKSPACE, &room, NULL), st, out);
    s->again = true;
    st       = ct_prim_set(&s->forward, DNNL_ARG_WORKSPACE, room);
out:
    ct_md_fini(&ws);
    return st;
}

static enum ct_status onednn_create(const void *op, enum ct_pass pass,
                                    void **state)
{
    const struct ct_lrn *p = op;
    struct onednn_lrn *s;
    struct ct_md x = { 0 };
    enum ct_status st;

    CT_TRY(ct_dnnl_start());
    CT_TRY(ct_alloc(1, sizeof(*s), "LRN by oneDNN", state));
    s = *state;
    CT_TRY_GOTO(ct_md_layout(&x, 4,
                             (const int64_t[]){ p->n, p->c, p->h, p->w },
                             p->layout), st, out);
    CT_TRY_GOTO(forward_init(p, pass, &x, &s->forward), st, out);
    if (pass == CT_BACKWARD)
        st = backward_init(p, &x, s);
out:
    ct_md_fini(&x);
    return st == CT_EDEVICE ? CT_ENOTSUP : st;
}

static enum ct_status onednn_forward(const struct ct_lrn *p, const float *x,
                                     float *y)
{
    struct onednn_lrn *s = p->pass[CT_FORWARD].state;

    CT_TRY(ct_prim_set(&s->forward, DNNL_ARG_SRC, x));
    CT_TRY(ct_prim_set(&s->forward, DNNL_ARG_DST, y));
    return ct_prim_run(&s->forward);
}

static enum ct_status onednn_backward(const struct ct_lrn *p, const float *x,
                                      const float *dy, float *scratch,
                                      float *dx)
{
    struct onednn_lrn *s = p->pass[CT_BACKWARD].state;

    (void)scratch;
    if (s->again) {
        CT_TRY(ct_prim_set(&s->forward, DNNL_ARG_SRC, x));
        CT_TRY(ct_prim_set(&s->forward, DNNL_ARG_DST, dx));
        CT_TRY(ct_prim_run(&s->forward));
    }
    CT_TRY(ct_prim_set(&s->backward, DNNL_ARG_SRC, x));
    CT_TRY(ct_prim_set(&s->backward, DNNL_ARG_DIFF_DST, dy));
    CT_TRY(ct_prim_set(&s->backward, DNNL_ARG_DIFF_SRC, dx));
    return ct_prim_run(&s->backward);
}

const struct ct_lrn_impl ct_lrn_onednn = {
    .head     = { "onednn", onednn_takes, onednn_create, onednn_destroy,
                  onednn_slow },
    .forward  = onednn_forward,
    .backward = onednn_backward,
};

#endif
