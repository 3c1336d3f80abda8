/* import_fold.c - nodes whose inputs are constants, computed.
 *
 * Exporters write shapes as graphs: Shape, Gather, Concat, arithmetic.  As all
 * shapes are known here, those end in constants.  Numbers are doubles while
 * they are worked on; integers beyond 2^53 are only ever copied. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/import.h"

#define MOST_FOLDED ((int64_t)1 << 26)

static int64_t count_of(const struct onnx_value *v)
{
    return ct_shape_count(&v->shape, 0, CT_END);
}

static double number(const struct onnx_value *v, int64_t i)
{
    return v->i ? (double)v->i[i] : (double)v->f[i];
}

/* A new constant as the node's output 0, of floats or integers. */
static enum ct_status begin(struct onnx_import *m, bool ints,
                            const struct ct_shape *shape, float **f,
                            int64_t **i)
{
    int64_t n;

    *f = NULL;
    *i = NULL;
    CT_TRY(ct_shape_check(shape));
    n = ct_shape_count(shape, 0, CT_END);
    if (n > MOST_FOLDED)
        return onnx_reject(m, "a constant of %" PRId64 " values", n);
    return ints ? ct_alloc((size_t)n, sizeof(**i), "onnx constant", i)
                : ct_alloc((size_t)n, sizeof(**f), "onnx constant", f);
}

static enum ct_status end(struct onnx_import *m, const struct ct_shape *shape,
                          float *f, int64_t *i)
{
    return onnx_add_constant(m, m->node->output[0], shape, f, i);
}

/* The node's constant input 0 in another shape. */
static enum ct_status reshaped(struct onnx_import *m,
                               const struct ct_shape *shape)
{
    struct onnx_value *v;
    float *f;
    int64_t *i;

    CT_TRY(onnx_input(m, 0, &v));
    if (ct_shape_count(shape, 0, CT_END) != count_of(v))
        return onnx_reject(m, "the values do not fit the new shape");
    CT_TRY(begin(m, v->ints, shape, &f, &i));
    if (i)
        memcpy(i, v->i, (size_t)count_of(v) * sizeof(*i));
    else
        memcpy(f, v->f, (size_t)count_of(v) * sizeof(*f));
    return end(m, shape, f, i);
}

static enum ct_status fold_shape(struct onnx_import *m)
{
    struct onnx_value *v;
    struct ct_shape shape;
    int64_t *i;
    float *f;

    CT_TRY(onnx_input(m, 0, &v));
    if (!v)
        return onnx_reject(m, "it has no input");
    shape = v->shape;
    CT_TRY(begin(m, true, &CT_SHAPE(shape.n_axes), &f, &i));
    memcpy(i, shape.dim, (size_t)shape.n_axes * sizeof(*i));
    return end(m, &CT_SHAPE(shape.n_axes), NULL, i);
}

static enum ct_status fold_constant(struct onnx_import *m)
{
    const Onnx__AttributeProto *a = onnx_attribute(m, "value");
    float *f;
    int64_t *i;

    if (a && a->t)
        return onnx_read_tensor(m, a->t, m->node->output[0]);
    if ((a = onnx_attribute(m, "value_int")) ||
        (a = onnx_attribute(m, "value_float"))) {
        CT_TRY(begin(m, a->has_i, &CT_SCALAR, &f, &i));
        if (i)
            *i = a->i;
        else
            *f = a->f;
        return end(m, &CT_SCALAR, f, i);
    }
    if ((a = onnx_attribute(m, "value_ints"))) {
        CT_TRY(begin(m, true, &CT_SHAPE((int64_t)a->n_ints), &f, &i));
        memcpy(i, a->ints, a->n_ints * sizeof(*i));
        return end(m, &CT_SHAPE((int64_t)a->n_ints), f, i);
    }
    return onnx_reject(m, "a constant without a value that can be read");
}

static enum ct_status fold_filled(struct onnx_import *m)
{
    const Onnx__AttributeProto *a = onnx_attribute(m, "value");
    struct ct_shape shape         = { 0 };
    struct onnx_value *v;
    double value = 0;
    bool ints    = false;
    float *f;
    int64_t *i;
    int64_t n;

