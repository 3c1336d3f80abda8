/* upgrade_net.c - bringing any net to today's form, step by step in order:
 *
 *     V0 layers -> V1 -> transform_param -> V1 layers to `layer`
 *        -> `input` fields to an Input layer -> statistics of BatchNorm
 *
 * Each step is skipped when the net does not need it. */
#include <string.h>

#include "cortado/log.h"
#include "proto/edit.h"
#include "proto/field.h"
#include "proto/upgrade.h"

static bool net_has_v0(const Caffe__NetParameter *net)
{
    for (size_t i = 0; i < net->n_layers; i++)
        if (net->layers[i]->layer)
            return true;
    return false;
}

static enum ct_status net_layers(Caffe__NetParameter *net, const char *source)
{
    bool clean = true;

    if (net->n_layers == 0)
        return CT_OK;
    if (net->n_layer > 0)
        return ct_fail(CT_EINVAL,
                       "%s: Refusing to upgrade inconsistent NetParameter "
                       "input: it has both `layer` and `layers`; write all "
                       "layers as layer { type: \"Name\" ... }",
                       source);
    if (net_has_v0(net)) {
        CT_INFO("Upgrading %s from the V0 layer format", source);
        CT_TRY(ct_upgrade_v0(net, source, &clean));
    }
    if (ct_upgrade_needs_transform(net)) {
        CT_INFO("Moving the data transformation of %s into transform_param",
                source);
        CT_TRY(ct_upgrade_transform(net));
    }
    CT_INFO("Upgrading %s from the V1 layer format", source);
    CT_TRY(ct_upgrade_v1(net, source, &clean));
    if (!clean)
        CT_ERROR("%s had problems on the way to the present format (see "
                 "above); continuing with what could be upgraded",
                 source);
    return CT_OK;
}

/* Shape i of the inputs, from input_shape or from four input_dim. */
static enum ct_status net_input_shape(const Caffe__NetParameter *net, size_t i,
                                      Caffe__InputParameter *p)
{
    Caffe__BlobShape *shape = NULL;

    if (net->n_input_shape > 0) {
        CT_TRY(ct_message_copy(net->input_shape[i], &shape));
        p->shape[p->n_shape++] = shape;
        return CT_OK;
    }
    CT_TRY(ct_edit_create(&caffe__blob_shape__descriptor, &shape));
    p->shape[p->n_shape++] = shape;
    CT_TRY(ct_edit_array(4, sizeof(*shape->dim), &shape->dim));
    for (; shape->n_dim < 4; shape->n_dim++)
        shape->dim[shape->n_dim] = net->input_dim[4 * i + shape->n_dim];
    return CT_OK;
}

static enum ct_status net_make_input(Caffe__NetParameter *net,
                                     Caffe__LayerParameter *l)
{
    Caffe__InputParameter *p;

    CT_TRY(ct_edit_string(&l->name, "input"));
    CT_TRY(ct_edit_string(&l->type, "Input"));
    CT_TRY(
        ct_edit_create(&caffe__input_parameter__descriptor, &l->input_param));
    p = l->input_param;
    CT_TRY(ct_edit_array(net->n_input, sizeof(*p->shape), &p->shape));
    for (size_t i = 0; i < net->n_input; i++) {
        CT_TRY(net_input_shape(net, i, p));
        CT_TRY(ct_edit_add_string(&l->top, &l->n_top, net->input[i]));
    }
    return CT_OK;
}

/* The inputs become the first layer; inputs without any shape, as in old
 * caffemodels, are dropped. */
static enum ct_status net_input(Caffe__NetParameter *net, const char *source)
{
    static const char *const fields[] = { "input", "input_shape", "input_dim" };
    Caffe__LayerParameter *l          = NULL;
    enum ct_status st;

    if (net->n_input == 0)
        return CT_OK;
    CT_INFO("Upgrading the input fields of %s to an Input layer", source);
    if (net->n_input_shape > 0 && net->n_input_shape < net->n_input)
        return ct_fail(CT_EINVAL, "%s: %zu inputs have %zu input_shape", source,
                       net->n_input, net->n_input_shape);
    if (net->n_input_shape == 0 && net->n_input_dim > 0 &&
        net->n_input_dim / 4 < net->n_input)
        return ct_fail(CT_EINVAL,
                       "%s: %zu inputs have %zu input_dim, 4 an input are "
                       "needed",
                       source, net->n_input, net->n_input_dim);
    if (net->n_input_shape > 0 || net->n_input_dim > 0) {
        CT_TRY(ct_edit_create(&caffe__layer_parameter__descriptor, &l));
        CT_TRY_GOTO(net_make_input(net, l), st, fail);
        CT_TRY_GOTO(ct_edit_insert(&net->layer, &net->n_layer, 0, l), st, fail);
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        ct_field_clear(net, ct_field_find(net->base.descriptor, fields[i],
                                          strlen(fields[i])));
    return CT_OK;
fail:
    ct_message_free(l);
    return st;
}

/* The three blobs of BatchNorm are statistics and no business of the solver:
 * older files give them learning rates that never meant anything. */
static void net_batch_norm(Caffe__NetParameter *net, const char *source)
{
    bool said = false;

    for (size_t i = 0; i < net->n_layer; i++) {
        const Caffe__LayerParameter *l = net->layer[i];

        if (!l->type || strcmp(l->type, "BatchNorm") != 0 || l->n_param != 3)
            continue;
        for (size_t k = 0; k < l->n_param; k++) {
            Caffe__ParamSpec *spec = l->param[k];

            if (!said && !(spec->has_lr_mult && spec->lr_mult == 0 &&
                           spec->has_decay_mult && spec->decay_mult == 0)) {
                CT_INFO("Setting the multipliers of the BatchNorm statistics "
                        "in %s to 0",
                        source);
                said = true;
            }
            spec->has_lr_mult    = 1;
            spec->lr_mult        = 0;
            spec->has_decay_mult = 1;
            spec->decay_mult     = 0;
        }
    }
}

enum ct_status ct_upgrade_net(Caffe__NetParameter *net, const char *source)
{
    CT_TRY(net_layers(net, source));
    CT_TRY(net_input(net, source));
    net_batch_norm(net, source);
    return CT_OK;
}
