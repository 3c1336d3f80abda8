/* detection_output.c - boxes out of SSD's predictions, type
 * "DetectionOutput".
 *
 * Bottoms: locations (N x P K 4), confidences (N x P C) and priors (1 x 2 x
 * 4 P, from PriorBox); a fourth, the image, is accepted and not used.  P
 * priors, C classes, K is 1 with share_location and else C.
 *
 * In each image and each class but the background's: boxes above
 * confidence_threshold, the best nms_param.top_k of them, best first, without
 * those that overlap a better one by more than nms_threshold (which shrinks by
 * `eta` after every box kept, down to .5).  Of all classes together the best
 * keep_top_k.
 *
 * Top: 1 x 1 x R x 7, rows of image, label, confidence, xmin, ymin, xmax, ymax
 * in order of image, label, confidence.  When there is no box at all there is
 * one row an image, -1 but for the image's number.  R is known after forward
 * only.  There is no backward pass.
 *
 * The work is the host's, wherever the blobs are: it is a search through lists
 * whose lengths follow from the numbers. */
#include "cortado/layer.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "device/cpu/loop.h"
#include "layers/bbox.h"
#include "proto/params.h"

enum { ROW = 7 };

struct detection_output {
    struct ct_bbox_nms nms;
    enum ct_bbox_code  code;
    bool     shared, scaled; /* `scaled`: variances are in the target */
    int64_t  priors, classes, locations, background;
    int64_t  keep; /* keep_top_k, or -1 */
    float    threshold;
    int64_t  n_boxes, n_found;         /* what there is room for */
    struct ct_bbox       *box;         /* K x P, decoded */
    struct ct_bbox_found *found, *all; /* C x P; and of all classes */
    int64_t              *n_kept;      /* a class */
    /* Room for the bottoms and the top where they are on a GPU. */
    float   *host;
    int64_t  n_host;
};

static enum ct_status do_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__DetectionOutputParameter *p =
        ct_detection_output_param(l->param);
    Caffe__NonMaximumSuppressionParameter nms;
    struct detection_output *d = l->state;

    (void)io;
    caffe__non_maximum_suppression_parameter__init(&nms);
    if (p->nms_param)
        nms = *p->nms_param;
    if (p->num_classes == 0)
        return ct_fail(CT_EINVAL, "layer %s: detection_output_param needs "
                       "num_classes", l->name);
    if (!(nms.nms_threshold >= 0) || !(nms.eta > 0 && nms.eta <= 1))
        return ct_fail(CT_EINVAL, "layer %s: nms_threshold must not be below "
                       "0, and eta is above 0 and at most 1", l->name);
    if (p->visualize || p->save_output_param)
        CT_WARN("layer %s: detections are not drawn or saved to files; read "
                "top 0", l->name);
    d->nms        = (struct ct_bbox_nms){ nms.nms_threshold, nms.eta,
                                          nms.has_top_k ? nms.top_k : -1 };
    d->code       = (enum ct_bbox_code)p->code_type;
    d->shared     = p->share_location;
    d->scaled     = p->variance_encoded_in_target;
    d->classes    = p->num_classes;
    d->locations  = d->shared ? 1 : d->classes;
    d->background = p->background_label_id;
    d->keep       = p->keep_top_k;
    d->threshold  = p->has_confidence_threshold ? p->confidence_threshold
                                                : -FLT_MAX;
    return ct_alloc((size_t)d->classes, sizeof(*d->n_kept), "detections",
                    &d->n_kept);
}

static enum ct_status do_grow(struct detection_output *d)
{
    int64_t n_boxes = d->locations * d->priors;
    int64_t n_found = d->classes * d->priors;

    if (n_boxes > d->n_boxes) {
        ct_free(d->box);
        d->box     = NULL;
        d->n_boxes = 0;
        CT_TRY(ct_alloc((size_t)n_boxes, sizeof(*d->box), "detections",
                        &d->box));
        d->n_boxes = n_boxes;
    }
    if (n_found > d->n_found) {
        ct_free(d->found);
        ct_free(d->all);
        d->found = d->all = NULL;
        d->n_found        = 0;
        CT_TRY(ct_alloc((size_t)n_found, sizeof(*d->found), "detections",
                        &d->found));
        CT_TRY(ct_alloc((size_t)n_found, sizeof(*d->all), "detections",
                        &d->all));
        d->n_found = n_found;
    }
    return CT_OK;
}

