/* export.c - a net written as an ONNX model.
 *
 * Layers go out in the net's order.  A blob that layers rewrite in place is
 * several tensors: the last has the blob's name.  What depends on shapes only
 * (PriorBox, and layers that read nothing else) is run here and goes out as a
 * constant where a node reads it.  With an open batch size the net is built
 * for two sizes; dimensions that differ are the open ones. */
#include "onnx/export.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "onnx/import.h"
#include "proto/edit.h"

static const struct {
    const char *type;
    onnx_emit_fn emit;
} table[] = {
#define ONNX_EMIT(type, fn) { type, fn },
#include "onnx/export.def"
#undef ONNX_EMIT
};

/* What an inference graph has no use for, besides losses. */
static const char *const left_out[] = { "Accuracy", "DetectionEvaluate",
                                        "HDF5Output", "Silence" };

static onnx_emit_fn find_emit(const char *type)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i].type, type) == 0)
            return table[i].emit;
    return NULL;
}

bool onnx_is_exported(const char *type)
{
    return find_emit(type) != NULL;
}

static bool is_left_out(const struct ct_layer *l)
{
    if (l->type->flags & CT_LAYER_LOSS)
        return true;
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        if (strcmp(l->type->name, left_out[i]) == 0)
            return true;
    return false;
}

static bool is_type(const struct ct_layer *l, const char *type)
{
    return strcmp(l->type->name, type) == 0;
}

/* Whether the tops follow from shapes: the first layer that knows them, or
 * all bottoms do. */
static bool is_constant(const struct onnx_export *x, int index)
{
    const struct ct_layer *l = ct_net_layer(x->net, index);
    const struct ct_io io    = ct_net_io(x->net, index);

    if (is_type(l, "PriorBox") || is_type(l, "Parameter"))
        return true;
    if (is_type(l, "DummyData")) {
        const Caffe__DummyDataParameter *p = l->param->dummy_data_param;

        for (size_t i = 0; p && i < p->n_data_filler; i++)
            if (p->data_filler[i]->type &&
                strcmp(p->data_filler[i]->type, "constant") != 0)
                return false;
        return true;
    }
    if (io.n_bottom == 0 ||
        (l->type->flags & (CT_LAYER_DYNAMIC | CT_LAYER_CARRIES)))
        return false;
    for (int i = 0; i < io.n_bottom; i++)
        if (!x->constant[ct_net_bottom_id(x->net, index, i)])
            return false;
    return true;
}

enum ct_status onnx_values(const struct ct_blob *b, float **room)
{
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)b->count, sizeof(**room), "onnx values", room));
    st = ct_blob_get(b, false, *room);
    if (st != CT_OK) {
        ct_free(*room);
        *room = NULL;
    }
    return st;
}

/* The tensor that holds a blob; constants get one when they are first read. */
static enum ct_status read_blob(struct onnx_export *x, int layer, int id,
                                const char **out)
{
    const struct ct_blob *b = ct_net_blob(x->net, id);
    float *values           = NULL;

    x->read[x->origin[id]] = true;
    if (!x->value[id] && x->constant[id]) {
        CT_TRY(onnx_values(b, &values));
        x->value[id] = onnx_floats(
            &x->graph, onnx_name(&x->graph, "%s", ct_net_blob_name(x->net, id)),
            &b->shape, values);
        ct_free(values);
    }
    *out = x->value[id];
    if (!*out)
        return ct_fail(CT_ENOTSUP,
                       "layer %s: it reads %s, which a layer without a place "
                       "in an ONNX graph makes",
                       ct_net_layer(x->net, layer)->name,
                       ct_net_blob_name(x->net, id));
    return CT_OK;
}

static bool is_written_after(const struct onnx_export *x, int index, int id)
{
    for (int i = index + 1; i < ct_net_n_layers(x->net); i++)
        for (int k = 0; k < ct_net_io(x->net, i).n_top; k++)
            if (ct_net_top_id(x->net, i, k) == id && !x->done[i])
                return true;
    return false;
}

