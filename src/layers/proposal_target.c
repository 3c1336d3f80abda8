/* proposal_target.c - which regions to train on, and what they should say,
 * Cascade R-CNN's type "ProposalTarget".
 *
 *     bottoms: regions (R x 5: image, x1, y1, x2, y2), ground truth (G x 7 or
 *     more: image, x1, y1, x2, y2, label, ignored)
 *     tops: regions (K x 5), labels (K), codes (K x D), their inside and
 *     outside weights (K x D), matches (K x 6: label, x1, y1, x2, y2, overlap),
 *     perhaps weights of samples (K)
 *
 * Ground truth joins the regions (append_gtbox).  A region belongs to the box
 * that it overlaps most; by fg_thr or more it is foreground, unless that box is
 * ignored; from bg_thr_lw to bg_thr_hg background.  Of batch_size regions
 * fg_fraction are foreground, where there are so many, drawn by chance, and the
 * others background; too few of these are made up for by the first others
 * (pickup_discard).  batch_size -1 takes all.
 *
 * A foreground region's code leads to its box (pixel_box.h), less bbox_mean,
 * over bbox_std, and stands in the four values of its class: D is 4 cls_num, or
 * 8 with `cls_aware: false`.  Its weights are 1 where its overlap lies between
 * bbox_thr_lw and bbox_thr_hg; all others are 0.  The weight of a sample is 1,
 * or its overlap with iou_weighted, scaled so that foreground has fg_fraction
 * of the sum.
 *
 * Rows of ground truth with image -1 are empty.  Rows of five values are
 * Faster R-CNN's: x1, y1, x2, y2, label, of image 0.  Draws are a function of
 * seed, layer and batch.  Where nothing qualifies, the region that overlaps
 * least is background; Cascade R-CNN makes one up.  There is no backward pass,
 * and it runs on the CPU. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "layers/deal.h"
#include "layers/pixel_box.h"
#include "layers/regression.h"
#include "proto/params.h"

enum { ROW = 5, MATCH = 6 };
enum { ROIS, LABELS, TARGETS, INSIDE, OUTSIDE, MATCHES, WEIGHTS };
enum { FOREGROUND, BACKGROUND, OTHERS, N_LISTS };

/* A region: its image, box, ground truth (-1: none) and overlap with it. */
struct region {
    float            image, overlap;
    struct pixel_box box;
    int32_t          match;
};

struct truth {
    float            image, label;
    struct pixel_box box;
    bool             ignored;
};

struct proposal_target {
    const Caffe__ProposalTargetParameter *param;
    struct regression regression;
    int64_t           n_rois, n_truth, truth_values; /* of the bottoms */
    int64_t           width;                         /* D */
    bool              by_class;
    int64_t           n_regions, n_boxes;            /* of this pass */
    struct ct_blob   *regions, *truths;              /* struct region, truth */
    struct ct_blob   *list;      /* int32: N_LISTS x regions */
    int64_t           n_list[N_LISTS];
};

static struct region *regions_of(const struct proposal_target *s)
{
    return (void *)ct_data(s->regions);
}

static struct truth *truths_of(const struct proposal_target *s)
{
    return (void *)ct_data(s->truths);
}

static int32_t *list_of(const struct proposal_target *s, int which)
{
    return (int32_t *)(void *)ct_data(s->list) +
           which * (s->n_rois + s->n_truth);
}

static enum ct_status pt_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__ProposalTargetParameter *p =
        ct_proposal_target_param(l->param);
    struct proposal_target *s = l->state;

    (void)io;
    s->param    = p;
    s->by_class = ct_bbox_reg_param(l->param)->cls_aware;
    s->width    = s->by_class ? 4 * (int64_t)p->cls_num : 8;
    if (p->cls_num < 2)
        return ct_fail(CT_EINVAL, "layer %s: proposal_target_param needs "
                       "cls_num, the number of classes and the background",
                       l->name);
    if (p->batch_size < -1 || p->batch_size == 0)
        return ct_fail(CT_EINVAL, "layer %s: batch_size is %d, and must be "
                       "greater than 0, or -1 for all", l->name,
                       p->batch_size);
    if (!(p->fg_thr >= p->bg_thr_hg))
        return ct_fail(CT_EINVAL, "layer %s: fg_thr %g is below bg_thr_hg %g",
                       l->name, (double)p->fg_thr, (double)p->bg_thr_hg);
    if (!(p->fg_fraction >= 0 && p->fg_fraction <= 1))
        return ct_fail(CT_EINVAL, "layer %s: fg_fraction is %g, and must be "
                       "from 0 to 1", l->name, (double)p->fg_fraction);
    CT_TRY(regression_read(l, &s->regression));
    CT_TRY(ct_layer_add_scratch(l, &s->regions));
    CT_TRY(ct_layer_add_scratch(l, &s->truths));
    return ct_layer_add_scratch(l, &s->list);
}

