/* behind.c - what a layer does for the one behind it, beside its own work. */
#include "layers/behind.h"

#include <string.h>

#include "device/impl.h"
#include "layers/batch_norm.h"
#include "layers/conv_base.h"

static bool is(const struct ct_layer *l, const char *type)
{
    return strcmp(l->type->name, type) == 0;
}

bool ct_layer_stand_behind(struct ct_layer *l, struct ct_layer *before)
{
    struct batch_norm *norm = l->state;
    struct ct_conv_layer *conv;

    if (!is(l, "BatchNorm"))
        return false;
    if (!before) {
        if (norm->before) {
            conv          = norm->before->state;
            conv->moments = false;
        }
        norm->before = NULL;
        return false;
    }
    if (l->dev->kind == CT_CPU || before->dev != l->dev || norm->global ||
        !is(before, "Convolution") || !ct_impl_allowed("moments", "conv"))
        return false;
    conv          = before->state;
    conv->moments = true;
    norm->before  = before;
    return true;
}

bool ct_layer_moments(const struct ct_layer *l, const float *x,
                      struct ct_moments *out)
{
    const struct batch_norm *norm = l->state;
    const struct ct_conv_layer *conv;

    if (!norm->before)
        return false;
    conv = norm->before->state;
    return conv->conv[0] && ct_conv_moments(conv->conv[0], x, out);
}