/* What a top is called: as its blob, unless layers behind write that again. */
static const char *top_name(struct onnx_export *x, int index, int id)
{
    const char *blob = ct_net_blob_name(x->net, id);

    if (is_written_after(x, index, id))
        return onnx_name(&x->graph, "%s/%s", blob,
                         ct_net_layer(x->net, index)->name);
    return onnx_name(&x->graph, "%s", blob);
}

static void add_inputs(struct onnx_export *x, int index)
{
    const struct ct_io io = ct_net_io(x->net, index);

    for (int i = 0; i < io.n_top; i++) {
        int id = ct_net_top_id(x->net, index, i);

        x->value[id] =
            onnx_name(&x->graph, "%s", ct_net_blob_name(x->net, id));
    }
}

/* Whether a node reads the tensor. */
static bool is_read(const Onnx__GraphProto *g, const char *tensor)
{
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_input; k++)
            if (strcmp(g->node[i]->input[k], tensor) == 0)
                return true;
    return false;
}

/* Inputs that nodes read; the labels of a data layer often are not. */
static void declare_inputs(struct onnx_export *x)
{
    for (int i = 0; i < ct_net_n_layers(x->net); i++) {
        const struct ct_layer *l = ct_net_layer(x->net, i);

        if (!(l->type->flags & CT_LAYER_SOURCE) || is_constant(x, i))
            continue;
        for (int k = 0; k < ct_net_io(x->net, i).n_top; k++) {
            int id                = ct_net_top_id(x->net, i, k);
            struct ct_shape shape = ct_net_blob(x->net, id)->shape;

            for (int a = 0; x->dynamic && a < shape.n_axes; a++)
                if (x->other[id].dim[a] != shape.dim[a])
                    shape.dim[a] = -1;
            if (is_read(x->graph.model->graph, ct_net_blob_name(x->net, id)))
                onnx_add_value(&x->graph, true,
                               ct_net_blob_name(x->net, id), &shape);
        }
    }
}

/* Layer `index` with its tensors; the lists are ct_free'd by the caller. */
static enum ct_status describe(struct onnx_export *x, int index,
                               struct onnx_layer *l)
{
    const struct ct_io io = ct_net_io(x->net, index);

    l->layer = ct_net_layer(x->net, index);
    l->io    = io;
    l->index = index;
    l->name  = l->layer->name;
    CT_TRY(ct_alloc((size_t)io.n_bottom, sizeof(*l->in), "onnx tensors",
                    &l->in));
    CT_TRY(ct_alloc((size_t)io.n_top, sizeof(*l->out), "onnx tensors",
                    &l->out));
    for (int i = 0; i < io.n_bottom; i++)
        CT_TRY(read_blob(x, index, ct_net_bottom_id(x->net, index, i),
                         &l->in[i]));
    return CT_OK;
}

/* After folding, the tops are those of the last layer folded. */
static void name_tops(struct onnx_export *x, struct onnx_layer *l, int last)
{
    for (int i = 0; i < l->io.n_top; i++)
        l->out[i] = top_name(x, last, ct_net_top_id(x->net, last, i));
}

static bool is_alias(const struct ct_layer *l)
{
    return is_type(l, "Split") || is_type(l, "Dropout");
}

static void alias(struct onnx_export *x, const struct onnx_layer *l)
{
    int from = ct_net_bottom_id(x->net, l->index, 0);

    for (int i = 0; i < l->io.n_top; i++) {
        int to = ct_net_top_id(x->net, l->index, i);

        x->value[to] = l->in[0];
        x->alias[to] = true;
        if (is_type(l->layer, "Split"))
            x->origin[to] = x->origin[from];
    }
    /* A Split reads nothing by itself: its tops are read, or not. */
    if (is_type(l->layer, "Split"))
        x->read[x->origin[from]] = false;
}

