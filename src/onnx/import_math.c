/* import_math.c - arithmetic: value by value, with broadcasting, reduced.
 *
 * Caffe repeats coefficients over x if they stand for some axes of it, one
 * behind the other: Scale multiplies, Bias adds.  What ONNX broadcasts is
 * brought to that form. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/import.h"

static bool is_op(const struct onnx_import *m, const char *op)
{
    return strcmp(m->node->op_type, op) == 0;
}

static enum ct_status one_layer(struct onnx_import *m, const char *type,
                                const char *bottom, const char *param)
{
    return onnx_layer_end(
        m, &(struct onnx_made){ type, ONNX_BLOBS(bottom), 1, NULL, 0 }, "%s",
        param);
}

enum ct_status onnx_read_neuron(struct onnx_import *m)
{
    static const struct {
        const char *op, *type, *param;
    } plain[] = {
        { "Abs", "AbsVal", "" },
        { "Exp", "Exp", "" },
        { "Log", "Log", "" },
        { "Mish", "Mish", "" },
        { "Neg", "Power", "power_param { scale: -1 }" },
        { "Reciprocal", "Power", "power_param { power: -1 }" },
        { "Relu", "ReLU", "" },
        { "Sigmoid", "Sigmoid", "" },
        { "Softplus", "BNLL", "" },
        { "Sqrt", "Power", "power_param { power: 0.5 }" },
        { "Tanh", "TanH", "" },
    };
    struct onnx_value *v;
    char param[80];

    CT_TRY(onnx_input_blob(m, 0, &v));
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        if (is_op(m, plain[i].op))
            return one_layer(m, plain[i].type, v->blob, plain[i].param);
    if (is_op(m, "Elu")) {
        snprintf(param, sizeof(param), "elu_param { alpha: %.9g }",
                 (double)onnx_get_float(m, "alpha", 1));
        return one_layer(m, "ELU", v->blob, param);
    }
    snprintf(param, sizeof(param), "relu_param { negative_slope: %.9g }",
             (double)onnx_get_float(m, "alpha", .01f));
    return one_layer(m, "ReLU", v->blob, param);
}

/* A constant of one value, or `otherwise` where it is left out. */
static enum ct_status scalar(struct onnx_import *m, size_t i, double otherwise,
                             double *out)
{
    struct onnx_value *v;

    *out = otherwise;
    CT_TRY(onnx_input_floats(m, i, &v));
    if (v && ct_shape_count(&v->shape, 0, CT_END) != 1)
        return onnx_reject(m, "input %zu must be one number", i);
    if (v)
        *out = (double)v->f[0];
    return CT_OK;
}

enum ct_status onnx_read_clip(struct onnx_import *m)
{
    double lo = (double)onnx_get_float(m, "min", -3.4e38f);
    double hi = (double)onnx_get_float(m, "max", 3.4e38f);
    struct onnx_value *v;
    char param[120];

    CT_TRY(scalar(m, 1, lo, &lo));
    CT_TRY(scalar(m, 2, hi, &hi));
    CT_TRY(onnx_input_blob(m, 0, &v));
    if (lo == 0 && hi == 6)
        return one_layer(m, "ReLU6", v->blob, "");
    snprintf(param, sizeof(param), "clip_param { min: %.9g max: %.9g }", lo,
             hi);
    return one_layer(m, "Clip", v->blob, param);
}

/* max(0, min(1, alpha x + beta)), and for HardSwish times x. */
enum ct_status onnx_read_hard(struct onnx_import *m)
{
    const bool swish = is_op(m, "HardSwish");
    const double alpha =
        swish ? 1 / 6. : (double)onnx_get_float(m, "alpha", .2f);
    const double beta = swish ? .5 : (double)onnx_get_float(m, "beta", .5f);
    struct onnx_value *v;
    const char *x, *line;

    CT_TRY(onnx_input_blob(m, 0, &v));
    x = v->blob;
    CT_TRY(onnx_layer_between(
        m, &(struct onnx_made){ "Power", ONNX_BLOBS(x), 1, NULL, 0 }, &line,
        NULL, "power_param { scale: %.9g shift: %.9g }", alpha, beta));
    if (!swish)
        return one_layer(m, "Clip", line, "clip_param { min: 0 max: 1 }");
    CT_TRY(onnx_layer_between(
        m, &(struct onnx_made){ "Clip", ONNX_BLOBS(line), 1, NULL, 0 }, &line,
        NULL, "clip_param { min: 0 max: 1 }"));
    return onnx_layer_end(
        m, &(struct onnx_made){ "Eltwise", ONNX_BLOBS(x, line), 1, NULL, 0 },
        "eltwise_param { operation: PROD }");
}

