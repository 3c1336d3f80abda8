/* upgrade_v1.c - V1 nets (`layers`, types by number) to `layer`.
 *
 *     V1                          today
 *     layers                      layer
 *     type: CONVOLUTION           type: "Convolution"
 *     param: "w"                  param { name: "w" }
 *     blob_share_mode: STRICT     param { share_mode: STRICT }
 *     blobs_lr: 1                 param { lr_mult: 1 }
 *     weight_decay: 0             param { decay_mult: 0 }
 *
 * Everything else has the same name and type in both and moves over without a
 * copy, weights included. */
#include <string.h>

#include "cortado/log.h"
#include "proto/edit.h"
#include "proto/field.h"
#include "proto/upgrade.h"

#define V1(name)    [CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__##name]
#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *const v1_type[] = {
    V1(NONE)                       = "",
    V1(ABSVAL)                     = "AbsVal",
    V1(ACCURACY)                   = "Accuracy",
    V1(ARGMAX)                     = "ArgMax",
    V1(BNLL)                       = "BNLL",
    V1(CONCAT)                     = "Concat",
    V1(CONTRASTIVE_LOSS)           = "ContrastiveLoss",
    V1(CONVOLUTION)                = "Convolution",
    V1(DATA)                       = "Data",
    V1(DECONVOLUTION)              = "Deconvolution",
    V1(DROPOUT)                    = "Dropout",
    V1(DUMMY_DATA)                 = "DummyData",
    V1(EUCLIDEAN_LOSS)             = "EuclideanLoss",
    V1(ELTWISE)                    = "Eltwise",
    V1(EXP)                        = "Exp",
    V1(FLATTEN)                    = "Flatten",
    V1(HDF5_DATA)                  = "HDF5Data",
    V1(HDF5_OUTPUT)                = "HDF5Output",
    V1(HINGE_LOSS)                 = "HingeLoss",
    V1(IM2COL)                     = "Im2col",
    V1(IMAGE_DATA)                 = "ImageData",
    V1(INFOGAIN_LOSS)              = "InfogainLoss",
    V1(INNER_PRODUCT)              = "InnerProduct",
    V1(LRN)                        = "LRN",
    V1(MEMORY_DATA)                = "MemoryData",
    V1(MULTINOMIAL_LOGISTIC_LOSS)  = "MultinomialLogisticLoss",
    V1(MVN)                        = "MVN",
    V1(POOLING)                    = "Pooling",
    V1(POWER)                      = "Power",
    V1(RELU)                       = "ReLU",
    V1(SIGMOID)                    = "Sigmoid",
    V1(SIGMOID_CROSS_ENTROPY_LOSS) = "SigmoidCrossEntropyLoss",
    V1(SILENCE)                    = "Silence",
    V1(SOFTMAX)                    = "Softmax",
    V1(SOFTMAX_LOSS)               = "SoftmaxWithLoss",
    V1(SPLIT)                      = "Split",
    V1(SLICE)                      = "Slice",
    V1(TANH)                       = "TanH",
    V1(WINDOW_DATA)                = "WindowData",
    V1(THRESHOLD)                  = "Threshold",
};

static const struct v1_data {
    Caffe__V1LayerParameter__LayerType type;
    const char *param;
} v1_data[] = {
    { CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__DATA, "data_param" },
    { CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__IMAGE_DATA, "image_data_param" },
    { CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__WINDOW_DATA, "window_data_param" },
};

static const char *const v1_transform[] = { "scale", "mean_file", "crop_size",
                                            "mirror" };

/* The data parameters of a layer that has some, else NULL. */
static void *v1_data_param(const Caffe__V1LayerParameter *l)
{
    for (size_t i = 0; i < N_OF(v1_data); i++) {
        const ProtobufCFieldDescriptor *f;
        void *param;

        if (!l->has_type || l->type != v1_data[i].type)
            continue;
        f = ct_field_find(l->base.descriptor, v1_data[i].param,
                          strlen(v1_data[i].param));
        memcpy(&param, ct_field_at(l, f), sizeof(param));
        return param;
    }
    return NULL;
}

/* Field `name` of a data or transform message, which all have these four. */
static const ProtobufCFieldDescriptor *v1_field(const void *message,
                                                const char *name)
{
    const ProtobufCMessage *m = message;
    const ProtobufCFieldDescriptor *f =
        ct_field_find(m->descriptor, name, strlen(name));

    CT_ASSERT(f);
    return f;
}

