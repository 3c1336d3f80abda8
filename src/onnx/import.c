/* import.c - the net of an ONNX model. */
#include "onnx/import.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "proto/edit.h"

enum { OPSET_FIRST = 7, OPSET_LAST = 22, MOST_NODES = 200000 };

static const struct {
    const char *op;
    onnx_read_fn read;
} table[] = {
#define ONNX_READ(op, fn) { op, fn },
#include "onnx/import.def"
#undef ONNX_READ
};

static const char *text_of(const char *s)
{
    return s ? s : "";
}

enum ct_status onnx_reject(const struct onnx_import *m, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return ct_fail(CT_ENOTSUP, "%s: node %s (%s): %s", m->source,
                   m->node->name && *m->node->name ? m->node->name
                   : m->node->n_output ? m->node->output[0]
                                       : "without a name",
                   text_of(m->node->op_type), text);
}

struct onnx_value *onnx_find(struct onnx_import *m, const char *name)
{
    for (size_t i = m->n_value; i-- > 0;)
        if (strcmp(m->value[i].name, name) == 0)
            return &m->value[i];
    return NULL;
}

static enum ct_status add_value(struct onnx_import *m, struct onnx_value v)
{
    if (m->n_value == m->room_value) {
        size_t room = m->room_value ? 2 * m->room_value : 64;
        struct onnx_value *more =
            ct_realloc(m->value, room * sizeof(*more), "onnx values");

        if (!more)
            return CT_ENOMEM;
        m->value      = more;
        m->room_value = room;
    }
    m->value[m->n_value++] = v;
    return CT_OK;
}

enum ct_status onnx_add_constant(struct onnx_import *m, const char *name,
                                 const struct ct_shape *shape, float *f,
                                 int64_t *i)
{
    enum ct_status st = add_value(
        m, (struct onnx_value){ name, NULL, *shape, i != NULL, f, i });

    if (st != CT_OK) {
        ct_free(f);
        ct_free(i);
    }
    return st;
}

enum ct_status onnx_add_blob(struct onnx_import *m, const char *name,
                             const char *blob, const struct ct_shape *shape)
{
    char *copy = ct_strdup(blob, "onnx blob");
    enum ct_status st;

    if (!copy)
        return CT_ENOMEM;
    st = add_value(m, (struct onnx_value){ name, copy, *shape, false, NULL,
                                           NULL });
    if (st != CT_OK)
        ct_free(copy);
    return st;
}

/* A model's input: its batch may be open. */
static enum ct_status read_input(struct onnx_import *m,
                                 const Onnx__ValueInfoProto *v)
{
    const Onnx__TensorShapeProto *s =
        v->type && v->type->tensor_type ? v->type->tensor_type->shape : NULL;
    const char *name = text_of(v->name);
    Caffe__LayerParameter *l = NULL;
    struct ct_shape shape    = { 0 };
    struct ct_text text      = { 0 };
    enum ct_status st;

    if (onnx_find(m, name))
        return CT_OK; /* a constant, which older files list as well */
    if (!s || s->n_dim > CT_MAX_AXES)
        return ct_fail(CT_ENOTSUP, "%s: input %s has no shape", m->source,
                       name);
    ct_text_add(&text, "type: 'Input' input_param { shape {");
    for (size_t i = 0; i < s->n_dim; i++) {
        const bool open = !s->dim[i]->has_dim_value ||
                          s->dim[i]->dim_value < 1;

        if (open && i > 0) {
            ct_text_fini(&text);
            return ct_fail(CT_ENOTSUP, "%s: input %s leaves dimension %zu "
                           "open, and only a batch size may be", m->source,
                           name, i);
        }
        shape.dim[shape.n_axes++] = open ? m->batch : s->dim[i]->dim_value;
        ct_text_addf(&text, " dim: %" PRId64, shape.dim[i]);
    }
    ct_text_add(&text, " } }");
    st = text.failed ? CT_ENOMEM : ct_shape_check(&shape);
    if (st == CT_OK)
        st = ct_text_parse(&caffe__layer_parameter__descriptor, text.s,
                           text.n_bytes, m->source, &l);
    ct_text_fini(&text);
    CT_TRY(st);
    st = ct_edit_string(&l->name, name);
    if (st == CT_OK)
        st = ct_edit_add_string(&l->top, &l->n_top, name);
    if (st == CT_OK)
        st = ct_edit_insert(&m->net->layer, &m->net->n_layer, m->net->n_layer,
                            l);
    if (st != CT_OK) {
        ct_message_free(l);
        return st;
    }
    if (ct_shape_count(&shape, 0, CT_END) > ONNX_MOST_VALUES)
        return ct_fail(CT_ENOTSUP, "%s: input %s has %" PRId64 " values, and "
                       "%d are the most; give a smaller batch", m->source,
                       name, ct_shape_count(&shape, 0, CT_END),
                       ONNX_MOST_VALUES);
    return onnx_add_blob(m, name, name, &shape);
}

static enum ct_status read_node(struct onnx_import *m)
{
    const char *op = text_of(m->node->op_type);
    bool done      = false;

