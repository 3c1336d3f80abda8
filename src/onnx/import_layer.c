/* import_layer.c - layers out of nodes: made, set up once, added to the net.
 *
 * A layer that is set up by itself, on blobs without memory, tells the shapes
 * of its tops and refuses what does not fit. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "cortado/layer.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "proto/edit.h"

/* Blobs without memory for a trial set-up. */
struct trial {
    struct ct_blob **blob;
    size_t           n;
};

static void trial_fini(struct trial *t)
{
    for (size_t i = 0; i < t->n; i++)
        ct_blob_destroy(t->blob[i]);
    ct_free(t->blob);
}

static const struct ct_shape *blob_shape(const struct onnx_import *m,
                                         const char *blob)
{
    for (size_t i = m->n_value; i-- > 0;)
        if (m->value[i].blob && strcmp(m->value[i].blob, blob) == 0)
            return &m->value[i].shape;
    return NULL;
}

static enum ct_status trial_init(const struct onnx_import *m,
                                 const Caffe__LayerParameter *l,
                                 struct trial *t)
{
    const size_t n = l->n_bottom + l->n_top;

    CT_TRY(ct_alloc(n, sizeof(*t->blob), "onnx trial", &t->blob));
    for (t->n = 0; t->n < n; t->n++) {
        const struct ct_shape *s;

        CT_TRY(ct_blob_create(ct_device_cpu(), &t->blob[t->n]));
        t->blob[t->n]->planned = true;
        t->blob[t->n]->no_diff = true;
        if (t->n >= l->n_bottom)
            continue;
        s = blob_shape(m, l->bottom[t->n]);
        if (!s) {
            ct_blob_destroy(t->blob[t->n]);
            return ct_fail(CT_EPARSE, "%s: layer %s reads %s, which nobody "
                           "makes", m->source, l->name, l->bottom[t->n]);
        }
        if (ct_reshape(t->blob[t->n], *s) != CT_OK) {
            ct_blob_destroy(t->blob[t->n]);
            return CT_ESHAPE;
        }
    }
    return CT_OK;
}

/* The shapes that learned blobs must have, where their counts fit. */
static enum ct_status fit_blobs(const struct onnx_import *m,
                                const struct ct_layer *layer,
                                Caffe__LayerParameter *l)
{
    if ((size_t)layer->n_blob != l->n_blobs)
        return ct_fail(CT_ESHAPE, "%s: layer %s has %d blobs, and %zu are "
                       "given", m->source, l->name, layer->n_blob, l->n_blobs);
    for (int i = 0; i < layer->n_blob; i++) {
        const struct ct_shape *want = &layer->blob[i]->shape;
        Caffe__BlobProto *b         = l->blobs[i];

        if (b->n_data != (size_t)layer->blob[i]->count)
            return ct_fail(CT_ESHAPE, "%s: layer %s takes %" PRId64 " values "
                           "as blob %d, and gets %zu", m->source, l->name,
                           layer->blob[i]->count, i, b->n_data);
        CT_TRY(ct_edit_create(&caffe__blob_shape__descriptor, &b->shape));
        CT_TRY(ct_edit_array((size_t)want->n_axes, sizeof(*b->shape->dim),
                             &b->shape->dim));
        memcpy(b->shape->dim, want->dim,
               (size_t)want->n_axes * sizeof(*want->dim));
        b->shape->n_dim = (size_t)want->n_axes;
    }
    return CT_OK;
}

/* Sets the layer up by itself; tops[i] are the shapes that come out. */
static enum ct_status try_layer(const struct onnx_import *m,
                                Caffe__LayerParameter *l,
                                struct ct_shape *tops)
{
    const struct ct_run run = { .forward_only = true, .size = 1 };
    struct ct_layer *layer  = NULL;
    struct trial t          = { 0 };
    struct ct_io io;
    enum ct_status st;

    CT_TRY_GOTO(trial_init(m, l, &t), st, out);
    io = (struct ct_io){ t.blob, t.blob + l->n_bottom, (int)l->n_bottom,
                         (int)l->n_top, NULL };
    CT_TRY_GOTO(ct_layer_create(l, ct_device_cpu(), &run, CAFFE__PHASE__TEST,
                                &layer), st, out);
    CT_TRY_GOTO(ct_layer_setup(layer, &io), st, out);
    CT_TRY_GOTO(fit_blobs(m, layer, l), st, out);
    for (size_t i = 0; i < l->n_top; i++) {
        tops[i] = io.top[i]->shape;
        if (io.top[i]->count > ONNX_MOST_VALUES)
            st = onnx_reject(m, "layer %s makes %" PRId64 " values, and %d are "
                             "the most; give a smaller batch", l->name,
                             io.top[i]->count, ONNX_MOST_VALUES);
    }
out:
    ct_layer_destroy(layer);
    trial_fini(&t);
    return st;
}

