/* ip_onednn.c - the inner product by oneDNN, on plain weights or, where many
 * passes share them, on weights packed the way it likes.
 *
 * Forward and the gradient of x are its inner product, which adds the bias as
 * it goes.  The gradient of W is its matrix product, which can add to what is
 * there; the inner product's would need an array as large as W. */
#ifdef CT_HAVE_ONEDNN
#include "base/mem.h"
#include "device/cpu/onednn.h"
#include "device/ip_impl.h"

struct arrays {
    struct ct_md x, w, b, y;
};

struct onednn_ip {
    struct ct_prim prim;
    struct ct_prim pack; /* a reorder, for packed weights */
};

static void onednn_destroy(void *state)
{
    struct onednn_ip *s = state;

    ct_prim_fini(&s->prim);
    ct_prim_fini(&s->pack);
    ct_free(s);
}

static bool onednn_slow(const void *state)
{
    return ct_prim_slow(&((const struct onednn_ip *)state)->prim);
}

static bool onednn_takes(const void *op)
{
    const struct ct_ip *p = op;

    return p->dev->kind == CT_CPU && p->m > 0 && p->n > 0 && p->k > 0;
}

static enum ct_status describe(const struct ct_ip *p, struct arrays *a)
{
    CT_TRY(ct_md_matrix(&a->x, p->m, p->k, false));
    CT_TRY(ct_md_matrix(&a->w, p->n, p->k, p->transpose));
    CT_TRY(ct_md_matrix(&a->y, p->m, p->n, false));
    return p->has_bias ? ct_md_layout(&a->b, 1, &p->n, CT_PLAIN) : CT_OK;
}

/* Weights come through a reorder into memory of the primitive. */
static enum ct_status pack_init(const struct arrays *a, struct onednn_ip *s)
{
    struct ct_md own = { 0 };
    enum ct_status st;
    void *room;

    CT_TRY(ct_md_query(&own, s->prim.pd, dnnl_query_weights_md, 0));
    CT_TRY_GOTO(ct_prim_arg_md(&s->prim, DNNL_ARG_WEIGHTS, &own), st, out);
    CT_TRY_GOTO(ct_prim_own(&s->prim, DNNL_ARG_WEIGHTS, &room, NULL), st, out);
    CT_TRY_GOTO(ct_prim_reorder(&s->pack, &a->w, &own, false), st, out);
    CT_TRY_GOTO(ct_prim_set(&s->pack, DNNL_ARG_TO, room), st, out);
    st = ct_prim_own(&s->pack, DNNL_ARG_SCRATCHPAD, &room, NULL);
out:
    ct_md_fini(&own);
    return st;
}

static enum ct_status forward_init(const struct ct_ip *p,
                                   const struct arrays *a,
                                   struct onednn_ip *s)
{
    struct ct_md any = { 0 };
    dnnl_primitive_desc_t pd;
    enum ct_status st;

    if (p->packed)
        CT_TRY(ct_md_any(&any, 2, (const int64_t[]){ p->n, p->k }, CT_F32));
    st = ct_pd_product_forward(&pd, &a->x, p->packed ? &any : &a->w, &a->b,
                               &a->y, p->add);
    ct_md_fini(&any);
    CT_TRY(st);
    CT_TRY(ct_prim_init(&s->prim, pd));
    CT_TRY(ct_prim_arg_md(&s->prim, DNNL_ARG_SRC, &a->x));
    CT_TRY(ct_prim_arg_md(&s->prim, DNNL_ARG_DST, &a->y));
    if (p->has_bias)
        CT_TRY(ct_prim_arg_md(&s->prim, DNNL_ARG_BIAS, &a->b));
    return p->packed ? pack_init(a, s)
                     : ct_prim_arg_md(&s->prim, DNNL_ARG_WEIGHTS, &a->w);
}

static enum ct_status backward_data_init(const struct arrays *a,
                                         struct ct_prim *b)
{
    dnnl_primitive_desc_t pd, hint;
    enum ct_status st;

    CT_TRY(ct_pd_product_forward(&hint, &a->x, &a->w, &a->b, &a->y,
                                 false));
    st = ct_pd_product_backward_data(&pd, &a->x, &a->w, &a->y, hint);
    dnnl_primitive_desc_destroy(hint);
    CT_TRY(st);
    CT_TRY(ct_prim_init(b, pd));
    CT_TRY(ct_prim_arg_md(b, DNNL_ARG_DIFF_SRC, &a->x));
    CT_TRY(ct_prim_arg_md(b, DNNL_ARG_WEIGHTS, &a->w));
    return ct_prim_arg_md(b, DNNL_ARG_DIFF_DST, &a->y);
}

/* dW += dy^T x, or x^T dy where W is stored as k x n. */
static enum ct_status backward_weights_init(const struct ct_ip *p,
                                            struct arrays *a,
                                            struct ct_prim *b)
{
    const int64_t rows = p->transpose ? p->k : p->n;
    struct ct_md first = { 0 }, dw = { 0 };
    const struct ct_md *second = p->transpose ? &a->y : &a->x;
    dnnl_primitive_desc_t pd;
    enum ct_status st;

