/* region_loss.c - the loss of YOLO 2, type "RegionLoss".
 *
 *     dx = delta w / N        loss = sum of delta^2 / N
 *
 * yolo.h has the predictions and the bottoms.  delta is the derivative by x of
 *
 *     no_object so^2 / 2 for every box that overlaps no truth by `thresh`
 *     coord ((sx - x*)^2 + (sy - y*)^2 + (w - w*)^2 + (h - h*)^2) / 2
 *       + object (so - o*)^2 / 2 + of_class (-log softmax of the class)
 *
 * the latter for the box that answers for a truth: that of its cell and of the
 * anchor that is most alike (with `bias_match: 0`, the box itself).  o* is
 * their overlap, taken for constant; with `rescore: 0` it is 1, and coord
 * counts 2 - width height times.  While a run has seen fewer than 12800 images,
 * all boxes are pulled to their anchors a little.  Anchors (`biases`) are in
 * cells.
 *
 * The loss that is shown is darknet's, a sum of squares of gradients; dx is no
 * derivative of it.  Backward OVERWRITES dx; labels get none.  Trees of classes
 * (softmax_tree) are refused.
 * Redmon and Farhadi, "YOLO9000: better, faster, stronger", 2016. */
#include "cortado/layer.h"

#include "cortado/log.h"
#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/deal.h"
#include "layers/yolo.h"
#include "proto/params.h"

static enum ct_status region_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__RegionLossParameter *p = ct_region_loss_param(l->param);
    struct yolo *y                      = l->state;

    (void)io;
    if (p->softmax_tree || p->coords != YOLO_BOX)
        return ct_fail(CT_EINVAL, "layer %s: softmax_tree and other than 4 "
                       "coords are not supported", l->name);
    if (p->num < 1 || p->num > YOLO_ANCHORS ||
        p->n_biases != 2 * (size_t)p->num || p->num_class < 1)
        return ct_fail(CT_EINVAL, "layer %s: region_loss_param needs two "
                       "biases for each of `num` anchors, at most %d, and "
                       "num_class", l->name, YOLO_ANCHORS);
    if (p->class_map)
        CT_WARN("layer %s: class_map is not followed", l->name);
    y->region    = true;
    y->num       = p->num;
    y->n_anchors = (int)p->num;
    y->classes   = p->num_class;
    for (uint32_t i = 0; i < 2 * p->num; i++) {
        y->anchor[i]   = p->biases[i];
        y->mask[i / 2] = (int)i / 2;
    }
    y->thresh     = p->thresh;
    y->object     = p->object_scale;
    y->no_object  = p->noobject_scale;
    y->of_class   = p->class_scale;
    y->coord      = p->coord_scale;
    y->rescore    = p->rescore != 0;
    y->small      = p->rescore == 0;
    y->bias_match = p->bias_match != 0;
    return yolo_setup(l, y);
}

static enum ct_status region_reshape(struct ct_layer *l,
                                     const struct ct_io *io)
{
    struct yolo *y = l->state;

    CT_TRY(yolo_reshape(l, io, y));
    y->net_w = (float)y->w;
    y->net_h = (float)y->h;
    return CT_OK;
}

static enum ct_status region_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct yolo *y = l->state;

    return yolo_forward(l, io, y, ct_deal_row(l, y->n) < 12800);
}

static enum ct_status region_backward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct yolo *y = l->state;
    const float scale    = ct_diff(io->top[0])[0] / (float)y->n;
    const float *delta   = ct_data(y->delta);
    float *dx            = ct_diff(io->bottom[0]);

    if (io->want_grad[0])
        CT_FOR_EACH (i, io->bottom[0]->count)
            dx[i] = scale * delta[i];
    return CT_OK;
}

const struct ct_layer_type ct_layer_region_loss = {
    .name       = "RegionLoss",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_LOSS | CT_LAYER_GRAD_FIRST | CT_LAYER_NO_BOTTOM |
                  CT_LAYER_NO_TOP,
    .state_size = sizeof(struct yolo),
    .setup      = region_setup,
    .reshape    = region_reshape,
    .forward    = { region_forward, CT_CUDA_FN(region_loss_forward) },
    .backward   = { region_backward, CT_CUDA_FN(region_loss_backward) },
};
