/* shrink.c - makes a failing case small.
 *
 * Works on the message, so it knows nothing of single layers: a layer is taken
 * out and what read its tops reads its bottom; a field is taken out; a number
 * is made smaller.  What still fails stays so. */
#include "shrink.h"

#include <string.h>

#include "base/clock.h"
#include "proto/edit.h"

struct shrinking {
    struct drawn *c;
    shrink_fn     fails;
    void         *arg;
    double        end;
    bool          changed;
};

static bool over(const struct shrinking *s)
{
    return ct_now() > s->end;
}

/* Tries the case with `other` in place of its solver; keeps it if it fails. */
static bool take_if_fails(struct shrinking *s, Caffe__SolverParameter *other)
{
    Caffe__SolverParameter *before = s->c->solver;

    s->c->solver = other;
    if (s->fails(s->c, s->arg)) {
        ct_message_free(before);
        s->changed = true;
        return true;
    }
    s->c->solver = before;
    ct_message_free(other);
    return false;
}

static Caffe__SolverParameter *copy_of(const struct shrinking *s)
{
    Caffe__SolverParameter *m = NULL;

    return ct_message_copy(s->c->solver, &m) == CT_OK ? m : NULL;
}

/* From `at` on, readers of `top` read `bottom`; writers in place as well. */
static bool rename_blob(Caffe__NetParameter *net, size_t at, const char *top,
                        const char *bottom)
{
    for (size_t l = at; l < net->n_layer; l++) {
        Caffe__LayerParameter *p = net->layer[l];

        for (size_t i = 0; i < p->n_bottom; i++)
            if (strcmp(p->bottom[i], top) == 0 &&
                ct_edit_string(&p->bottom[i], bottom) != CT_OK)
                return false;
        for (size_t i = 0; i < p->n_top; i++)
            if (strcmp(p->top[i], top) == 0 &&
                ct_edit_string(&p->top[i], bottom) != CT_OK)
                return false;
    }
    return true;
}

static void drop_layer(struct shrinking *s, size_t at, size_t bottom)
{
    Caffe__SolverParameter *m = copy_of(s);
    Caffe__NetParameter *net;
    Caffe__LayerParameter *p;
    bool ok = true;

    if (!m)
        return;
    net = m->net_param;
    p   = net->layer[at];
    for (size_t i = 0; i < p->n_top && p->n_bottom > 0; i++)
        ok = ok && rename_blob(net, at + 1, p->top[i], p->bottom[bottom]);
    ct_edit_remove(&net->layer, &net->n_layer, at);
    if (!ok) {
        ct_message_free(m);
        return;
    }
    (void)take_if_fails(s, m);
}

static void drop_layers(struct shrinking *s)
{
    for (size_t l = s->c->solver->net_param->n_layer; l-- > 1 && !over(s);) {
        size_t n;

        if (l >= s->c->solver->net_param->n_layer)
            continue;
        n = s->c->solver->net_param->layer[l]->n_bottom;
        for (size_t b = 0; b < (n ? n : 1) && !over(s); b++) {
            const size_t before = s->c->solver->net_param->n_layer;

            drop_layer(s, l, b);
            if (s->c->solver->net_param->n_layer < before)
                break;
        }
    }
}

/* ---- fields ---- */

/* The path to a message: fields and places in lists, from the solver down. */
struct path {
    int    depth;
    int    field[8];
    size_t at[8];
};

static ProtobufCMessage *follow(ProtobufCMessage *m, const struct path *p)
{
    for (int i = 0; i < p->depth; i++) {
        const ProtobufCFieldDescriptor *f =
            &m->descriptor->fields[p->field[i]];
        void *at = (char *)m + f->offset;

        m = f->label == PROTOBUF_C_LABEL_REPEATED
                ? (*(ProtobufCMessage ***)at)[p->at[i]]
                : *(ProtobufCMessage **)at;
    }
    return m;
}

static bool is_set(const ProtobufCMessage *m, int field)
{
    const ProtobufCFieldDescriptor *f = &m->descriptor->fields[field];
    const char *base                  = (const char *)m;

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(base + f->quantifier_offset) > 0;
    if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE)
    {
        const void *p = *(const void *const *)(base + f->offset);

        return p && p != f->default_value;
    }
    return f->label == PROTOBUF_C_LABEL_OPTIONAL &&
           *(const protobuf_c_boolean *)(base + f->quantifier_offset);
}

