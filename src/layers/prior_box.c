/* prior_box.c - default boxes over a feature map, SSD's type "PriorBox".
 *
 * Bottom 0 is the feature map (N x C x H x W), bottom 1 the image.  Only their
 * sizes are used.  The top is 1 x 2 x 4 P: corners xmin, ymin, xmax, ymax of
 * every prior as parts of the image, then as many variances.  Priors go
 * through the map row by row; in each place, for each min_size s,
 *
 *     a square of side s,
 *     a square of side sqrt(s max_size), where max_size is given,
 *     s sqrt(a) x s / sqrt(a) for each aspect ratio a, and 1 / a with `flip`.
 *
 * Sizes lose their fraction, as in SSD.  The centre of place (h, w) is
 * ((w + offset) step_w, (h + offset) step_h); a step is by default the
 * image's size over the map's.
 *
 * Shapes say it all, so reshape makes the boxes and forward copies them. */
#include "cortado/layer.h"

#include <math.h>

#include "base/mem.h"
#include "proto/params.h"

struct prior_box {
    float *ratio; /* without 1; the flipped ones included */
    int    n_ratios, n_priors;
    struct ct_blob *boxes; /* what the top gets */
};

static bool pb_known(const struct prior_box *b, float ratio)
{
    if (fabsf(ratio - 1) < 1e-6f)
        return true;
    for (int i = 0; i < b->n_ratios; i++)
        if (fabsf(ratio - b->ratio[i]) < 1e-6f)
            return true;
    return false;
}

static enum ct_status pb_ratios(struct ct_layer *l)
{
    const Caffe__PriorBoxParameter *p = ct_prior_box_param(l->param);
    struct prior_box *b               = l->state;

    CT_TRY(ct_alloc(2 * p->n_aspect_ratio, sizeof(*b->ratio), "prior boxes",
                    &b->ratio));
    for (size_t i = 0; i < p->n_aspect_ratio; i++) {
        float ratio = p->aspect_ratio[i];

        if (!(ratio > 0))
            return ct_fail(CT_EINVAL, "layer %s: an aspect_ratio must be "
                           "above 0", l->name);
        if (pb_known(b, ratio))
            continue;
        b->ratio[b->n_ratios++] = ratio;
        if (p->flip)
            b->ratio[b->n_ratios++] = 1 / ratio;
    }
    return CT_OK;
}

static enum ct_status pb_sizes(const struct ct_layer *l)
{
    const Caffe__PriorBoxParameter *p = ct_prior_box_param(l->param);

    if (p->n_min_size == 0)
        return ct_fail(CT_EINVAL, "layer %s: prior_box_param needs a min_size",
                       l->name);
    if (p->n_max_size > 0 && p->n_max_size != p->n_min_size)
        return ct_fail(CT_EINVAL, "layer %s: %zu max_size for %zu min_size: "
                       "give none or as many", l->name, p->n_max_size,
                       p->n_min_size);
    for (size_t i = 0; i < p->n_min_size; i++) {
        if (!(p->min_size[i] > 0))
            return ct_fail(CT_EINVAL, "layer %s: a min_size must be above 0",
                           l->name);
        if (p->n_max_size > 0 && !(p->max_size[i] > p->min_size[i]))
            return ct_fail(CT_EINVAL, "layer %s: a max_size must be above its "
                           "min_size", l->name);
    }
    return CT_OK;
}

static enum ct_status pb_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__PriorBoxParameter *p = ct_prior_box_param(l->param);
    struct prior_box *b               = l->state;

    (void)io;
    CT_TRY(ct_layer_add_scratch(l, &b->boxes));
    CT_TRY(pb_sizes(l));
    CT_TRY(pb_ratios(l));
    if (p->n_variance > 1 && p->n_variance != 4)
        return ct_fail(CT_EINVAL, "layer %s: give one variance or four",
                       l->name);
    for (size_t i = 0; i < p->n_variance; i++)
        if (!(p->variance[i] > 0))
            return ct_fail(CT_EINVAL, "layer %s: a variance must be above 0",
                           l->name);
    if ((p->has_img_size && (p->has_img_h || p->has_img_w)) ||
        p->has_img_h != p->has_img_w)
        return ct_fail(CT_EINVAL, "layer %s: give img_size, or img_h and "
                       "img_w", l->name);
    if ((p->has_step && (p->has_step_h || p->has_step_w)) ||
        p->has_step_h != p->has_step_w)
        return ct_fail(CT_EINVAL, "layer %s: give step, or step_h and step_w",
                       l->name);
    if ((p->has_img_size && p->img_size == 0) ||
        (p->has_img_h && (p->img_h == 0 || p->img_w == 0)) ||
        (p->has_step && !(p->step > 0)) ||
        (p->has_step_h && !(p->step_h > 0 && p->step_w > 0)))
        return ct_fail(CT_EINVAL, "layer %s: image sizes and steps must be "
                       "above 0", l->name);
    b->n_priors = (int)p->n_min_size * (1 + b->n_ratios) + (int)p->n_max_size;
    return CT_OK;
}

