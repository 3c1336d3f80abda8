/* upgrade_v0.c - V0 nets to V1.
 *
 *     layers { layer { name: "c1" type: "conv" kernelsize: 5 ... }
 *              bottom: "data" top: "c1" }
 *
 * becomes
 *
 *     layers { name: "c1" type: CONVOLUTION bottom: "data" top: "c1"
 *              convolution_param { kernel_size: 5 ... } }
 *
 * V0 had one flat message for all layers; the table below says where each of
 * its fields goes.  Layers of type "padding" disappear: the convolution or
 * pooling that follows one takes over its `pad` and its bottom. */
#include <string.h>

#include "cortado/log.h"
#include "proto/edit.h"
#include "proto/field.h"
#include "proto/upgrade.h"

#define V1_TYPE(name) CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__##name

static const struct v0_type {
    const char *name;
    Caffe__V1LayerParameter__LayerType type;
} v0_types[] = {
    { "accuracy", V1_TYPE(ACCURACY) },
    { "bnll", V1_TYPE(BNLL) },
    { "concat", V1_TYPE(CONCAT) },
    { "conv", V1_TYPE(CONVOLUTION) },
    { "data", V1_TYPE(DATA) },
    { "dropout", V1_TYPE(DROPOUT) },
    { "euclidean_loss", V1_TYPE(EUCLIDEAN_LOSS) },
    { "flatten", V1_TYPE(FLATTEN) },
    { "hdf5_data", V1_TYPE(HDF5_DATA) },
    { "hdf5_output", V1_TYPE(HDF5_OUTPUT) },
    { "im2col", V1_TYPE(IM2COL) },
    { "images", V1_TYPE(IMAGE_DATA) },
    { "infogain_loss", V1_TYPE(INFOGAIN_LOSS) },
    { "innerproduct", V1_TYPE(INNER_PRODUCT) },
    { "lrn", V1_TYPE(LRN) },
    { "multinomial_logistic_loss", V1_TYPE(MULTINOMIAL_LOGISTIC_LOSS) },
    { "pool", V1_TYPE(POOLING) },
    { "relu", V1_TYPE(RELU) },
    { "sigmoid", V1_TYPE(SIGMOID) },
    { "softmax", V1_TYPE(SOFTMAX) },
    { "softmax_loss", V1_TYPE(SOFTMAX_LOSS) },
    { "split", V1_TYPE(SPLIT) },
    { "tanh", V1_TYPE(TANH) },
    { "window_data", V1_TYPE(WINDOW_DATA) },
};

/* V0 field, V0 layer type (NULL: any), message of the V1 layer, its field.
 * No field: the V0 one is the message itself. */
static const struct v0_row {
    const char *field, *type, *param, *to;
} v0_rows[] = {
    { "num_output", "conv", "convolution_param", "num_output" },
    { "num_output", "innerproduct", "inner_product_param", "num_output" },
    { "biasterm", "conv", "convolution_param", "bias_term" },
    { "biasterm", "innerproduct", "inner_product_param", "bias_term" },
    { "weight_filler", "conv", "convolution_param", "weight_filler" },
    { "weight_filler", "innerproduct", "inner_product_param", "weight_filler" },
    { "bias_filler", "conv", "convolution_param", "bias_filler" },
    { "bias_filler", "innerproduct", "inner_product_param", "bias_filler" },
    { "pad", "conv", "convolution_param", "pad" },
    { "pad", "pool", "pooling_param", "pad" },
    { "kernelsize", "conv", "convolution_param", "kernel_size" },
    { "kernelsize", "pool", "pooling_param", "kernel_size" },
    { "group", "conv", "convolution_param", "group" },
    { "stride", "conv", "convolution_param", "stride" },
    { "stride", "pool", "pooling_param", "stride" },
    { "pool", "pool", "pooling_param", "pool" },
    { "dropout_ratio", "dropout", "dropout_param", "dropout_ratio" },
    { "local_size", "lrn", "lrn_param", "local_size" },
    { "alpha", "lrn", "lrn_param", "alpha" },
    { "beta", "lrn", "lrn_param", "beta" },
    { "k", "lrn", "lrn_param", "k" },
    { "source", "data", "data_param", "source" },
    { "source", "hdf5_data", "hdf5_data_param", "source" },
    { "source", "images", "image_data_param", "source" },
    { "source", "window_data", "window_data_param", "source" },
    { "source", "infogain_loss", "infogain_loss_param", "source" },
    { "scale", NULL, "transform_param", "scale" },
    { "meanfile", NULL, "transform_param", "mean_file" },
    { "cropsize", NULL, "transform_param", "crop_size" },
    { "mirror", NULL, "transform_param", "mirror" },
    { "batchsize", "data", "data_param", "batch_size" },
    { "batchsize", "hdf5_data", "hdf5_data_param", "batch_size" },
    { "batchsize", "images", "image_data_param", "batch_size" },
    { "batchsize", "window_data", "window_data_param", "batch_size" },
    { "rand_skip", "data", "data_param", "rand_skip" },
    { "rand_skip", "images", "image_data_param", "rand_skip" },
    { "shuffle_images", "images", "image_data_param", "shuffle" },
    { "new_height", "images", "image_data_param", "new_height" },
    { "new_width", "images", "image_data_param", "new_width" },
    { "concat_dim", "concat", "concat_param", "concat_dim" },
    { "det_fg_threshold", "window_data", "window_data_param", "fg_threshold" },
    { "det_bg_threshold", "window_data", "window_data_param", "bg_threshold" },
    { "det_fg_fraction", "window_data", "window_data_param", "fg_fraction" },
    { "det_context_pad", "window_data", "window_data_param", "context_pad" },
    { "det_crop_mode", "window_data", "window_data_param", "crop_mode" },
    { "hdf5_output_param", "hdf5_output", "hdf5_output_param", NULL },
};

