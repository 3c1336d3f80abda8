/* export_parts.c - what the functions that write layers are made of. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/export.h"
#include "proto/edit.h"

enum ct_status onnx_refuse(const struct onnx_layer *l, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return ct_fail(CT_ENOTSUP, "layer %s (%s) cannot be exported: %s", l->name,
                   l->layer->type->name, text);
}

const char *onnx_part(struct onnx_export *x, const struct onnx_layer *l,
                      const char *what)
{
    return onnx_name(&x->graph, "%s/%s", l->name, what);
}

const char *onnx_step(struct onnx_export *x, const struct onnx_layer *l,
                      const char *op, const char *const *in)
{
    const char *name = onnx_part(x, l, op);

    onnx_add(&x->graph, name, op, in, name);
    return name;
}

Onnx__NodeProto *onnx_end(struct onnx_export *x, const struct onnx_layer *l,
                          const char *op, const char *const *in)
{
    return onnx_add(&x->graph, l->name, op, in, l->out[0]);
}

const char *onnx_weight(struct onnx_export *x, const struct onnx_layer *l,
                        const char *what, const struct ct_shape *shape,
                        const float *value)
{
    return onnx_floats(&x->graph, onnx_name(&x->graph, "%s.%s", l->name, what),
                       shape, value);
}

const char *onnx_number(struct onnx_export *x, const struct onnx_layer *l,
                        const char *what, float value)
{
    return onnx_float(&x->graph, onnx_name(&x->graph, "%s.%s", l->name, what),
                      value);
}

const char *onnx_list(struct onnx_export *x, const struct onnx_layer *l,
                      const char *what, int n, const int64_t *value)
{
    return onnx_longs(&x->graph, onnx_name(&x->graph, "%s.%s", l->name, what),
                      n, value);
}

int64_t onnx_dim(const struct onnx_export *x, const struct onnx_layer *l,
                 bool top, int i, int axis)
{
    int id = top ? ct_net_top_id(x->net, l->index, i)
                 : ct_net_bottom_id(x->net, l->index, i);
    int64_t dim = ct_net_blob(x->net, id)->shape.dim[axis];

    return x->dynamic && x->other[id].dim[axis] != dim ? -1 : dim;
}

enum ct_status onnx_reshape(struct onnx_export *x, const struct onnx_layer *l,
                            const char *from, const struct ct_shape *to,
                            const char *out)
{
    int n_open = 0;

    for (int i = 0; i < to->n_axes; i++) {
        n_open += to->dim[i] < 0;
        if (to->dim[i] == 0)
            return onnx_refuse(l, "a dimension is 0");
    }
    if (n_open > 1)
        return onnx_refuse(l, "with --batch=dynamic more than one dimension "
                           "is open; give a batch size");
    onnx_add(&x->graph, strcmp(out, l->out[0]) ? out : l->name, "Reshape",
             ONNX_IN(from, onnx_list(x, l, "shape", to->n_axes, to->dim)),
             out);
    return CT_OK;
}

enum ct_status onnx_reshape_top(struct onnx_export *x,
                                const struct onnx_layer *l, const char *from,
                                int top)
{
    struct ct_shape to = l->io.top[top]->shape;

    for (int i = 0; i < to.n_axes; i++)
        to.dim[i] = onnx_dim(x, l, true, top, i);
    return onnx_reshape(x, l, from, &to, l->out[top]);
}

/* The layer's parameters with tensors for bottoms and tops, as text. */
static enum ct_status layer_text(const struct onnx_layer *l, char **out)
{
    Caffe__LayerParameter *copy = NULL;
    enum ct_status st;

    CT_TRY(ct_message_copy(l->layer->param, &copy));
    for (size_t i = copy->n_blobs; i-- > 0;)
        ct_edit_remove(&copy->blobs, &copy->n_blobs, i);
    st = CT_OK;
    for (int i = 0; st == CT_OK && i < l->io.n_bottom; i++)
        st = ct_edit_string(&copy->bottom[i], l->in[i]);
    for (int i = 0; st == CT_OK && i < l->io.n_top; i++)
        st = ct_edit_string(&copy->top[i], l->out[i]);
    if (st == CT_OK)
        st = ct_text_print(copy, out);
    ct_message_free(copy);
    return st;
}

void onnx_remember(struct onnx_export *x, const struct onnx_layer *l)
{
    char *text = NULL, key[512];
    enum ct_status st = layer_text(l, &text);

    if (st != CT_OK)
        x->graph.status = st;
    snprintf(key, sizeof(key), ONNX_LAYER_NOTE "%s", l->name);
    if (text)
        onnx_add_note(&x->graph, key, text);
    ct_free(text);
}
