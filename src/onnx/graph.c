/* graph.c - an ONNX model that is being written. */
#include "onnx/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "proto/edit.h"

/* Versions of the file format that came with an opset. */
static int64_t ir_version(int opset)
{
    return opset >= 15 ? 8 : 7;
}

enum ct_status onnx_graph_init(struct onnx_graph *g, const char *title,
                               int opset)
{
    Onnx__OperatorSetIdProto *set = NULL;
    Onnx__ModelProto *m;

    *g = (struct onnx_graph){ 0 };
    CT_TRY(ct_edit_create(&onnx__model_proto__descriptor, &g->model));
    m = g->model;
    m->has_ir_version = 1;
    m->ir_version     = ir_version(opset);
    CT_TRY(ct_edit_string(&m->producer_name, "cortado"));
    CT_TRY(ct_edit_string(&m->producer_version, CT_VERSION));
    CT_TRY(ct_edit_create(&onnx__operator_set_id_proto__descriptor, &set));
    CT_TRY(ct_edit_insert(&m->opset_import, &m->n_opset_import, 0, set));
    set->has_version = 1;
    set->version     = opset;
    CT_TRY(ct_edit_string(&set->domain, ""));
    CT_TRY(ct_edit_create(&onnx__graph_proto__descriptor, &m->graph));
    return ct_edit_string(&m->graph->name, title);
}

void onnx_graph_fini(struct onnx_graph *g)
{
    ct_message_free(g->model);
    for (size_t i = 0; i < g->n_names; i++)
        ct_free(g->name[i]);
    ct_free(g->name);
    *g = (struct onnx_graph){ 0 };
}

static bool name_is_taken(const struct onnx_graph *g, const char *name)
{
    for (size_t i = g->n_names; i-- > 0;)
        if (strcmp(g->name[i], name) == 0)
            return true;
    return false;
}

static bool names_grow(struct onnx_graph *g)
{
    size_t room = g->room_names ? 2 * g->room_names : 64;
    char **more;

    if (g->n_names < g->room_names)
        return true;
    more = ct_realloc(g->name, room * sizeof(*more), "onnx names");
    if (!more)
        return false;
    g->name       = more;
    g->room_names = room;
    return true;
}

const char *onnx_name(struct onnx_graph *g, const char *fmt, ...)
{
    char text[512], numbered[560], *copy;
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    snprintf(numbered, sizeof(numbered), "%s", text);
    for (int i = 2; name_is_taken(g, numbered); i++)
        snprintf(numbered, sizeof(numbered), "%s_%d", text, i);
    copy = names_grow(g) ? ct_strdup(numbered, "onnx name") : NULL;
    if (!copy) {
        g->status = CT_ENOMEM;
        return "";
    }
    g->name[g->n_names++] = copy;
    return copy;
}

/* Keeps the first failure. */
static bool keep(struct onnx_graph *g, enum ct_status st)
{
    if (g->status == CT_OK)
        g->status = st;
    return g->status == CT_OK;
}

/* A new message of `type` at the end of a list that grows by doubling. */
static void *append(struct onnx_graph *g,
                    const ProtobufCMessageDescriptor *type, void *list,
                    size_t *n, size_t *room)
{
    void *item = NULL, **items;

    if (g->status != CT_OK || !keep(g, ct_edit_create(type, &item)))
        return NULL;
    if (!keep(g, ct_edit_reserve(list, room, *n + 1, sizeof(item)))) {
        ct_message_free(item);
        return NULL;
    }
    memcpy(&items, list, sizeof(items));
    items[(*n)++] = item;
    return item;
}

Onnx__NodeProto *onnx_add(struct onnx_graph *g, const char *name,
                          const char *op, const char *const *in,
                          const char *out)
{
    Onnx__GraphProto *graph = g->model->graph;
    Onnx__NodeProto *n = append(g, &onnx__node_proto__descriptor, &graph->node,
                                &graph->n_node, &g->room_node);

    if (!n)
        return NULL;
    keep(g, ct_edit_string(&n->name, name));
    keep(g, ct_edit_string(&n->op_type, op));
    for (int i = 0; in[i]; i++)
        keep(g, ct_edit_add_string(&n->input, &n->n_input, in[i]));
    keep(g, ct_edit_add_string(&n->output, &n->n_output, out));
    return n;
}

void onnx_add_input(struct onnx_graph *g, Onnx__NodeProto *n, const char *in)
{
    if (n)
        keep(g, ct_edit_add_string(&n->input, &n->n_input, in));
}

void onnx_add_output(struct onnx_graph *g, Onnx__NodeProto *n,
                     const char *out)
{
    if (n)
        keep(g, ct_edit_add_string(&n->output, &n->n_output, out));
}

static Onnx__AttributeProto *attribute(struct onnx_graph *g,
                                       Onnx__NodeProto *n, const char *name,
                                       enum onnx_attribute type)
{
    Onnx__AttributeProto *a = NULL;
    size_t room;

    if (!n)
        return NULL;
    room = n->n_attribute;
    a = append(g, &onnx__attribute_proto__descriptor, &n->attribute,
               &n->n_attribute, &room);
    if (!a)
        return NULL;
    a->has_type = 1;
    a->type     = type;
    return keep(g, ct_edit_string(&a->name, name)) ? a : NULL;
}

