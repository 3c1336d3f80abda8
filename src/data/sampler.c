/* sampler.c - random parts of an image that fit the objects in it. */
#include "data/sampler.h"

#include <float.h>
#include <math.h>

enum ct_status ct_sampler_check(const Caffe__AnnotatedDataParameter *p,
                                const char *layer)
{
    for (size_t i = 0; i < p->n_batch_sampler; i++) {
        const Caffe__Sampler *s = p->batch_sampler[i]->sampler;

        if (!s)
            continue;
        if (!(s->min_scale > 0 && s->min_scale <= s->max_scale &&
              s->max_scale <= 1))
            return ct_fail(CT_EINVAL, "layer %s: batch_sampler %zu: min_scale "
                           "and max_scale lie in (0, 1], in this order",
                           layer, i + 1);
        if (!(s->min_aspect_ratio > 0 &&
              s->min_aspect_ratio <= s->max_aspect_ratio &&
              s->max_aspect_ratio < FLT_MAX))
            return ct_fail(CT_EINVAL, "layer %s: batch_sampler %zu: "
                           "min_aspect_ratio and max_aspect_ratio are above "
                           "0, in this order", layer, i + 1);
    }
    return CT_OK;
}

static struct ct_bbox any_box(const Caffe__Sampler *s, struct ct_draws *d)
{
    float scale  = s ? ct_draws_between(d, s->min_scale, s->max_scale) : 1;
    float aspect = s ? ct_draws_between(d, s->min_aspect_ratio,
                                        s->max_aspect_ratio) : 1;
    float width, height, x, y;

    aspect = fmaxf(aspect, scale * scale);
    aspect = fminf(aspect, 1 / (scale * scale));
    width  = fminf(scale * sqrtf(aspect), 1);
    height = fminf(scale / sqrtf(aspect), 1);
    x      = ct_draws_between(d, 0, 1 - width);
    y      = ct_draws_between(d, 0, 1 - height);
    return (struct ct_bbox){ x, y, x + width, y + height };
}

/* Between the limits that are given. */
static bool within(float v, bool has_min, float min, bool has_max, float max)
{
    return !(has_min && v < min) && !(has_max && v > max);
}

static bool fits_one(const Caffe__SampleConstraint *c, struct ct_bbox box,
                     struct ct_bbox object)
{
    return within(ct_bbox_overlap(box, object), c->has_min_jaccard_overlap,
                  c->min_jaccard_overlap, c->has_max_jaccard_overlap,
                  c->max_jaccard_overlap) &&
           within(ct_bbox_coverage(box, object), c->has_min_sample_coverage,
                  c->min_sample_coverage, c->has_max_sample_coverage,
                  c->max_sample_coverage) &&
           within(ct_bbox_coverage(object, box), c->has_min_object_coverage,
                  c->min_object_coverage, c->has_max_object_coverage,
                  c->max_object_coverage);
}

static bool fits(const Caffe__SampleConstraint *c, struct ct_bbox box,
                 const struct ct_objects *objects)
{
    if (!c || !(c->has_min_jaccard_overlap || c->has_max_jaccard_overlap ||
                c->has_min_sample_coverage || c->has_max_sample_coverage ||
                c->has_min_object_coverage || c->has_max_object_coverage))
        return true;
    for (int64_t i = 0; i < objects->n; i++)
        if (fits_one(c, box, objects->at[i].box))
            return true;
    return false;
}

/* Keeps one of all that fit, each with the same chance, without a list. */
bool ct_sampler_draw(const Caffe__AnnotatedDataParameter *p,
                     const struct ct_objects *objects, struct ct_draws *draws,
                     struct ct_bbox *out)
{
    uint32_t n_fit = 0;

    for (size_t i = 0; i < p->n_batch_sampler; i++) {
        const Caffe__BatchSampler *b = p->batch_sampler[i];
        uint32_t n_kept              = 0;

        for (uint32_t t = 0; t < b->max_trials && b->use_original_image; t++) {
            struct ct_bbox box;

            if (b->has_max_sample && n_kept >= b->max_sample)
                break;
            box = any_box(b->sampler, draws);
            if (!fits(b->sample_constraint, box, objects))
                continue;
            n_kept++;
            if (ct_draws_below(draws, ++n_fit) == 0)
                *out = box;
        }
    }
    return n_fit > 0;
}
