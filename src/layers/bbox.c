/* bbox.c - boxes of detectors: coding and suppression. */
#include "layers/bbox.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

static struct ct_bbox decode_centre(const float *prior, const float v[4])
{
    float width = prior[2] - prior[0], height = prior[3] - prior[1];
    float x = v[0] * width + (prior[0] + prior[2]) / 2;
    float y = v[1] * height + (prior[1] + prior[3]) / 2;
    float w = expf(v[2]) * width, h = expf(v[3]) * height;

    return (struct ct_bbox){ x - w / 2, y - h / 2, x + w / 2, y + h / 2 };
}

struct ct_bbox ct_bbox_decode(enum ct_bbox_code code, const float *prior,
                              const float *variance, const float *loc)
{
    float width = 1, height = 1, v[4];

    for (int i = 0; i < 4; i++)
        v[i] = variance ? variance[i] * loc[i] : loc[i];
    if (code == CT_BBOX_CENTER_SIZE)
        return decode_centre(prior, v);
    if (code == CT_BBOX_CORNER_SIZE) {
        width  = prior[2] - prior[0];
        height = prior[3] - prior[1];
    }
    return (struct ct_bbox){ prior[0] + v[0] * width, prior[1] + v[1] * height,
                             prior[2] + v[2] * width,
                             prior[3] + v[3] * height };
}

int ct_bbox_better(const void *a, const void *b)
{
    const struct ct_bbox_found *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

int64_t ct_bbox_suppress(const struct ct_bbox_nms *nms,
                         const struct ct_bbox *box,
                         struct ct_bbox_found *found, int64_t n)
{
    float threshold = nms->threshold;
    int64_t n_kept  = 0;

    if (n > 1)
        qsort(found, (size_t)n, sizeof(*found), ct_bbox_better);
    if (nms->top_k >= 0 && n > nms->top_k)
        n = nms->top_k;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = 0;

        while (k < n_kept && ct_bbox_overlap(box[found[i].index],
                                             box[found[k].index]) <= threshold)
            k++;
        if (k < n_kept)
            continue;
        found[n_kept++] = found[i];
        if (nms->eta < 1 && threshold > 0.5f)
            threshold *= nms->eta;
    }
    return n_kept;
}
