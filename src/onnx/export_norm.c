/* export_norm.c - layers that normalise, scale and shift. */
#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "layers/batch_norm.h"
#include "onnx/export.h"
#include "proto/params.h"

/* One BatchNormalization: y = factor (x - mean) / sqrt(var + eps) + bias. */
enum ct_status onnx_emit_batch_norm(struct onnx_export *x,
                                    const struct onnx_layer *l)
{
    const struct batch_norm *s = l->layer->state;
    const struct ct_layer *scale = x->folded.scale;
    struct ct_blob *const *blob = l->layer->blob;
    const int64_t c = s->channels;
    const float all = ct_data(blob[FACTOR])[0];
    const char *in[6] = { l->in[0] };
    float *row = NULL;

    if (!s->global)
        return onnx_refuse(l, "it normalises by the batch's own statistics "
                           "(use_global_stats: false)");
    if (l->io.bottom[0]->shape.n_axes < 2)
        return onnx_refuse(l, "its bottom has one axis");
    CT_TRY(ct_alloc((size_t)c, sizeof(*row), "onnx values", &row));
    for (int k = 0; k < 4; k++) {
        static const char *const what[] = { "scale", "bias", "mean", "var" };

        for (int64_t i = 0; i < c; i++)
            row[i] = k == 0   ? scale ? ct_data(scale->blob[0])[i] : 1
                     : k == 1 ? scale && scale->n_blob > 1
                                    ? ct_data(scale->blob[1])[i] : 0
                     : all == 0 ? 0
                                : ct_data(blob[k == 2 ? MEAN : VARIANCE])[i] /
                                      all;
        in[k + 1] = onnx_weight(x, l, what[k], &CT_SHAPE(c), row);
    }
    ct_free(row);
    onnx_set_float(&x->graph, onnx_end(x, l, "BatchNormalization", in),
                   "epsilon", ct_batch_norm_param(l->layer->param)->eps);
    return CT_OK;
}

/* Coefficients over x from `axis` on, with axes of one behind them.  Learned
 * ones have none before them, which is the form that runtimes know best. */
static enum ct_status coefficients(struct onnx_export *x,
                                   const struct onnx_layer *l,
                                   const char *what, const struct ct_blob *b,
                                   int axis, const char **out)
{
    const struct ct_blob *bottom = l->io.bottom[0];
    struct ct_shape shape        = { .n_axes = bottom->shape.n_axes };
    float *values                = NULL;
    int first                    = 0;

    if (b->shape.n_axes > 0)
        CT_TRY(ct_axis(bottom, axis, &first));
    for (int i = 0; i < shape.n_axes; i++)
        shape.dim[i] = i >= first && i < first + b->shape.n_axes
                           ? b->shape.dim[i - first] : 1;
    if (l->io.n_bottom > 1 && b == l->io.bottom[1]) {
        *out = l->in[1];
        for (int i = 0; i < b->shape.n_axes; i++)
            shape.dim[first + i] = onnx_dim(x, l, false, 1, i);
        if (b->shape.n_axes == shape.n_axes)
            return CT_OK;
        *out = onnx_part(x, l, "Reshape");
        return onnx_reshape(x, l, l->in[1], &shape, *out);
    }
    for (int i = 0; i < shape.n_axes - first; i++)
        shape.dim[i] = shape.dim[first + i];
    shape.n_axes = b->shape.n_axes > 0 ? shape.n_axes - first : 0;
    CT_TRY(onnx_values(b, &values));
    *out = onnx_weight(x, l, what, &shape, values);
    ct_free(values);
    return CT_OK;
}

enum ct_status onnx_emit_scale(struct onnx_export *x,
                               const struct onnx_layer *l)
{
    const Caffe__ScaleParameter *p = ct_scale_param(l->layer->param);
    const bool two                 = l->io.n_bottom > 1;
    const struct ct_blob *s = two ? l->io.bottom[1] : l->layer->blob[0];
    const char *factor, *bias, *v;

    /* By these names an import finds them again. */
    CT_TRY(coefficients(x, l, "blob0", s, p->axis, &factor));
    if (!p->bias_term) {
        onnx_end(x, l, "Mul", ONNX_IN(l->in[0], factor));
        return CT_OK;
    }
    CT_TRY(coefficients(x, l, two ? "blob0" : "blob1",
                        l->layer->blob[two ? 0 : 1], p->axis, &bias));
    onnx_remember(x, l);
    v = onnx_step(x, l, "Mul", ONNX_IN(l->in[0], factor));
    onnx_end(x, l, "Add", ONNX_IN(v, bias));
    return CT_OK;
}

enum ct_status onnx_emit_bias(struct onnx_export *x,
                              const struct onnx_layer *l)
{
    const char *bias;

    CT_TRY(coefficients(x, l, "bias",
                        l->io.n_bottom > 1 ? l->io.bottom[1]
                                           : l->layer->blob[0],
                        ct_bias_param(l->layer->param)->axis, &bias));
    onnx_end(x, l, "Add", ONNX_IN(l->in[0], bias));
    return CT_OK;
}

