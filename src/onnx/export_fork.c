/* export_fork.c - layers of Caffe's forks that are in no family: BN, GroupNorm,
 * MatMul, Mish, Pad, ROIAlign, Reorg. */
#include <inttypes.h>

#include "base/mem.h"
#include "layers/bn.h"
#include "layers/pad.h"
#include "layers/reorg.h"
#include "layers/roi_align.h"
#include "onnx/export.h"
#include "proto/params.h"

/* y = s x + b, or with running statistics a BatchNormalization. */
enum ct_status onnx_emit_bn(struct onnx_export *x, const struct onnx_layer *l)
{
    static const char *const what[] = {
        [SCALE] = "scale", [SHIFT] = "bias", [RUNNING_MEAN] = "mean",
        [RUNNING_VAR] = "var"
    };
    const struct bn *s    = l->layer->state;
    const bool line       = s->source == BN_NONE;
    struct ct_shape shape = CT_SHAPE(s->channels);
    const char *in[6]     = { l->in[0] }, *v;

    if (s->source == BN_BATCH)
        return onnx_refuse(l, "it normalises by the batch's own statistics");
    if (!line && s->axis != 1)
        return onnx_refuse(l, "its channels are axis %d, and those of "
                           "BatchNormalization are axis 1", s->axis);
    /* Axes of one behind the channels, for Mul and Add. */
    for (int i = s->axis + 1; line && i < l->io.bottom[0]->shape.n_axes; i++)
        shape.dim[shape.n_axes++] = 1;
    for (int i = 0; i < (line ? 2 : 4); i++) {
        float *values = NULL;

        CT_TRY(onnx_values(l->layer->blob[i], &values));
        in[i + 1] = onnx_weight(x, l, what[i], &shape, values);
        ct_free(values);
    }
    if (!line) {
        onnx_set_float(&x->graph, onnx_end(x, l, "BatchNormalization", in),
                       "epsilon", s->eps);
        return CT_OK;
    }
    v = onnx_step(x, l, "Mul", ONNX_IN(in[0], in[1]));
    onnx_end(x, l, "Add", ONNX_IN(v, in[2]));
    return CT_OK;
}

/* A group is a channel of InstanceNormalization. */
enum ct_status onnx_emit_group_norm(struct onnx_export *x,
                                    const struct onnx_layer *l)
{
    const Caffe__GroupNormParameter *p = ct_group_norm_param(l->layer->param);
    const struct ct_blob *b = l->io.bottom[0];
    const int64_t groups    = p->group_num;
    const struct ct_shape rows = {
        .n_axes = 3, .dim = { onnx_dim(x, l, false, 0, 0), groups,
                              ct_count(b, 1, CT_END) / groups }
    };
    const char *v = onnx_part(x, l, "Reshape"), *one, *zero, *out;
    float *values = NULL;
    Onnx__NodeProto *n;

    CT_TRY(onnx_reshape(x, l, l->in[0], &rows, v));
    CT_TRY(ct_alloc((size_t)groups, sizeof(*values), "onnx values", &values));
    zero = onnx_weight(x, l, "zero", &CT_SHAPE(groups), values);
    for (int64_t i = 0; i < groups; i++)
        values[i] = 1;
    one = onnx_weight(x, l, "one", &CT_SHAPE(groups), values);
    ct_free(values);
    out = onnx_part(x, l, "InstanceNormalization");
    n   = onnx_add(&x->graph, out, "InstanceNormalization",
                   ONNX_IN(v, one, zero), out);
    onnx_set_float(&x->graph, n, "epsilon", p->eps);
    onnx_remember(x, l);
    return onnx_reshape_top(x, l, out, 0);
}

enum ct_status onnx_emit_matmul(struct onnx_export *x,
                                const struct onnx_layer *l)
{
    const Caffe__MatMulParameter *p = ct_matmul_param(l->layer->param);
    const int n_axes = l->io.bottom[0]->shape.n_axes;
    const char *in[2];

    for (int i = 0; i < 2; i++) {
        int64_t order[CT_MAX_AXES];

        in[i] = l->in[i];
        if (!(i ? p->transpose_b : p->transpose_a))
            continue;
        for (int a = 0; a < n_axes; a++)
            order[a] = a < n_axes - 2 ? a : 2 * n_axes - 3 - a;
        in[i] = onnx_part(x, l, "Transpose");
        onnx_transpose(x, in[i], l->in[i], n_axes, order, in[i]);
    }
    onnx_end(x, l, "MatMul", ONNX_IN(in[0], in[1]));
    return CT_OK;
}

/* x tanh(softplus(x)) */
enum ct_status onnx_emit_mish(struct onnx_export *x,
                              const struct onnx_layer *l)
{
    const char *v = onnx_step(x, l, "Softplus", ONNX_IN(l->in[0]));

    v = onnx_step(x, l, "Tanh", ONNX_IN(v));
    onnx_end(x, l, "Mul", ONNX_IN(l->in[0], v));
    onnx_remember(x, l);
    return CT_OK;
}

/* ONNX mirrors around the last value only, as REFLECT_101 does: for REFLECT
 * the places of both axes are listed. */