bool ct_upgrade_needs_transform(const Caffe__NetParameter *net)
{
    for (size_t i = 0; i < net->n_layers; i++) {
        const void *param = v1_data_param(net->layers[i]);

        for (size_t k = 0; param && k < N_OF(v1_transform); k++)
            if (ct_field_is_set(param, v1_field(param, v1_transform[k])))
                return true;
    }
    return false;
}

enum ct_status ct_upgrade_transform(Caffe__NetParameter *net)
{
    for (size_t i = 0; i < net->n_layers; i++) {
        Caffe__V1LayerParameter *l = net->layers[i];
        void *param                = v1_data_param(l);

        for (size_t k = 0; param && k < N_OF(v1_transform); k++) {
            const ProtobufCFieldDescriptor *f =
                v1_field(param, v1_transform[k]);
            void *to = NULL;

            if (!ct_field_is_set(param, f))
                continue;
            CT_TRY(ct_field_submessage(l, v1_field(l, "transform_param"), &to));
            CT_TRY(ct_field_move(param, f, to, v1_field(to, v1_transform[k])));
        }
    }
    return CT_OK;
}

static size_t v1_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Four parallel lists become one list of messages. */
static enum ct_status v1_param_specs(const Caffe__V1LayerParameter *old,
                                     Caffe__LayerParameter *l)
{
    size_t n = v1_max(v1_max(old->n_param, old->n_blob_share_mode),
                      v1_max(old->n_blobs_lr, old->n_weight_decay));

    if (n == 0)
        return CT_OK;
    CT_TRY(ct_edit_array(n, sizeof(*l->param), &l->param));
    for (; l->n_param < n; l->n_param++) {
        size_t i = l->n_param;
        Caffe__ParamSpec *spec;

        CT_TRY(ct_edit_create(&caffe__param_spec__descriptor, &l->param[i]));
        spec = l->param[i];
        if (i < old->n_param) {
            spec->name    = old->param[i];
            old->param[i] = NULL;
        }
        if (i < old->n_blob_share_mode) {
            /* The two enums have the same numbers. */
            spec->has_share_mode = 1;
            spec->share_mode =
                (Caffe__ParamSpec__DimCheckMode)old->blob_share_mode[i];
        }
        if (i < old->n_blobs_lr) {
            spec->has_lr_mult = 1;
            spec->lr_mult     = old->blobs_lr[i];
        }
        if (i < old->n_weight_decay) {
            spec->has_decay_mult = 1;
            spec->decay_mult     = old->weight_decay[i];
        }
    }
    return CT_OK;
}

static enum ct_status v1_layer(Caffe__V1LayerParameter *old,
                               Caffe__LayerParameter *l, const char *source,
                               bool *clean)
{
    CT_TRY(ct_field_move_common(old, l));
    if (old->has_type) {
        if ((size_t)old->type >= N_OF(v1_type) || !v1_type[old->type])
            return ct_fail(CT_EINVAL, "%s: layer %s: unknown V1 layer type %d",
                           source, l->name ? l->name : "", (int)old->type);
        CT_TRY(ct_edit_string(&l->type, v1_type[old->type]));
    }
    CT_TRY(v1_param_specs(old, l));
    if (old->layer) {
        CT_ERROR("Layer %s has a V0 layer inside, which is ignored",
                 l->name ? l->name : "");
        *clean = false;
    }
    return CT_OK;
}

enum ct_status ct_upgrade_v1(Caffe__NetParameter *net, const char *source,
                             bool *clean)
{
    const ProtobufCFieldDescriptor *layers =
        ct_field_find(net->base.descriptor, "layers", strlen("layers"));

    CT_ASSERT(net->n_layer == 0);
    ct_edit_free(net->layer);
    net->layer = NULL;
    CT_TRY(ct_edit_array(net->n_layers, sizeof(*net->layer), &net->layer));
    for (; net->n_layer < net->n_layers; net->n_layer++) {
        Caffe__LayerParameter *l = NULL;
        enum ct_status st;

        CT_TRY(ct_edit_create(&caffe__layer_parameter__descriptor, &l));
        st = v1_layer(net->layers[net->n_layer], l, source, clean);
        if (st != CT_OK) {
            ct_message_free(l);
            return st;
        }
        net->layer[net->n_layer] = l;
    }
    ct_field_clear(net, layers);
    return CT_OK;
}
