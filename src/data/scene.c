/* scene.c - an image with objects on its way to a batch. */
#include "data/scene.h"

#include <math.h>
#include <string.h>

#include "data/distort.h"
#include "data/noise.h"
#include "data/resample.h"
#include "data/sample.h"

#define FIT_SMALL CAFFE__RESIZE_PARAMETER__RESIZE_MODE__FIT_SMALL_SIZE
#define FIT_LARGE CAFFE__RESIZE_PARAMETER__RESIZE_MODE__FIT_LARGE_SIZE_AND_PAD

/* A canvas may be no larger than this a side. */
enum { MOST_SIDE = 65500 };

static enum ct_status resize_check(const Caffe__ResizeParameter *p,
                                   const char *layer)
{
    if (p->height == 0 || p->width == 0 || p->height > MOST_SIDE ||
        p->width > MOST_SIDE)
        return ct_fail(CT_EINVAL, "layer %s: resize_param needs a height and "
                       "a width from 1 to %d", layer, MOST_SIDE);
    if (p->prob != 1)
        return ct_fail(CT_EINVAL, "layer %s: resize_param: prob is %g; it "
                       "must be 1, because all images of a batch have one "
                       "size", layer, (double)p->prob);
    if (p->height_scale || p->width_scale)
        return ct_fail(CT_ENOTSUP, "layer %s: resize_param: height_scale and "
                       "width_scale are not supported; leave them out",
                       layer);
    return CT_OK;
}

enum ct_status ct_scene_check(const struct ct_scene *s, const char *layer)
{
    const Caffe__TransformationParameter *t = s->transform;

    if (t->resize_param)
        CT_TRY(resize_check(t->resize_param, layer));
    if (t->expand_param && !(t->expand_param->max_expand_ratio >= 1 &&
                             t->expand_param->max_expand_ratio <= 100))
        return ct_fail(CT_EINVAL, "layer %s: expand_param: max_expand_ratio "
                       "is %g; it lies in [1, 100]", layer,
                       (double)t->expand_param->max_expand_ratio);
    if (t->augment)
        return ct_fail(CT_EINVAL, "layer %s: augment moves no boxes; use "
                       "distort_param, expand_param and batch_sampler", layer);
    if (t->distort_param)
        CT_TRY(ct_distort_check(t->distort_param, layer));
    if (t->noise_param)
        CT_TRY(ct_noise_check(t->noise_param, layer));
    return ct_sampler_check(s->annotated, layer);
}