    CT_TRY(onnx_input(m, 0, &v));
    if (!v->i || count_of(v) > CT_MAX_AXES)
        return onnx_reject(m, "the shape must be a short list of integers");
    shape.n_axes = (int)count_of(v);
    memcpy(shape.dim, v->i, (size_t)shape.n_axes * sizeof(*v->i));
    if (a && a->t) {
        CT_TRY(onnx_read_tensor(m, a->t, m->node->output[0]));
        v     = &m->value[m->n_value - 1];
        ints  = v->ints;
        value = count_of(v) > 0 ? number(v, 0) : 0;
    }
    CT_TRY(begin(m, ints, &shape, &f, &i));
    n = ct_shape_count(&shape, 0, CT_END);
    for (int64_t k = 0; k < n; k++) {
        if (i)
            i[k] = (int64_t)value;
        else
            f[k] = (float)value;
    }
    return end(m, &shape, f, i);
}

/* Copies element `from` of v to element `to` of what is made. */
static void copy_value(const struct onnx_value *v, int64_t from, float *f,
                       int64_t *i, int64_t to)
{
    if (i)
        i[to] = v->i[from];
    else
        f[to] = v->f[from];
}

static enum ct_status fold_gather(struct onnx_import *m)
{
    struct onnx_value *v, *at;
    struct ct_shape shape = { 0 };
    int64_t inner, outer, n;
    float *f;
    int64_t *i;
    int axis;

    CT_TRY(onnx_input(m, 0, &v));
    CT_TRY(onnx_input(m, 1, &at));
    if (!v || !at || !at->i)
        return onnx_reject(m, "its indices must be constant integers");
    CT_TRY(onnx_axis(m, &v->shape, onnx_get_int(m, "axis", 0), &axis));
    if (v->shape.n_axes + at->shape.n_axes - 1 > CT_MAX_AXES)
        return onnx_reject(m, "too many axes");
    for (int k = 0; k < axis; k++)
        shape.dim[shape.n_axes++] = v->shape.dim[k];
    for (int k = 0; k < at->shape.n_axes; k++)
        shape.dim[shape.n_axes++] = at->shape.dim[k];
    for (int k = axis + 1; k < v->shape.n_axes; k++)
        shape.dim[shape.n_axes++] = v->shape.dim[k];
    outer = ct_shape_count(&v->shape, 0, axis);
    inner = ct_shape_count(&v->shape, axis + 1, CT_END);
    n     = count_of(at);
    for (int64_t k = 0; k < n; k++)
        if (at->i[k] < -v->shape.dim[axis] || at->i[k] >= v->shape.dim[axis])
            return onnx_reject(m, "index %" PRId64 " of %" PRId64, at->i[k],
                               v->shape.dim[axis]);
    CT_TRY(begin(m, v->ints, &shape, &f, &i));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < inner; j++) {
                int64_t row = at->i[k] < 0 ? at->i[k] + v->shape.dim[axis]
                                           : at->i[k];

                copy_value(v, (o * v->shape.dim[axis] + row) * inner + j, f, i,
                           (o * n + k) * inner + j);
            }
    return end(m, &shape, f, i);
}

static enum ct_status fold_concat(struct onnx_import *m)
{
    struct onnx_value *v;
    struct ct_shape shape;
    int64_t at = 0, outer, inner;
    float *f;
    int64_t *i;
    bool ints;
    int axis;

    CT_TRY(onnx_input(m, 0, &v));
    shape = v->shape;
    ints  = v->ints;
    CT_TRY(onnx_axis(m, &shape, onnx_get_int(m, "axis", 0), &axis));
    for (size_t k = 1; k < m->node->n_input; k++) {
        struct ct_shape other;

        CT_TRY(onnx_input(m, k, &v));
        if (!v || v->ints != ints || v->shape.n_axes != shape.n_axes)
            return onnx_reject(m, "its inputs differ in kind");
        other           = v->shape;
        other.dim[axis] = shape.dim[axis];
        if (!ct_shape_equal(&other, &shape))
            return onnx_reject(m, "its inputs differ in shape");
        shape.dim[axis] += v->shape.dim[axis];
    }
    CT_TRY(begin(m, ints, &shape, &f, &i));
    outer = ct_shape_count(&shape, 0, axis);
    for (size_t k = 0; k < m->node->n_input; k++) {
        v     = onnx_find(m, m->node->input[k]);
        inner = ct_shape_count(&v->shape, axis, CT_END);
        for (int64_t o = 0; o < outer; o++)
            for (int64_t j = 0; j < inner; j++)
                copy_value(v, o * inner + j, f, i,
                           o * ct_shape_count(&shape, axis, CT_END) + at + j);
        at += inner;
    }
    return end(m, &shape, f, i);
}

/* One axis: from start to end by step, as numpy has it. */
static enum ct_status fold_slice(struct onnx_import *m)
{
    int64_t start[4], stop[4], axes[4] = { 0, 1, 2, 3 }, steps[4];
    struct ct_shape shape;
    struct onnx_value *v;
    int n, n_axes, n_steps, axis;
    int64_t inner, dim;
    float *f;
    int64_t *i;