void onnx_set_int(struct onnx_graph *g, Onnx__NodeProto *n, const char *name,
                  int64_t value)
{
    Onnx__AttributeProto *a = attribute(g, n, name, ONNX_ATTR_INT);

    if (a) {
        a->has_i = 1;
        a->i     = value;
    }
}

void onnx_set_ints(struct onnx_graph *g, Onnx__NodeProto *n, const char *name,
                   int n_values, const int64_t *value)
{
    Onnx__AttributeProto *a = attribute(g, n, name, ONNX_ATTR_INTS);

    if (!a || !keep(g, ct_edit_array((size_t)n_values, sizeof(*a->ints),
                                     &a->ints)))
        return;
    memcpy(a->ints, value, (size_t)n_values * sizeof(*value));
    a->n_ints = (size_t)n_values;
}

void onnx_set_float(struct onnx_graph *g, Onnx__NodeProto *n,
                    const char *name, float value)
{
    Onnx__AttributeProto *a = attribute(g, n, name, ONNX_ATTR_FLOAT);

    if (a) {
        a->has_f = 1;
        a->f     = value;
    }
}

void onnx_set_string(struct onnx_graph *g, Onnx__NodeProto *n,
                     const char *name, const char *value)
{
    Onnx__AttributeProto *a = attribute(g, n, name, ONNX_ATTR_STRING);

    if (!a || !keep(g, ct_edit_bytes(value, strlen(value), &a->s.data)))
        return;
    a->has_s = 1;
    a->s.len = strlen(value);
}

/* raw_data is little-endian, as every machine that runs this is. */
static void tensor(struct onnx_graph *g, const char *name,
                   enum onnx_type type, const struct ct_shape *shape,
                   const void *value, size_t n_bytes)
{
    Onnx__GraphProto *graph = g->model->graph;
    Onnx__TensorProto *t =
        append(g, &onnx__tensor_proto__descriptor, &graph->initializer,
               &graph->n_initializer, &g->room_tensor);

    if (!t || !keep(g, ct_edit_string(&t->name, name)) ||
        !keep(g, ct_edit_array((size_t)shape->n_axes, sizeof(*t->dims),
                               &t->dims)) ||
        !keep(g, ct_edit_bytes(value, n_bytes, &t->raw_data.data)))
        return;
    memcpy(t->dims, shape->dim, (size_t)shape->n_axes * sizeof(*t->dims));
    t->n_dims        = (size_t)shape->n_axes;
    t->has_data_type = 1;
    t->data_type     = type;
    t->has_raw_data  = 1;
    t->raw_data.len  = n_bytes;
}

const char *onnx_floats(struct onnx_graph *g, const char *name,
                        const struct ct_shape *shape, const float *value)
{
    tensor(g, name, ONNX_FLOAT, shape, value,
           (size_t)ct_shape_count(shape, 0, CT_END) * sizeof(*value));
    return name;
}

const char *onnx_float(struct onnx_graph *g, const char *name, float value)
{
    return onnx_floats(g, name, &CT_SCALAR, &value);
}

const char *onnx_longs(struct onnx_graph *g, const char *name, int n,
                       const int64_t *value)
{
    tensor(g, name, ONNX_INT64, &CT_SHAPE(n), value,
           (size_t)n * sizeof(*value));
    return name;
}

static void dimension(struct onnx_graph *g, Onnx__TensorShapeProto *s,
                      int64_t value)
{
    size_t room = s->n_dim;
    Onnx__TensorShapeProto__Dimension *d =
        append(g, &onnx__tensor_shape_proto__dimension__descriptor, &s->dim,
               &s->n_dim, &room);

    if (!d)
        return;
    if (value >= 0) {
        d->has_dim_value = 1;
        d->dim_value     = value;
    } else if (value == -1) {
        keep(g, ct_edit_string(&d->dim_param, "N"));
    }
}

void onnx_add_value(struct onnx_graph *g, bool input, const char *name,
                    const struct ct_shape *shape)
{
    Onnx__GraphProto *graph = g->model->graph;
    size_t *n = input ? &graph->n_input : &graph->n_output, room = *n;
    Onnx__ValueInfoProto *v =
        append(g, &onnx__value_info_proto__descriptor,
               input ? &graph->input : &graph->output, n, &room);
    Onnx__TypeProto__Tensor *t;

    if (!v || !keep(g, ct_edit_string(&v->name, name)) ||
        !keep(g, ct_edit_create(&onnx__type_proto__descriptor, &v->type)) ||
        !keep(g, ct_edit_create(&onnx__type_proto__tensor__descriptor,
                                &v->type->tensor_type)))
        return;
    t                = v->type->tensor_type;
    t->has_elem_type = 1;
    t->elem_type     = ONNX_FLOAT;
    if (!keep(g, ct_edit_create(&onnx__tensor_shape_proto__descriptor,
                                &t->shape)))
        return;
    for (int i = 0; i < shape->n_axes; i++)
        dimension(g, t->shape, shape->dim[i]);
}

void onnx_add_note(struct onnx_graph *g, const char *key, const char *value)
{
    Onnx__ModelProto *m = g->model;
    size_t room         = m->n_metadata_props;
    Onnx__StringStringEntryProto *e =
        append(g, &onnx__string_string_entry_proto__descriptor,
               &m->metadata_props, &m->n_metadata_props, &room);

    if (e) {
        keep(g, ct_edit_string(&e->key, key));
        keep(g, ct_edit_string(&e->value, value));
    }
}
