/* detection_evaluate.c - which detections are right, SSD's type
 * "DetectionEvaluate".
 *
 *     bottom 0  detections  1 x 1 x D x 7  image, label, score, box
 *     bottom 1  truths      1 x 1 x G x 8  as AnnotatedData gives them
 *     top       1 x 1 x R x 5
 *
 * First a row for each class but the background: -1, class, how many truths
 * it has, -1, -1.  Then a row for each detection, best first within its image
 * and class: image, label, score, 1 where it is right, 1 where it is wrong.
 * A detection is right when the truth of its image and class that it overlaps
 * most, by at least overlap_threshold, is not taken yet.  One whose truth is
 * difficult is neither, unless evaluate_difficult_gt.
 *
 * name_size_file and resize_param are read and not used: the overlap of two
 * boxes is the same in parts of an image and in pixels of another size.  R is
 * known after forward only.  There is no backward pass.
 *
 * The work is the host's, wherever the blobs are. */
#include "cortado/layer.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "layers/bbox.h"
#include "proto/params.h"

enum { FOUND = 7, TRUTH = 8, ROW = 5 };

struct detection_evaluate {
    int64_t classes, background;
    float   threshold;
    bool    difficult;
    bool   *taken;  /* a truth */
    struct ct_bbox_found *order; /* detections */
    int64_t n_taken, n_order;    /* what there is room for */
    float  *host;                /* bottoms and top of a net on a GPU */
    int64_t n_host;
};

static enum ct_status de_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__DetectionEvaluateParameter *p =
        ct_detection_evaluate_param(l->param);
    struct detection_evaluate *d = l->state;

    (void)io;
    if (p->num_classes == 0)
        return ct_fail(CT_EINVAL, "layer %s: detection_evaluate_param needs "
                       "num_classes", l->name);
    if (!(p->overlap_threshold > 0))
        return ct_fail(CT_EINVAL, "layer %s: overlap_threshold must be above "
                       "0", l->name);
    d->classes    = p->num_classes;
    d->background = p->background_label_id;
    d->threshold  = p->overlap_threshold;
    d->difficult  = p->evaluate_difficult_gt;
    return CT_OK;
}

static enum ct_status de_room(struct detection_evaluate *d, int64_t n_found,
                              int64_t n_truths, int64_t n_host)
{
    if (n_truths > d->n_taken) {
        ct_free(d->taken);
        d->n_taken = 0;
        CT_TRY(ct_alloc((size_t)n_truths, sizeof(*d->taken), "evaluation",
                        &d->taken));
        d->n_taken = n_truths;
    }
    if (n_found > d->n_order) {
        ct_free(d->order);
        d->n_order = 0;
        CT_TRY(ct_alloc((size_t)n_found, sizeof(*d->order), "evaluation",
                        &d->order));
        d->n_order = n_found;
    }
    if (n_host > d->n_host) {
        ct_free(d->host);
        d->n_host = 0;
        CT_TRY(ct_alloc((size_t)n_host, sizeof(*d->host), "evaluation",
                        &d->host));
        d->n_host = n_host;
    }
    return CT_OK;
}

static int64_t rows_of(const struct ct_blob *b, int width)
{
    return b->count / width;
}

static enum ct_status de_reshape(struct ct_layer *l, const struct ct_io *io)
{
    static const int width[] = { FOUND, TRUTH };

    for (int i = 0; i < 2; i++) {
        const struct ct_shape *s = &io->bottom[i]->shape;

        if (s->n_axes < 1 || s->dim[s->n_axes - 1] != width[i])
            return ct_fail(CT_ESHAPE, "layer %s: bottom %d must be 1 x 1 x R "
                           "x %d, as %s gives it", l->name, i, width[i],
                           i == 0 ? "DetectionOutput" : "AnnotatedData");
    }
    return ct_reshape(io->top[0], CT_SHAPE(1, 1, 1, ROW));
}

static struct ct_bbox box_at(const float *x)
{
    return (struct ct_bbox){ x[0], x[1], x[2], x[3] };
}

/* Writes [right, wrong] of detection f. */
static void judge(struct detection_evaluate *d, const float *f,
                  const float *truth, int64_t n_truths, float *out)
{
    const struct ct_bbox mine = box_at(f + 3);
    float best = -1;
    int64_t at = -1;

    for (int64_t g = 0; g < n_truths; g++) {
        const float *t = truth + g * TRUTH;
        float o;

        if (t[0] != f[0] || t[1] != f[1])
            continue;
        o = ct_bbox_overlap(mine, box_at(t + 3));
        if (o > best) {
            best = o;
            at   = g;
        }
    }
    out[0] = out[1] = 0;
    if (best < d->threshold)
        out[1] = 1;
    else if (!d->difficult && truth[at * TRUTH + 7] != 0)
        return;
    else if (d->taken[at])
        out[1] = 1;
    else
        out[0] = 1, d->taken[at] = true;
}