static enum ct_status pad_gather(struct onnx_export *x,
                                 const struct onnx_layer *l,
                                 const struct pad *s)
{
    const char *from = l->in[0];

    for (int axis = 2; axis < 4; axis++) {
        const char *name = axis == 2 ? onnx_part(x, l, "Gather") : l->name;
        const char *out  = axis == 2 ? name : l->out[0];
        int64_t *places  = NULL;
        Onnx__NodeProto *n;

        CT_TRY(ct_alloc((size_t)s->n_out[axis], sizeof(*places),
                        "onnx values", &places));
        for (int64_t i = 0; i < s->n_out[axis]; i++)
            places[i] = pad_from(s, axis, i);
        n = onnx_add(&x->graph, name, "Gather",
                     ONNX_IN(from, onnx_list(x, l, "places",
                                             (int)s->n_out[axis], places)),
                     out);
        ct_free(places);
        onnx_set_int(&x->graph, n, "axis", axis);
        from = out;
    }
    return CT_OK;
}

enum ct_status onnx_emit_pad(struct onnx_export *x, const struct onnx_layer *l)
{
    static const char *const mode[] = {
        [PAD_ZERO] = "constant", [PAD_REPLICATE] = "edge",
        [PAD_REFLECT_101] = "reflect"
    };
    const struct pad *s = l->layer->state;
    int64_t pads[2 * CT_MAX_AXES];
    const char *widths;
    Onnx__NodeProto *n;

    onnx_remember(x, l);
    if (s->type == PAD_REFLECT)
        return pad_gather(x, l, s);
    for (int i = 0; i < s->n_axes; i++) {
        pads[i]             = s->before[i];
        pads[s->n_axes + i] = s->n_out[i] - s->before[i] - s->n[i];
    }
    widths = onnx_list(x, l, "pads", 2 * s->n_axes, pads);
    n      = s->type == PAD_ZERO
                 ? onnx_end(x, l, "Pad",
                            ONNX_IN(l->in[0], widths,
                                    onnx_number(x, l, "value", s->value)))
                 : onnx_end(x, l, "Pad", ONNX_IN(l->in[0], widths));
    onnx_set_string(&x->graph, n, "mode", mode[s->type]);
    return CT_OK;
}

/* Columns [from, to) of the regions. */
static const char *columns(struct onnx_export *x, const struct onnx_layer *l,
                           const char *rois, int64_t from, int64_t to)
{
    const int64_t axis   = 1;
    const char *starts = onnx_list(x, l, "starts", 1, &from);
    const char *ends   = onnx_list(x, l, "ends", 1, &to);

    return onnx_step(x, l, "Slice",
                     ONNX_IN(rois, starts, ends,
                             onnx_list(x, l, "axes", 1, &axis)));
}

/* Mask R-CNN's is the operator's; from opset 16 on its half pixels have to be
 * switched off. */
enum ct_status onnx_emit_roi_align(struct onnx_export *x,
                                   const struct onnx_layer *l)
{
    const struct roi_align *s = l->layer->state;
    const float end[]         = { 0, 0, s->end, s->end };
    const int64_t flat        = -1;
    const char *rois = l->in[1], *box, *image;
    Onnx__NodeProto *n;

    if (s->points)
        return onnx_refuse(l, "RoiAlign gives means of bins, and "
                           "roi_pooling_param asks for the corners of bins");
    if (l->io.bottom[1]->shape.n_axes != 2)
        rois = onnx_step(x, l, "Flatten", ONNX_IN(rois));
    image = onnx_step(x, l, "Reshape",
                      ONNX_IN(columns(x, l, rois, 0, 1),
                              onnx_list(x, l, "shape", 1, &flat)));
    image = onnx_cast(x, l, image, ONNX_INT64, NULL);
    box   = columns(x, l, rois, 1, 5);
    if (s->end != 0)
        box = onnx_step(x, l, "Add",
                        ONNX_IN(box, onnx_weight(x, l, "end", &CT_SHAPE(4),
                                                 end)));
    n = onnx_end(x, l, "RoiAlign", ONNX_IN(l->in[0], box, image));
    onnx_set_int(&x->graph, n, "output_height", s->ph);
    onnx_set_int(&x->graph, n, "output_width", s->pw);
    onnx_set_int(&x->graph, n, "sampling_ratio", s->ratio);
    onnx_set_float(&x->graph, n, "spatial_scale", s->scale);
    if (x->opset >= 16)
        onnx_set_string(&x->graph, n, "coordinate_transformation_mode",
                        "output_half_pixel");
    onnx_remember(x, l);
    return CT_OK;
}

/* The order is darknet's (layers/reorg.h): an item is few x H x s x W x s on
 * one side and s x s x few x H x W on the other. */
enum ct_status onnx_emit_reorg(struct onnx_export *x,
                               const struct onnx_layer *l)
{
    static const int64_t apart[]    = { 0, 3, 5, 1, 2, 4 };
    static const int64_t together[] = { 0, 3, 4, 1, 5, 2 };
    const struct reorg *r    = l->layer->state;
    const int64_t s          = r->stride, few = r->c / (s * s);
    const int64_t n          = onnx_dim(x, l, false, 0, 0);
    const struct ct_shape to = {
        .n_axes = 6,
        .dim    = { n, r->reverse ? s : few, r->reverse ? s : r->h,
                    r->reverse ? few : s, r->reverse ? r->h : r->w,
                    r->reverse ? r->w : s }
    };
    const char *v = onnx_part(x, l, "Reshape");
    const char *turned = onnx_part(x, l, "Transpose");

    CT_TRY(onnx_reshape(x, l, l->in[0], &to, v));
    onnx_transpose(x, turned, v, 6, r->reverse ? together : apart, turned);
    onnx_remember(x, l);
    return onnx_reshape_top(x, l, turned, 0);
}