enum ct_status onnx_read_pow(struct onnx_import *m)
{
    struct onnx_value *v;
    double power;
    char param[60];

    CT_TRY(scalar(m, 1, 1, &power));
    CT_TRY(onnx_input_blob(m, 0, &v));
    snprintf(param, sizeof(param), "power_param { power: %.9g }", power);
    return one_layer(m, "Power", v->blob, param);
}

enum ct_status onnx_read_prelu(struct onnx_import *m)
{
    struct onnx_value *x, *a;
    struct onnx_blob slope;
    int64_t n;

    CT_TRY(onnx_input_floats(m, 1, &a));
    CT_TRY(onnx_input(m, 0, &x));
    if (!x || !x->blob || !a || x->shape.n_axes < 2)
        return onnx_reject(m, "it takes a blob and constant slopes");
    n = ct_shape_count(&a->shape, 0, CT_END);
    if (n != 1 && (n != x->shape.dim[1] ||
                   (a->shape.n_axes > 0 && x->shape.n_axes > 2 &&
                    a->shape.dim[a->shape.n_axes - 1] != 1)))
        return onnx_reject(m, "slopes must be one, or one per channel");
    slope = (struct onnx_blob){ CT_SHAPE(n), a->f };
    return onnx_layer_end(
        m, &(struct onnx_made){ "PReLU", ONNX_BLOBS(x->blob), 1, &slope, 1 },
        "prelu_param { channel_shared: %s }", n == 1 ? "true" : "false");
}

/* Before opset 13 everything from `axis` on is one row. */
enum ct_status onnx_read_softmax(struct onnx_import *m)
{
    const bool rows = m->opset < 13;
    struct onnx_value *v;
    char param[60];
    int axis;

    CT_TRY(onnx_input_blob(m, 0, &v));
    CT_TRY(onnx_axis(m, &v->shape, onnx_get_int(m, "axis", rows ? 1 : -1),
                     &axis));
    if (rows && ct_shape_count(&v->shape, axis + 1, CT_END) != 1)
        return onnx_reject(m, "it goes over several axes at once");
    snprintf(param, sizeof(param), "softmax_param { axis: %d }", axis);
    return one_layer(m, "Softmax", v->blob, param);
}

/* The axes [first, end) of x that y, aligned at the end, stands for; false:
 * it stands for more than x has. */
static bool span(const struct ct_shape *x, const struct ct_shape *y,
                 int *first, int *end)
{
    *first = *end = -1;
    if (y->n_axes > x->n_axes)
        return false;
    for (int i = 0; i < y->n_axes; i++) {
        const int at = x->n_axes - y->n_axes + i;

        if (y->dim[i] == 1)
            continue;
        if (y->dim[i] != x->dim[at])
            return false;
        *first = *first < 0 ? at : *first;
        *end   = at + 1;
    }
    return true;
}

/* Dimension `axis` of x in y, which is aligned at the end. */
static int64_t aligned(const struct ct_shape *x, const struct ct_shape *y,
                       int axis)
{
    const int at = axis - (x->n_axes - y->n_axes);

    return at < 0 ? 1 : y->dim[at];
}