/* For qsort(): image, label, then the score downwards. */
static int in_order(const void *a, const void *b)
{
    const struct ct_bbox_found *x = a, *y = b;

    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int64_t count_truths(const struct detection_evaluate *d,
                            const float *truth, int64_t n, int64_t label)
{
    int64_t count = 0;

    for (int64_t g = 0; g < n; g++)
        count += truth[g * TRUTH] >= 0 &&
                 truncf(truth[g * TRUTH + 1]) == (float)label &&
                 (d->difficult || truth[g * TRUTH + 7] == 0);
    return count;
}

/* Images and classes have numbers that can be counted; or nothing was found. */
static enum ct_status check_found(const struct ct_layer *l, const float *found,
                                  int64_t n_found)
{
    const struct detection_evaluate *d = l->state;
    const double classes               = (double)d->classes;

    for (int64_t i = 0; i < n_found; i++) {
        const float *f = found + i * FOUND;

        if (f[0] >= 0 && f[1] >= 0 &&
            ((double)f[1] >= classes ||
             (double)f[0] * classes + (double)f[1] >= INT32_MAX))
            return ct_fail(CT_EINVAL, "layer %s: detection %lld is of class "
                           "%g in image %g, and there are %lld classes",
                           l->name, (long long)i, (double)f[1], (double)f[0],
                           (long long)d->classes);
    }
    return CT_OK;
}

/* Returns how many rows there are. */
static int64_t evaluate(struct detection_evaluate *d, const float *found,
                        int64_t n_found, const float *truth, int64_t n_truths,
                        float *row)
{
    const float *first = row;
    int64_t n          = 0;

    for (int64_t c = 0; c < d->classes; c++) {
        if (c == d->background)
            continue;
        row[0] = row[3] = row[4] = -1;
        row[1] = (float)c;
        row[2] = (float)count_truths(d, truth, n_truths, c);
        row += ROW;
    }
    for (int64_t g = 0; g < n_truths; g++)
        d->taken[g] = false;
    for (int64_t i = 0; i < n_found; i++) {
        const float *f = found + i * FOUND;

        if (f[0] >= 0 && f[1] >= 0) /* else nothing was found */
            d->order[n++] = (struct ct_bbox_found){
                f[2], (int32_t)f[0] * (int32_t)d->classes + (int32_t)f[1],
                (int32_t)i
            };
    }
    if (n > 0) /* else there may be no array */
        qsort(d->order, (size_t)n, sizeof(*d->order), in_order);
    for (int64_t i = 0; i < n; i++, row += ROW) {
        const float *f = found + d->order[i].index * FOUND;

        row[0] = f[0];
        row[1] = f[1];
        row[2] = f[2];
        judge(d, f, truth, n_truths, row + 3);
    }
    return (row - first) / ROW;
}

static enum ct_status de_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct detection_evaluate *d = l->state;
    struct ct_blob *top          = io->top[0];
    const int64_t n_found  = rows_of(io->bottom[0], FOUND);
    const int64_t n_truths = rows_of(io->bottom[1], TRUTH);
    const int64_t most     = d->classes + n_found;
    const bool away        = l->dev->kind != CT_CPU;
    const int64_t n_host   = away ? io->bottom[0]->count +
                                        io->bottom[1]->count + most * ROW : 0;
    const float *in[2];
    float *out;
    int64_t n_rows;

    CT_TRY(de_room(d, n_found, n_truths, n_host));
    CT_TRY(ct_reshape(top, CT_SHAPE(1, 1, most, ROW)));
    for (int i = 0; i < 2; i++) {
        float *to = NULL;

        if (away) {
            to = d->host + (i ? io->bottom[0]->count : 0);
            CT_TRY(l->dev->ops->to_host(
                l->dev, (size_t)io->bottom[i]->count * sizeof(float),
                ct_data(io->bottom[i]), to));
        }
        in[i] = away ? to : ct_data(io->bottom[i]);
    }
    out = away ? d->host + io->bottom[0]->count + io->bottom[1]->count
               : ct_data(top);
    CT_TRY(check_found(l, in[0], n_found));
    n_rows = evaluate(d, in[0], n_found, in[1], n_truths, out);
    CT_TRY(ct_reshape(top, CT_SHAPE(1, 1, n_rows, ROW)));
    return !away ? CT_OK
                 : l->dev->ops->from_host(l->dev,
                                          (size_t)top->count * sizeof(float),
                                          out, ct_data(top));
}

static void de_teardown(struct ct_layer *l)
{
    struct detection_evaluate *d = l->state;

    ct_free(d->taken);
    ct_free(d->order);
    ct_free(d->host);
}

const struct ct_layer_type ct_layer_detection_evaluate = {
    .name       = "DetectionEvaluate",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_DYNAMIC | CT_LAYER_NO_GRAD | CT_LAYER_NO_CAPTURE,
    .state_size = sizeof(struct detection_evaluate),
    .setup      = de_setup,
    .reshape    = de_reshape,
    .forward    = CT_EVERY_DEVICE(de_forward),
    .teardown   = de_teardown,
};