/* x (1 + alpha mean of x^2 over the square)^-beta */
static void lrn_within(struct onnx_export *x, const struct onnx_layer *l,
                       const Caffe__LRNParameter *p)
{
    struct onnx_graph *g  = &x->graph;
    const int64_t size    = p->local_size, half = (size - 1) / 2;
    const int64_t kernel[] = { size, size };
    const int64_t pads[]   = { 0, 0, half, half, 0, 0, half, half };
    const char *mean = onnx_part(x, l, "AveragePool"), *v;
    Onnx__NodeProto *n;

    v = onnx_step(x, l, "Mul", ONNX_IN(l->in[0], l->in[0]));
    v = onnx_step(x, l, "Pad", ONNX_IN(v, onnx_list(x, l, "pads", 8, pads)));
    n = onnx_add(g, mean, "AveragePool", ONNX_IN(v), mean);
    onnx_set_ints(g, n, "kernel_shape", 2, kernel);
    v = onnx_step(x, l, "Mul",
                  ONNX_IN(mean, onnx_number(x, l, "alpha", p->alpha)));
    v = onnx_step(x, l, "Add", ONNX_IN(v, onnx_number(x, l, "one", 1)));
    v = onnx_step(x, l, "Pow",
                  ONNX_IN(v, onnx_number(x, l, "power", -p->beta)));
    onnx_end(x, l, "Mul", ONNX_IN(l->in[0], v));
    onnx_remember(x, l);
}

enum ct_status onnx_emit_lrn(struct onnx_export *x, const struct onnx_layer *l)
{
    const Caffe__LRNParameter *p = ct_lrn_param(l->layer->param);
    Onnx__NodeProto *n;

    if (p->norm_region ==
        CAFFE__LRNPARAMETER__NORM_REGION__WITHIN_CHANNEL) {
        lrn_within(x, l, p);
        return CT_OK;
    }
    n = onnx_end(x, l, "LRN", ONNX_IN(l->in[0]));
    onnx_set_int(&x->graph, n, "size", p->local_size);
    onnx_set_float(&x->graph, n, "alpha", p->alpha);
    onnx_set_float(&x->graph, n, "beta", p->beta);
    onnx_set_float(&x->graph, n, "bias", p->k);
    return CT_OK;
}

/* A Reduce operator over axes [first, end), which stay as ones. */
static const char *reduce(struct onnx_export *x, const struct onnx_layer *l,
                          const char *op, const char *from, int first, int end)
{
    const char *out    = onnx_part(x, l, op);
    Onnx__NodeProto *n = onnx_add(&x->graph, out, op, ONNX_IN(from), out);
    int64_t axes[CT_MAX_AXES];

    for (int i = first; i < end; i++)
        axes[i - first] = i;
    onnx_set_ints(&x->graph, n, "axes", end - first, axes);
    onnx_set_int(&x->graph, n, "keepdims", 1);
    return out;
}

enum ct_status onnx_emit_mvn(struct onnx_export *x, const struct onnx_layer *l)
{
    const Caffe__MVNParameter *p = ct_mvn_param(l->layer->param);
    const int first = p->across_channels ? 1 : 2;
    const int end   = l->io.bottom[0]->shape.n_axes;
    const char *mean, *v, *dev;

    if (end <= first)
        return onnx_refuse(l, "its bottom has %d axes, and rows begin at axis "
                           "%d", end, first);
    onnx_remember(x, l);
    mean = reduce(x, l, "ReduceMean", l->in[0], first, end);
    if (!p->normalize_variance) {
        onnx_end(x, l, "Sub", ONNX_IN(l->in[0], mean));
        return CT_OK;
    }
    v   = onnx_step(x, l, "Sub", ONNX_IN(l->in[0], mean));
    dev = onnx_step(x, l, "Mul", ONNX_IN(v, v));
    dev = reduce(x, l, "ReduceMean", dev, first, end);
    dev = onnx_step(x, l, "Sqrt", ONNX_IN(dev));
    dev = onnx_step(x, l, "Add", ONNX_IN(dev, onnx_number(x, l, "eps",
                                                          p->eps)));
    onnx_end(x, l, "Div", ONNX_IN(v, dev));
    return CT_OK;
}

/* x s / sqrt(eps + sum of x^2) */
enum ct_status onnx_emit_normalize(struct onnx_export *x,
                                   const struct onnx_layer *l)
{
    const Caffe__NormalizeParameter *p = ct_norm_param(l->layer->param);
    const struct ct_blob *s = l->layer->blob[0];
    const int n_axes = l->io.bottom[0]->shape.n_axes;
    struct ct_shape shape = { .n_axes = n_axes };
    const char *v;
    float *values = NULL;

    for (int i = 0; i < n_axes; i++)
        shape.dim[i] = i == 1 ? s->count : 1;
    CT_TRY(onnx_values(s, &values));
    onnx_remember(x, l);
    v = reduce(x, l, "ReduceSumSquare", l->in[0], 1,
               p->across_spatial ? n_axes : 2);
    v = onnx_step(x, l, "Add", ONNX_IN(v, onnx_number(x, l, "eps", p->eps)));
    v = onnx_step(x, l, "Sqrt", ONNX_IN(v));
    v = onnx_step(x, l, "Div", ONNX_IN(l->in[0], v));
    onnx_end(x, l, "Mul", ONNX_IN(v, onnx_weight(x, l, "blob0", &shape,
                                                 values)));
    ct_free(values);
    return CT_OK;
}