    CT_TRY(onnx_numbers(m, "starts", 1, 4, start, &n));
    CT_TRY(onnx_numbers(m, "ends", 2, 4, stop, &n_axes));
    CT_TRY(onnx_numbers(m, "axes", 3, 4, axes, &n_axes));
    CT_TRY(onnx_numbers(m, "", 4, 4, steps, &n_steps));
    CT_TRY(onnx_input(m, 0, &v));
    if (!v || n != 1 || (n_steps == 1 && steps[0] != 1))
        return onnx_reject(m, "a constant is cut along more than one axis, or "
                           "in steps");
    CT_TRY(onnx_axis(m, &v->shape, axes[0], &axis));
    shape = v->shape;
    dim   = shape.dim[axis];
    for (int k = 0; k < 2; k++) {
        int64_t *at = k ? &stop[0] : &start[0];

        *at = *at < 0 ? *at + dim : *at;
        *at = *at < 0 ? 0 : *at > dim ? dim : *at;
    }
    shape.dim[axis] = stop[0] > start[0] ? stop[0] - start[0] : 0;
    inner           = ct_shape_count(&shape, axis + 1, CT_END);
    CT_TRY(begin(m, v->ints, &shape, &f, &i));
    for (int64_t o = 0; o < ct_shape_count(&shape, 0, axis); o++)
        for (int64_t j = 0; j < shape.dim[axis] * inner; j++)
            copy_value(v, (o * dim + start[0]) * inner + j, f, i,
                       o * shape.dim[axis] * inner + j);
    return end(m, &shape, f, i);
}

static double apply(const char *op, double a, double b, bool ints)
{
    switch (op[0]) {
    case 'A':
        return a + b;
    case 'S':
        return a - b;
    case 'M':
        return a * b;
    case 'E':
        return a == b;
    default:
        return ints ? b == 0 ? 0 : trunc(a / b) : a / b;
    }
}

/* Add, Sub, Mul, Div, Equal with broadcasting. */
static enum ct_status fold_binary(struct onnx_import *m)
{
    struct onnx_value *a, *b;
    struct ct_shape shape = { 0 };
    bool ints;
    float *f;
    int64_t *i;
    int64_t n;

    CT_TRY(onnx_input(m, 0, &a));
    CT_TRY(onnx_input(m, 1, &b));
    if (!a || !b)
        return onnx_reject(m, "it takes two inputs");
    shape.n_axes = a->shape.n_axes > b->shape.n_axes ? a->shape.n_axes
                                                     : b->shape.n_axes;
    for (int k = 1; k <= shape.n_axes; k++) {
        int64_t x = k <= a->shape.n_axes ? a->shape.dim[a->shape.n_axes - k]
                                         : 1;
        int64_t y = k <= b->shape.n_axes ? b->shape.dim[b->shape.n_axes - k]
                                         : 1;

        if (x != y && x != 1 && y != 1)
            return onnx_reject(m, "its shapes do not fit together");
        shape.dim[shape.n_axes - k] = x == 1 ? y : x;
    }
    ints = a->ints && b->ints;
    CT_TRY(begin(m, ints, &shape, &f, &i));
    n = ct_shape_count(&shape, 0, CT_END);
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k, at[2] = { 0, 0 }, step[2] = { 1, 1 };
        double v;

        for (int d = 1; d <= shape.n_axes; d++) {
            const int64_t where = rest % shape.dim[shape.n_axes - d];

            rest /= shape.dim[shape.n_axes - d];
            for (int s = 0; s < 2; s++) {
                const struct ct_shape *from = s ? &b->shape : &a->shape;
                int64_t dim = d <= from->n_axes ? from->dim[from->n_axes - d]
                                                : 1;

                at[s] += (dim == 1 ? 0 : where) * step[s];
                step[s] *= dim;
            }
        }
        v = apply(m->node->op_type, number(a, at[0]), number(b, at[1]), ints);
        if (i)
            i[k] = v > -9e18 && v < 9e18 ? (int64_t)v : 0;
        else
            f[k] = (float)v;
    }
    return end(m, &shape, f, i);
}

static enum ct_status fold_unary(struct onnx_import *m)
{
    const char *op = m->node->op_type;
    struct onnx_value *v;
    struct ct_shape shape;
    bool ints;
    float *f;
    int64_t *i;

