/* export_recurrent.c - LSTM, RNN and LSTMUnit, step by step.
 *
 * ONNX's own LSTM and RNN cannot begin a sequence in the middle of a batch,
 * as `cont` does, so the T steps are written out.  States start at zero in
 * every run unless they are exposed: a net keeps them from pass to pass, a
 * graph does not. */
#include <inttypes.h>

#include "base/mem.h"
#include "layers/recurrent.h"
#include "onnx/export.h"

struct unroll {
    struct onnx_export        *x;
    const struct onnx_layer   *l;
    const struct ct_recurrent *r;
    const char **blob; /* constants, one a learned blob */
};

static const char *step(const struct unroll *u, const char *op,
                        const char *const *in)
{
    return onnx_step(u->x, u->l, op, in);
}

static const char *list(const struct unroll *u, const char *what, int64_t v)
{
    return onnx_list(u->x, u->l, what, 1, &v);
}

/* Elements [from, to) of an axis. */
static const char *cut(const struct unroll *u, const char *in, int64_t axis,
                       int64_t from, int64_t to)
{
    const char *starts = list(u, "starts", from), *ends = list(u, "ends", to);

    return step(u, "Slice", ONNX_IN(in, starts, ends, list(u, "axes", axis)));
}

static const char *reshape(const struct unroll *u, const char *in,
                           struct ct_shape to)
{
    return step(u, "Reshape", ONNX_IN(in, onnx_list(u->x, u->l, "shape",
                                                    to.n_axes, to.dim)));
}

/* a W^T + b; b may be NULL. */
static const char *product(const struct unroll *u, const char *a, int w,
                           const char *b)
{
    const char *out    = onnx_part(u->x, u->l, "Gemm");
    Onnx__NodeProto *n = onnx_add(&u->x->graph, out, "Gemm",
                                  ONNX_IN(a, u->blob[w], b), out);

    onnx_set_int(&u->x->graph, n, "transB", 1);
    return out;
}

static enum ct_status blobs(struct unroll *u)
{
    const struct ct_layer *l = u->l->layer;

    CT_TRY(ct_alloc((size_t)l->n_blob, sizeof(*u->blob), "onnx tensors",
                    &u->blob));
    for (int i = 0; i < l->n_blob; i++) {
        const struct ct_blob *b = l->blob[i];
        float *values           = NULL;

        CT_TRY(onnx_values(b, &values));
        u->blob[i] = onnx_floats(
            &u->x->graph, onnx_name(&u->x->graph, "%s.blob%d", u->l->name, i),
            &b->shape, values);
        ct_free(values);
    }
    return CT_OK;
}

/* The part of g that needs no state, T N x G. */
static const char *inputs(const struct unroll *u)
{
    const struct ct_recurrent *r = u->r;
    const char *x = reshape(u, u->l->in[0], CT_SHAPE(r->t * r->n, r->i));
    const char *g = product(u, x, r->w_x, u->blob[r->b]), *s;

    if (!r->has_static)
        return g;
    s = reshape(u, u->l->in[2], CT_SHAPE(r->n, r->s));
    s = reshape(u, product(u, s, r->w_s, NULL), CT_SHAPE(1, r->n, r->g));
    g = reshape(u, g, CT_SHAPE(r->t, r->n, r->g));
    g = step(u, "Add", ONNX_IN(g, s));
    return reshape(u, g, CT_SHAPE(r->t * r->n, r->g));
}

/* cont as rows of H equal values, so that products with states need no
 * broadcasting, which some runtimes lack. */
static enum ct_status wide_cont(const struct unroll *u, int64_t rows,
                                int64_t h, const char *cont, const char **out)
{
    const char *name = onnx_part(u->x, u->l, "Gemm"), *constant;
    float *ones      = NULL;

    CT_TRY(ct_alloc((size_t)h, sizeof(*ones), "onnx values", &ones));
    for (int64_t i = 0; i < h; i++)
        ones[i] = 1;
    constant = onnx_weight(u->x, u->l, "ones", &CT_SHAPE(h, 1), ones);
    ct_free(ones);
    cont = reshape(u, cont, CT_SHAPE(rows, 1));
    onnx_set_int(&u->x->graph,
                 onnx_add(&u->x->graph, name, "Gemm", ONNX_IN(cont, constant),
                          name),
                 "transB", 1);
    *out = name;
    return CT_OK;
}

/* i f o g of one step to h and c; `cont` and `c` are NULL at a fresh start. */
static void lstm_cell(const struct unroll *u, const char *gates, int64_t h,
                      const char *cont, const char **c, const char **out)
{
    const char *i = step(u, "Sigmoid", ONNX_IN(cut(u, gates, 1, 0, h)));
    const char *f, *o, *v;

    o = step(u, "Sigmoid", ONNX_IN(cut(u, gates, 1, 2 * h, 3 * h)));
    v = step(u, "Tanh", ONNX_IN(cut(u, gates, 1, 3 * h, 4 * h)));
    v = step(u, "Mul", ONNX_IN(i, v));
    if (*c) {
        f = step(u, "Sigmoid", ONNX_IN(cut(u, gates, 1, h, 2 * h)));
        f = step(u, "Mul", ONNX_IN(f, cont));
        v = step(u, "Add", ONNX_IN(step(u, "Mul", ONNX_IN(f, *c)), v));
    }
    *c   = v;
    *out = step(u, "Mul", ONNX_IN(o, step(u, "Tanh", ONNX_IN(v))));
}