static enum ct_status emit_layer(struct onnx_export *x, int index)
{
    struct onnx_layer l = { 0 };
    onnx_emit_fn emit   = find_emit(ct_net_layer(x->net, index)->type->name);
    enum ct_status st   = CT_OK;
    int last            = index;

    if (!emit)
        return ct_fail(CT_ENOTSUP,
                       "layer %s: ONNX has no standard operators for type %s",
                       ct_net_layer(x->net, index)->name,
                       ct_net_layer(x->net, index)->type->name);
    CT_TRY_GOTO(describe(x, index, &l), st, out);
    if (is_alias(l.layer)) {
        alias(x, &l);
        goto out;
    }
    /* Marks what it takes in as done, so that tops are named after that. */
    if (x->fold)
        last = onnx_fold_behind(x, index);
    name_tops(x, &l, last);
    CT_TRY_GOTO(emit(x, &l), st, out);
    for (int i = 0; i < l.io.n_top; i++) {
        int id = ct_net_top_id(x->net, last, i);

        x->value[id] = l.out[i];
        x->read[id] = x->alias[id] = false;
    }
    st = x->graph.status;
out:
    ct_free(l.in);
    ct_free(l.out);
    return st;
}

static enum ct_status run_constant(struct onnx_export *x, int index)
{
    for (int i = 0; i < ct_net_io(x->net, index).n_bottom; i++)
        x->read[x->origin[ct_net_bottom_id(x->net, index, i)]] = true;
    CT_TRY(ct_net_forward_range(x->net, index, index + 1, NULL));
    for (int i = 0; i < ct_net_io(x->net, index).n_top; i++) {
        int id = ct_net_top_id(x->net, index, i);

        x->constant[id] = true;
        x->value[id]    = NULL;
        x->read[id]     = false;
    }
    return CT_OK;
}

static enum ct_status walk(struct onnx_export *x)
{
    for (int i = 0; i < ct_net_n_layers(x->net); i++) {
        const struct ct_layer *l = ct_net_layer(x->net, i);

        if (x->done[i] || is_left_out(l))
            continue;
        if (is_constant(x, i))
            CT_TRY(run_constant(x, i));
        else if (l->type->flags & CT_LAYER_SOURCE)
            add_inputs(x, i);
        else
            CT_TRY(emit_layer(x, i));
    }
    return x->graph.status;
}

static bool is_silenced(const struct onnx_export *x, int id)
{
    for (int i = 0; i < ct_net_n_layers(x->net); i++)
        for (int k = 0; k < ct_net_io(x->net, i).n_bottom; k++)
            if (is_type(ct_net_layer(x->net, i), "Silence") &&
                x->origin[ct_net_bottom_id(x->net, i, k)] == id)
                return true;
    return false;
}

static void declare_output(struct onnx_export *x, int id, bool open_rows)
{
    const char *blob = ct_net_blob_name(x->net, id), *name;
    struct ct_shape shape = ct_net_blob(x->net, id)->shape;

    for (int i = 0; x->dynamic && i < shape.n_axes; i++)
        if (x->other[id].dim[i] != shape.dim[i])
            shape.dim[i] = -1;
    /* Rows that depend on the values: the detections, the filtered items. */
    for (int i = 0; open_rows && i < shape.n_axes; i++)
        if (i == (shape.n_axes == 4 && shape.dim[3] == 7 ? 2 : 0))
            shape.dim[i] = -2;
    if (!x->value[id] && x->constant[id]) {
        const char *from;

        if (read_blob(x, 0, id, &from) != CT_OK)
            return;
        name = onnx_name(&x->graph, "%s/out", blob);
        onnx_add(&x->graph, name, "Identity", ONNX_IN(from), name);
    } else if (x->alias[id]) {
        name = onnx_name(&x->graph, "%s", blob);
        onnx_add(&x->graph, name, "Identity", ONNX_IN(x->value[id]), name);
    } else {
        name = x->value[id];
    }
    onnx_add_value(&x->graph, false, name, &shape);
}