static enum ct_status add_blob(Caffe__LayerParameter *l,
                               const struct onnx_blob *from)
{
    const size_t n = (size_t)ct_shape_count(&from->shape, 0, CT_END);
    Caffe__BlobProto *b = NULL;

    CT_TRY(ct_edit_create(&caffe__blob_proto__descriptor, &b));
    if (ct_edit_insert(&l->blobs, &l->n_blobs, l->n_blobs, b) != CT_OK) {
        ct_message_free(b);
        return CT_ENOMEM;
    }
    CT_TRY(ct_edit_array(n, sizeof(*b->data), &b->data));
    memcpy(b->data, from->value, n * sizeof(*b->data));
    b->n_data = n;
    return CT_OK;
}

/* A name that no layer has; layers after the first of a node are numbered. */
static enum ct_status name_layer(struct onnx_import *m,
                                 Caffe__LayerParameter *l, const char *base)
{
    char name[600];

    snprintf(name, sizeof(name), "%.500s", base);
    for (int i = 2;; i++) {
        bool taken = false;

        for (size_t k = m->net->n_layer; !taken && k-- > 0;)
            taken = strcmp(m->net->layer[k]->name, name) == 0;
        if (!taken)
            return ct_edit_string(&l->name, name);
        snprintf(name, sizeof(name), "%.500s_%d", base, i);
    }
}

/* Adds a layer that is complete but for its name; owns it from here. */
static enum ct_status add_layer(struct onnx_import *m,
                                Caffe__LayerParameter *l,
                                struct ct_shape *tops)
{
    enum ct_status st = try_layer(m, l, tops);

    if (st == CT_OK)
        st = ct_edit_insert(&m->net->layer, &m->net->n_layer, m->net->n_layer,
                            l);
    if (st != CT_OK)
        ct_message_free(l);
    return st;
}

static const char *node_name(const struct onnx_import *m)
{
    return m->node->name && *m->node->name ? m->node->name
                                           : m->node->output[0];
}

static enum ct_status make(struct onnx_import *m, const struct onnx_made *made,
                           const char *param, Caffe__LayerParameter **out)
{
    struct ct_text text      = { 0 };
    Caffe__LayerParameter *l = NULL;
    enum ct_status st;

    ct_text_addf(&text, "type: '%s' %s", made->type, param);
    st = text.failed ? CT_ENOMEM
                     : ct_text_parse(&caffe__layer_parameter__descriptor,
                                     text.s, text.n_bytes, m->source, &l);
    ct_text_fini(&text);
    CT_TRY(st);
    st = name_layer(m, l, node_name(m));
    for (int i = 0; st == CT_OK && made->bottom && made->bottom[i]; i++)
        st = ct_edit_add_string(&l->bottom, &l->n_bottom, made->bottom[i]);
    for (int i = 0; st == CT_OK && i < made->n_blob; i++)
        st = add_blob(l, &made->blob[i]);
    if (st != CT_OK) {
        ct_message_free(l);
        return st;
    }
    *out = l;
    return CT_OK;
}

/* A name for a blob that no value has. */
static enum ct_status add_top(struct onnx_import *m, Caffe__LayerParameter *l,
                              const char *base)
{
    char name[600];

    snprintf(name, sizeof(name), "%.500s", base);
    for (int i = 2; blob_shape(m, name); i++)
        snprintf(name, sizeof(name), "%.500s_%d", base, i);
    return ct_edit_add_string(&l->top, &l->n_top, name);
}

enum ct_status onnx_layer_between(struct onnx_import *m,
                                  const struct onnx_made *made,
                                  const char **out, struct ct_shape *shape,
                                  const char *fmt, ...)
{
    struct ct_shape tops[1];
    Caffe__LayerParameter *l = NULL;
    char param[1024];
    va_list args;
    enum ct_status st;

    va_start(args, fmt);
    vsnprintf(param, sizeof(param), fmt, args);
    va_end(args);
    CT_TRY(make(m, made, param, &l));
    st = add_top(m, l, l->name);
    if (st != CT_OK) {
        ct_message_free(l);
        return st;
    }
    CT_TRY(add_layer(m, l, tops));
    *out = l->top[0];
    if (shape)
        *shape = tops[0];
    return onnx_add_blob(m, l->top[0], l->top[0], &tops[0]);
}