/* g of step t: its part of `all` and the product with the state. */
static const char *gates(const struct unroll *u, const char *all, int64_t t,
                         const char *h, const char *cont)
{
    const char *g = cut(u, all, 0, t * u->r->n, (t + 1) * u->r->n);

    if (!h)
        return g;
    h = product(u, step(u, "Mul", ONNX_IN(h, cont)), u->r->w_h, NULL);
    return step(u, "Add", ONNX_IN(h, g));
}

/* The first state k as N x H, or NULL for zeros. */
static const char *first_state(const struct unroll *u, int k)
{
    const struct ct_recurrent *r = u->r;

    if (!r->exposed)
        return NULL;
    return reshape(u, u->l->in[2 + r->has_static + k], CT_SHAPE(r->n, r->h));
}

static void last_state(const struct unroll *u, int k, const char *v)
{
    const int64_t to[] = { 1, u->r->n, u->r->h };

    if (u->r->exposed)
        onnx_add(&u->x->graph, onnx_part(u->x, u->l, "last"), "Reshape",
                 ONNX_IN(v, onnx_list(u->x, u->l, "shape", 3, to)),
                 u->l->out[1 + k]);
}

/* All h_t, T x N x H rows of H. */
static enum ct_status sequence(const struct unroll *u, const char **out)
{
    const struct ct_recurrent *r = u->r;
    const char *all = inputs(u), *h = first_state(u, 0), *c = NULL;
    const char *name = onnx_part(u->x, u->l, "Concat"), *conts;
    Onnx__NodeProto *n = NULL;
    const char **part  = NULL;

    CT_TRY(wide_cont(u, r->t * r->n, r->h, u->l->in[1], &conts));
    CT_TRY(ct_alloc((size_t)r->t, sizeof(*part), "onnx tensors", &part));
    if (r->n_states > 1)
        c = first_state(u, 1);
    for (int64_t t = 0; t < r->t; t++) {
        const char *cont = cut(u, conts, 0, t * r->n, (t + 1) * r->n);
        const char *g    = gates(u, all, t, h, cont);

        if (r->n_states > 1)
            lstm_cell(u, g, r->h, cont, &c, &h);
        else
            h = step(u, "Tanh", ONNX_IN(g));
        part[t] = h;
    }
    n = onnx_add(&u->x->graph, name, "Concat", ONNX_IN(part[0]), name);
    for (int64_t t = 1; t < r->t; t++)
        onnx_add_input(&u->x->graph, n, part[t]);
    onnx_set_int(&u->x->graph, n, "axis", 0);
    last_state(u, 0, h);
    if (r->n_states > 1)
        last_state(u, 1, c);
    ct_free(part);
    *out = name;
    return CT_OK;
}

static enum ct_status begin(struct unroll *u)
{
    if (u->x->dynamic)
        return onnx_refuse(u->l, "its steps are written out one by one: give "
                           "a batch size");
    if (u->r->t > 512)
        return onnx_refuse(u->l, "its %" PRId64 " steps are written out one by "
                           "one, and 512 are the most", u->r->t);
    onnx_remember(u->x, u->l);
    return blobs(u);
}

enum ct_status onnx_emit_lstm(struct onnx_export *x,
                              const struct onnx_layer *l)
{
    struct unroll u = { x, l, l->layer->state, NULL };
    const char *all;
    enum ct_status st;

    CT_TRY_GOTO(begin(&u), st, out);
    CT_TRY_GOTO(sequence(&u, &all), st, out);
    st = onnx_reshape_top(x, l, all, 0);
out:
    ct_free(u.blob);
    return st;
}

/* o = tanh(h W_ho^T + b_o), the last two blobs. */
enum ct_status onnx_emit_rnn(struct onnx_export *x, const struct onnx_layer *l)
{
    struct unroll u = { x, l, l->layer->state, NULL };
    const int w_o   = l->layer->n_blob - 2;
    const char *all;
    enum ct_status st;

    CT_TRY_GOTO(begin(&u), st, out);
    CT_TRY_GOTO(sequence(&u, &all), st, out);
    all = product(&u, all, w_o, u.blob[w_o + 1]);
    st  = onnx_reshape_top(x, l, step(&u, "Tanh", ONNX_IN(all)), 0);
out:
    ct_free(u.blob);
    return st;
}

/* Bottoms: c, gates (1 x N x 4 H), cont (1 x N).  Tops: c, h. */
enum ct_status onnx_emit_lstm_unit(struct onnx_export *x,
                                   const struct onnx_layer *l)
{
    const struct ct_shape *s = &l->io.bottom[0]->shape;
    const int64_t n = s->dim[1], h = s->dim[2];
    const int64_t to[] = { 1, n, h };
    struct unroll u = { x, l, NULL, NULL };
    const char *c, *g, *cont, *out;

    if (x->dynamic)
        return onnx_refuse(l, "its batch is axis 1: give a batch size");
    onnx_remember(x, l);
    c    = reshape(&u, l->in[0], CT_SHAPE(n, h));
    g    = reshape(&u, l->in[1], CT_SHAPE(n, 4 * h));
    CT_TRY(wide_cont(&u, n, h, l->in[2], &cont));
    lstm_cell(&u, g, h, cont, &c, &out);
    onnx_add(&x->graph, l->name, "Reshape",
             ONNX_IN(c, onnx_list(x, l, "shape", 3, to)), l->out[0]);
    onnx_add(&x->graph, onnx_part(x, l, "h"), "Reshape",
             ONNX_IN(out, onnx_list(x, l, "shape", 3, to)), l->out[1]);
    return CT_OK;
}