/* Rows that one image can have at most. */
static int64_t do_most(const struct detection_output *d)
{
    int64_t a_class = d->nms.top_k >= 0 && d->nms.top_k < d->priors
                          ? d->nms.top_k : d->priors;
    int64_t n = a_class * d->classes;

    n = d->keep >= 0 && d->keep < n ? d->keep : n;
    return n > 1 ? n : 1;
}

/* Room on the host for the first three bottoms and the largest top. */
static enum ct_status do_host(struct detection_output *d,
                              const struct ct_io *io)
{
    int64_t n = io->bottom[0]->shape.dim[0] * do_most(d) * ROW;

    for (int i = 0; i < 3; i++)
        n += io->bottom[i]->count;
    if (n <= d->n_host)
        return CT_OK;
    ct_free(d->host);
    d->host   = NULL;
    d->n_host = 0;
    CT_TRY(ct_alloc((size_t)n, sizeof(*d->host), "detections", &d->host));
    d->n_host = n;
    return CT_OK;
}

static enum ct_status do_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct detection_output *d   = l->state;
    const struct ct_blob *priors = io->bottom[2];

    for (int i = 0; i < 2; i++)
        if (io->bottom[i]->shape.n_axes < 2 ||
            io->bottom[i]->shape.dim[0] != io->bottom[0]->shape.dim[0])
            return ct_fail(CT_ESHAPE, "layer %s: locations and confidences "
                           "need the same first dimension", l->name);
    if (priors->shape.n_axes < 3 || priors->shape.dim[0] < 1 ||
        priors->shape.dim[1] != 2 ||
        ct_count(priors, 2, CT_END) % 4 != 0)
        return ct_fail(CT_ESHAPE, "layer %s: priors must be 1 x 2 x 4 P",
                       l->name);
    d->priors = ct_count(priors, 2, CT_END) / 4;
    if (ct_count(io->bottom[0], 1, CT_END) != d->priors * d->locations * 4)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " locations an image, "
                       "%" PRId64 " priors need %" PRId64, l->name,
                       ct_count(io->bottom[0], 1, CT_END), d->priors,
                       d->priors * d->locations * 4);
    if (ct_count(io->bottom[1], 1, CT_END) != d->priors * d->classes)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " confidences an "
                       "image, %" PRId64 " priors need %" PRId64, l->name,
                       ct_count(io->bottom[1], 1, CT_END), d->priors,
                       d->priors * d->classes);
    CT_TRY(do_grow(d));
    if (l->dev->kind != CT_CPU)
        CT_TRY(do_host(d, io));
    return ct_reshape(io->top[0], CT_SHAPE(1, 1, 1, ROW));
}

static void do_decode(struct detection_output *d, const float *prior,
                      const float *loc)
{
    const float *variance = prior + 4 * d->priors;

    CT_FOR_ROWS (k, d->locations, 16 * d->priors)
        for (int64_t p = 0; p < d->priors; p++)
            if (d->shared || k != d->background)
                d->box[k * d->priors + p] = ct_bbox_decode(
                    d->code, prior + 4 * p, d->scaled ? NULL
                                                      : variance + 4 * p,
                    loc + (p * d->locations + k) * 4);
}

/* The boxes kept in class c, at the front of its part of d->found. */
static void do_class(struct detection_output *d, const float *conf, int64_t c)
{
    struct ct_bbox_found *found = d->found + c * d->priors;
    int64_t n                   = 0;

    d->n_kept[c] = 0;
    if (c == d->background)
        return;
    for (int64_t p = 0; p < d->priors; p++) {
        float score = conf[p * d->classes + c];

        if (score > d->threshold)
            found[n++] = (struct ct_bbox_found){ score, (int32_t)c,
                                                 (int32_t)p };
    }
    d->n_kept[c] = ct_bbox_suppress(
        &d->nms, d->box + (d->shared ? 0 : c * d->priors), found, n);
}