/* These go over by their own names, or nowhere (V1 has no use for them). */
static const char *const v0_kept[]    = { "name", "blobs", "blobs_lr",
                                          "weight_decay" };
static const char *const v0_dropped[] = { "type", "new_num", "new_channels" };

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *v0_type_of(const Caffe__V1LayerParameter *l)
{
    return l->layer && l->layer->type ? l->layer->type : "";
}

static const char *v0_name_of(const Caffe__V1LayerParameter *l)
{
    if (l->layer && l->layer->name)
        return l->layer->name;
    return l->name ? l->name : "";
}

static const ProtobufCFieldDescriptor *
v0_find(const ProtobufCMessageDescriptor *type, const char *name)
{
    const ProtobufCFieldDescriptor *f = ct_field_find(type, name, strlen(name));

    CT_ASSERT(f);
    return f;
}

/* The layer before `before` that produced `blob` last; -1: none did. */
static long v0_producer(const Caffe__NetParameter *net, size_t before,
                        const char *blob)
{
    for (size_t i = before; i-- > 0;)
        for (size_t k = 0; k < net->layers[i]->n_top; k++)
            if (strcmp(net->layers[i]->top[k], blob) == 0)
                return (long)i;
    return -1;
}

static bool v0_is_input(const Caffe__NetParameter *net, const char *blob)
{
    for (size_t i = 0; i < net->n_input; i++)
        if (strcmp(net->input[i], blob) == 0)
            return true;
    return false;
}

/* `l` reads what the padding layer `pad` wrote: let it pad for itself. */
static enum ct_status v0_fold(Caffe__V1LayerParameter *l,
                              const Caffe__V1LayerParameter *pad,
                              const char *source)
{
    if (strcmp(v0_type_of(l), "conv") != 0 &&
        strcmp(v0_type_of(l), "pool") != 0)
        return ct_fail(CT_EINVAL,
                       "%s: layer %s: only conv and pool can follow the "
                       "padding layer %s, not \"%s\"",
                       source, v0_name_of(l), v0_name_of(pad), v0_type_of(l));
    if (l->n_bottom != 1)
        return ct_fail(CT_EINVAL,
                       "%s: layer %s: takes one bottom after a padding layer, "
                       "has %zu",
                       source, v0_name_of(l), l->n_bottom);
    if (pad->n_bottom != 1 || pad->n_top != 1)
        return ct_fail(CT_EINVAL,
                       "%s: padding layer %s: takes one bottom and one top, "
                       "has %zu and %zu",
                       source, v0_name_of(pad), pad->n_bottom, pad->n_top);
    l->layer->has_pad = 1;
    l->layer->pad     = pad->layer->pad;
    return ct_edit_string(&l->bottom[0], pad->bottom[0]);
}

static enum ct_status v0_fold_padding(Caffe__NetParameter *net,
                                      const char *source)
{
    size_t kept = 0;

    for (size_t i = 0; i < net->n_layers; i++) {
        Caffe__V1LayerParameter *l = net->layers[i];

        for (size_t k = 0; k < l->n_bottom; k++) {
            long from = v0_producer(net, i, l->bottom[k]);

            if (from < 0 && !v0_is_input(net, l->bottom[k]))
                return ct_fail(CT_EINVAL,
                               "%s: layer %s: no layer before it makes its "
                               "bottom \"%s\"",
                               source, v0_name_of(l), l->bottom[k]);
            if (from >= 0 &&
                strcmp(v0_type_of(net->layers[from]), "padding") == 0)
                CT_TRY(v0_fold(l, net->layers[from], source));
        }
    }
    for (size_t i = 0; i < net->n_layers; i++) {
        if (strcmp(v0_type_of(net->layers[i]), "padding") == 0)
            ct_message_free(net->layers[i]);
        else
            net->layers[kept++] = net->layers[i];
    }
    net->n_layers = kept;
    return CT_OK;
}

