/* proposal.h - what a Proposal layer keeps, and its boxes; for kernels too.
 * See proposal.c. */
#ifndef CT_LAYERS_PROPOSAL_H
#define CT_LAYERS_PROPOSAL_H

#include "cortado/layer.h"
#include "layers/pixel_box.h"

enum { PROPOSAL_SCORES, PROPOSAL_CODES, PROPOSAL_SIZES, PROPOSAL_ROW = 5 };

struct proposal {
    float           feat_stride, min_size, nms_thresh;
    int64_t         n, anchors, h, w, sizes;
    int64_t         before, after; /* pre_nms_topn, post_nms_topn */
    int64_t         padded; /* boxes of an image, up to a power of two */
    struct ct_blob *anchor; /* A boxes */
    struct ct_blob *box;    /* of one image; on a GPU of all */
    struct ct_blob *found;  /* its candidates, struct ct_bbox_found */
    /* On a GPU, instead of found: */
    struct ct_blob *key;    /* of candidates, 64 bits each */
    struct ct_blob *kept;   /* indices, `after` an image; then their numbers */
    float          *host_size;  /* owned */
    int32_t        *host_count; /* owned */
};

CT_HOST_DEVICE static inline float proposal_within(float x, float most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

/* Box i of an image, in the order position, anchor; cut at the image. */
CT_HOST_DEVICE static inline struct pixel_box proposal_box(
    const struct proposal *s, const struct pixel_box *anchor,
    const float *codes, const float *size, int64_t i)
{
    const int64_t plane = s->h * s->w, a = i % s->anchors, at = i / s->anchors;
    const float x = (float)(at % s->w) * s->feat_stride;
    const float y = (float)(at / s->w) * s->feat_stride;
    const struct pixel_box from = { anchor[a].x1 + x, anchor[a].y1 + y,
                                    anchor[a].x2 + x, anchor[a].y2 + y };
    struct pixel_box b;
    float code[4];

    for (int k = 0; k < 4; k++)
        code[k] = codes[(a * 4 + k) * plane + at];
    b = pixel_box_decode(&from, code, true);
    if (pixel_box_finite(&b)) {
        b.x1 = proposal_within(b.x1, size[1] - 1);
        b.y1 = proposal_within(b.y1, size[0] - 1);
        b.x2 = proposal_within(b.x2, size[1] - 1);
        b.y2 = proposal_within(b.y2, size[0] - 1);
    }
    return b;
}

CT_HOST_DEVICE static inline float proposal_score(const struct proposal *s,
                                                  const float *scores,
                                                  int64_t i)
{
    return scores[(s->anchors + i % s->anchors) * s->h * s->w +
                  i / s->anchors];
}

/* Whether the box is large enough, and all of it a number. */
CT_HOST_DEVICE static inline bool proposal_counts(const struct proposal *s,
                                                  const struct pixel_box *b,
                                                  float score,
                                                  const float *size)
{
    const float least_h = s->min_size * size[2];
    const float least_w = s->min_size * (s->sizes > 3 ? size[3] : size[2]);

    return pixel_box_finite(b) && !isnan(score) &&
           pixel_box_width(b) >= least_w && pixel_box_height(b) >= least_h;
}

/* Refuses sizes of images without a pixel. */
#ifdef __cplusplus
extern "C"
#endif
CT_MUST_CHECK enum ct_status ct_proposal_check(const struct ct_layer *l,
                                               const float *size);

#endif