/* Whatever makes a net another net: its wires and its place on disk. */
static bool is_kept(const ProtobufCFieldDescriptor *f)
{
    static const char *const kept[] = { "bottom", "top", "name", "type",
                                        "source", "net_param", "layer",
                                        "random_seed", "base_lr", "max_iter",
                                        "lr_policy", "snapshot_prefix",
                                        "snapshot_after_train", "test_iter",
                                        "test_interval", "batch_size",
                                        "transform_param", "filler", "scale",
                                        "mean_value", "eps", "delta",
                                        "weight_filler", "bias_filler" };

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (strcmp(f->name, kept[i]) == 0)
            return true;
    return false;
}

static void clear_field(ProtobufCMessage *m, int field)
{
    const ProtobufCFieldDescriptor *f = &m->descriptor->fields[field];
    char *base                        = (char *)m;

    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        /* Leaks a few bytes of a test program; a list is no longer read. */
        *(size_t *)(base + f->quantifier_offset) = 0;
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        ct_message_free(*(void **)(base + f->offset));
        *(void **)(base + f->offset) = NULL;
    } else if (f->type == PROTOBUF_C_TYPE_STRING) {
        ct_edit_free(*(void **)(base + f->offset));
        *(const void **)(base + f->offset) = f->default_value;
    } else {
        *(protobuf_c_boolean *)(base + f->quantifier_offset) = 0;
    }
}

static void clear_fields(struct shrinking *s, const struct path *p);

static void clear_below(struct shrinking *s, const struct path *p, int field)
{
    const ProtobufCMessage *m =
        follow((ProtobufCMessage *)s->c->solver, p);
    const ProtobufCFieldDescriptor *f = &m->descriptor->fields[field];
    struct path below                 = *p;
    size_t n                          = 1;

    if (f->type != PROTOBUF_C_TYPE_MESSAGE || p->depth >= 7)
        return;
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        n = *(const size_t *)((const char *)m + f->quantifier_offset);
    below.field[below.depth++] = field;
    for (size_t i = 0; i < n && !over(s); i++) {
        below.at[below.depth - 1] = i;
        clear_fields(s, &below);
    }
}

/* Message by message: each field that can go, goes. */
static void clear_fields(struct shrinking *s, const struct path *p)
{
    const unsigned n_fields =
        follow((ProtobufCMessage *)s->c->solver, p)->descriptor->n_fields;

    for (int i = 0; i < (int)n_fields && !over(s); i++) {
        const ProtobufCMessage *m =
            follow((ProtobufCMessage *)s->c->solver, p);
        Caffe__SolverParameter *other;

        if (!is_set(m, i))
            continue;
        if (!is_kept(&m->descriptor->fields[i])) {
            other = copy_of(s);
            if (!other)
                return;
            clear_field(follow((ProtobufCMessage *)other, p), i);
            if (take_if_fails(s, other))
                continue;
        }
        clear_below(s, p, i);
    }
}

/* ---- numbers ---- */

static void set_iterations(struct shrinking *s, int n)
{
    Caffe__SolverParameter *m = copy_of(s);

    if (m && n >= 1 && n < m->max_iter) {
        m->max_iter = n;
        (void)take_if_fails(s, m);
    } else {
        ct_message_free(m);
    }
}

/* Where a layer has so many outputs, fewer. */
static void fewer_outputs(struct shrinking *s, size_t layer)
{
    static const uint32_t less[] = { 1, 2, 3 };

    for (int i = 0; i < 3 && !over(s); i++) {
        Caffe__SolverParameter *m = copy_of(s);
        Caffe__LayerParameter *p;
        uint32_t *n = NULL;

        if (!m)
            return;
        p = m->net_param->layer[layer];
        if (p->convolution_param)
            n = &p->convolution_param->num_output;
        else if (p->inner_product_param)
            n = &p->inner_product_param->num_output;
        if (!n || *n <= less[i]) {
            ct_message_free(m);
            return;
        }
        *n = less[i];
        if (take_if_fails(s, m))
            return;
    }
}

void shrink(struct drawn *c, shrink_fn fails, void *arg, double seconds)
{
    struct shrinking s = { .c = c, .fails = fails, .arg = arg,
                           .end = ct_now() + seconds };
    const struct path root = { 0 };

    do {
        s.changed = false;
        drop_layers(&s);
        for (int n = 1; n < c->solver->max_iter && !over(&s); n++)
            set_iterations(&s, n);
        clear_fields(&s, &root);
        for (size_t l = 0; l < c->solver->net_param->n_layer && !over(&s); l++)
            fewer_outputs(&s, l);
    } while (s.changed && !over(&s));
}
