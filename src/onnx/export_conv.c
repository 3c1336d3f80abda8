/* export_conv.c - layers with large weights: convolutions, InnerProduct,
 * Embed. */
#include <string.h>

#include "base/mem.h"
#include "layers/conv_base.h"
#include "layers/inner_product.h"
#include "onnx/export.h"
#include "proto/params.h"

enum { WEIGHT, BIAS };

/* Weights and bias of a layer with what is folded into it; ct_free'd by the
 * caller.  The bias may be NULL. */
struct weights {
    float *w, *b;
};

static enum ct_status weights_read(const struct onnx_export *x,
                                   const struct onnx_layer *l, int64_t rows,
                                   struct weights *out)
{
    CT_TRY(onnx_values(l->layer->blob[WEIGHT], &out->w));
    if (l->layer->n_blob > 1)
        CT_TRY(onnx_values(l->layer->blob[BIAS], &out->b));
    if (!ct_fold_any(&x->folded) || out->b)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)rows, sizeof(*out->b), "onnx values", &out->b));
    memset(out->b, 0, (size_t)rows * sizeof(*out->b));
    return CT_OK;
}

static void weights_fini(struct weights *v)
{
    ct_free(v->w);
    ct_free(v->b);
}

/* Output o has `runs` runs of k weights, which lie `jump` apart. */
static void fold_row(const struct onnx_export *x, struct weights *v, int64_t o,
                     int64_t first, int64_t k, int64_t runs, int64_t jump)
{
    double factor, bias;

    ct_fold_line(&x->folded, o, &factor, &bias);
    v->b[o] = (float)(factor * (double)v->b[o] + bias);
    for (int64_t r = 0; r < runs; r++)
        for (int64_t i = 0; i < k; i++) {
            float *w = &v->w[first + r * jump + i];

            *w = (float)(factor * (double)*w);
        }
}

static void conv_fold(const struct onnx_export *x, const struct onnx_layer *l,
                      const struct ct_conv_layer *c, struct weights *v)
{
    const struct ct_blob *w = l->layer->blob[WEIGHT];
    const int64_t n = c->num_output, group = c->desc.group;

    if (!ct_fold_any(&x->folded))
        return;
    for (int64_t o = 0; o < n; o++) {
        const int64_t k = ct_count(w, 2, CT_END);

        if (c->kind != CT_CONV_TRANSPOSED) {
            fold_row(x, v, o, o * ct_count(w, 1, CT_END),
                     ct_count(w, 1, CT_END), 1, 0);
        } else {
            /* in x out / group x kernel */
            const int64_t per = n / group, ins = c->channels / group;

            fold_row(x, v, o, (o / per * ins * per + o % per) * k, k, ins,
                     per * k);
        }
    }
}

static void conv_attributes(struct onnx_export *x, Onnx__NodeProto *node,
                            const struct ct_conv_layer *c)
{
    struct onnx_graph *g         = &x->graph;
    const struct ct_conv_desc *d = &c->desc;
    const int n                  = d->n_spatial;
    int64_t pads[2 * CT_MAX_AXES];

    for (int i = 0; i < n; i++)
        pads[i] = pads[n + i] = d->pad[i];
    onnx_set_ints(g, node, "kernel_shape", n, d->kernel);
    onnx_set_ints(g, node, "strides", n, d->stride);
    onnx_set_ints(g, node, "pads", 2 * n, pads);
    onnx_set_ints(g, node, "dilations", n, d->dilation);
    onnx_set_int(g, node, "group", d->group);
}

enum ct_status onnx_emit_conv(struct onnx_export *x,
                              const struct onnx_layer *l)
{
    const struct ct_conv_layer *c = l->layer->state;
    const struct ct_blob *blob    = l->layer->blob[WEIGHT];
    const char *op = c->kind == CT_CONV_TRANSPOSED ? "ConvTranspose" : "Conv";
    struct weights v = { 0 };
    const char *w, *b = NULL;
    enum ct_status st;

    if (c->axis != 1)
        return onnx_refuse(l, "its channels are axis %d, and ONNX has them on "
                           "axis 1", c->axis);
    CT_TRY_GOTO(weights_read(x, l, c->num_output, &v), st, out);
    conv_fold(x, l, c, &v);
    w = onnx_weight(x, l, "weight", &blob->shape, v.w);
    if (v.b)
        b = onnx_weight(x, l, "bias", &CT_SHAPE(c->num_output), v.b);
    for (int i = 0; i < l->io.n_bottom; i++) {
        const char *name = i ? onnx_part(x, l, op) : l->name;

        conv_attributes(x, onnx_add(&x->graph, name, op,
                                    ONNX_IN(l->in[i], w, b), l->out[i]), c);
    }
out:
    weights_fini(&v);
    return st;
}