static enum ct_status pt_tops(const struct proposal_target *s,
                              const struct ct_io *io, int64_t n)
{
    const int64_t values[] = { ROW, 1, s->width, s->width, s->width, MATCH,
                               1 };

    for (int i = 0; i < io->n_top; i++)
        CT_TRY(ct_reshape(io->top[i], CT_SHAPE(n, values[i], 1, 1)));
    return CT_OK;
}

/* Rows of a pass, at most. */
static int64_t pt_most(const struct proposal_target *s)
{
    const int64_t all = s->n_rois + s->n_truth;

    return s->param->batch_size > 0 ? s->param->batch_size
           : all > 0                ? all
                                    : 1;
}

static enum ct_status pt_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_blob *rois = io->bottom[0], *truth = io->bottom[1];
    struct proposal_target *s  = l->state;
    int64_t all;

    if (rois->shape.n_axes < 2 || ct_count(rois, 1, CT_END) != ROW)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 0 must be R x 5: image, "
                       "x1, y1, x2, y2", l->name);
    s->truth_values =
        truth->shape.n_axes < 2 ? 0 : ct_count(truth, 1, CT_END);
    if (s->truth_values < ROW)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 1 must be G x 7 (image, "
                       "x1, y1, x2, y2, label, ignored) or G x 5 (x1, y1, x2, "
                       "y2, label)", l->name);
    s->n_rois  = rois->shape.dim[0];
    s->n_truth = truth->shape.dim[0];
    all        = s->n_rois + s->n_truth;
    CT_TRY(ct_reshape(s->regions,
                      CT_SHAPE(all + 1, (int64_t)(sizeof(struct region) /
                                                  sizeof(float)))));
    CT_TRY(ct_reshape(s->truths,
                      CT_SHAPE(s->n_truth + 1,
                               (int64_t)((sizeof(struct truth) + 3) /
                                         sizeof(float)))));
    CT_TRY(ct_reshape(s->list, CT_SHAPE(N_LISTS, all + 1)));
    return pt_tops(s, io, pt_most(s));
}

static enum ct_status pt_read_truth(const struct ct_layer *l,
                                    const float *v)
{
    struct proposal_target *s = l->state;
    struct truth *truth       = truths_of(s);
    const bool alone          = s->truth_values == ROW;

    s->n_boxes = 0;
    for (int64_t i = 0; i < s->n_truth; i++, v += s->truth_values) {
        const float *box = alone ? v : v + 1;
        struct truth t   = { alone ? 0 : v[0], box[4],
                             { box[0], box[1], box[2], box[3] },
                             s->truth_values > 6 && v[6] != 0 };

        if (t.image == -1)
            continue;
        if (!(t.image >= 0 &&
              t.image < (float)s->param->num_img_per_batch))
            return ct_fail(CT_EINVAL, "layer %s: box %" PRId64 " is in image "
                           "%g, and num_img_per_batch is %u", l->name, i,
                           (double)t.image, s->param->num_img_per_batch);
        if (!(t.label >= 1 && t.label < (float)s->param->cls_num) ||
            !pixel_box_finite(&t.box) || pixel_box_width(&t.box) <= 0 ||
            pixel_box_height(&t.box) <= 0)
            return ct_fail(CT_EINVAL, "layer %s: box %" PRId64 " has label %g "
                           "and corners %g %g %g %g; labels are 1 to %u",
                           l->name, i, (double)t.label, (double)t.box.x1,
                           (double)t.box.y1, (double)t.box.x2,
                           (double)t.box.y2, s->param->cls_num - 1);
        truth[s->n_boxes++] = t;
    }
    return CT_OK;
}

