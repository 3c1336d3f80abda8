/* precision_words.c - NVIDIA's words for precision, as a prototxt has them.
 *
 *     default_forward_type: FLOAT16     every layer's, where it says nothing
 *     layer { forward_type: FLOAT }     one layer's
 *
 * and the same for backward_type, forward_math and backward_math.  In Cortado a
 * net has one precision; losses, statistics, weights and sums are float32 in
 * each of them.  So the words of the net choose the precision, and those of a
 * layer have no effect but a note in the log. */
#include <string.h>

#include "cortado/log.h"
#include "net/net_inner.h"

static bool is_half(bool has, Caffe__DataType type)
{
    return has && type == CAFFE__DATA_TYPE__FLOAT16;
}

static bool is_bf16(bool has, Caffe__DataType type)
{
    return has && type == CAFFE__DATA_TYPE__BFLOAT16;
}

enum ct_precision ct_net_precision(const Caffe__NetParameter *p)
{
    if (is_bf16(p->has_default_forward_type, p->default_forward_type) ||
        is_bf16(p->has_default_backward_type, p->default_backward_type))
        return CT_BF16_MIXED;
    if (is_half(p->has_default_forward_type, p->default_forward_type) ||
        is_half(p->has_default_backward_type, p->default_backward_type))
        return CT_FP16_MIXED;
    return CT_FP32;
}

static Caffe__DataType type_of(enum ct_dtype t)
{
    return t == CT_BF16  ? CAFFE__DATA_TYPE__BFLOAT16
           : t == CT_F16 ? CAFFE__DATA_TYPE__FLOAT16
                         : CAFFE__DATA_TYPE__FLOAT;
}

static bool differs(const Caffe__LayerParameter *l, Caffe__DataType type)
{
    return (l->has_forward_type && l->forward_type != type) ||
           (l->has_backward_type && l->backward_type != type);
}

/* Whether a word of the net agrees with the precision that is used. */
static bool net_differs(const Caffe__NetParameter *p, Caffe__DataType type)
{
    return (p->has_default_forward_type && p->default_forward_type != type) ||
           (p->has_default_backward_type && p->default_backward_type != type);
}

void net_precision_note(const struct ct_net *net)
{
    const Caffe__NetParameter *p = net->param;
    const enum ct_dtype dtype    = ct_device_dtype(net->dev);
    const char *used = dtype == CT_BF16  ? "bfloat16"
                       : dtype == CT_F16 ? "float16"
                                         : "float32";
    const char *first = NULL;
    int n             = 0;

    if (net->options.quiet || net->options.phase != CAFFE__PHASE__TRAIN)
        return;
    if (net_differs(p, type_of(dtype)))
        CT_INFO("The net's default types are not those of this run: it "
                "computes in %s", used);
    for (size_t i = 0; i < p->n_layer; i++)
        if (differs(p->layer[i], type_of(dtype))) {
            first = first ? first : p->layer[i]->name;
            n++;
        }
    if (n > 0)
        CT_INFO("%d layer(s), layer %s the first, have types of their own: "
                "all hand over %s, and losses, statistics, weights and sums "
                "are float32", n, first ? first : "", used);
}