/* Outputs: what the net has as such, and what only losses and scores read. */
static enum ct_status declare_outputs(struct onnx_export *x)
{
    bool *seen = NULL;

    CT_TRY(ct_alloc((size_t)ct_net_n_blobs(x->net), sizeof(*seen),
                    "onnx outputs", &seen));
    memset(seen, 0, (size_t)ct_net_n_blobs(x->net) * sizeof(*seen));
    for (int i = 0; i < ct_net_n_layers(x->net); i++) {
        const struct ct_layer *l = ct_net_layer(x->net, i);

        if (is_left_out(l) || (l->type->flags & CT_LAYER_SOURCE))
            continue;
        for (int k = 0; k < ct_net_io(x->net, i).n_top; k++) {
            int id = ct_net_top_id(x->net, i, k);

            if (seen[id] || x->origin[id] != id || x->read[id] ||
                (!x->value[id] && !x->constant[id]) || is_silenced(x, id))
                continue;
            seen[id] = true;
            declare_output(x, id, (l->type->flags & CT_LAYER_DYNAMIC) != 0);
        }
    }
    ct_free(seen);
    if (x->graph.status == CT_OK && x->graph.model->graph->n_output == 0)
        return ct_fail(CT_EINVAL, "%s: no layer makes an output",
                       ct_net_name(x->net));
    return x->graph.status;
}

/* Gives every input of the first one's batch size the size `batch`, or
 * `times` its own; *own, which may be NULL, is that. */
static enum ct_status set_batch(struct ct_net *net, int64_t batch,
                                int64_t times, int64_t *own)
{
    int64_t before = -1;

    for (int i = 0; i < ct_net_n_inputs(net); i++) {
        struct ct_blob *b     = ct_net_blob(net, ct_net_input_id(net, i));
        struct ct_shape shape = b->shape;

        if (shape.n_axes == 0)
            continue;
        before = before < 0 ? shape.dim[0] : before;
        if (shape.dim[0] != before)
            continue;
        shape.dim[0] = times ? times * before : batch;
        CT_TRY(ct_reshape(b, shape));
    }
    if (before < 0)
        return ct_fail(CT_EINVAL, "%s: no Input layer whose batch size could "
                       "be set", ct_net_name(net));
    if (own)
        *own = before;
    return ct_net_reshape(net);
}

static enum ct_status batch_sizes(struct onnx_export *x, int64_t batch)
{
    const int n = ct_net_n_blobs(x->net);
    int64_t own;

    if (batch == 0)
        return CT_OK;
    if (batch > 0)
        return set_batch(x->net, batch, 0, NULL);
    x->dynamic = true;
    CT_TRY(ct_alloc((size_t)n, sizeof(*x->other), "onnx shapes", &x->other));
    CT_TRY(set_batch(x->net, 0, 2, &own));
    for (int i = 0; i < n; i++)
        x->other[i] = ct_net_blob(x->net, i)->shape;
    return set_batch(x->net, own, 0, NULL);
}