static enum ct_status pt_read_regions(const struct ct_layer *l,
                                      const float *v)
{
    struct proposal_target *s = l->state;
    struct region *r          = regions_of(s);

    s->n_regions = 0;
    for (int64_t i = 0; i < s->n_rois; i++, v += ROW) {
        if (!(v[0] >= 0 && v[0] < (float)s->param->num_img_per_batch))
            return ct_fail(CT_EINVAL, "layer %s: region %" PRId64 " is in "
                           "image %g, and num_img_per_batch is %u", l->name, i,
                           (double)v[0], s->param->num_img_per_batch);
        r[s->n_regions++] = (struct region){ v[0], 0,
                                             { v[1], v[2], v[3], v[4] }, -1 };
    }
    for (int64_t i = 0; s->param->append_gtbox && i < s->n_boxes; i++)
        r[s->n_regions++] = (struct region){ truths_of(s)[i].image, 0,
                                             truths_of(s)[i].box, -1 };
    if (s->n_regions == 0)
        r[s->n_regions++] = (struct region){ 0, 0, { 0, 0, 31, 31 }, -1 };
    return CT_OK;
}

static void pt_match(struct proposal_target *s)
{
    const struct truth *t = truths_of(s);
    struct region *r      = regions_of(s);

    for (int64_t i = 0; i < s->n_regions; i++)
        for (int64_t k = 0; k < s->n_boxes; k++) {
            float overlap;

            if (t[k].image != r[i].image)
                continue;
            overlap = pixel_box_overlap(&r[i].box, &t[k].box);
            if (r[i].match < 0 || overlap > r[i].overlap) {
                r[i].match   = (int32_t)k;
                r[i].overlap = overlap;
            }
        }
}

static void pt_sort_out(struct proposal_target *s)
{
    const Caffe__ProposalTargetParameter *p = s->param;
    const struct region *r = regions_of(s);

    memset(s->n_list, 0, sizeof(s->n_list));
    for (int64_t i = 0; i < s->n_regions; i++) {
        int to = OTHERS;

        if (r[i].match >= 0 && r[i].overlap >= p->fg_thr) {
            if (truths_of(s)[r[i].match].ignored)
                continue;
            to = FOREGROUND;
        } else if (r[i].overlap >= p->bg_thr_lw &&
                   r[i].overlap < p->bg_thr_hg) {
            to = BACKGROUND;
        }
        list_of(s, to)[s->n_list[to]++] = (int32_t)i;
    }
}

/* Leaves n of a list, drawn by chance. */
static void pt_draw(const struct ct_layer *l, int which, int64_t n)
{
    struct proposal_target *s = l->state;
    const uint64_t batch      = ct_deal_batch(l);
    int32_t *list             = list_of(s, which);

    if (s->n_list[which] <= n)
        return;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t left = (uint64_t)(s->n_list[which] - i);
        const uint64_t word =
            ct_philox_word(l->key, 2 * batch + (uint64_t)which, (uint64_t)i);
        const int64_t at   = i + (int64_t)(word * left >> 32);
        const int32_t here = list[i];

        list[i]  = list[at];
        list[at] = here;
    }
    s->n_list[which] = n;
}

static void pt_sample(const struct ct_layer *l)
{
    struct proposal_target *s               = l->state;
    const Caffe__ProposalTargetParameter *p = s->param;
    const struct region *r                  = regions_of(s);
    int32_t *back = list_of(s, BACKGROUND);
    int64_t left;

    if (p->batch_size > 0) {
        pt_draw(l, FOREGROUND,
                (int64_t)roundf(p->fg_fraction * (float)p->batch_size));
        left = p->batch_size - s->n_list[FOREGROUND];
        pt_draw(l, BACKGROUND, left);
        left -= s->n_list[BACKGROUND];
        for (int64_t i = 0; p->pickup_discard && i < s->n_list[OTHERS] &&
                            i < left; i++)
            back[s->n_list[BACKGROUND]++] = list_of(s, OTHERS)[i];
    }
    if (s->n_list[FOREGROUND] + s->n_list[BACKGROUND] > 0)
        return;
    back[0] = 0;
    for (int64_t i = 1; i < s->n_regions; i++)
        if (r[i].overlap < r[back[0]].overlap)
            back[0] = (int32_t)i;
    s->n_list[BACKGROUND] = 1;
}

