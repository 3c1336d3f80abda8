/* export_fold.c - BatchNorm and Scale as part of the node before them. */
#include <string.h>

#include "layers/batch_norm.h"
#include "onnx/export.h"
#include "proto/params.h"

/* The one layer that reads top 0 of layer `index`; -1: none.  What two layers
 * read goes through a Split. */
static int reader_of(const struct onnx_export *x, int index)
{
    const int id = ct_net_top_id(x->net, index, 0);

    for (int i = index + 1; i < ct_net_n_layers(x->net); i++)
        for (int k = 0; k < ct_net_io(x->net, i).n_bottom; k++)
            if (ct_net_bottom_id(x->net, i, k) == id)
                return i;
    return -1;
}

/* How many outputs the node of a layer has a factor for; 0: it has none. */
static int64_t rows_of(const struct onnx_export *x, int index)
{
    static const char *const types[] = { "Convolution", "ConvolutionDepthwise",
                                         "DepthwiseConvolution",
                                         "Deconvolution", "BatchNorm" };
    const struct ct_layer *l = ct_net_layer(x->net, index);
    const struct ct_io io    = ct_net_io(x->net, index);

    if (io.n_bottom != 1 || io.n_top != 1 || io.top[0]->shape.n_axes < 2)
        return 0;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(l->type->name, types[i]) == 0)
            return io.top[0]->shape.dim[1];
    if (strcmp(l->type->name, "InnerProduct") == 0 &&
        io.top[0]->shape.n_axes == 2)
        return io.top[0]->shape.dim[1];
    return 0;
}

static bool takes_norm(const struct onnx_export *x, const struct ct_layer *l,
                       int64_t rows)
{
    const struct batch_norm *s = l->state;

    return strcmp(l->type->name, "BatchNorm") == 0 && !x->folded.norm &&
           !x->folded.scale && s->global && s->channels == rows;
}

static bool takes_scale(const struct onnx_export *x, const struct ct_layer *l,
                        const struct ct_io *io, int64_t rows)
{
    return strcmp(l->type->name, "Scale") == 0 && !x->folded.scale &&
           io->n_bottom == 1 && ct_scale_param(l->param)->axis == 1 &&
           l->blob[0]->shape.n_axes == 1 && l->blob[0]->count == rows;
}

int onnx_fold_behind(struct onnx_export *x, int index)
{
    const int64_t rows = rows_of(x, index);
    const bool norm =
        strcmp(ct_net_layer(x->net, index)->type->name, "BatchNorm") == 0;
    int last = index, next;

    x->folded = (struct ct_fold){ 0 };
    if (rows == 0)
        return index;
    while ((next = reader_of(x, last)) >= 0) {
        const struct ct_layer *l = ct_net_layer(x->net, next);
        const struct ct_io io    = ct_net_io(x->net, next);

        if (!norm && takes_norm(x, l, rows))
            x->folded.norm = l;
        else if (takes_scale(x, l, &io, rows))
            x->folded.scale = l;
        else
            break;
        x->done[next] = true;
        last          = next;
    }
    return last;
}