static enum ct_status export_init(struct onnx_export *x, struct ct_net *net,
                                  const struct ct_onnx_options *o)
{
    const size_t n_blobs  = (size_t)ct_net_n_blobs(net);
    const size_t n_layers = (size_t)ct_net_n_layers(net);
    const int opset       = o->opset ? o->opset : 13;
    const char *title     = ct_net_name(net);

    if (opset != 13 && opset != 17)
        return ct_fail(CT_EINVAL, "opset is 13 or 17, not %d", opset);
    x->net   = net;
    x->fold  = !o->no_fold;
    x->opset = opset;
    CT_TRY(onnx_graph_init(&x->graph, title && *title ? title : "net", opset));
    CT_TRY(ct_alloc(n_blobs, sizeof(*x->value), "onnx tensors", &x->value));
    CT_TRY(ct_alloc(n_blobs, sizeof(*x->constant), "onnx blobs",
                    &x->constant));
    CT_TRY(ct_alloc(n_blobs, sizeof(*x->read), "onnx blobs", &x->read));
    CT_TRY(ct_alloc(n_blobs, sizeof(*x->alias), "onnx blobs", &x->alias));
    CT_TRY(ct_alloc(n_blobs, sizeof(*x->origin), "onnx blobs", &x->origin));
    CT_TRY(ct_alloc(n_layers, sizeof(*x->done), "onnx layers", &x->done));
    memset(x->value, 0, n_blobs * sizeof(*x->value));
    memset(x->constant, 0, n_blobs * sizeof(*x->constant));
    memset(x->read, 0, n_blobs * sizeof(*x->read));
    memset(x->alias, 0, n_blobs * sizeof(*x->alias));
    memset(x->done, 0, n_layers * sizeof(*x->done));
    for (size_t i = 0; i < n_blobs; i++)
        x->origin[i] = (int)i;
    return batch_sizes(x, o->batch);
}

static void export_fini(struct onnx_export *x)
{
    ct_free(x->value);
    ct_free(x->constant);
    ct_free(x->read);
    ct_free(x->alias);
    ct_free(x->origin);
    ct_free(x->other);
    ct_free(x->done);
    onnx_graph_fini(&x->graph);
}

/* Writes `net`, whose blobs and batch size are this function's to change. */
static enum ct_status export_net(struct ct_net *net,
                                 const struct ct_onnx_options *options,
                                 const char *path)
{
    const struct ct_onnx_options none = { 0 };
    struct onnx_export x              = { 0 };
    enum ct_status st;

    CT_TRY_GOTO(export_init(&x, net, options ? options : &none), st, out);
    CT_TRY_GOTO(walk(&x), st, out);
    CT_TRY_GOTO(declare_outputs(&x), st, out);
    declare_inputs(&x);
    CT_TRY_GOTO(x.graph.status, st, out);
    st = ct_binary_write(x.graph.model, path);
out:
    export_fini(&x);
    return st;
}

static const struct ct_net_options quietly = { .phase = CAFFE__PHASE__TEST,
                                               .forward_only = true,
                                               .keep_blobs   = true,
                                               .quiet        = true };

/* Inputs of the shapes that they have in `from`. */
static enum ct_status same_inputs(struct ct_net *net,
                                  const struct ct_net *from)
{
    for (int i = 0; i < ct_net_n_inputs(net); i++) {
        const int id = ct_net_input_id(net, i);
        const int other = ct_net_find_blob(from, ct_net_blob_name(net, id));

        if (other >= 0)
            CT_TRY(ct_reshape(ct_net_blob(net, id),
                              ct_net_blob(from, other)->shape));
    }
    return ct_net_reshape(net);
}

enum ct_status ct_onnx_export(const struct ct_net *net,
                              const struct ct_onnx_options *options,
                              const char *path)
{
    Caffe__NetParameter *weights = NULL;
    struct ct_net *copy          = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_net_create(ct_net_param_message(net), &quietly, &copy), st,
                out);
    CT_TRY_GOTO(ct_net_to_message(net, false, &weights), st, out);
    CT_TRY_GOTO(ct_net_copy_weights(copy, weights, "the net"), st, out);
    ct_message_free(weights);
    weights = NULL;
    CT_TRY_GOTO(same_inputs(copy, net), st, out);
    st = export_net(copy, options, path);
out:
    ct_message_free(weights);
    ct_net_destroy(copy);
    return st;
}

enum ct_status ct_onnx_export_file(const char *model, const char *weights,
                                   const struct ct_onnx_options *options,
                                   const char *path)
{
    struct ct_net *net = NULL;
    enum ct_status st;

    CT_TRY(ct_net_create_file(model, &quietly, &net));
    st = weights ? ct_net_load(net, weights) : CT_OK;
    if (st == CT_OK)
        st = export_net(net, options, path);
    ct_net_destroy(net);
    return st;
}