/* x op constant: what the constant is multiplied by, or is added. */
static enum ct_status with_constant(struct onnx_import *m,
                                    const struct onnx_value *x,
                                    const struct onnx_value *c, bool first_is_x)
{
    const bool times = is_op(m, "Mul") || is_op(m, "Div");
    const bool minus = is_op(m, "Sub"), over = is_op(m, "Div");
    const int64_t n  = ct_shape_count(&c->shape, 0, CT_END);
    struct ct_shape shape = { 0 };
    struct onnx_blob blob;
    const char *bottom = x->blob;
    float *values = NULL;
    enum ct_status st;
    int first, end;

    if (!c->f)
        return onnx_reject(m, "a constant of integers meets a blob");
    if (!span(&x->shape, &c->shape, &first, &end))
        return onnx_reject(m, "a constant is larger than the blob it meets");
    if (!first_is_x && (minus || over))
        CT_TRY(onnx_layer_between(
            m, &(struct onnx_made){ "Power", ONNX_BLOBS(bottom), 1, NULL, 0 },
            &bottom, NULL, minus ? "power_param { scale: -1 }"
                                 : "power_param { power: -1 }"));
    if (first < 0) {
        const double v = n ? (double)c->f[0] : 0;
        char param[80];

        snprintf(param, sizeof(param), "power_param { %s: %.9g }",
                 times ? "scale" : "shift",
                 first_is_x && minus ? -v : first_is_x && over ? 1 / v : v);
        return one_layer(m, "Power", bottom, param);
    }
    for (int i = first; i < end; i++)
        shape.dim[shape.n_axes++] = x->shape.dim[i];
    CT_TRY(ct_alloc((size_t)ct_shape_count(&shape, 0, CT_END), sizeof(*values),
                    "onnx values", &values));
    for (int64_t k = 0; k < ct_shape_count(&shape, 0, CT_END); k++) {
        int64_t rest = k, at = 0, step = 1;

        for (int i = end - 1; i >= first; i--) {
            const int64_t dim = aligned(&x->shape, &c->shape, i);

            at += dim == 1 ? 0 : rest % x->shape.dim[i] * step;
            step *= dim;
            rest /= x->shape.dim[i];
        }
        values[k] = first_is_x && minus  ? -c->f[at]
                    : first_is_x && over ? 1 / c->f[at]
                                         : c->f[at];
    }
    blob = (struct onnx_blob){ shape, values };
    st   = onnx_layer_end(
        m, &(struct onnx_made){ times ? "Scale" : "Bias", ONNX_BLOBS(bottom),
                                1, &blob, 1 },
        "%s { axis: %d num_axes: %d }", times ? "scale_param" : "bias_param",
        first, shape.n_axes);
    ct_free(values);
    return st;
}

/* A power of a blob in between: its inverse, or its negative. */
static enum ct_status turned(struct onnx_import *m, bool over,
                             const char **blob)
{
    return onnx_layer_between(
        m, &(struct onnx_made){ "Power", ONNX_BLOBS(*blob), 1, NULL, 0 }, blob,
        NULL, over ? "power_param { power: -1 }" : "power_param { scale: -1 }");
}

/* The smaller blob in the shape of the axes it stands for. */
static enum ct_status spread(struct onnx_import *m, const struct ct_shape *x,
                             const struct ct_shape *y, int first, int end,
                             const char **blob)
{
    struct ct_shape to = { 0 };

    for (int i = first; i < end; i++)
        to.dim[to.n_axes++] = aligned(x, y, i);
    if (!ct_shape_equal(&to, y))
        CT_TRY(onnx_reshape_between(m, *blob, &to, blob));
    for (int i = 0; i < to.n_axes; i++)
        if (to.dim[i] != x->dim[first + i])
            CT_TRY(onnx_layer_between(
                m, &(struct onnx_made){ "Tile", ONNX_BLOBS(*blob), 1, NULL,
                                        0 },
                blob, NULL, "tile_param { axis: %d tiles: %" PRId64 " }", i,
                x->dim[first + i]));
    return CT_OK;
}

/* Two blobs of which one is repeated over the other. */
static enum ct_status broadcast(struct onnx_import *m,
                                const struct onnx_value *a,
                                const struct onnx_value *b)
{
    const bool times = is_op(m, "Mul") || is_op(m, "Div");
    const bool minus = is_op(m, "Sub"), over = is_op(m, "Div");
    const bool a_is_large = ct_shape_count(&a->shape, 0, CT_END) >=
                            ct_shape_count(&b->shape, 0, CT_END);
    const struct ct_shape x = a_is_large ? a->shape : b->shape;
    const struct ct_shape y = a_is_large ? b->shape : a->shape;
    const char *large = a_is_large ? a->blob : b->blob;
    const char *small = a_is_large ? b->blob : a->blob;
    int first, end;

    if (!span(&x, &y, &first, &end))
        return onnx_reject(m, "both inputs are repeated over each other");
    if (first < 0) {
        first = 0;
        end   = 0;
    }
    if (minus || over)
        CT_TRY(turned(m, over, a_is_large ? &small : &large));
    CT_TRY(spread(m, &x, &y, first, end, &small));
    return onnx_layer_end(
        m, &(struct onnx_made){ times ? "Scale" : "Bias",
                                ONNX_BLOBS(large, small), 1, NULL, 0 },
        "%s { axis: %d }", times ? "scale_param" : "bias_param", first);
}

enum ct_status onnx_read_binary(struct onnx_import *m)
{
    struct onnx_value *a, *b;
    const char *second;

