/* proposal.c - regions that may hold something, Faster R-CNN's type
 * "Proposal".
 *
 *     bottoms: scores (N x 2A x H x W, the last A are of the foreground),
 *     codes (N x 4A x H x W), image sizes (N x 3 or more: height, width, scale)
 *     tops: regions (R x 5: image, x1, y1, x2, y2), perhaps their scores (R)
 *
 * A box is coded against each of A anchors at each position, feat_stride pixels
 * apart (pixel_box.h).  Boxes are cut at the image, those smaller than min_size
 * times the scale dropped, the best pre_nms_topn suppress those that overlap
 * them by more than nms_thresh, and the best post_nms_topn are left, for each
 * image.  The scale may be two numbers, for height and width.
 *
 * An anchor for each ratio and scale, scales innermost: base_size^2 over the
 * ratio gives the width, rounded, width times ratio the height, rounded, both
 * times scale.  Without `ratio` and `scale` they are 0.5 1 2 and 8 16 32.
 *
 * An image where nothing is left has one region, all of it.  There is no
 * backward pass.  Ren et al., "Faster R-CNN", 2015. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "device/cpu/loop.h"
#include "layers/bbox.h"
#include "layers/cuda/slots.h"
#include "layers/proposal.h"
#include "proto/params.h"

enum { ROW = PROPOSAL_ROW };

static void proposal_anchors(float base, size_t n_ratio, const float *ratio,
                             size_t n_scale, const float *scale,
                             struct pixel_box *a)
{
    const float middle = 0.5f * (base - 1);

    for (size_t i = 0; i < n_ratio; i++) {
        const float w = roundf(sqrtf(base * base / ratio[i]));
        const float h = roundf(w * ratio[i]);

        for (size_t j = 0; j < n_scale; j++, a++) {
            const float half_w = 0.5f * (w * scale[j] - 1);
            const float half_h = 0.5f * (h * scale[j] - 1);

            *a = (struct pixel_box){ middle - half_w, middle - half_h,
                                     middle + half_w, middle + half_h };
        }
    }
}

static enum ct_status proposal_setup(struct ct_layer *l,
                                     const struct ct_io *io)
{
    static const float ratios[] = { 0.5f, 1, 2 }, scales[] = { 8, 16, 32 };
    const Caffe__ProposalParameter *p = ct_proposal_param(l->param);
    const size_t n_ratio = p->n_ratio ? p->n_ratio : 3;
    const size_t n_scale = p->n_scale ? p->n_scale : 3;
    struct proposal *s = l->state;
    struct pixel_box *anchor = NULL;
    enum ct_status st;

    (void)io;
    s->feat_stride = p->feat_stride;
    s->min_size    = p->min_size;
    s->nms_thresh  = p->nms_thresh;
    s->anchors     = (int64_t)(n_ratio * n_scale);
    s->before      = p->pre_nms_topn;
    s->after       = p->post_nms_topn;
    if (s->before < 1 || s->after < 1 || s->after > 1 << 20)
        return ct_fail(CT_EINVAL, "layer %s: pre_nms_topn and post_nms_topn "
                       "must be at least 1", l->name);
    if (!(p->feat_stride > 0) || !(p->base_size > 0) || n_ratio > 1024 ||
        n_scale > 1024)
        return ct_fail(CT_EINVAL, "layer %s: feat_stride and base_size must "
                       "be greater than 0", l->name);
    for (size_t i = 0; i < p->n_ratio; i++)
        if (!(p->ratio[i] > 0))
            return ct_fail(CT_EINVAL, "layer %s: ratio %zu is %g, and must be "
                           "greater than 0", l->name, i, (double)p->ratio[i]);
    CT_TRY(ct_layer_add_scratch(l, &s->anchor));
    CT_TRY(ct_layer_add_scratch(l, &s->box));
    CT_TRY(ct_layer_add_scratch(l, &s->found));
    CT_TRY(ct_layer_add_scratch(l, &s->key));
    CT_TRY(ct_layer_add_scratch(l, &s->kept));
    CT_TRY(ct_reshape(s->anchor, CT_SHAPE(s->anchors, 4)));
    CT_TRY(ct_alloc((size_t)s->anchors, sizeof(*anchor), "anchors", &anchor));
    proposal_anchors(p->base_size, n_ratio, p->n_ratio ? p->ratio : ratios,
                     n_scale, p->n_scale ? p->scale : scales, anchor);
    st = l->dev->ops->from_host(l->dev, (size_t)s->anchors * sizeof(*anchor),
                                anchor, ct_data(s->anchor));
    ct_free(anchor);
    return st;
}

/* Room for one image after the other, or for all of them on a GPU. */
static enum ct_status proposal_room(struct ct_layer *l, int64_t boxes)
{
    struct proposal *s = l->state;