/* Leaves the best d->keep of all classes; returns how many there are. */
static int64_t do_best(struct detection_output *d)
{
    int64_t n = 0;

    for (int64_t c = 0; c < d->classes; c++)
        for (int64_t i = 0; i < d->n_kept[c]; i++)
            d->all[n++] = d->found[c * d->priors + i];
    if (d->keep < 0 || n <= d->keep)
        return n;
    qsort(d->all, (size_t)n, sizeof(*d->all), ct_bbox_better);
    for (int64_t c = 0; c < d->classes; c++)
        d->n_kept[c] = 0;
    for (int64_t i = 0; i < d->keep; i++) {
        int64_t c = d->all[i].label;

        d->found[c * d->priors + d->n_kept[c]++] = d->all[i];
    }
    return d->keep;
}

static float *do_write(const struct detection_output *d, int64_t image,
                       float *row)
{
    for (int64_t c = 0; c < d->classes; c++)
        for (int64_t i = 0; i < d->n_kept[c]; i++, row += ROW) {
            const struct ct_bbox_found *f = &d->found[c * d->priors + i];
            const struct ct_bbox *b =
                &d->box[(d->shared ? 0 : c * d->priors) + f->index];

            row[0] = (float)image;
            row[1] = (float)c;
            row[2] = f->score;
            row[3] = b->xmin;
            row[4] = b->ymin;
            row[5] = b->xmax;
            row[6] = b->ymax;
        }
    return row;
}

/* All n images; returns how many rows there are. */
static int64_t do_detect(struct detection_output *d, int64_t n,
                         const float *loc, const float *conf,
                         const float *prior, float *rows)
{
    int64_t n_rows = 0;
    float *row     = rows;

    for (int64_t i = 0; i < n; i++) {
        do_decode(d, prior, loc + i * d->priors * d->locations * 4);
        CT_FOR_ROWS (c, d->classes, 16 * d->priors)
            do_class(d, conf + i * d->priors * d->classes, c);
        n_rows += do_best(d);
        row = do_write(d, i, row);
    }
    if (n_rows > 0)
        return n_rows;
    for (int64_t i = 0; i < n * ROW; i++)
        rows[i] = i % ROW == 0 ? (float)(i / ROW) : -1;
    return n;
}

static enum ct_status do_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct detection_output *d = l->state;
    const int64_t n     = io->bottom[0]->shape.dim[0];
    struct ct_blob *top = io->top[0];
    int64_t n_rows;

    CT_TRY(ct_reshape(top, CT_SHAPE(1, 1, n * do_most(d), ROW)));
    n_rows = do_detect(d, n, ct_data(io->bottom[0]), ct_data(io->bottom[1]),
                       ct_data(io->bottom[2]), ct_data(top));
    return ct_reshape(top, CT_SHAPE(1, 1, n_rows, ROW));
}

static enum ct_status do_forward_gpu(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct ct_device_ops *ops = l->dev->ops;
    struct detection_output *d      = l->state;
    const int64_t n     = io->bottom[0]->shape.dim[0];
    struct ct_blob *top = io->top[0];
    float *at = d->host, *in[3];
    int64_t n_rows;

    for (int i = 0; i < 3; i++) {
        in[i] = at;
        at += io->bottom[i]->count;
        CT_TRY(ops->to_host(l->dev,
                            (size_t)io->bottom[i]->count * sizeof(*at),
                            ct_data(io->bottom[i]), in[i]));
    }
    n_rows = do_detect(d, n, in[0], in[1], in[2], at);
    CT_TRY(ct_reshape(top, CT_SHAPE(1, 1, n * do_most(d), ROW)));
    CT_TRY(ct_reshape(top, CT_SHAPE(1, 1, n_rows, ROW)));
    return ops->from_host(l->dev, (size_t)top->count * sizeof(*at), at,
                          ct_data(top));
}

static void do_teardown(struct ct_layer *l)
{
    struct detection_output *d = l->state;

    ct_free(d->box);
    ct_free(d->found);
    ct_free(d->all);
    ct_free(d->n_kept);
    ct_free(d->host);
}

const struct ct_layer_type ct_layer_detection_output = {
    .name       = "DetectionOutput",
    .bottoms    = CT_BETWEEN(3, 4),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_DYNAMIC | CT_LAYER_NO_GRAD | CT_LAYER_NO_CAPTURE,
    .state_size = sizeof(struct detection_output),
    .setup      = do_setup,
    .reshape    = do_reshape,
    .forward    = { [CT_CPU] = do_forward, [CT_CUDA] = do_forward_gpu },
    .teardown   = do_teardown,
};
