/* import_tensor.c - the constants of an ONNX file, as floats or integers. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/import.h"

static float half(uint16_t h)
{
    const int exponent = h >> 10 & 31, part = h & 1023;
    const float value =
        exponent == 31 ? part ? NAN : INFINITY
        : exponent     ? ldexpf((float)(1024 + part), exponent - 25)
                       : ldexpf((float)part, -24);

    return h >> 15 ? -value : value;
}

static size_t size_of(int32_t type)
{
    switch (type) {
    case ONNX_FLOAT:
    case ONNX_INT32:
        return 4;
    case ONNX_INT64:
    case ONNX_DOUBLE:
        return 8;
    case ONNX_FLOAT16:
        return 2;
    case ONNX_BOOL:
    case ONNX_UINT8:
    case ONNX_INT8:
        return 1;
    default:
        return 0;
    }
}

static bool is_float(int32_t type)
{
    return type == ONNX_FLOAT || type == ONNX_DOUBLE || type == ONNX_FLOAT16;
}

/* Number k of raw_data: exactly one of f and i is there. */
static void raw_value(const uint8_t *at, int32_t type, float *f, int64_t *i)
{
    double d;
    int32_t n;
    uint16_t h;

    switch (type) {
    case ONNX_FLOAT:
        memcpy(f, at, sizeof(*f));
        break;
    case ONNX_DOUBLE:
        memcpy(&d, at, sizeof(d));
        *f = (float)d;
        break;
    case ONNX_FLOAT16:
        memcpy(&h, at, sizeof(h));
        *f = half(h);
        break;
    case ONNX_INT64:
        memcpy(i, at, sizeof(*i));
        break;
    case ONNX_INT32:
        memcpy(&n, at, sizeof(n));
        *i = n;
        break;
    case ONNX_INT8:
        *i = (int8_t)*at;
        break;
    default:
        *i = *at;
    }
}

/* Number k of the list that fits the type. */
static void listed_value(const Onnx__TensorProto *t, size_t k, float *f,
                         int64_t *i)
{
    if (t->data_type == ONNX_FLOAT)
        *f = t->float_data[k];
    else if (t->data_type == ONNX_DOUBLE)
        *f = (float)t->double_data[k];
    else if (t->data_type == ONNX_FLOAT16)
        *f = half((uint16_t)t->int32_data[k]);
    else if (t->data_type == ONNX_INT64)
        *i = t->int64_data[k];
    else
        *i = t->int32_data[k];
}

static size_t n_listed(const Onnx__TensorProto *t)
{
    return t->data_type == ONNX_FLOAT    ? t->n_float_data
           : t->data_type == ONNX_DOUBLE ? t->n_double_data
           : t->data_type == ONNX_INT64  ? t->n_int64_data
                                         : t->n_int32_data;
}

static enum ct_status check(const struct onnx_import *m,
                            const Onnx__TensorProto *t, const char *name,
                            struct ct_shape *shape)
{
    size_t n;

    if (t->n_external_data > 0 || t->data_location == 1)
        return ct_fail(CT_ENOTSUP, "%s: constant %s lies in another file; "
                       "save the model as one file", m->source, name);
    if (size_of(t->data_type) == 0)
        return ct_fail(CT_ENOTSUP, "%s: constant %s has the element type %d",
                       m->source, name, t->data_type);
    if (t->n_dims > CT_MAX_AXES)
        return ct_fail(CT_ESHAPE, "%s: constant %s has %zu axes", m->source,
                       name, t->n_dims);
    shape->n_axes = (int)t->n_dims;
    for (size_t i = 0; i < t->n_dims; i++)
        shape->dim[i] = t->dims[i];
    if (ct_shape_check(shape) != CT_OK)
        return ct_fail_in(CT_ESHAPE, "%s: constant %s", m->source, name);
    n = (size_t)ct_shape_count(shape, 0, CT_END);
    if (t->has_raw_data ? t->raw_data.len != n * size_of(t->data_type)
                        : n_listed(t) != n)
        return ct_fail(CT_EPARSE, "%s: constant %s has %zu numbers, and its "
                       "shape %zu", m->source, name,
                       t->has_raw_data
                           ? t->raw_data.len / size_of(t->data_type)
                           : n_listed(t), n);
    return CT_OK;
}

enum ct_status onnx_read_tensor(struct onnx_import *m,
                                const Onnx__TensorProto *t, const char *name)
{
    struct ct_shape shape = { 0 };
    float *f              = NULL;
    int64_t *i            = NULL;
    size_t n;

    CT_TRY(check(m, t, name, &shape));
    n = (size_t)ct_shape_count(&shape, 0, CT_END);
    if (is_float(t->data_type))
        CT_TRY(ct_alloc(n, sizeof(*f), "onnx constant", &f));
    else
        CT_TRY(ct_alloc(n, sizeof(*i), "onnx constant", &i));
    for (size_t k = 0; k < n; k++) {
        float *to_f   = f ? f + k : NULL;
        int64_t *to_i = i ? i + k : NULL;

        if (t->has_raw_data)
            raw_value(t->raw_data.data + k * size_of(t->data_type),
                      t->data_type, to_f, to_i);
        else
            listed_value(t, k, to_f, to_i);
    }
    return onnx_add_constant(m, name, &shape, f, i);
}
