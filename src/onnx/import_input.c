/* import_input.c - what a node says: its inputs and attributes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/import.h"

const Onnx__AttributeProto *onnx_attribute(const struct onnx_import *m,
                                           const char *name)
{
    for (size_t i = 0; i < m->node->n_attribute; i++)
        if (m->node->attribute[i]->name &&
            strcmp(m->node->attribute[i]->name, name) == 0)
            return m->node->attribute[i];
    return NULL;
}

int64_t onnx_get_int(const struct onnx_import *m, const char *name,
                     int64_t otherwise)
{
    const Onnx__AttributeProto *a = onnx_attribute(m, name);

    return a && a->has_i ? a->i : otherwise;
}

float onnx_get_float(const struct onnx_import *m, const char *name,
                     float otherwise)
{
    const Onnx__AttributeProto *a = onnx_attribute(m, name);

    return a && a->has_f ? a->f : otherwise;
}

bool onnx_is_string(const struct onnx_import *m, const char *name,
                    const char *value, const char *otherwise)
{
    const Onnx__AttributeProto *a = onnx_attribute(m, name);

    if (!a || !a->has_s)
        return strcmp(value, otherwise) == 0;
    return a->s.len == strlen(value) &&
           memcmp(a->s.data, value, a->s.len) == 0;
}

enum ct_status onnx_axis(const struct onnx_import *m,
                         const struct ct_shape *shape, int64_t axis, int *out)
{
    if (axis < -shape->n_axes || axis >= shape->n_axes)
        return onnx_reject(m, "axis %" PRId64 " of %d axes", axis,
                           shape->n_axes);
    *out = (int)(axis < 0 ? axis + shape->n_axes : axis);
    return CT_OK;
}

enum ct_status onnx_input(struct onnx_import *m, size_t i,
                          struct onnx_value **out)
{
    *out = NULL;
    if (i >= m->node->n_input || !*m->node->input[i])
        return CT_OK;
    *out = onnx_find(m, m->node->input[i]);
    return *out ? CT_OK
                : onnx_reject(m, "it reads %s, which no node before it makes",
                              m->node->input[i]);
}

enum ct_status onnx_input_blob(struct onnx_import *m, size_t i,
                               struct onnx_value **out)
{
    const struct onnx_value *c;
    struct onnx_blob b;
    const char *blob;
    char dims[CT_MAX_AXES * 28] = "";
    size_t n = 0;

    CT_TRY(onnx_input(m, i, out));
    if (*out && (*out)->blob)
        return CT_OK;
    if (!*out)
        return onnx_reject(m, "input %zu is missing", i);
    if (!(*out)->f)
        return onnx_reject(m, "input %zu holds integers", i);
    c = *out;
    b = (struct onnx_blob){ c->shape, c->f };
    for (int k = 0; k < c->shape.n_axes && n < sizeof(dims); k++)
        n += (size_t)snprintf(dims + n, sizeof(dims) - n, " dim: %" PRId64,
                              c->shape.dim[k]);
    CT_TRY(onnx_layer_between(
        m, &(struct onnx_made){ "Parameter", NULL, 1, &b, 1 }, &blob, NULL,
        "parameter_param { shape {%s } }", dims));
    *out = onnx_find(m, blob);
    return CT_OK;
}

enum ct_status onnx_input_floats(struct onnx_import *m, size_t i,
                                 struct onnx_value **out)
{
    CT_TRY(onnx_input(m, i, out));
    if (*out && !(*out)->f)
        return onnx_reject(m, "input %zu, %s, must be a constant of floats", i,
                           (*out)->name);
    return CT_OK;
}

enum ct_status onnx_numbers(struct onnx_import *m, const char *name, size_t i,
                            int room, int64_t *v, int *n)
{
    const Onnx__AttributeProto *a = onnx_attribute(m, name);
    const int64_t *from           = NULL;
    struct onnx_value *c          = NULL;
    size_t count                  = 0;

    *n = -1;
    if (a) {
        from  = a->ints;
        count = a->n_ints;
    } else if (i > 0) {
        CT_TRY(onnx_input(m, i, &c));
        if (!c)
            return CT_OK;
        if (!c->i)
            return onnx_reject(m, "input %zu, %s, must be constant integers",
                               i, c->name);
        from  = c->i;
        count = (size_t)ct_shape_count(&c->shape, 0, CT_END);
    } else {
        return CT_OK;
    }
    if (count > (size_t)room)
        return onnx_reject(m, "%s has %zu numbers, and %d are the most", name,
                           count, room);
    for (size_t k = 0; k < count; k++)
        v[k] = from[k];
    *n = (int)count;
    return CT_OK;
}