    if (l->dev->kind == CT_CPU) {
        CT_TRY(ct_reshape(s->box, CT_SHAPE(boxes, 4)));
        return ct_reshape(
            s->found, CT_SHAPE(boxes, (int64_t)(sizeof(struct ct_bbox_found) /
                                                sizeof(float))));
    }
    for (s->padded = 2; s->padded < boxes; s->padded *= 2)
        ;
    CT_TRY(ct_reshape(s->box, CT_SHAPE(s->n * boxes, 4)));
    CT_TRY(ct_reshape(s->key, CT_SHAPE(s->n * s->padded, 2)));
    CT_TRY(ct_reshape(s->kept, CT_SHAPE(s->n * (s->after + 1))));
    ct_free(s->host_size);
    ct_free(s->host_count);
    s->host_count = NULL;
    s->host_size  = NULL;
    CT_TRY(ct_alloc((size_t)(s->n * s->sizes), sizeof(float), "image sizes",
                    &s->host_size));
    return ct_alloc((size_t)s->n, sizeof(int32_t), "regions", &s->host_count);
}

static enum ct_status proposal_reshape(struct ct_layer *l,
                                       const struct ct_io *io)
{
    const struct ct_shape *x = &io->bottom[PROPOSAL_SCORES]->shape;
    const struct ct_shape *d = &io->bottom[PROPOSAL_CODES]->shape;
    struct proposal *s       = l->state;
    int64_t boxes;

    if (x->n_axes != 4 || d->n_axes != 4 || x->dim[1] != 2 * s->anchors ||
        d->dim[1] != 4 * s->anchors || x->dim[0] != d->dim[0] ||
        x->dim[2] != d->dim[2] || x->dim[3] != d->dim[3])
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " anchors (ratios "
                       "times scales) need bottoms of N x %" PRId64 " x H x W "
                       "and N x %" PRId64 " x H x W", l->name, s->anchors,
                       2 * s->anchors, 4 * s->anchors);
    s->n     = x->dim[0];
    s->h     = x->dim[2];
    s->w     = x->dim[3];
    s->sizes = s->n > 0 ? io->bottom[PROPOSAL_SIZES]->count / s->n : 0;
    if (s->sizes < 3 || io->bottom[PROPOSAL_SIZES]->count != s->n * s->sizes)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 2 must have height, width "
                       "and scale of %" PRId64 " images", l->name, s->n);
    boxes = s->anchors * s->h * s->w;
    if (boxes > INT32_MAX)
        return ct_fail(CT_ESHAPE, "layer %s: too many anchors", l->name);
    CT_TRY(proposal_room(l, boxes));
    CT_TRY(ct_reshape(io->top[0], CT_SHAPE(s->n * s->after, ROW)));
    return io->n_top > 1 ? ct_reshape(io->top[1], CT_SHAPE(s->n * s->after))
                         : CT_OK;
}

enum ct_status ct_proposal_check(const struct ct_layer *l, const float *size)
{
    const struct proposal *s = l->state;

    for (int64_t i = 0; i < s->n; i++, size += s->sizes)
        if (!(size[0] >= 1 && size[1] >= 1 && isfinite(size[0]) &&
              isfinite(size[1])))
            return ct_fail(CT_EINVAL, "layer %s: image %" PRId64 " has %g x "
                           "%g pixels", l->name, i, (double)size[0],
                           (double)size[1]);
    return CT_OK;
}

static void proposal_decode(const struct proposal *s, const float *codes,
                            const float *size)
{
    const struct pixel_box *anchor = (const void *)ct_data(s->anchor);
    const int64_t boxes            = s->anchors * s->h * s->w;
    struct pixel_box *box          = (void *)ct_data(s->box);

    CT_FOR_ROWS (i, boxes, 32)
        box[i] = proposal_box(s, anchor, codes, size, i);
}