    CT_TRY(onnx_input(m, 0, &a));
    CT_TRY(onnx_input(m, 1, &b));
    if (!a || !b)
        return onnx_reject(m, "it takes two inputs");
    if (!a->blob || !b->blob)
        return with_constant(m, a->blob ? a : b, a->blob ? b : a,
                             a->blob != NULL);
    if (!ct_shape_equal(&a->shape, &b->shape))
        return broadcast(m, a, b);
    second = b->blob;
    if (is_op(m, "Div")) {
        const char *first = a->blob;

        CT_TRY(turned(m, true, &second));
        return onnx_layer_end(
            m, &(struct onnx_made){ "Eltwise", ONNX_BLOBS(first, second), 1,
                                    NULL, 0 },
            "eltwise_param { operation: PROD }");
    }
    return onnx_layer_end(
        m, &(struct onnx_made){ "Eltwise", ONNX_BLOBS(a->blob, second), 1,
                                NULL, 0 },
        "eltwise_param { %s }",
        is_op(m, "Mul")   ? "operation: PROD"
        : is_op(m, "Sub") ? "coeff: 1 coeff: -1"
                          : "operation: SUM");
}

/* Several inputs of one shape. */
static enum ct_status many(struct onnx_import *m, const char *operation)
{
    const char *blob[17] = { NULL };
    struct onnx_value *v;
    struct ct_shape shape = { 0 };

    if (m->node->n_input < 1 || m->node->n_input > 16)
        return onnx_reject(m, "%zu inputs", m->node->n_input);
    for (size_t i = 0; i < m->node->n_input; i++) {
        CT_TRY(onnx_input_blob(m, i, &v));
        if (i > 0 && !ct_shape_equal(&shape, &v->shape))
            return onnx_reject(m, "its inputs differ in shape");
        shape   = v->shape;
        blob[i] = v->blob;
    }
    if (!blob[1])
        return onnx_pass_on(m, blob[0], &shape);
    return onnx_layer_end(m, &(struct onnx_made){ "Eltwise", blob, 1, NULL, 0 },
                          "eltwise_param { operation: %s }", operation);
}

enum ct_status onnx_read_sum(struct onnx_import *m)
{
    return many(m, "SUM");
}

enum ct_status onnx_read_max(struct onnx_import *m)
{
    return many(m, "MAX");
}

enum ct_status onnx_read_argmax(struct onnx_import *m)
{
    struct onnx_value *v;
    char param[60];
    int axis;

    CT_TRY(onnx_input_blob(m, 0, &v));
    CT_TRY(onnx_axis(m, &v->shape, onnx_get_int(m, "axis", 0), &axis));
    if (!onnx_get_int(m, "keepdims", 1))
        return onnx_reject(m, "keepdims is 0");
    snprintf(param, sizeof(param), "argmax_param { axis: %d }", axis);
    return one_layer(m, "ArgMax", v->blob, param);
}

/* The last axes of a blob, or both axes of images. */
enum ct_status onnx_read_reduce(struct onnx_import *m)
{
    const char *op = is_op(m, "ReduceL1")          ? "ASUM"
                     : is_op(m, "ReduceMean")      ? "MEAN"
                     : is_op(m, "ReduceSumSquare") ? "SUMSQ"
                                                   : "SUM";
    const bool keep = onnx_get_int(m, "keepdims", 1) != 0;
    int64_t axes[CT_MAX_AXES];
    bool chosen[CT_MAX_AXES] = { false };
    struct ct_shape to;
    struct onnx_value *v;
    const char *blob;
    int n, first, axis;

    CT_TRY(onnx_numbers(m, "axes", 1, CT_MAX_AXES, axes, &n));
    CT_TRY(onnx_input_blob(m, 0, &v));
    for (int i = 0; i < n; i++) {
        CT_TRY(onnx_axis(m, &v->shape, axes[i], &axis));
        chosen[axis] = true;
    }
    for (int i = 0; n <= 0 && i < v->shape.n_axes; i++)
        chosen[i] = true;
    first = v->shape.n_axes;
    while (first > 0 && chosen[first - 1])
        first--;
    for (int i = 0; i < first; i++)
        if (chosen[i])
            return onnx_reject(m, "Caffe reduces the last axes only");
    if (first == v->shape.n_axes)
        return onnx_reject(m, "it has no axes");
    to = v->shape;
    for (int i = first; i < to.n_axes; i++)
        to.dim[i] = 1;
    if (!keep)
        return onnx_layer_end(
            m, &(struct onnx_made){ "Reduction", ONNX_BLOBS(v->blob), 1, NULL,
                                    0 },
            "reduction_param { operation: %s axis: %d }", op, first);
    CT_TRY(onnx_layer_between(
        m, &(struct onnx_made){ "Reduction", ONNX_BLOBS(v->blob), 1, NULL, 0 },
        &blob, NULL, "reduction_param { operation: %s axis: %d }", op, first));
    return onnx_reshape_end(m, blob, &to);
}