    CT_TRY(onnx_input(m, 0, &v));
    shape = v->shape;
    ints  = v->ints;
    if (strcmp(op, "Cast") == 0) {
        int64_t to = onnx_get_int(m, "to", ONNX_FLOAT);

        ints = to != ONNX_FLOAT && to != ONNX_DOUBLE && to != ONNX_FLOAT16;
    }
    CT_TRY(begin(m, ints, &shape, &f, &i));
    for (int64_t k = 0; k < count_of(v); k++) {
        double x = number(v, k);

        x = strcmp(op, "Sqrt") == 0         ? sqrt(x)
            : strcmp(op, "Neg") == 0        ? -x
            : strcmp(op, "Reciprocal") == 0 ? 1 / x
            : strcmp(op, "Exp") == 0        ? exp(x)
            : strcmp(op, "Floor") == 0      ? floor(x)
            : strcmp(op, "Ceil") == 0       ? ceil(x)
                                            : x;
        if (i)
            i[k] = v->i ? strcmp(op, "Neg") == 0 ? (int64_t)x : v->i[k]
                   : x > -9e18 && x < 9e18 ? (int64_t)x : 0;
        else
            f[k] = (float)x;
    }
    return end(m, &shape, f, i);
}

/* Reshape, Squeeze, Unsqueeze, Flatten of a constant. */
static enum ct_status fold_reshape(struct onnx_import *m)
{
    struct onnx_value *v;
    struct ct_shape shape;

    CT_TRY(onnx_input(m, 0, &v));
    CT_TRY(onnx_new_shape(m, &v->shape, &shape));
    return reshaped(m, &shape);
}

static enum ct_status fold_transpose(struct onnx_import *m)
{
    int64_t perm[CT_MAX_AXES], step[CT_MAX_AXES];
    struct ct_shape shape;
    struct onnx_value *v;
    int n;
    float *f;
    int64_t *i;

    CT_TRY(onnx_input(m, 0, &v));
    CT_TRY(onnx_permutation(m, &v->shape, perm, &n));
    shape = v->shape;
    for (int k = 0; k < n; k++) {
        shape.dim[k] = v->shape.dim[perm[k]];
        step[k]      = ct_shape_count(&v->shape, (int)perm[k] + 1, CT_END);
    }
    CT_TRY(begin(m, v->ints, &shape, &f, &i));
    for (int64_t k = 0; k < count_of(v); k++) {
        int64_t rest = k, from = 0;

        for (int d = n - 1; d >= 0; d--) {
            from += rest % shape.dim[d] * step[d];
            rest /= shape.dim[d];
        }
        copy_value(v, from, f, i, k);
    }
    return end(m, &shape, f, i);
}

static enum ct_status fold_same(struct onnx_import *m)
{
    struct onnx_value *v;

    CT_TRY(onnx_input(m, 0, &v));
    return reshaped(m, &v->shape);
}

static const struct {
    const char *op;
    onnx_read_fn fold;
} folds[] = {
    { "Add", fold_binary },       { "Cast", fold_unary },
    { "Ceil", fold_unary },       { "Concat", fold_concat },
    { "ConstantOfShape", fold_filled }, { "Div", fold_binary },
    { "Equal", fold_binary },     { "Exp", fold_unary },
    { "Flatten", fold_reshape },  { "Floor", fold_unary },
    { "Gather", fold_gather },    { "Identity", fold_same },
    { "Mul", fold_binary },       { "Neg", fold_unary },
    { "Reciprocal", fold_unary }, { "Reshape", fold_reshape },
    { "Slice", fold_slice },      { "Sqrt", fold_unary },
    { "Squeeze", fold_reshape },  { "Sub", fold_binary },
    { "Transpose", fold_transpose }, { "Unsqueeze", fold_reshape },
};

static bool all_constant(struct onnx_import *m)
{
    for (size_t i = 0; i < m->node->n_input; i++) {
        const struct onnx_value *v;

        if (!*m->node->input[i])
            continue;
        v = onnx_find(m, m->node->input[i]);
        if (!v || v->blob)
            return false;
    }
    return m->node->n_input > 0 && *m->node->input[0];
}

enum ct_status onnx_fold_node(struct onnx_import *m, bool *done)
{
    const char *op = m->node->op_type ? m->node->op_type : "";

    *done = true;
    if (strcmp(op, "Constant") == 0)
        return fold_constant(m);
    if (strcmp(op, "Shape") == 0)
        return fold_shape(m);
    if (all_constant(m))
        for (size_t i = 0; i < sizeof(folds) / sizeof(folds[0]); i++)
            if (strcmp(folds[i].op, op) == 0)
                return folds[i].fold(m);
    *done = false;
    return CT_OK;
}