/* Those that are large enough; returns how many. */
static int64_t proposal_candidates(const struct proposal *s,
                                   const float *scores, const float *size)
{
    const struct pixel_box *box = (const void *)ct_data(s->box);
    struct ct_bbox_found *found = (void *)ct_data(s->found);
    const int64_t boxes         = s->anchors * s->h * s->w;
    int64_t n = 0;

    for (int64_t i = 0; i < boxes; i++) {
        const float score = proposal_score(s, scores, i);

        if (proposal_counts(s, &box[i], score, size))
            found[n++] = (struct ct_bbox_found){ score, 0, (int32_t)i };
    }
    return n;
}

/* Non-maximum suppression; the kept ones come first.  Returns how many. */
static int64_t proposal_suppress(const struct proposal *s, int64_t n)
{
    const struct pixel_box *box = (const void *)ct_data(s->box);
    struct ct_bbox_found *found = (void *)ct_data(s->found);
    int64_t n_kept = 0;

    if (n > 1)
        qsort(found, (size_t)n, sizeof(*found), ct_bbox_better);
    if (n > s->before)
        n = s->before;
    for (int64_t i = 0; i < n && n_kept < s->after; i++) {
        int64_t k = 0;

        while (k < n_kept && pixel_box_overlap(&box[found[i].index],
                                               &box[found[k].index]) <=
                                 s->nms_thresh)
            k++;
        if (k == n_kept)
            found[n_kept++] = found[i];
    }
    return n_kept;
}

/* Writes the regions of an image; returns how many. */
static int64_t proposal_write(const struct proposal *s, int64_t image,
                              int64_t n, const float *size, float *row,
                              float *score)
{
    const struct pixel_box whole = { 0, 0, size[1] - 1, size[0] - 1 };
    const struct ct_bbox_found *found = (const void *)ct_data(s->found);
    const struct pixel_box *box       = (const void *)ct_data(s->box);

    for (int64_t i = 0; i < (n > 0 ? n : 1); i++, row += ROW) {
        const struct pixel_box b = n > 0 ? box[found[i].index] : whole;

        row[0] = (float)image;
        row[1] = b.x1;
        row[2] = b.y1;
        row[3] = b.x2;
        row[4] = b.y2;
        if (score)
            score[i] = n > 0 ? found[i].score : 0;
    }
    return n > 0 ? n : 1;
}

static enum ct_status proposal_forward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    const struct proposal *s = l->state;
    const int64_t boxes      = s->anchors * s->h * s->w;
    const float *scores = ct_data(io->bottom[PROPOSAL_SCORES]);
    const float *codes = ct_data(io->bottom[PROPOSAL_CODES]);
    const float *size  = ct_data(io->bottom[PROPOSAL_SIZES]);
    float *row, *score = NULL;
    int64_t n_rows = 0;

    CT_TRY(ct_reshape(io->top[0], CT_SHAPE(s->n * s->after, ROW)));
    row = ct_data(io->top[0]);
    if (io->n_top > 1) {
        CT_TRY(ct_reshape(io->top[1], CT_SHAPE(s->n * s->after)));
        score = ct_data(io->top[1]);
    }
    CT_TRY(ct_proposal_check(l, size));
    for (int64_t i = 0; i < s->n; i++) {
        const float *of = size + i * s->sizes;

        proposal_decode(s, codes + i * 4 * boxes, of);
        n_rows += proposal_write(
            s, i, proposal_suppress(s, proposal_candidates(
                                           s, scores + i * 2 * boxes, of)),
            of, row + n_rows * ROW, score ? score + n_rows : NULL);
    }
    CT_TRY(ct_reshape(io->top[0], CT_SHAPE(n_rows, ROW)));
    return score ? ct_reshape(io->top[1], CT_SHAPE(n_rows)) : CT_OK;
}

static void proposal_teardown(struct ct_layer *l)
{
    struct proposal *s = l->state;

    ct_free(s->host_size);
    ct_free(s->host_count);
}

const struct ct_layer_type ct_layer_proposal = {
    .name       = "Proposal",
    .bottoms    = CT_EXACTLY(3),
    .tops       = CT_BETWEEN(1, 2),
    .flags      = CT_LAYER_DYNAMIC | CT_LAYER_NO_GRAD | CT_LAYER_NO_CAPTURE,
    .stops      = ~0u,
    .state_size = sizeof(struct proposal),
    .setup      = proposal_setup,
    .reshape    = proposal_reshape,
    .forward    = { proposal_forward, CT_CUDA_FN(proposal_forward) },
    .teardown   = proposal_teardown,
};