enum ct_status onnx_layer_part(struct onnx_import *m, const char **blob,
                               int axis, const char *points, int n_top,
                               int which, struct ct_shape *shape)
{
    const struct onnx_made slice = { "Slice", ONNX_BLOBS(*blob), 0, NULL, 0 };
    const struct onnx_made quiet = { "Silence", NULL, 0, NULL, 0 };
    Caffe__LayerParameter *l = NULL, *silence = NULL;
    struct ct_shape tops[3];
    char param[160];
    enum ct_status st;

    snprintf(param, sizeof(param), "slice_param { axis: %d%s }", axis, points);
    CT_TRY(make(m, &slice, param, &l));
    st = make(m, &quiet, "", &silence);
    for (int i = 0; st == CT_OK && i < n_top; i++) {
        char name[560];

        snprintf(name, sizeof(name), "%.500s/part%d", l->name, i);
        st = add_top(m, l, name);
        if (st == CT_OK && i != which)
            st = ct_edit_add_string(&silence->bottom, &silence->n_bottom,
                                    l->top[i]);
    }
    if (st != CT_OK) {
        ct_message_free(l);
        ct_message_free(silence);
        return st;
    }
    st = add_layer(m, l, tops);
    for (int i = 0; st == CT_OK && i < n_top; i++)
        st = onnx_add_blob(m, l->top[i], l->top[i], &tops[i]);
    if (st == CT_OK) {
        *blob  = l->top[which];
        *shape = tops[which];
        st     = name_layer(m, silence, node_name(m));
    }
    if (st != CT_OK) {
        ct_message_free(silence);
        return st;
    }
    return add_layer(m, silence, NULL);
}

enum ct_status onnx_layer_end(struct onnx_import *m,
                              const struct onnx_made *made, const char *fmt,
                              ...)
{
    Caffe__LayerParameter *l = NULL;
    struct ct_shape *tops    = NULL;
    char param[4096];
    va_list args;
    enum ct_status st;

    va_start(args, fmt);
    vsnprintf(param, sizeof(param), fmt, args);
    va_end(args);
    CT_TRY(make(m, made, param, &l));
    for (int i = 0; i < made->n_top; i++)
        CT_TRY_GOTO(add_top(m, l, m->node->output[i]), st, fail);
    CT_TRY_GOTO(ct_alloc((size_t)made->n_top, sizeof(*tops), "onnx shapes",
                         &tops), st, fail);
    st = add_layer(m, l, tops);
    for (int i = 0; st == CT_OK && i < made->n_top; i++)
        st = onnx_add_blob(m, m->node->output[i], l->top[i], &tops[i]);
    ct_free(tops);
    return st;
fail:
    ct_message_free(l);
    return st;
}

enum ct_status onnx_pass_on(struct onnx_import *m, const char *blob,
                            const struct ct_shape *shape)
{
    const Onnx__GraphProto *g = m->model->graph;

    /* An output needs a blob of its own name. */
    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name &&
            strcmp(g->output[i]->name, m->node->output[0]) == 0)
            return onnx_layer_end(
                m, &(struct onnx_made){ "Power", ONNX_BLOBS(blob), 1, NULL, 0 },
                " ");
    return onnx_add_blob(m, m->node->output[0], blob, shape);
}

static void shape_text(const struct ct_shape *s, char *to, size_t size)
{
    size_t n = 0;

    to[0] = '\0';
    for (int i = 0; i < s->n_axes && n < size; i++)
        n += (size_t)snprintf(to + n, size - n, " dim: %" PRId64, s->dim[i]);
}

enum ct_status onnx_reshape_end(struct onnx_import *m, const char *from,
                                const struct ct_shape *to)
{
    char dims[CT_MAX_AXES * 28];

    shape_text(to, dims, sizeof(dims));
    return onnx_layer_end(
        m, &(struct onnx_made){ "Reshape", ONNX_BLOBS(from), 1, NULL, 0 },
        "reshape_param { shape {%s } }", dims);
}

