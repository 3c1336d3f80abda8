/* yolov3.c - the loss of YOLO 3 at one scale, MobileNet-YOLO's type "Yolov3".
 *
 *     dx = delta w / N        loss = sum of delta^2 / N
 *
 * yolo.h has the predictions and the bottoms.  delta is the derivative by x of
 *
 *     -log(1 - so) for every box that overlaps no truth by `thresh`
 *     coord_scale (2 - width height) (cross entropy of sx, x* and of sy, y*
 *       + ((w - w*)^2 + (h - h*)^2) / 2) - log so + class_scale (cross entropy
 *       of each class)
 *
 * the latter for the box that answers for a truth: that of its cell and of the
 * anchor that is most alike, where it is one of this layer's (`mask` of
 * `biases`, which are in pixels; a cell has anchors_scale of them).  A second
 * truth of one box adds its class.  With use_logic_gradient delta is by squares
 * instead: all but w and h times s (1 - s), and object_scale counts.
 *
 * The loss that is shown is darknet's, a sum of squares; dx is no derivative of
 * it.  noobject_scale and `side` are not followed, as in MobileNet-YOLO;
 * use_focal_loss is refused.  MobileNet-YOLO has the wrong sign for the class
 * of a second truth.  Backward OVERWRITES dx; labels get none.
 * Redmon and Farhadi, "YOLOv3: an incremental improvement", 2018. */
#include "layers/yolov3.h"

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status v3_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__Yolov3Parameter *p = ct_yolov3_param(l->param);
    struct yolov3 *s                = l->state;
    struct yolo *y                  = &s->yolo;

    (void)io;
    if (p->use_focal_loss)
        return ct_fail(CT_EINVAL, "layer %s: use_focal_loss is not supported",
                       l->name);
    if (p->num < 1 || p->num > YOLO_ANCHORS || p->n_mask != p->num ||
        p->n_biases % 2 != 0 || p->n_biases > 2 * YOLO_ANCHORS ||
        p->num_class < 1 || p->anchors_scale < 1)
        return ct_fail(CT_EINVAL, "layer %s: yolov3_param needs two biases for "
                       "each anchor, at most %d, a mask for each of `num`, "
                       "num_class and anchors_scale", l->name, YOLO_ANCHORS);
    y->num       = p->num;
    y->n_anchors = (int)p->n_biases / 2;
    y->classes   = p->num_class;
    for (size_t i = 0; i < p->n_biases; i++)
        y->anchor[i] = p->biases[i];
    for (size_t i = 0; i < p->n_mask; i++)
        y->mask[i] = p->mask[i] < YOLO_ANCHORS ? (int)p->mask[i]
                                               : YOLO_ANCHORS;
    s->scale     = (float)p->anchors_scale;
    s->logic     = p->use_logic_gradient;
    y->thresh    = p->thresh;
    y->object    = s->logic ? p->object_scale : 1;
    y->no_object = 1;
    y->of_class  = p->class_scale;
    y->coord     = p->coord_scale;
    y->small     = true;
    return yolo_setup(l, y);
}

static enum ct_status v3_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct yolov3 *s = l->state;

    CT_TRY(yolo_reshape(l, io, &s->yolo));
    s->yolo.net_w = (float)s->yolo.w * s->scale;
    s->yolo.net_h = (float)s->yolo.h * s->scale;
    return CT_OK;
}

static enum ct_status v3_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct yolov3 *s = l->state;

    return yolo_forward(l, io, &s->yolo, false);
}

static enum ct_status v3_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct yolov3 *s = l->state;
    const float scale      = ct_diff(io->top[0])[0] / (float)s->yolo.n;
    const float *delta     = ct_data(s->yolo.delta);
    const float *act       = ct_data(s->yolo.act);
    float *dx              = ct_diff(io->bottom[0]);

    if (io->want_grad[0])
        CT_FOR_EACH (i, io->bottom[0]->count)
            dx[i] = scale * delta[i] * yolov3_slope(s, i, act[i]);
    return CT_OK;
}

const struct ct_layer_type ct_layer_yolov3 = {
    .name       = "Yolov3",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_LOSS | CT_LAYER_GRAD_FIRST | CT_LAYER_NO_BOTTOM |
                  CT_LAYER_NO_TOP,
    .state_size = sizeof(struct yolov3),
    .setup      = v3_setup,
    .reshape    = v3_reshape,
    .forward    = { v3_forward, CT_CUDA_FN(yolov3_forward) },
    .backward   = { v3_backward, CT_CUDA_FN(yolov3_backward) },
};