/* The code, its weights and the match of foreground row i. */
static void pt_write_box(const struct proposal_target *s,
                         const struct ct_io *io, int64_t i,
                         const struct region *r)
{
    const Caffe__ProposalTargetParameter *p = s->param;
    const struct truth *t = &truths_of(s)[r->match];
    const int64_t class   = s->by_class ? (int64_t)t->label : 1;
    const int64_t at      = i * s->width + 4 * class;
    const float weight    = r->overlap >= p->bbox_thr_lw &&
                                 r->overlap <= p->bbox_thr_hg
                                ? 1
                                : 0;
    float *match = ct_data(io->top[MATCHES]) + i * MATCH;
    float code[4];

    pixel_box_encode(&r->box, &t->box, code);
    regression_normalise(&s->regression, code);
    for (int k = 0; k < 4; k++) {
        ct_data(io->top[TARGETS])[at + k] = code[k];
        ct_data(io->top[INSIDE])[at + k]  = weight;
        ct_data(io->top[OUTSIDE])[at + k] = weight;
    }
    match[0] = truncf(t->label);
    match[1] = t->box.x1;
    match[2] = t->box.y1;
    match[3] = t->box.x2;
    match[4] = t->box.y2;
    match[5] = r->overlap;
}

/* Foreground gets its fraction of the sum of weights. */
static void pt_write_weights(const struct proposal_target *s, float *weight)
{
    const int64_t n_fore = s->n_list[FOREGROUND];
    const int64_t n      = n_fore + s->n_list[BACKGROUND];
    const float share    = s->param->fg_fraction;
    double sum           = 0;

    for (int64_t i = 0; i < n; i++) {
        weight[i] = 1;
        if (i < n_fore && s->param->iou_weighted)
            weight[i] = regions_of(s)[list_of(s, FOREGROUND)[i]].overlap;
        if (i < n_fore)
            sum += (double)weight[i];
    }
    if (!(sum > 0))
        return;
    for (int64_t i = 0; i < n; i++)
        weight[i] *= i < n_fore ? share * (float)n / (float)sum
                                : (1 - share) * (float)n / (float)(n - n_fore);
}

static void pt_write(const struct proposal_target *s, const struct ct_io *io)
{
    const int64_t n_fore = s->n_list[FOREGROUND];
    const int64_t n      = n_fore + s->n_list[BACKGROUND];

    for (int i = TARGETS; i <= MATCHES; i++)
        memset(ct_data(io->top[i]), 0,
               (size_t)io->top[i]->count * sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        const struct region *r =
            &regions_of(s)[i < n_fore ? list_of(s, FOREGROUND)[i]
                                      : list_of(s, BACKGROUND)[i - n_fore]];
        float *row = ct_data(io->top[ROIS]) + i * ROW;

        row[0] = r->image;
        row[1] = r->box.x1;
        row[2] = r->box.y1;
        row[3] = r->box.x2;
        row[4] = r->box.y2;
        ct_data(io->top[LABELS])[i] =
            i < n_fore ? truncf(truths_of(s)[r->match].label) : 0;
        if (i < n_fore)
            pt_write_box(s, io, i, r);
    }
    if (io->n_top > WEIGHTS)
        pt_write_weights(s, ct_data(io->top[WEIGHTS]));
}

static enum ct_status pt_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct proposal_target *s = l->state;

    CT_TRY(pt_read_truth(l, ct_data(io->bottom[1])));
    CT_TRY(pt_read_regions(l, ct_data(io->bottom[0])));
    pt_match(s);
    pt_sort_out(s);
    pt_sample(l);
    CT_TRY(pt_tops(s, io, s->n_list[FOREGROUND] + s->n_list[BACKGROUND]));
    pt_write(s, io);
    return CT_OK;
}

const struct ct_layer_type ct_layer_proposal_target = {
    .name       = "ProposalTarget",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_BETWEEN(6, 7),
    .flags      = CT_LAYER_DYNAMIC | CT_LAYER_NO_GRAD | CT_LAYER_NO_CAPTURE,
    .stops      = ~0u,
    .state_size = sizeof(struct proposal_target),
    .setup      = pt_setup,
    .reshape    = pt_reshape,
    .forward    = { [CT_CPU] = pt_forward },
};