/* One box around (x, y), as parts of the image; returns where the next goes. */
static float *pb_box(const double centre[2], float width, float height,
                     const double image[2], bool clip, float *out)
{
    out[0] = (float)((centre[0] - width / 2.0) / image[0]);
    out[1] = (float)((centre[1] - height / 2.0) / image[1]);
    out[2] = (float)((centre[0] + width / 2.0) / image[0]);
    out[3] = (float)((centre[1] + height / 2.0) / image[1]);
    for (int i = 0; clip && i < 4; i++)
        out[i] = out[i] < 0 ? 0 : out[i] > 1 ? 1 : out[i];
    return out + 4;
}

/* All boxes of one place. */
static float *pb_place(const struct ct_layer *l, const double centre[2],
                       const double image[2], float *out)
{
    const Caffe__PriorBoxParameter *p = ct_prior_box_param(l->param);
    const struct prior_box *b         = l->state;

    for (size_t s = 0; s < p->n_min_size; s++) {
        float side = truncf(p->min_size[s]);

        out = pb_box(centre, side, side, image, p->clip, out);
        if (p->n_max_size > 0) {
            float mean = sqrtf(side * truncf(p->max_size[s]));

            out = pb_box(centre, mean, mean, image, p->clip, out);
        }
        for (int r = 0; r < b->n_ratios; r++)
            out = pb_box(centre, side * sqrtf(b->ratio[r]),
                         side / sqrtf(b->ratio[r]), image, p->clip, out);
    }
    return out;
}

/* The whole top. */
static void pb_boxes(const struct ct_layer *l, const struct ct_io *io,
                     float *out)
{
    const Caffe__PriorBoxParameter *p = ct_prior_box_param(l->param);
    const struct ct_shape *map = &io->bottom[0]->shape;
    const struct ct_shape *data = &io->bottom[1]->shape;
    const double image[2] = {
        p->has_img_size ? p->img_size : p->has_img_w ? p->img_w
                                                     : (double)data->dim[3],
        p->has_img_size ? p->img_size : p->has_img_h ? p->img_h
                                                     : (double)data->dim[2],
    };
    const float step_w = p->has_step ? p->step : p->has_step_w ? p->step_w
                         : (float)image[0] / (float)map->dim[3];
    const float step_h = p->has_step ? p->step : p->has_step_h ? p->step_h
                         : (float)image[1] / (float)map->dim[2];
    const int64_t n = io->top[0]->shape.dim[2];

    if (n == 0) /* a map without columns may have many rows */
        return;
    for (int64_t h = 0; h < map->dim[2]; h++)
        for (int64_t w = 0; w < map->dim[3]; w++) {
            const double centre[2] = { ((float)w + p->offset) * step_w,
                                       ((float)h + p->offset) * step_h };

            out = pb_place(l, centre, image, out);
        }
    for (int64_t i = 0; i < n; i++)
        out[i] = p->n_variance == 0 ? 0.1f
                                    : p->variance[p->n_variance > 1 ? i % 4
                                                                    : 0];
}

static enum ct_status pb_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct prior_box *b  = l->state;
    const struct ct_shape *map = &io->bottom[0]->shape;
    struct ct_shape y;
    enum ct_status st;
    float *host;
    size_t bytes;

    if (map->n_axes != 4 || io->bottom[1]->shape.n_axes != 4)
        return ct_fail(CT_ESHAPE, "layer %s: both bottoms must be N x C x H x "
                       "W", l->name);
    if (map->dim[2] * map->dim[3] > INT32_MAX / (4 * (int64_t)b->n_priors))
        return ct_fail(CT_ESHAPE, "layer %s: a map of %lld x %lld has too many "
                       "places", l->name, (long long)map->dim[2],
                       (long long)map->dim[3]);
    y = CT_SHAPE(1, 2, map->dim[2] * map->dim[3] * b->n_priors * 4);
    CT_TRY(ct_reshape(io->top[0], y));
    CT_TRY(ct_reshape(b->boxes, y));
    bytes = (size_t)b->boxes->count * sizeof(*host);
    CT_TRY(ct_alloc((size_t)b->boxes->count, sizeof(*host), "prior boxes",
                    &host));
    pb_boxes(l, io, host);
    st = l->dev->ops->from_host(l->dev, bytes, host, ct_data(b->boxes));
    ct_free(host);
    return st;
}

static enum ct_status pb_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct prior_box *b = l->state;

    return ct_copy(l->dev, b->boxes->count, ct_data(b->boxes),
                   ct_data(io->top[0]));
}

static void pb_teardown(struct ct_layer *l)
{
    struct prior_box *b = l->state;

    ct_free(b->ratio);
}

const struct ct_layer_type ct_layer_prior_box = {
    .name       = "PriorBox",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_GRAD | CT_LAYER_NO_BOTTOM | CT_LAYER_BF16 |
                  CT_LAYER_PLAIN_TOPS,
    .state_size = sizeof(struct prior_box),
    .setup      = pb_setup,
    .reshape    = pb_reshape,
    .forward    = CT_EVERY_DEVICE(pb_forward),
    .teardown   = pb_teardown,
};