static float cut(float v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

static bool emitted(const Caffe__EmitConstraint *c, struct ct_bbox part,
                    struct ct_bbox box)
{
    float x = (box.xmin + box.xmax) / 2, y = (box.ymin + box.ymax) / 2;

    if (!c)
        return true;
    if (c->emit_type == CAFFE__EMIT_CONSTRAINT__EMIT_TYPE__MIN_OVERLAP)
        return ct_bbox_coverage(box, part) > c->emit_overlap;
    return x >= part.xmin && x <= part.xmax && y >= part.ymin &&
           y <= part.ymax;
}

void ct_scene_project(const struct ct_scene *s, struct ct_bbox part,
                      struct ct_objects *objects)
{
    const float width = part.xmax - part.xmin, height = part.ymax - part.ymin;
    int64_t n         = 0;

    for (int64_t i = 0; i < objects->n; i++) {
        struct ct_object o = objects->at[i];
        const struct ct_bbox b = {
            cut((o.box.xmin - part.xmin) / width),
            cut((o.box.ymin - part.ymin) / height),
            cut((o.box.xmax - part.xmin) / width),
            cut((o.box.ymax - part.ymin) / height),
        };

        if (!emitted(s->transform->emit_constraint, part, o.box) ||
            !(ct_bbox_area(b) > 0))
            continue;
        o.box            = b;
        objects->at[n++] = o;
    }
    objects->n = n;
}

void ct_scene_mirror(struct ct_objects *objects)
{
    for (int64_t i = 0; i < objects->n; i++) {
        struct ct_bbox *b = &objects->at[i].box;
        const float left  = b->xmin;

        b->xmin = 1 - b->xmax;
        b->xmax = 1 - left;
    }
}

static void plan_canvas(const struct ct_scene *s, struct ct_draws *draws,
                        int width, int height, struct ct_objects *objects,
                        struct ct_scene_plan *p)
{
    const Caffe__ExpansionParameter *e = s->transform->expand_param;
    float ratio                        = 1;

    if (e && ct_draws_between(draws, 0, 1) <= e->prob &&
        e->max_expand_ratio - 1 >= 1e-2f) {
        ratio = ct_draws_between(draws, 1, e->max_expand_ratio);
        ratio = fminf(ratio, (float)MOST_SIDE / (float)width);
        ratio = fmaxf(fminf(ratio, (float)MOST_SIDE / (float)height), 1);
    }
    p->canvas_w = (int)((float)width * ratio);
    p->canvas_h = (int)((float)height * ratio);
    p->canvas_w = p->canvas_w < width ? width : p->canvas_w;
    p->canvas_h = p->canvas_h < height ? height : p->canvas_h;
    if (p->canvas_w == width && p->canvas_h == height)
        return;
    p->x = (int)ct_draws_between(draws, 0, (float)(p->canvas_w - width));
    p->y = (int)ct_draws_between(draws, 0, (float)(p->canvas_h - height));
    ct_scene_project(s, (struct ct_bbox){
        (float)-p->x / (float)width,
        (float)-p->y / (float)height,
        (float)(p->canvas_w - p->x) / (float)width,
        (float)(p->canvas_h - p->y) / (float)height,
    }, objects);
}

static void plan_part(const struct ct_scene *s, struct ct_draws *draws,
                      struct ct_objects *objects, struct ct_scene_plan *p)
{
    struct ct_bbox part;

    p->crop_w = p->canvas_w;
    p->crop_h = p->canvas_h;
    if (!ct_sampler_draw(s->annotated, objects, draws, &part))
        return;
    part      = (struct ct_bbox){ cut(part.xmin), cut(part.ymin),
                                  cut(part.xmax), cut(part.ymax) };
    p->crop_x = (int)(part.xmin * (float)p->canvas_w);
    p->crop_y = (int)(part.ymin * (float)p->canvas_h);
    p->crop_w = (int)((part.xmax - part.xmin) * (float)p->canvas_w);
    p->crop_h = (int)((part.ymax - part.ymin) * (float)p->canvas_h);
    p->crop_w = p->crop_w < 1 ? 1 : p->crop_w;
    p->crop_h = p->crop_h < 1 ? 1 : p->crop_h;
    ct_scene_project(s, part, objects);
}

/* Boxes move where the part does not take all of the output. */
static void plan_pad(const struct ct_scene *s, struct ct_objects *objects,
                     const struct ct_scene_plan *p)
{
    const float w = (float)p->scaled_w, h = (float)p->scaled_h;
    const float x = (float)((p->out_w - p->scaled_w) / 2);
    const float y = (float)((p->out_h - p->scaled_h) / 2);

    if (p->scaled_w == p->out_w && p->scaled_h == p->out_h)
        return;
    ct_scene_project(s, (struct ct_bbox){ -x / w, -y / h,
                                          ((float)p->out_w - x) / w,
                                          ((float)p->out_h - y) / h },
                     objects);
}

static void plan_size(const struct ct_scene *s, struct ct_draws *draws,
                      struct ct_scene_plan *p)
{
    const Caffe__ResizeParameter *r = s->transform->resize_param;
    const float aspect = (float)p->crop_w / (float)p->crop_h;
    float target;
    bool wide;

    p->out_w = p->crop_w;
    p->out_h = p->crop_h;
    p->mode  = CAFFE__RESIZE_PARAMETER__INTERP_MODE__LINEAR;
    if (r) {
        p->out_w = (int)r->width;
        p->out_h = (int)r->height;
        if (r->n_interp_mode)
            p->mode = r->interp_mode[ct_draws_below(
                draws, (uint32_t)r->n_interp_mode)];
    }
    p->scaled_w = p->out_w;
    p->scaled_h = p->out_h;
    if (!r || (r->resize_mode != FIT_SMALL && r->resize_mode != FIT_LARGE))
        return;
    /* One side is kept, the other follows; which one is the modes' only
     * difference. */
    target = (float)r->width / (float)r->height;
    wide   = r->resize_mode == FIT_LARGE ? aspect > target : aspect < target;
    if (wide)
        p->scaled_h = (int)fminf((float)r->width / aspect, MOST_SIDE);
    else
        p->scaled_w = (int)fminf(aspect * (float)r->height, MOST_SIDE);
    p->scaled_w = p->scaled_w < 1 ? 1 : p->scaled_w;
    p->scaled_h = p->scaled_h < 1 ? 1 : p->scaled_h;
    if (r->resize_mode == FIT_SMALL) {
        p->out_w = p->scaled_w;
        p->out_h = p->scaled_h;
    }
}

enum ct_status ct_scene_plan(const struct ct_scene *s, int64_t epoch,
                             int64_t sample, int width, int height,
                             struct ct_objects *objects,
                             struct ct_scene_plan *out)
{
    struct ct_draws draws = { s->key, epoch, sample, 0 };

    *out = (struct ct_scene_plan){ 0 };
    if (width < 1 || height < 1)
        return ct_fail(CT_ESHAPE, "an image of %d x %d pixels", width, height);
    plan_canvas(s, &draws, width, height, objects, out);
    plan_part(s, &draws, objects, out);
    out->whole = out->crop_w == width && out->crop_h == height &&
                 out->canvas_w == width && out->canvas_h == height;
    plan_size(s, &draws, out);
    plan_pad(s, objects, out);
    return CT_OK;
}

static float mean_of(const struct ct_transform *t, int channel)
{
    const size_t plane = (size_t)t->mean_width * (size_t)t->mean_height;
    double sum         = 0;

    if (t->n_values > 0)
        return t->param->mean_value[t->n_values > 1 ? channel % t->n_values
                                                    : 0];
    if (!t->mean || channel >= t->mean_channels)
        return 0;
    for (size_t i = 0; i < plane; i++)
        sum += (double)t->mean[(size_t)channel * plane + i];
    return (float)(sum / (double)plane);
}

static unsigned char to_byte(float v)
{
    return (unsigned char)(v <= 0 ? 0 : v >= 255 ? 255 : lrintf(v));
}

static void fill(struct ct_image *im, const unsigned char *pixel)
{
    const size_t ch = (size_t)im->channels;
    const size_t n  = (size_t)im->width * (size_t)im->height;

    for (size_t i = 0; i < n; i++)
        memcpy(im->pixels + i * ch, pixel, ch);
}

/* The part of the canvas, what lies beside the image filled. */
static enum ct_status cut_part(const struct ct_scene *s,
                               const struct ct_scene_plan *p,
                               const struct ct_image *im,
                               struct ct_image *part)
{
    const size_t ch = (size_t)im->channels;
    const int x0 = p->crop_x > p->x ? p->crop_x : p->x;
    const int y0 = p->crop_y > p->y ? p->crop_y : p->y;
    int x1 = p->crop_x + p->crop_w, y1 = p->crop_y + p->crop_h;
    unsigned char mean[8] = { 0 };

    x1 = x1 < p->x + im->width ? x1 : p->x + im->width;
    y1 = y1 < p->y + im->height ? y1 : p->y + im->height;
    CT_TRY(ct_image_size(part, p->crop_w, p->crop_h, im->channels));
    if (x1 - x0 < p->crop_w || y1 - y0 < p->crop_h) {
        for (int c = 0; c < im->channels && c < 8; c++)
            mean[c] = to_byte(mean_of(s->mean, c));
        fill(part, mean);
    }
    for (int y = y0; y < y1 && x1 > x0; y++)
        memcpy(part->pixels + ((size_t)(y - p->crop_y) * (size_t)p->crop_w +
                               (size_t)(x0 - p->crop_x)) * ch,
               im->pixels + ((size_t)(y - p->y) * (size_t)im->width +
                             (size_t)(x0 - p->x)) * ch,
               (size_t)(x1 - x0) * ch);
    return CT_OK;
}

/* Where in [0, n) a place outside of it reads; -1: nowhere. */
static int padded(Caffe__ResizeParameter__PadMode mode, int at, int n)
{
    if (at >= 0 && at < n)
        return at;
    if (mode == CAFFE__RESIZE_PARAMETER__PAD_MODE__CONSTANT)
        return -1;
    if (mode == CAFFE__RESIZE_PARAMETER__PAD_MODE__REPEAT_NEAREST || n == 1)
        return at < 0 ? 0 : n - 1;
    at %= 2 * n - 2;
    at = at < 0 ? at + 2 * n - 2 : at;
    return at < n ? at : 2 * n - 2 - at;
}

static enum ct_status pad(const Caffe__ResizeParameter *r,
                          const struct ct_scene_plan *p,
                          const struct ct_image *im, struct ct_image *out)
{
    const int left = (p->out_w - p->scaled_w) / 2;
    const int up   = (p->out_h - p->scaled_h) / 2;
    const size_t ch = (size_t)im->channels;
    unsigned char value[8] = { 0 };

    if (r->n_pad_value > 1 && r->n_pad_value != ch)
        return ct_fail(CT_EINVAL, "%zu values of pad_value for %zu channels",
                       r->n_pad_value, ch);
    for (size_t c = 0; c < ch && c < 8 && r->n_pad_value; c++)
        value[c] = to_byte(r->pad_value[r->n_pad_value > 1 ? c : 0]);
    CT_TRY(ct_image_size(out, p->out_w, p->out_h, im->channels));
    for (int y = 0; y < p->out_h; y++)
        for (int x = 0; x < p->out_w; x++) {
            int i = padded(r->pad_mode, y - up, im->height);
            int j = padded(r->pad_mode, x - left, im->width);

            memcpy(out->pixels + ((size_t)y * (size_t)p->out_w + (size_t)x) *
                                     ch,
                   i < 0 || j < 0
                       ? value
                       : im->pixels + ((size_t)i * (size_t)im->width +
                                       (size_t)j) * ch, ch);
        }
    return CT_OK;
}

enum ct_status ct_scene_run(const struct ct_scene *s,
                            const struct ct_scene_plan *plan, int64_t epoch,
                            int64_t sample, const struct ct_scene_work *work,
                            struct ct_pixels *out)
{
    const Caffe__TransformationParameter *t = s->transform;
    struct ct_draws draws = { ct_key(s->key, "colours"), epoch, sample, 0 };
    struct ct_image *im   = work->image, *other = work->part;

    if (t->distort_param)
        ct_distort(t->distort_param, &draws, im);
    if (!plan->whole) {
        CT_TRY(cut_part(s, plan, im, work->part));
        im    = work->part;
        other = work->image;
    }
    if (im->width != plan->scaled_w || im->height != plan->scaled_h) {
        CT_TRY(ct_image_resample(work->codec, im, plan->scaled_w,
                                 plan->scaled_h, plan->mode, work->scaled));
        im = work->scaled;
    }
    if (plan->scaled_w != plan->out_w || plan->scaled_h != plan->out_h) {
        struct ct_image *padded_to = other;

        CT_TRY(pad(t->resize_param, plan, im, padded_to));
        other = im;
        im    = padded_to;
    }
    if (t->noise_param)
        CT_TRY(ct_noise(t->noise_param, &draws, work->codec, other, im));
    *out = ct_image_pixels(im);
    if (t->noise_param && t->noise_param->convert_to_lab) {
        CT_TRY(ct_image_lab(im, work->floats));
        out->ptr      = work->floats->ptr;
        out->is_float = true;
    }
    return CT_OK;
}
