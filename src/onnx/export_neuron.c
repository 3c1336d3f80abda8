/* export_neuron.c - layers that work value by value. */
#include <string.h>

#include "base/mem.h"
#include "layers/exp.h"
#include "layers/log_layer.h"
#include "onnx/export.h"
#include "proto/params.h"

/* Split and Dropout are no nodes: export.c passes their bottom on. */
enum ct_status onnx_emit_identity(struct onnx_export *x,
                                  const struct onnx_layer *l)
{
    onnx_end(x, l, "Identity", ONNX_IN(l->in[0]));
    return CT_OK;
}

#define PLAIN(fn, op)                                                        \
    enum ct_status fn(struct onnx_export *x, const struct onnx_layer *l)     \
    {                                                                        \
        onnx_end(x, l, op, ONNX_IN(l->in[0]));                               \
        return CT_OK;                                                        \
    }

PLAIN(onnx_emit_abs, "Abs")
PLAIN(onnx_emit_bnll, "Softplus")
PLAIN(onnx_emit_sigmoid, "Sigmoid")
PLAIN(onnx_emit_tanh, "Tanh")

enum ct_status onnx_emit_relu(struct onnx_export *x,
                              const struct onnx_layer *l)
{
    const float slope = ct_relu_param(l->layer->param)->negative_slope;
    Onnx__NodeProto *n =
        onnx_end(x, l, slope == 0 ? "Relu" : "LeakyRelu", ONNX_IN(l->in[0]));

    if (slope != 0)
        onnx_set_float(&x->graph, n, "alpha", slope);
    return CT_OK;
}

enum ct_status onnx_emit_relu6(struct onnx_export *x,
                               const struct onnx_layer *l)
{
    const float slope = ct_relu_param(l->layer->param)->negative_slope;
    const char *zero = onnx_number(x, l, "min", 0), *top, *below;
    const char *const clip[] = { l->in[0], zero, onnx_number(x, l, "max", 6),
                                 NULL };

    if (slope == 0) {
        onnx_end(x, l, "Clip", clip);
        return CT_OK;
    }
    top   = onnx_step(x, l, "Clip", clip);
    below = onnx_step(x, l, "Min", ONNX_IN(l->in[0], zero));
    below = onnx_step(x, l, "Mul",
                      ONNX_IN(below, onnx_number(x, l, "slope", slope)));
    onnx_end(x, l, "Add", ONNX_IN(top, below));
    onnx_remember(x, l);
    return CT_OK;
}

enum ct_status onnx_emit_clip(struct onnx_export *x,
                              const struct onnx_layer *l)
{
    const Caffe__ClipParameter *p = ct_clip_param(l->layer->param);
    const char *lo = onnx_number(x, l, "min", p->min);

    onnx_end(x, l, "Clip",
             ONNX_IN(l->in[0], lo, onnx_number(x, l, "max", p->max)));
    return CT_OK;
}

enum ct_status onnx_emit_elu(struct onnx_export *x, const struct onnx_layer *l)
{
    onnx_set_float(&x->graph, onnx_end(x, l, "Elu", ONNX_IN(l->in[0])),
                   "alpha", ct_elu_param(l->layer->param)->alpha);
    return CT_OK;
}

/* One slope a channel stands before the axes that follow the channels. */
enum ct_status onnx_emit_prelu(struct onnx_export *x,
                               const struct onnx_layer *l)
{
    const struct ct_blob *a = l->layer->blob[0];
    struct ct_shape shape   = { .n_axes = l->io.bottom[0]->shape.n_axes - 1 };
    float *values           = NULL;
    const char *slope;

    for (int i = 0; i < shape.n_axes; i++)
        shape.dim[i] = i == 0 ? a->count : 1;
    CT_TRY(onnx_values(a, &values));
    slope = onnx_weight(x, l, "slope", &shape, values);
    ct_free(values);
    onnx_end(x, l, "PRelu", ONNX_IN(l->in[0], slope));
    return CT_OK;
}

/* scale x + shift: no node for a scale of 1 or a shift of 0. */
static const char *linear(struct onnx_export *x, const struct onnx_layer *l,
                          const char *from, float scale, float shift)
{
    if (scale != 1)
        from = onnx_step(x, l, "Mul",
                         ONNX_IN(from, onnx_number(x, l, "scale", scale)));
    if (shift != 0)
        from = onnx_step(x, l, "Add",
                         ONNX_IN(from, onnx_number(x, l, "shift", shift)));
    return from;
}

enum ct_status onnx_emit_exp(struct onnx_export *x, const struct onnx_layer *l)
{
    const struct exp_layer *e = l->layer->state;
    const char *v = linear(x, l, l->in[0], e->inner, 0);

    if (e->outer == 1) {
        onnx_end(x, l, "Exp", ONNX_IN(v));
        return CT_OK;
    }
    v = onnx_step(x, l, "Exp", ONNX_IN(v));
    onnx_end(x, l, "Mul", ONNX_IN(v, onnx_number(x, l, "outer", e->outer)));
    return CT_OK;
}