enum ct_status onnx_reshape_between(struct onnx_import *m, const char *from,
                                    const struct ct_shape *to,
                                    const char **out)
{
    char dims[CT_MAX_AXES * 28];

    shape_text(to, dims, sizeof(dims));
    return onnx_layer_between(
        m, &(struct onnx_made){ "Reshape", ONNX_BLOBS(from), 1, NULL, 0 }, out,
        NULL, "reshape_param { shape {%s } }", dims);
}

/* The note of a layer that the node belongs to: its name, or what stands
 * before a slash in it. */
static const char *note_of(const struct onnx_import *m, const char **layer)
{
    const char *name    = m->node->name ? m->node->name : "";
    const size_t before = strlen(ONNX_LAYER_NOTE);

    for (size_t i = 0; i < m->model->n_metadata_props; i++) {
        const Onnx__StringStringEntryProto *e = m->model->metadata_props[i];
        size_t n;

        if (!e->key || !e->value ||
            strncmp(e->key, ONNX_LAYER_NOTE, before) != 0)
            continue;
        *layer = e->key + before;
        n      = strlen(*layer);
        if (n > 0 && strncmp(name, *layer, n) == 0 &&
            (name[n] == '\0' || name[n] == '/'))
            return e->value;
    }
    return NULL;
}

static enum ct_status recall_blobs(struct onnx_import *m, const char *name,
                                   Caffe__LayerParameter *l)
{
    char constant[600];

    for (int i = 0;; i++) {
        const struct onnx_value *v;

        snprintf(constant, sizeof(constant), "%.500s.blob%d", name, i);
        v = onnx_find(m, constant);
        if (!v || !v->f)
            return CT_OK;
        CT_TRY(add_blob(l, &(struct onnx_blob){ v->shape, v->f }));
    }
}

/* Its bottoms, which are tensors, as blobs; false: one of them is not there. */
static enum ct_status recall_bottoms(struct onnx_import *m,
                                     Caffe__LayerParameter *l, bool *there)
{
    for (size_t i = 0; i < l->n_bottom; i++) {
        struct onnx_value *v = onnx_find(m, l->bottom[i]);

        *there = v != NULL;
        if (!v)
            return CT_OK;
        if (!v->blob) {
            const char *blob;
            const struct onnx_blob b = { v->shape, v->f };
            char dims[CT_MAX_AXES * 28];

            if (!v->f)
                return onnx_reject(m, "%s holds integers", v->name);
            shape_text(&v->shape, dims, sizeof(dims));
            CT_TRY(onnx_layer_between(
                m, &(struct onnx_made){ "Parameter", NULL, 1, &b, 1 }, &blob,
                NULL, "parameter_param { shape {%s } }", dims));
            CT_TRY(ct_edit_string(&l->bottom[i], blob));
        } else {
            CT_TRY(ct_edit_string(&l->bottom[i], v->blob));
        }
    }
    return CT_OK;
}

static enum ct_status recall(struct onnx_import *m, const char *name,
                             Caffe__LayerParameter *l, bool *done)
{
    struct ct_shape tops[8];

    CT_TRY(recall_bottoms(m, l, done));
    if (!*done)
        return CT_OK;
    CT_TRY(recall_blobs(m, name, l));
    CT_TRY(try_layer(m, l, tops));
    /* The layer lives as long as the net, and with it these names. */
    for (size_t i = 0; i < l->n_top; i++)
        CT_TRY(onnx_add_blob(m, l->top[i], l->top[i], &tops[i]));
    return CT_OK;
}

enum ct_status onnx_recall(struct onnx_import *m, bool *done)
{
    Caffe__LayerParameter *l = NULL;
    const char *name, *text = note_of(m, &name);
    enum ct_status st;

    *done = false;
    if (!text)
        return CT_OK;
    /* The first of its nodes stood for all of them. */
    for (size_t i = 0; i < m->net->n_layer; i++)
        if (strcmp(m->net->layer[i]->name, name) == 0) {
            *done = true;
            return CT_OK;
        }
    CT_TRY(ct_text_parse(&caffe__layer_parameter__descriptor, text,
                         strlen(text), m->source, &l));
    st = CT_OK;
    if (l->type && l->name && strcmp(l->name, name) == 0 && l->n_top <= 8 &&
        l->n_blobs == 0 && onnx_is_exported(l->type))
        st = recall(m, name, l, done);
    if (st == CT_OK && *done)
        st = ct_edit_insert(&m->net->layer, &m->net->n_layer, m->net->n_layer,
                            l);
    if (st != CT_OK || !*done)
        ct_message_free(l);
    return st;
}