static bool v0_listed(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

/* One flat field to its place, or a complaint when the type has none.  The
 * pooling methods of V0 and V1 have the same numbers. */
static enum ct_status v0_move(Caffe__V0LayerParameter *old,
                              const ProtobufCFieldDescriptor *f,
                              Caffe__V1LayerParameter *l, bool *clean)
{
    const ProtobufCMessageDescriptor *type = l->base.descriptor;
    const char *v0                         = old->type ? old->type : "";

    for (size_t i = 0; i < N_OF(v0_rows); i++) {
        const struct v0_row *row = &v0_rows[i];
        const ProtobufCFieldDescriptor *g;
        void *param = NULL;

        if (strcmp(row->field, f->name) != 0 ||
            (row->type && strcmp(row->type, v0) != 0))
            continue;
        g = v0_find(type, row->param);
        if (!row->to)
            return ct_field_move(old, f, l, g);
        CT_TRY(ct_field_submessage(l, g, &param));
        return ct_field_move(old, f, param, v0_find(g->descriptor, row->to));
    }
    CT_ERROR("Unknown parameter %s for layer type %s", f->name, v0);
    *clean = false;
    return CT_OK;
}

static enum ct_status v0_set_type(const Caffe__V0LayerParameter *old,
                                  Caffe__V1LayerParameter *l,
                                  const char *source)
{
    if (!old->type)
        return CT_OK;
    for (size_t i = 0; i < N_OF(v0_types); i++)
        if (strcmp(v0_types[i].name, old->type) == 0) {
            l->has_type = 1;
            l->type     = v0_types[i].type;
            return CT_OK;
        }
    return ct_fail(CT_EINVAL, "%s: layer %s: unknown V0 layer type \"%s\"",
                   source, old->name ? old->name : "", old->type);
}

static enum ct_status v0_layer(Caffe__V1LayerParameter *from,
                               Caffe__V1LayerParameter *l, const char *source,
                               bool *clean)
{
    const ProtobufCMessageDescriptor *v1 = l->base.descriptor;
    Caffe__V0LayerParameter *old         = from->layer;
    const ProtobufCMessageDescriptor *v0 = old->base.descriptor;

    CT_TRY(
        ct_field_move(from, v0_find(v1, "bottom"), l, v0_find(v1, "bottom")));
    CT_TRY(ct_field_move(from, v0_find(v1, "top"), l, v0_find(v1, "top")));
    CT_TRY(v0_set_type(old, l, source));
    for (unsigned i = 0; i < v0->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &v0->fields[i];

        if (!ct_field_is_set(old, f) ||
            v0_listed(v0_dropped, N_OF(v0_dropped), f->name))
            continue;
        if (v0_listed(v0_kept, N_OF(v0_kept), f->name))
            CT_TRY(ct_field_move(old, f, l, v0_find(v1, f->name)));
        else
            CT_TRY(v0_move(old, f, l, clean));
    }
    return CT_OK;
}

/* V0 nets had no other fields, and Caffe carries no other ones over. */
static void v0_clear_rest(Caffe__NetParameter *net)
{
    static const char *const known[] = { "name", "layers", "input", "input_dim",
                                         "force_backward" };
    const ProtobufCMessageDescriptor *type = net->base.descriptor;

    for (unsigned i = 0; i < type->n_fields; i++)
        if (!v0_listed(known, N_OF(known), type->fields[i].name))
            ct_field_clear(net, &type->fields[i]);
}

enum ct_status ct_upgrade_v0(Caffe__NetParameter *net, const char *source,
                             bool *clean)
{
    CT_TRY(v0_fold_padding(net, source));
    for (size_t i = 0; i < net->n_layers; i++) {
        Caffe__V1LayerParameter *l = NULL;
        enum ct_status st;

        /* A layer that is V1 already stays as it is. */
        if (!net->layers[i]->layer)
            continue;
        CT_TRY(ct_edit_create(&caffe__v1_layer_parameter__descriptor, &l));
        st = v0_layer(net->layers[i], l, source, clean);
        if (st != CT_OK) {
            ct_message_free(l);
            return st;
        }
        ct_message_free(net->layers[i]);
        net->layers[i] = l;
    }
    v0_clear_rest(net);
    return CT_OK;
}
