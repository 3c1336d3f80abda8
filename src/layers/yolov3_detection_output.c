/* yolov3_detection_output.c - the boxes that YOLO 3 finds, MobileNet-YOLO's
 * type "Yolov3DetectionOutput".
 *
 *     top: 1 x 1 x K x 7: image, label, score, x1, y1, x2, y2
 *
 * A bottom for each of mask_group_num scales, N x num_box (5 + C) x H x W, as
 * yolo.h has them; anchors_scale and the masks, in turn, belong to the bottoms.
 * A class of a box scores the product of object and class; those above
 * confidence_threshold, best first, suppress what overlaps them by
 * nms_threshold or more, whatever its class.  Labels count from 1, corners are
 * parts of the image.  Where nothing is found each image has a row of -1.
 *
 * MobileNet-YOLO takes a batch for one image.  There is no backward pass, and
 * it runs on the CPU. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "layers/bbox.h"
#include "layers/yolo.h"
#include "proto/params.h"

enum { ROW = 7 };

struct output {
    const Caffe__Yolov3DetectionOutputParameter *param;
    struct yolo    *yolo;  /* one a bottom; in `scales` */
    struct ct_blob *scales, *found, *box; /* of an image */
    int64_t         n, n_boxes;
};

static enum ct_status out_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__Yolov3DetectionOutputParameter *p =
        ct_yolov3_detection_output_param(l->param);
    const size_t groups = p->mask_group_num;
    struct output *s    = l->state;

    s->param = p;
    if (groups != (size_t)io->n_bottom || p->n_anchors_scale != groups ||
        p->num_box < 1 || p->num_box > YOLO_ANCHORS ||
        p->n_mask != groups * p->num_box || p->n_biases % 2 != 0 ||
        p->n_biases > 2 * YOLO_ANCHORS || p->num_classes < 1)
        return ct_fail(CT_EINVAL, "layer %s: %u scales (mask_group_num) need "
                       "as many bottoms and anchors_scale, num_box masks "
                       "each, and two biases for each of at most %d anchors",
                       l->name, p->mask_group_num, YOLO_ANCHORS);
    for (size_t i = 0; i < p->n_mask; i++)
        if (2 * (size_t)p->mask[i] >= p->n_biases)
            return ct_fail(CT_EINVAL, "layer %s: mask %zu is %u, and there are "
                           "%zu anchors", l->name, i, p->mask[i],
                           p->n_biases / 2);
    CT_TRY(ct_layer_add_scratch(l, &s->scales));
    CT_TRY(ct_layer_add_scratch(l, &s->found));
    CT_TRY(ct_layer_add_scratch(l, &s->box));
    return ct_reshape(s->scales,
                      CT_SHAPE((int64_t)(groups * sizeof(struct yolo) /
                                         sizeof(float)) + 1));
}

static void out_scale(const struct output *s, int i, const struct ct_shape *x,
                      struct yolo *y)
{
    const Caffe__Yolov3DetectionOutputParameter *p = s->param;

    memset(y, 0, sizeof(*y));
    y->n       = x->dim[0];
    y->h       = x->dim[2];
    y->w       = x->dim[3];
    y->num     = p->num_box;
    y->classes = p->num_classes;
    y->net_w   = (float)y->w * (float)p->anchors_scale[i];
    y->net_h   = (float)y->h * (float)p->anchors_scale[i];
    for (size_t k = 0; k < p->n_biases; k++)
        y->anchor[k] = p->biases[k];
    for (uint32_t k = 0; k < p->num_box; k++)
        y->mask[k] = (int)p->mask[(uint32_t)i * p->num_box + k];
}

static enum ct_status out_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct output *s = l->state;

    s->yolo    = (void *)ct_data(s->scales);
    s->n_boxes = 0;
    for (int i = 0; i < io->n_bottom; i++) {
        const struct ct_shape *x = &io->bottom[i]->shape;
        const int64_t want =
            (int64_t)s->param->num_box * (YOLO_CLASS + s->param->num_classes);

        if (x->n_axes != 4 || x->dim[1] != want ||
            x->dim[0] != io->bottom[0]->shape.dim[0])
            return ct_fail(CT_ESHAPE, "layer %s: bottom %d must be N x %"
                           PRId64 " x H x W", l->name, i, want);
        out_scale(s, i, x, &s->yolo[i]);
        s->n_boxes += s->yolo[i].num * s->yolo[i].h * s->yolo[i].w;
    }
    s->n = io->bottom[0]->shape.dim[0];
    if (s->n_boxes * s->param->num_classes > INT32_MAX)
        return ct_fail(CT_ESHAPE, "layer %s: too many boxes", l->name);
    CT_TRY(ct_reshape(s->box, CT_SHAPE(s->n_boxes, 4)));
    CT_TRY(ct_reshape(s->found,
                      CT_SHAPE(s->n_boxes * s->param->num_classes,
                               (int64_t)(sizeof(struct ct_bbox_found) /
                                         sizeof(float)))));
    return ct_reshape(io->top[0], CT_SHAPE(1, 1, s->n > 0 ? s->n : 1, ROW));
}