    if (m->node->domain && *m->node->domain &&
        strcmp(m->node->domain, "ai.onnx") != 0)
        return onnx_reject(m, "it is no standard operator, but of domain %s",
                           m->node->domain);
    if (m->node->n_output == 0)
        return onnx_reject(m, "it has no output");
    CT_TRY(onnx_recall(m, &done));
    if (!done)
        CT_TRY(onnx_fold_node(m, &done));
    for (size_t i = 0; !done && i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i].op, op) == 0) {
            enum ct_status st = table[i].read(m);

            return st == CT_OK || st == CT_ENOTSUP
                       ? st
                       : ct_fail_in(st, "%s: node %s (%s)", m->source,
                                    text_of(m->node->name), op);
        }
    return done ? CT_OK : onnx_reject(m, "Caffe has no layer for it");
}

static enum ct_status read_opset(struct onnx_import *m)
{
    m->opset = 0;
    for (size_t i = 0; i < m->model->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *set = m->model->opset_import[i];

        if (!set->domain || !*set->domain ||
            strcmp(set->domain, "ai.onnx") == 0)
            m->opset = set->version;
    }
    if (m->opset < OPSET_FIRST || m->opset > OPSET_LAST)
        return ct_fail(CT_ENOTSUP, "%s: opset %" PRId64 "; those from %d to "
                       "%d are read", m->source, m->opset, OPSET_FIRST,
                       OPSET_LAST);
    if (!m->model->graph)
        return ct_fail(CT_EPARSE, "%s: the model has no graph", m->source);
    if (m->model->graph->n_node > MOST_NODES)
        return ct_fail(CT_ENOTSUP, "%s: %zu nodes; %d are the most",
                       m->source, m->model->graph->n_node, MOST_NODES);
    return CT_OK;
}

/* Outputs of the model are outputs of the net; a constant one is made one. */
static enum ct_status check_outputs(struct onnx_import *m)
{
    const Onnx__GraphProto *g = m->model->graph;

    if (g->n_output == 0)
        return ct_fail(CT_EPARSE, "%s: the graph has no outputs", m->source);
    for (size_t i = 0; i < g->n_output; i++) {
        const char *name          = text_of(g->output[i]->name);
        const struct onnx_value *v = onnx_find(m, name);

        if (!v)
            return ct_fail(CT_EPARSE, "%s: no node makes output %s",
                           m->source, name);
        if (!v->blob)
            return ct_fail(CT_ENOTSUP, "%s: output %s is a constant",
                           m->source, name);
    }
    return CT_OK;
}

static enum ct_status read_graph(struct onnx_import *m)
{
    const Onnx__GraphProto *g = m->model->graph;

    if (g->name)
        CT_TRY(ct_edit_string(&m->net->name, g->name));
    for (size_t i = 0; i < g->n_initializer; i++)
        CT_TRY(onnx_read_tensor(m, g->initializer[i],
                                text_of(g->initializer[i]->name)));
    for (size_t i = 0; i < g->n_input; i++)
        CT_TRY(read_input(m, g->input[i]));
    for (size_t i = 0; i < g->n_node; i++) {
        m->node = g->node[i];
        CT_TRY(read_node(m));
    }
    return check_outputs(m);
}

/* The whole net once, which finds what single layers cannot. */
static enum ct_status check_net(const struct onnx_import *m)
{
    const struct ct_net_options o = { .phase        = CAFFE__PHASE__TEST,
                                      .forward_only = true,
                                      .quiet        = true };
    struct ct_net *net = NULL;
    enum ct_status st  = ct_net_create(m->net, &o, &net);

    ct_net_destroy(net);
    return st == CT_OK ? st : ct_fail_in(st, "%s: the net of the model",
                                         m->source);
}

static void import_fini(struct onnx_import *m)
{
    for (size_t i = 0; i < m->n_value; i++) {
        ct_free(m->value[i].blob);
        ct_free(m->value[i].f);
        ct_free(m->value[i].i);
    }
    ct_free(m->value);
    ct_message_free(m->net);
}

enum ct_status ct_onnx_import(const char *path,
                              const struct ct_onnx_options *options,
                              Caffe__NetParameter **out)
{
    char *data     = NULL;
    size_t n_bytes = 0;
    enum ct_status st;

    CT_TRY(ct_file_read(path, &data, &n_bytes));
    st = ct_onnx_import_bytes(data, n_bytes, path, options, out);
    ct_free(data);
    return st;
}

enum ct_status ct_onnx_import_bytes(const void *data, size_t n_bytes,
                                    const char *source,
                                    const struct ct_onnx_options *options,
                                    Caffe__NetParameter **out)
{
    Onnx__ModelProto *model = NULL;
    struct onnx_import m    = { 0 };
    enum ct_status st;

    CT_TRY(ct_binary_parse(&onnx__model_proto__descriptor, data, n_bytes,
                           source, &model));
    m.model  = model;
    m.source = source;
    m.batch  = options && options->batch > 0 ? options->batch : 1;
    CT_TRY_GOTO(ct_edit_create(&caffe__net_parameter__descriptor, &m.net), st,
                out);
    CT_TRY_GOTO(read_opset(&m), st, out);
    CT_TRY_GOTO(read_graph(&m), st, out);
    CT_TRY_GOTO(onnx_work_in_place(&m), st, out);
    CT_TRY_GOTO(check_net(&m), st, out);
    *out  = m.net;
    m.net = NULL;
out:
    import_fini(&m);
    ct_message_free(model);
    return st;
}