/* k x n to n x k: with transB, what every runtime knows. */
static enum ct_status turn(int64_t n, int64_t k, float **w)
{
    float *to = NULL;

    CT_TRY(ct_alloc((size_t)(n * k), sizeof(*to), "onnx values", &to));
    for (int64_t i = 0; i < k; i++)
        for (int64_t o = 0; o < n; o++)
            to[o * k + i] = (*w)[i * n + o];
    ct_free(*w);
    *w = to;
    return CT_OK;
}

static enum ct_status ip_weights(struct onnx_export *x,
                                 const struct onnx_layer *l,
                                 const char **w, const char **b)
{
    const Caffe__InnerProductParameter *p =
        ct_inner_product_param(l->layer->param);
    const struct ct_blob *blob = l->layer->blob[WEIGHT];
    const int64_t n = p->num_output, k = blob->count / n;
    struct weights v = { 0 };
    enum ct_status st = weights_read(x, l, n, &v);

    if (st == CT_OK && p->transpose)
        st = turn(n, k, &v.w);
    for (int64_t o = 0; st == CT_OK && ct_fold_any(&x->folded) && o < n; o++)
        fold_row(x, &v, o, o * k, k, 1, 0);
    if (st == CT_OK) {
        *w = onnx_weight(x, l, "weight", &CT_SHAPE(n, k), v.w);
        *b = v.b ? onnx_weight(x, l, "bias", &CT_SHAPE(n), v.b) : NULL;
    }
    weights_fini(&v);
    return st;
}

enum ct_status onnx_emit_inner_product(struct onnx_export *x,
                                       const struct onnx_layer *l)
{
    const struct inner_product *s = l->layer->state;
    const char *w, *b, *from = l->in[0], *to = l->out[0];
    const bool flat = s->axis == 1 && l->io.bottom[0]->shape.n_axes == 2;
    const bool wide = l->io.top[0]->shape.n_axes != 2;
    Onnx__NodeProto *node;

    CT_TRY(ip_weights(x, l, &w, &b));
    if (!flat) {
        from = onnx_part(x, l, "Flatten");
        node = onnx_add(&x->graph, from, "Flatten", ONNX_IN(l->in[0]), from);
        onnx_set_int(&x->graph, node, "axis", s->axis);
    }
    if (wide)
        to = onnx_part(x, l, "Gemm");
    node = onnx_add(&x->graph, wide ? to : l->name, "Gemm",
                    ONNX_IN(from, w, b), to);
    onnx_set_int(&x->graph, node, "transB", 1);
    return wide ? onnx_reshape_top(x, l, to, 0) : CT_OK;
}

enum ct_status onnx_emit_embed(struct onnx_export *x,
                               const struct onnx_layer *l)
{
    const struct ct_blob *w = l->layer->blob[WEIGHT];
    const bool bias         = l->layer->n_blob > 1;
    const char *index       = onnx_part(x, l, "Cast"), *rows, *table;
    struct weights v        = { 0 };
    enum ct_status st;

    CT_TRY_GOTO(weights_read(x, l, w->shape.dim[1], &v), st, out);
    onnx_set_int(&x->graph,
                 onnx_add(&x->graph, index, "Cast", ONNX_IN(l->in[0]), index),
                 "to", ONNX_INT64);
    table = onnx_weight(x, l, "blob0", &w->shape, v.w);
    if (!bias) {
        onnx_end(x, l, "Gather", ONNX_IN(table, index));
    } else {
        rows = onnx_step(x, l, "Gather", ONNX_IN(table, index));
        onnx_end(x, l, "Add",
                 ONNX_IN(rows, onnx_weight(x, l, "blob1",
                                           &CT_SHAPE(w->shape.dim[1]), v.b)));
    }
    onnx_remember(x, l);
out:
    weights_fini(&v);
    return st;
}