    CT_TRY_GOTO(ct_md_matrix(&first, rows, p->m, true), st, out);
    CT_TRY_GOTO(ct_md_matrix(&dw, rows, p->transpose ? p->n : p->k, false), st,
                out);
    CT_TRY_GOTO(ct_pd_matmul_add(&pd, &first, second, &dw), st, out);
    CT_TRY_GOTO(ct_prim_init(b, pd), st, out);
    CT_TRY_GOTO(ct_prim_arg_md(b, DNNL_ARG_SRC, &first), st, out);
    CT_TRY_GOTO(ct_prim_arg_md(b, DNNL_ARG_WEIGHTS, second), st, out);
    st = ct_prim_arg_md(b, DNNL_ARG_DST, &dw);
out:
    ct_md_fini(&first);
    ct_md_fini(&dw);
    return st;
}

static enum ct_status build(const struct ct_ip *p, enum ct_pass pass,
                            struct arrays *a, struct onednn_ip *s)
{
    void *scratch;

    CT_TRY(ct_dnnl_start());
    CT_TRY(describe(p, a));
    if (pass == CT_FORWARD)
        CT_TRY(forward_init(p, a, s));
    else if (pass == CT_BACKWARD)
        CT_TRY(backward_data_init(a, &s->prim));
    else
        CT_TRY(backward_weights_init(p, a, &s->prim));
    return ct_prim_own(&s->prim, DNNL_ARG_SCRATCHPAD, &scratch, NULL);
}

static enum ct_status onednn_create(const void *op, enum ct_pass pass,
                                    void **state)
{
    struct arrays a = { 0 };
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(struct onednn_ip), "inner product by oneDNN",
                    state));
    st = build(op, pass, &a, *state);
    ct_md_fini(&a.x);
    ct_md_fini(&a.w);
    ct_md_fini(&a.b);
    ct_md_fini(&a.y);
    return st == CT_EDEVICE ? CT_ENOTSUP : st;
}

static struct ct_prim *prim_of(const struct ct_ip *p, enum ct_pass pass)
{
    return &((struct onednn_ip *)p->pass[pass].state)->prim;
}

static enum ct_status onednn_pack(const struct ct_ip *p, enum ct_pass pass,
                                  const float *w)
{
    struct onednn_ip *s = p->pass[CT_FORWARD].state;

    if (pass != CT_FORWARD)
        return CT_OK;
    CT_TRY(ct_prim_set(&s->pack, DNNL_ARG_FROM, w));
    return ct_prim_run(&s->pack);
}

static enum ct_status onednn_forward(const struct ct_ip *p, const float *x,
                                     const float *w, const float *b, float *y)
{
    struct ct_prim *f = prim_of(p, CT_FORWARD);

    CT_TRY(ct_prim_set(f, DNNL_ARG_SRC, x));
    if (!p->packed)
        CT_TRY(ct_prim_set(f, DNNL_ARG_WEIGHTS, w));
    CT_TRY(ct_prim_set(f, DNNL_ARG_BIAS, b));
    CT_TRY(ct_prim_set(f, DNNL_ARG_DST, y));
    CT_TRY(ct_prim_run(f));
    ct_ip_relu(p, y);
    return CT_OK;
}

static enum ct_status onednn_backward_data(const struct ct_ip *p,
                                           const float *w, const float *dy,
                                           float *dx)
{
    struct ct_prim *b = prim_of(p, CT_BACKWARD);

    CT_TRY(ct_prim_set(b, DNNL_ARG_WEIGHTS, w));
    CT_TRY(ct_prim_set(b, DNNL_ARG_DIFF_DST, dy));
    CT_TRY(ct_prim_set(b, DNNL_ARG_DIFF_SRC, dx));
    return ct_prim_run(b);
}

static enum ct_status onednn_backward_weights(const struct ct_ip *p,
                                              const float *x, const float *dy,
                                              float *dw)
{
    struct ct_prim *b = prim_of(p, CT_BACKWARD_WEIGHTS);

    if (p->overwrite)
        CT_TRY(ct_fill(p->dev, p->n * p->k, 0, dw));
    CT_TRY(ct_prim_set(b, DNNL_ARG_SRC, p->transpose ? x : dy));
    CT_TRY(ct_prim_set(b, DNNL_ARG_WEIGHTS, p->transpose ? dy : x));
    CT_TRY(ct_prim_set(b, DNNL_ARG_DST, dw));
    return ct_prim_run(b);
}

const struct ct_ip_impl ct_ip_onednn = {
    .head             = { "onednn", onednn_takes, onednn_create,
                          onednn_destroy, onednn_slow },
    .forward          = onednn_forward,
    .pack             = onednn_pack,
    .backward_data    = onednn_backward_data,
    .backward_weights = onednn_backward_weights,
};

#endif
