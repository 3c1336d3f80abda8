/* box_annotator_ohem.c - leaves the regions that cost most, R-FCN's type
 * "BoxAnnotatorOHEM".
 *
 *     bottoms: regions (n x 5: image, ...), the loss of each (n), their labels
 *     (n), their box weights (n x c)       tops: labels, box weights
 *
 * The roi_per_img regions of each image with the largest loss keep label and
 * weights; the others get ignore_label and weights of 0.  Blobs may have
 * positions behind, n x 5 x h x w and so on; each is a region then.  There is
 * no backward pass.  R-FCN runs it on a GPU alone.
 * Shrivastava et al., "Training region-based object detectors with online hard
 * example mining", 2016. */
#include "layers/box_annotator_ohem.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

enum { ROIS, LOSS, LABELS, WEIGHTS };

static enum ct_status ohem_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__BoxAnnotatorOHEMParameter *p =
        ct_box_annotator_ohem_param(l->param);
    struct box_annotator_ohem *s = l->state;

    (void)io;
    if (p->roi_per_img == 0)
        return ct_fail(CT_EINVAL, "layer %s: box_annotator_ohem_param needs "
                       "roi_per_img, greater than 0", l->name);
    s->keep   = p->roi_per_img;
    s->ignore = (float)p->ignore_label;
    return CT_OK;
}

static enum ct_status ohem_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_shape *rois = &io->bottom[ROIS]->shape;
    const struct ct_blob *boxes = io->bottom[WEIGHTS];
    struct box_annotator_ohem *s = l->state;

    if (rois->n_axes < 2 || rois->dim[1] != 5)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 0 must be R x 5: image, "
                       "x1, y1, x2, y2", l->name);
    s->n     = rois->dim[0];
    s->inner = ct_count(io->bottom[ROIS], 2, CT_END);
    for (int i = LOSS; i <= LABELS; i++)
        if (io->bottom[i]->count != s->n * s->inner)
            return ct_fail(CT_ESHAPE, "layer %s: bottom %d has %" PRId64
                           " values for %" PRId64 " regions", l->name, i,
                           io->bottom[i]->count, s->n * s->inner);
    if (boxes->shape.n_axes < 2 || boxes->shape.dim[0] != s->n ||
        ct_count(boxes, 2, CT_END) != s->inner)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 3 must have weights for %"
                       PRId64 " regions", l->name, s->n * s->inner);
    s->channels = boxes->shape.dim[1];
    CT_TRY(ct_reshape(io->top[0], io->bottom[LABELS]->shape));
    return ct_reshape(io->top[1], boxes->shape);
}

static enum ct_status ohem_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct box_annotator_ohem *s = l->state;
    const float *rois = ct_data(io->bottom[ROIS]);
    const float *loss = ct_data(io->bottom[LOSS]);
    const float *label = ct_data(io->bottom[LABELS]);
    const float *weight = ct_data(io->bottom[WEIGHTS]);
    float *out = ct_data(io->top[0]), *boxes = ct_data(io->top[1]);

    CT_FOR_ROWS (i, s->n * s->inner, s->n * s->inner + s->channels) {
        const bool hard = box_is_hard(s, rois, loss, i);
        const int64_t first =
            i / s->inner * s->channels * s->inner + i % s->inner;

        out[i] = hard ? label[i] : s->ignore;
        for (int64_t c = 0; c < s->channels; c++)
            boxes[first + c * s->inner] =
                hard ? weight[first + c * s->inner] : 0;
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_box_annotator_ohem = {
    .name       = "BoxAnnotatorOHEM",
    .bottoms    = CT_EXACTLY(4),
    .tops       = CT_EXACTLY(2),
    .flags      = CT_LAYER_NO_GRAD,
    .stops      = ~0u,
    .state_size = sizeof(struct box_annotator_ohem),
    .setup      = ohem_setup,
    .reshape    = ohem_reshape,
    .forward    = { ohem_forward, CT_CUDA_FN(box_annotator_ohem_forward) },
};
