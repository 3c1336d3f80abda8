/* import_in_place.c - layers that may overwrite their bottom do.
 *
 * An ONNX tensor is written once.  Caffe's nets have BatchNorm, Scale, Bias and
 * ReLU in place, which saves memory and lets them run as one with the layer
 * before.  So where such a layer alone reads a blob, that blob takes the name
 * of the layer's top:
 *
 *     conv -> a, norm a -> b, relu b -> c      becomes      conv -> c, norm c,
 *                                                           relu c
 *
 * Inputs, outputs of the model and views of other blobs stay as they are. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/import.h"
#include "proto/edit.h"

/* A blob of the net, by the name that it is made with. */
struct made_blob {
    const char *name; /* of `copy` */
    char       *copy; /* owned */
    int         made_by, n_readers;
    bool        fixed; /* keeps its name */
    size_t      next;  /* whose name it takes; itself: its own */
};

struct made_blobs {
    struct made_blob *blob; /* owned; sorted by name */
    size_t            n;
};

static bool is_one_of(const char *type, const char *const *types)
{
    for (; *types; types++)
        if (strcmp(type, *types) == 0)
            return true;
    return false;
}

/* Whether the layer may work in place. */
static bool may_overwrite(const Caffe__LayerParameter *l)
{
    static const char *const types[] = { "BatchNorm", "Bias", "ReLU", "Scale",
                                         NULL };

    return l->n_bottom == 1 && l->n_top == 1 && is_one_of(l->type, types);
}

/* Whether its top is memory of its own. */
static bool makes_anew(const Caffe__LayerParameter *l)
{
    static const char *const types[] = {
        "BatchNorm", "Bias", "Concat", "Convolution", "ConvolutionDepthwise",
        "Deconvolution", "DepthwiseConvolution", "Eltwise", "InnerProduct",
        "ReLU", "Scale", NULL
    };

    return is_one_of(l->type, types);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct made_blob *)a)->name,
                  ((const struct made_blob *)b)->name);
}

static struct made_blob *find(const struct made_blobs *all, const char *name)
{
    const struct made_blob key = { .name = name };

    return all->n ? bsearch(&key, all->blob, all->n, sizeof(key), by_name)
                  : NULL;
}

static enum ct_status list_blobs(const Caffe__NetParameter *net,
                                 struct made_blobs *all)
{
    size_t n = 0;

    for (size_t i = 0; i < net->n_layer; i++)
        n += net->layer[i]->n_top;
    CT_TRY(ct_alloc(n + 1, sizeof(*all->blob), "blobs of a model",
                    &all->blob));
    for (size_t i = 0; i < net->n_layer; i++)
        for (size_t t = 0; t < net->layer[i]->n_top; t++) {
            struct made_blob *b = &all->blob[all->n++];

            b->copy    = ct_strdup(net->layer[i]->top[t], "blob of a model");
            b->name    = b->copy;
            b->made_by = (int)i;
            if (!b->copy)
                return CT_ENOMEM;
        }
    qsort(all->blob, all->n, sizeof(*all->blob), by_name);
    for (size_t i = 0; i < all->n; i++) {
        all->blob[i].next = i;
        /* Made twice: somebody works in place already. */
        all->blob[i].fixed =
            (i > 0 && by_name(&all->blob[i], &all->blob[i - 1]) == 0) ||
            (i + 1 < all->n && by_name(&all->blob[i], &all->blob[i + 1]) == 0);
    }
    return CT_OK;
}

static void count_readers(struct onnx_import *m, struct made_blobs *all)
{
    const Onnx__GraphProto *g = m->model->graph;

    for (size_t i = 0; i < m->net->n_layer; i++)
        for (size_t b = 0; b < m->net->layer[i]->n_bottom; b++) {
            struct made_blob *read = find(all, m->net->layer[i]->bottom[b]);

            if (read)
                read->n_readers++;
        }
    for (size_t i = 0; i < g->n_output; i++) {
        const struct onnx_value *v = onnx_find(m, g->output[i]->name);
        struct made_blob *b        = v && v->blob ? find(all, v->blob) : NULL;

        if (b)
            b->fixed = true;
    }
}

static enum ct_status rename(const struct made_blobs *all, char **name)
{
    const struct made_blob *b = find(all, *name);
    size_t i;

    if (!b)
        return CT_OK;
    i = (size_t)(b - all->blob);
    while (all->blob[i].next != i)
        i = all->blob[i].next;
    return &all->blob[i] == b ? CT_OK : ct_edit_string(name,
                                                       all->blob[i].name);
}

enum ct_status onnx_work_in_place(struct onnx_import *m)
{
    Caffe__NetParameter *net = m->net;
    struct made_blobs all    = { 0 };
    enum ct_status st        = list_blobs(net, &all);

    if (st == CT_OK)
        count_readers(m, &all);
    for (size_t i = 0; st == CT_OK && i < net->n_layer; i++) {
        const Caffe__LayerParameter *l = net->layer[i];
        struct made_blob *from = l->n_bottom ? find(&all, l->bottom[0]) : NULL;
        struct made_blob *to   = l->n_top ? find(&all, l->top[0]) : NULL;

        if (from && to && from != to && !from->fixed && from->n_readers == 1 &&
            may_overwrite(l) && makes_anew(net->layer[from->made_by]))
            from->next = (size_t)(to - all.blob);
    }
    for (size_t i = 0; st == CT_OK && i < net->n_layer; i++) {
        Caffe__LayerParameter *l = net->layer[i];

        for (size_t b = 0; st == CT_OK && b < l->n_bottom; b++)
            st = rename(&all, &l->bottom[b]);
        for (size_t t = 0; st == CT_OK && t < l->n_top; t++)
            st = rename(&all, &l->top[t]);
    }
    for (size_t i = 0; i < all.n; i++)
        ct_free(all.blob[i].copy);
    ct_free(all.blob);
    return st;
}
