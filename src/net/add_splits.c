/* add_splits.c - adds a Split layer for each blob that several layers read,
 * after its last producer, so that each reader writes its own gradient.
 *
 *     data --> a             data --> data_input_0_split --> ..._split_0 --> a
 *          \-> b     becomes                             \-> ..._split_1 --> b
 *
 * An explicit, non-zero loss_weight counts as a reader and moves to the first
 * top of the split.  Names are Caffe's, because snapshots have them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "net/net_inner.h"
#include "proto/edit.h"

/* A top: a place where a name is produced. */
struct source {
    const char *name; /* borrowed */
    int         layer, top;
    int         n_readers, next; /* readers counted; next split top to give */
    float       loss_weight;
};

struct split {
    Caffe__NetParameter *net;
    struct source       *source; /* one per top, in net order */
    int                  n_source;
    int                 *first;   /* per layer: its first source */
};

/* The last producer of `name` among the sources counted so far, or -1. */
static int find_source(const struct split *s, const char *name, int n)
{
    for (int i = n - 1; i >= 0; i--)
        if (strcmp(s->source[i].name, name) == 0)
            return i;
    return -1;
}

/* A top produced in place is named like an earlier one; readers count for the
 * last producer before them. */
static enum ct_status count_readers(struct split *s, int **reads)
{
    int n = 0, r = 0;

    for (size_t i = 0; i < s->net->n_layer; i++) {
        const Caffe__LayerParameter *l = s->net->layer[i];

        for (size_t j = 0; j < l->n_bottom; j++) {
            int from = find_source(s, l->bottom[j], n);

            if (from < 0)
                return ct_fail(CT_EINVAL, "layer %s: bottom %zu names blob "
                               "'%s', which no layer before it produces",
                               l->name ? l->name : "", j, l->bottom[j]);
            (*reads)[r++] = from;
            s->source[from].n_readers++;
        }
        s->first[i] = n;
        for (size_t j = 0; j < l->n_top; j++)
            s->source[n++] = (struct source){ l->top[j], (int)i, (int)j, 0, 0,
                                              0 };
        for (size_t j = 0; j < l->n_loss_weight && j < l->n_top; j++) {
            struct source *top = &s->source[s->first[i] + (int)j];

            top->loss_weight = l->loss_weight[j];
            top->n_readers += l->loss_weight[j] != 0;
        }
    }
    return CT_OK;
}

static void split_name(struct ct_text *t, const struct split *s,
                       const struct source *from)
{
    const char *layer = s->net->layer[from->layer]->name;

    ct_text_addf(t, "%s_%s_%d_split", from->name, layer ? layer : "",
                 from->top);
}

static enum ct_status add_top(Caffe__LayerParameter *l, const char *base,
                              int k)
{
    struct ct_text name = { 0 };
    enum ct_status st;

    ct_text_addf(&name, "%s_%d", base, k);
    st = name.failed ? CT_ENOMEM
                     : ct_edit_add_string(&l->top, &l->n_top, name.s);
    ct_text_fini(&name);
    return st;
}

static enum ct_status make_split(const struct split *s,
                                 const struct source *from,
                                 Caffe__LayerParameter **out)
{
    struct ct_text name = { 0 };
    Caffe__LayerParameter *l = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_edit_create(&caffe__layer_parameter__descriptor, &l), st,
                out);
    split_name(&name, s, from);
    CT_TRY_GOTO(name.failed ? CT_ENOMEM : CT_OK, st, out);
    CT_TRY_GOTO(ct_edit_string(&l->name, name.s), st, out);
    CT_TRY_GOTO(ct_edit_string(&l->type, "Split"), st, out);
    CT_TRY_GOTO(ct_edit_add_string(&l->bottom, &l->n_bottom, from->name), st,
                out);
    for (int k = 0; k < from->n_readers; k++) {
        CT_TRY_GOTO(add_top(l, name.s, k), st, out);
        if (from->loss_weight != 0)
            CT_TRY_GOTO(ct_edit_add_float(&l->loss_weight, &l->n_loss_weight,
                                          k ? 0 : from->loss_weight),
                        st, out);
    }
    *out = l;
    l    = NULL;
out:
    ct_message_free(l);
    ct_text_fini(&name);
    return st;
}

/* Gives every bottom its own top of the split. */
static enum ct_status rename_bottoms(struct split *s, const int *reads)
{
    /* A loss weight takes split top 0. */
    for (int i = 0; i < s->n_source; i++)
        s->source[i].next = s->source[i].loss_weight != 0;
    for (size_t i = 0; i < s->net->n_layer; i++) {
        Caffe__LayerParameter *l = s->net->layer[i];

        for (size_t j = 0; j < l->n_bottom; j++) {
            struct source *from = &s->source[*reads++];
            struct ct_text name = { 0 };
            enum ct_status st;

            if (from->n_readers < 2)
                continue;
            split_name(&name, s, from);
            ct_text_addf(&name, "_%d", from->next++);
            st = name.failed ? CT_ENOMEM
                             : ct_edit_string(&l->bottom[j], name.s);
            ct_text_fini(&name);
            CT_TRY(st);
        }
    }
    return CT_OK;
}

static enum ct_status insert_splits(struct split *s)
{
    /* Inserted from the end, so that indices of earlier layers stay valid. */
    for (int i = s->n_source - 1; i >= 0; i--) {
        const struct source *from = &s->source[i];
        Caffe__LayerParameter *split, *owner = s->net->layer[from->layer];

        if (from->n_readers < 2)
            continue;
        CT_TRY(make_split(s, from, &split));
        if (ct_edit_insert(&s->net->layer, &s->net->n_layer,
                           (size_t)from->layer + 1, split) != CT_OK) {
            ct_message_free(split);
            return CT_ENOMEM;
        }
        if (from->loss_weight != 0)
            owner->loss_weight[from->top] = 0;
    }
    return CT_OK;
}

enum ct_status net_split(Caffe__NetParameter *param)
{
    struct split s = { .net = param };
    size_t n_bottom = 0;
    int *reads = NULL;
    enum ct_status st;

    for (size_t i = 0; i < param->n_layer; i++) {
        s.n_source += (int)param->layer[i]->n_top;
        n_bottom += param->layer[i]->n_bottom;
    }
    CT_TRY_GOTO(ct_alloc((size_t)s.n_source + 1, sizeof(*s.source), "split",
                         &s.source), st, out);
    CT_TRY_GOTO(ct_alloc(param->n_layer + 1, sizeof(*s.first), "split",
                         &s.first), st, out);
    CT_TRY_GOTO(ct_alloc(n_bottom + 1, sizeof(*reads), "split", &reads), st,
                out);
    CT_TRY_GOTO(count_readers(&s, &reads), st, out);
    CT_TRY_GOTO(rename_bottoms(&s, reads), st, out);
    st = insert_splits(&s);
out:
    ct_free(reads);
    ct_free(s.first);
    ct_free(s.source);
    return st;
}