enum ct_status onnx_emit_log(struct onnx_export *x, const struct onnx_layer *l)
{
    const struct log_layer *e = l->layer->state;
    const char *v = linear(x, l, l->in[0], e->scale, e->shift);

    if (e->log_base == 1) {
        onnx_end(x, l, "Log", ONNX_IN(v));
        return CT_OK;
    }
    v = onnx_step(x, l, "Log", ONNX_IN(v));
    onnx_end(x, l, "Mul",
             ONNX_IN(v, onnx_number(x, l, "outer", 1 / e->log_base)));
    return CT_OK;
}

enum ct_status onnx_emit_power(struct onnx_export *x,
                               const struct onnx_layer *l)
{
    const Caffe__PowerParameter *p = ct_power_param(l->layer->param);
    const char *v = l->in[0];

    if (p->power != 1) {
        v = linear(x, l, v, p->scale, p->shift);
        onnx_end(x, l, "Pow",
                 ONNX_IN(v, onnx_number(x, l, "power", p->power)));
    } else if (p->shift != 0) {
        v = linear(x, l, v, p->scale, 0);
        onnx_end(x, l, "Add",
                 ONNX_IN(v, onnx_number(x, l, "shift", p->shift)));
    } else {
        onnx_end(x, l, "Mul",
                 ONNX_IN(v, onnx_number(x, l, "scale", p->scale)));
    }
    return CT_OK;
}

enum ct_status onnx_emit_swish(struct onnx_export *x,
                               const struct onnx_layer *l)
{
    const float beta = ct_swish_param(l->layer->param)->beta;
    const char *v = linear(x, l, l->in[0], beta, 0);

    v = onnx_step(x, l, "Sigmoid", ONNX_IN(v));
    onnx_end(x, l, "Mul", ONNX_IN(l->in[0], v));
    return CT_OK;
}

enum ct_status onnx_emit_threshold(struct onnx_export *x,
                                   const struct onnx_layer *l)
{
    const float bound = ct_threshold_param(l->layer->param)->threshold;
    const char *v =
        onnx_step(x, l, "Greater",
                  ONNX_IN(l->in[0], onnx_number(x, l, "threshold", bound)));

    onnx_set_int(&x->graph, onnx_end(x, l, "Cast", ONNX_IN(v)), "to",
                 ONNX_FLOAT);
    onnx_remember(x, l);
    return CT_OK;
}

/* coeff x, or x itself. */
static const char *term(struct onnx_export *x, const struct onnx_layer *l,
                        const Caffe__EltwiseParameter *p, int i)
{
    if (p->operation != CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__SUM ||
        p->n_coeff == 0)
        return l->in[i];
    return linear(x, l, l->in[i], p->coeff[i], 0);
}

enum ct_status onnx_emit_eltwise(struct onnx_export *x,
                                 const struct onnx_layer *l)
{
    static const char *const ops[] = {
        [CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__PROD] = "Mul",
        [CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__SUM]  = "Add",
        [CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__MAX]  = "Max",
    };
    const Caffe__EltwiseParameter *p = ct_eltwise_param(l->layer->param);
    const char *op = ops[p->operation], *sum = term(x, l, p, 0);

    for (int i = 1; i < l->io.n_bottom - 1; i++)
        sum = onnx_step(x, l, op, ONNX_IN(sum, term(x, l, p, i)));
    onnx_end(x, l, op, ONNX_IN(sum, term(x, l, p, l->io.n_bottom - 1)));
    return CT_OK;
}

/* a x + y, a: one factor a channel of each item. */
enum ct_status onnx_emit_axpy(struct onnx_export *x,
                              const struct onnx_layer *l)
{
    struct ct_shape shape = l->io.bottom[1]->shape;
    const char *a         = l->in[0], *ax;

    if (l->io.bottom[0]->shape.n_axes != shape.n_axes) {
        for (int i = 0; i < shape.n_axes; i++)
            shape.dim[i] = i < 2 ? onnx_dim(x, l, false, 1, i) : 1;
        a = onnx_part(x, l, "Reshape");
        CT_TRY(onnx_reshape(x, l, l->in[0], &shape, a));
    }
    ax = onnx_step(x, l, "Mul", ONNX_IN(a, l->in[1]));
    onnx_end(x, l, "Add", ONNX_IN(ax, l->in[2]));
    return CT_OK;
}

enum ct_status onnx_emit_softmax(struct onnx_export *x,
                                 const struct onnx_layer *l)
{
    int axis = ct_softmax_param(l->layer->param)->axis;

    CT_TRY(ct_axis(l->io.bottom[0], axis, &axis));
    onnx_set_int(&x->graph, onnx_end(x, l, "Softmax", ONNX_IN(l->in[0])),
                 "axis", axis);
    return CT_OK;
}