/* Box `first` and those behind it, and their candidates; returns how many. */
static int64_t out_read(const struct output *s, const struct yolo *y,
                        int64_t image, const float *x, int64_t first,
                        int64_t n_found)
{
    const int64_t step          = y->h * y->w;
    struct ct_bbox_found *found = (void *)ct_data(s->found);
    struct yolo_box *box        = (void *)ct_data(s->box);

    for (int64_t i = 0; i < y->num * step; i++) {
        const int64_t at = yolo_at(y, image, i / step, 0, i % step);
        const float *anchor = y->anchor + 2 * y->mask[i / step];
        const float object = yolo_logistic(x[at + YOLO_OBJECT * step]);

        box[first + i] = (struct yolo_box){
            ((float)(i % step % y->w) + yolo_logistic(x[at])) / (float)y->w,
            ((float)(i % step / y->w) + yolo_logistic(x[at + step])) /
                (float)y->h,
            expf(x[at + 2 * step]) * anchor[0] / y->net_w,
            expf(x[at + 3 * step]) * anchor[1] / y->net_h,
        };
        for (int64_t c = 0; c < y->classes; c++) {
            const float score =
                object * yolo_logistic(x[at + (YOLO_CLASS + c) * step]);

            if (score > s->param->confidence_threshold)
                found[n_found++] = (struct ct_bbox_found){
                    score, (int32_t)c, (int32_t)(first + i)
                };
        }
    }
    return n_found;
}

static int64_t out_suppress(const struct output *s, int64_t n)
{
    const struct yolo_box *box  = (const void *)ct_data(s->box);
    struct ct_bbox_found *found = (void *)ct_data(s->found);
    int64_t n_kept = 0;

    if (n > 1)
        qsort(found, (size_t)n, sizeof(*found), ct_bbox_better);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = 0;

        while (k < n_kept && yolo_overlap(box[found[i].index],
                                          box[found[k].index]) <
                                 s->param->nms_threshold)
            k++;
        if (k == n_kept)
            found[n_kept++] = found[i];
    }
    return n_kept;
}

static void out_write(const struct output *s, int64_t image, int64_t n,
                      float *row)
{
    const struct ct_bbox_found *found = (const void *)ct_data(s->found);
    const struct yolo_box *box        = (const void *)ct_data(s->box);

    for (int64_t i = 0; i < n; i++, row += ROW) {
        const struct yolo_box *b = &box[found[i].index];

        row[0] = (float)image;
        row[1] = (float)(found[i].label + 1);
        row[2] = found[i].score;
        row[3] = b->x - b->w / 2;
        row[4] = b->y - b->h / 2;
        row[5] = b->x + b->w / 2;
        row[6] = b->y + b->h / 2;
    }
}

static enum ct_status out_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct output *s = l->state;
    const int64_t most     = s->n_boxes * s->param->num_classes;
    struct ct_blob *top    = io->top[0];
    int64_t n_rows         = 0;

    CT_TRY(ct_reshape(top, CT_SHAPE(1, 1, s->n * (most > 1 ? most : 1), ROW)));
    for (int64_t i = 0; i < s->n; i++) {
        int64_t first = 0, n = 0;

        for (int k = 0; k < io->n_bottom; k++) {
            const struct yolo *y = &s->yolo[k];

            n = out_read(s, y, i, ct_data(io->bottom[k]), first, n);
            first += y->num * y->h * y->w;
        }
        n = out_suppress(s, n);
        out_write(s, i, n, ct_data(top) + n_rows * ROW);
        n_rows += n;
    }
    for (int64_t i = 0; n_rows == 0 && i < s->n * ROW; i++)
        ct_data(top)[i] = i % ROW == 0 ? (float)(i / ROW) : -1;
    return ct_reshape(top, CT_SHAPE(1, 1, n_rows > 0 ? n_rows : s->n, ROW));
}

const struct ct_layer_type ct_layer_yolov3_detection_output = {
    .name       = "Yolov3DetectionOutput",
    .bottoms    = CT_AT_LEAST(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_DYNAMIC | CT_LAYER_NO_GRAD | CT_LAYER_NO_CAPTURE,
    .stops      = ~0u,
    .state_size = sizeof(struct output),
    .setup      = out_setup,
    .reshape    = out_reshape,
    .forward    = { [CT_CPU] = out_forward },
};
