/* decode_bbox.c - regions moved to where the net says, Cascade R-CNN's type
 * "DecodeBBox".
 *
 *     bottoms: codes (R x 8: of the background, of the object), regions (R x 5:
 *     image, x1, y1, x2, y2), perhaps matches (R x 6, ProposalTarget's top 5)
 *     top: regions (K x 5)
 *
 * A code times bbox_std plus bbox_mean moves its region (pixel_box.h).  In the
 * TRAIN phase boxes that come out inside out are dropped, as are those of
 * regions that overlap their match by gt_iou_thr or more: ground truth that
 * ProposalTarget put in.  Where none is left the first region stays as it was;
 * Cascade R-CNN stops there.  There is no backward pass, and it runs on the
 * CPU. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "layers/pixel_box.h"
#include "layers/regression.h"
#include "proto/params.h"

enum { CODES, REGIONS, MATCHES, CODE = 8, ROW = 5 };

struct decode_bbox {
    struct regression regression;
    int64_t           n, match; /* regions, values of a match */
};

static enum ct_status decode_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct decode_bbox *s = l->state;

    (void)io;
    return regression_read(l, &s->regression);
}

static enum ct_status decode_reshape(struct ct_layer *l,
                                     const struct ct_io *io)
{
    struct decode_bbox *s = l->state;

    for (int i = 0; i < io->n_bottom; i++) {
        const struct ct_blob *b = io->bottom[i];
        const int64_t values    = b->shape.n_axes > 1 ? ct_count(b, 1, CT_END)
                                                      : 0;

        if (values < 1 || b->shape.dim[0] != io->bottom[0]->shape.dim[0] ||
            (i == CODES && values != CODE) || (i == REGIONS && values != ROW))
            return ct_fail(CT_ESHAPE, "layer %s: bottoms must be R x 8 codes, "
                           "R x 5 regions and perhaps R x 6 matches; bottom "
                           "%d is not", l->name, i);
        s->match = values;
    }
    s->n = io->bottom[0]->shape.dim[0];
    return ct_reshape(io->top[0], CT_SHAPE(s->n > 0 ? s->n : 1, ROW, 1, 1));
}

static enum ct_status decode_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const float most = ct_decode_bbox_param(l->param)->gt_iou_thr;
    const bool train = l->phase == CAFFE__PHASE__TRAIN;
    const struct decode_bbox *s = l->state;
    const float *codes = ct_data(io->bottom[CODES]);
    const float *rois = ct_data(io->bottom[REGIONS]);
    const float *match = io->n_bottom > 2 ? ct_data(io->bottom[MATCHES]) : NULL;
    int64_t n_kept = 0;
    float *out;

    CT_TRY(ct_reshape(io->top[0], CT_SHAPE(s->n, ROW, 1, 1)));
    out = ct_data(io->top[0]);
    for (int64_t i = 0; i < s->n; i++) {
        const float *v           = rois + i * ROW;
        const struct pixel_box a = { v[1], v[2], v[3], v[4] };
        struct pixel_box b;
        float code[4];

        regression_restore(&s->regression, codes + i * CODE + 4, code);
        b = pixel_box_decode(&a, code, false);
        if (train && (!(b.x1 <= b.x2) || !(b.y1 <= b.y2) ||
                      (match && match[(i + 1) * s->match - 1] >= most)))
            continue;
        out[n_kept * ROW]     = v[0];
        out[n_kept * ROW + 1] = b.x1;
        out[n_kept * ROW + 2] = b.y1;
        out[n_kept * ROW + 3] = b.x2;
        out[n_kept * ROW + 4] = b.y2;
        n_kept++;
    }
    if (n_kept == 0 && s->n > 0) {
        for (int k = 0; k < ROW; k++)
            out[k] = rois[k];
        n_kept = 1;
    }
    return ct_reshape(io->top[0], CT_SHAPE(n_kept, ROW, 1, 1));
}

const struct ct_layer_type ct_layer_decode_bbox = {
    .name       = "DecodeBBox",
    .bottoms    = CT_BETWEEN(2, 3),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_DYNAMIC | CT_LAYER_NO_GRAD | CT_LAYER_NO_CAPTURE,
    .stops      = ~0u,
    .state_size = sizeof(struct decode_bbox),
    .setup      = decode_setup,
    .reshape    = decode_reshape,
    .forward    = { [CT_CPU] = decode_forward },
};
