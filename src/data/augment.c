/* augment.c - random geometry and colour.
 *
 * Geometry is one map from output to input pixels, sampled bilinearly with
 * edges repeated.  With u, v in [-1, 1] over the output:
 *
 *     r2 = (u^2 + v^2) / 2                         0 centre, 1 corner
 *     (u, v) *= 1 + k r2                           lens, k in [-lens, lens]
 *     (x, y)  = centre + R(angle) (u W/2, v H/2)   W x H: the part taken
 *
 * The part has area a in [min_area, max_area] of the image and width / height
 * in [min_aspect, max_aspect] (drawn evenly in the logarithm) times that of
 * the output, cut to the image's sides; its place is random.  When no part
 * is asked for, the part is a random crop of the output's size, or the whole.
 *
 * Colour, on values 0..255, in this order:
 *
 *     x *= brightness
 *     x  = m + contrast (x - m)        m: mean luma of the part
 *     x  = l + saturation (x - l)      l: luma of the pixel, 3 channels only
 *     x += cast[c]                     each channel with probability 1/2
 *     x *= 1 - vignette r2             strength in [0, vignette]
 *
 * and the result is cut to 0..255. */
#include "data/augment.h"

#include <math.h>

#include "base/mem.h"

/* Numbers of the draws; the transform's own come before. */
enum {
    DRAW_AREA = 8,
    DRAW_ASPECT,
    DRAW_LEFT,
    DRAW_TOP,
    DRAW_ANGLE,
    DRAW_LENS,
    DRAW_BRIGHTNESS,
    DRAW_CONTRAST,
    DRAW_SATURATION,
    DRAW_VIGNETTE,
    DRAW_CAST = 32 /* two a channel */
};

enum { MAX_CASTS = 64 };

struct plan {
    float centre_x, centre_y, half_w, half_h; /* of the part, in pixels */
    float sin, cos, lens;
    float brightness, contrast, saturation, vignette;
    float cast[MAX_CASTS];
    bool  colour;
};

static bool in_range(float v, float lo, float hi)
{
    return v >= lo && v <= hi;
}

enum ct_status ct_augment_check(const Caffe__AugmentationParameter *p,
                                const char *layer)
{
    if (!in_range(p->min_area, 1e-4f, p->max_area) || !(p->max_area <= 1))
        return ct_fail(CT_EINVAL, "layer %s: augment: min_area and max_area "
                       "lie in (0, 1], in this order", layer);
    if (!in_range(p->min_aspect, 1e-2f, p->max_aspect) ||
        !(p->max_aspect <= 100))
        return ct_fail(CT_EINVAL, "layer %s: augment: min_aspect and "
                       "max_aspect lie in [0.01, 100], in this order", layer);
    if (!in_range(p->rotation, 0, 180))
        return ct_fail(CT_EINVAL, "layer %s: augment: rotation lies in "
                       "[0, 180]", layer);
    if (!in_range(p->brightness, 0, 1) || !in_range(p->contrast, 0, 1) ||
        !in_range(p->saturation, 0, 1) || !in_range(p->vignette, 0, 1))
        return ct_fail(CT_EINVAL, "layer %s: augment: brightness, contrast, "
                       "saturation and vignette lie in [0, 1]", layer);
    if (!in_range(p->color_cast, 0, 255) || !in_range(p->lens, 0, 0.5f))
        return ct_fail(CT_EINVAL, "layer %s: augment: color_cast lies in "
                       "[0, 255], lens in [0, 0.5]", layer);
    return CT_OK;
}

bool ct_augment_wanted(const struct ct_transform *t)
{
    return t->phase == CAFFE__PHASE__TRAIN && t->param->augment;
}

static bool takes_part(const Caffe__AugmentationParameter *p)
{
    return p->min_area < 1 || p->min_aspect < 1 || p->max_aspect > 1;
}

bool ct_augment_resizes(const struct ct_transform *t)
{
    return ct_augment_wanted(t) && t->crop && takes_part(t->param->augment);
}

struct draws {
    uint64_t key;
    int64_t  epoch, sample;
};

static float draw(const struct draws *d, unsigned i, float lo, float hi)
{
    float u = (float)(ct_draw(d->key, d->epoch, d->sample, i) >> 8) * 0x1p-24f;

    return lo + (hi - lo) * u;
}

static void plan_part(const Caffe__AugmentationParameter *p,
                      const struct draws *d, const struct ct_pixels *in,
                      int height, int width, struct plan *plan)
{
    float in_w = (float)in->width, in_h = (float)in->height;
    float w = (float)width, h = (float)height;
    float free_w, free_h;

    if (takes_part(p)) {
        float area   = draw(d, DRAW_AREA, p->min_area, p->max_area);
        float aspect = expf(draw(d, DRAW_ASPECT, logf(p->min_aspect),
                                 logf(p->max_aspect))) * w / h;

        area *= in_w * in_h;
        w = fminf(sqrtf(area * aspect), in_w);
        h = fminf(sqrtf(area / aspect), in_h);
    }
    free_w         = in_w - w;
    free_h         = in_h - h;
    plan->half_w   = w / 2;
    plan->half_h   = h / 2;
    plan->centre_x = w / 2 + floorf(draw(d, DRAW_LEFT, 0, free_w + 1));
    plan->centre_y = h / 2 + floorf(draw(d, DRAW_TOP, 0, free_h + 1));
    plan->centre_x = fminf(plan->centre_x, in_w - w / 2);
    plan->centre_y = fminf(plan->centre_y, in_h - h / 2);
}

static void plan_make(const Caffe__AugmentationParameter *p,
                      const struct draws *d, const struct ct_pixels *in,
                      int height, int width, struct plan *plan)
{
    float angle = draw(d, DRAW_ANGLE, -p->rotation, p->rotation) *
                  0.0174532925f;

    plan_part(p, d, in, height, width, plan);
    plan->sin        = sinf(angle);
    plan->cos        = cosf(angle);
    plan->lens       = draw(d, DRAW_LENS, -p->lens, p->lens);
    plan->brightness = draw(d, DRAW_BRIGHTNESS, 1 - p->brightness,
                            1 + p->brightness);
    plan->contrast   = draw(d, DRAW_CONTRAST, 1 - p->contrast,
                            1 + p->contrast);
    plan->saturation = draw(d, DRAW_SATURATION, 1 - p->saturation,
                            1 + p->saturation);
    plan->vignette   = draw(d, DRAW_VIGNETTE, 0, p->vignette);
    for (unsigned c = 0; c < MAX_CASTS; c++)
        plan->cast[c] = p->color_cast > 0 &&
                                draw(d, DRAW_CAST + 2 * c, 0, 1) < 0.5f
                            ? draw(d, DRAW_CAST + 2 * c + 1, -p->color_cast,
                                   p->color_cast)
                            : 0;
    plan->colour = p->brightness > 0 || p->contrast > 0 ||
                   p->saturation > 0 || p->color_cast > 0 || p->vignette > 0;
}

static inline float clamp(float v, float lo, float hi)
{
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

static inline float pixel(const void *ptr, bool is_float, size_t at)
{
    return is_float ? ((const float *)ptr)[at]
                    : (float)((const unsigned char *)ptr)[at];
}

/* All channels at (x, y), where whole numbers are the centres of pixels. */
static inline __attribute__((always_inline)) void sample_at(
    const struct ct_pixels *in, bool is_float, int channels, float x, float y,
    float *out, size_t plane)
{
    const int w = in->width, h = in->height;
    float cx = clamp(x, 0, (float)(w - 1)), cy = clamp(y, 0, (float)(h - 1));
    int x0 = (int)cx, y0 = (int)cy;
    int x1 = x0 + 1 < w ? x0 + 1 : x0, y1 = y0 + 1 < h ? y0 + 1 : y0;
    float fx = cx - (float)x0, fy = cy - (float)y0;
    const size_t step = in->planar ? 1 : (size_t)channels;
    const size_t next = in->planar ? (size_t)w * (size_t)h : 1;
    const size_t a = ((size_t)y0 * (size_t)w + (size_t)x0) * step;
    const size_t b = ((size_t)y0 * (size_t)w + (size_t)x1) * step;
    const size_t d = ((size_t)y1 * (size_t)w + (size_t)x0) * step;
    const size_t e = ((size_t)y1 * (size_t)w + (size_t)x1) * step;

    for (size_t c = 0; c < (size_t)channels; c++) {
        float p = pixel(in->ptr, is_float, a + c * next);
        float q = pixel(in->ptr, is_float, d + c * next);
        float top = p + fx * (pixel(in->ptr, is_float, b + c * next) - p);
        float low = q + fx * (pixel(in->ptr, is_float, e + c * next) - q);

        out[c * plane] = top + fy * (low - top);
    }
}

/* Made small for each kind of pixels, so that the inner choices vanish. */
static inline __attribute__((always_inline)) void geometry_of(
    const struct plan *p, const struct ct_pixels *in, bool is_float,
    int channels, int height, int width, float *out)
{
    const size_t plane = (size_t)height * (size_t)width;
    const float to_u = 2 / (float)width, to_v = 2 / (float)height;

    for (int i = 0; i < height; i++) {
        float v = ((float)i + 0.5f) * to_v - 1;

        for (int j = 0; j < width; j++) {
            float u = ((float)j + 0.5f) * to_u - 1;
            float k = 1 + p->lens * (u * u + v * v) / 2;
            float x = u * k * p->half_w, y = v * k * p->half_h;

            sample_at(in, is_float, channels,
                      p->centre_x + p->cos * x - p->sin * y - 0.5f,
                      p->centre_y + p->sin * x + p->cos * y - 0.5f,
                      out + (size_t)i * (size_t)width + (size_t)j, plane);
        }
    }
}

static void geometry(const struct plan *p, const struct ct_pixels *in,
                     int height, int width, float *out)
{
    if (in->is_float)
        geometry_of(p, in, true, in->channels, height, width, out);
    else if (in->channels == 3)
        geometry_of(p, in, false, 3, height, width, out);
    else
        geometry_of(p, in, false, in->channels, height, width, out);
}

/* Channels are B G R; other counts have no colour and take their mean. */
static inline float luma(const float *at, size_t plane, int channels)
{
    float sum = 0;

    if (channels == 3)
        return 0.114f * at[0] + 0.587f * at[plane] + 0.299f * at[2 * plane];
    for (int c = 0; c < channels; c++)
        sum += at[(size_t)c * plane];
    return sum / (float)channels;
}

static inline __attribute__((always_inline)) void colour_row(
    const struct plan *p, int channels, size_t plane, float mean, float v,
    int width, float *row)
{
    const float to_u = 2 / (float)width;
    const float s    = channels == 3 ? p->saturation : 1;
    const float gain = p->contrast * p->brightness;
    const float base = mean - p->contrast * mean;

    for (int j = 0; j < width; j++) {
        float u     = ((float)j + 0.5f) * to_u - 1;
        float light = 1 - p->vignette * (u * u + v * v) / 2;
        float l     = base + gain * luma(row + j, plane, channels);

        for (int c = 0; c < channels; c++) {
            float *at = row + j + (size_t)c * plane;
            float x   = base + gain * *at;

            *at = clamp((l + s * (x - l) + p->cast[c % MAX_CASTS]) * light, 0,
                        255);
        }
    }
}

static void colour(const struct plan *p, int channels, int height, int width,
                   float *out)
{
    const size_t plane = (size_t)height * (size_t)width;
    double mean        = 0;

    for (size_t i = 0; i < plane; i++)
        mean += (double)luma(out + i, plane, channels);
    mean *= (double)p->brightness / (double)plane;
    for (int i = 0; i < height; i++) {
        float v    = ((float)i + 0.5f) * 2 / (float)height - 1;
        float *row = out + (size_t)i * (size_t)width;

        if (channels == 3)
            colour_row(p, 3, plane, (float)mean, v, width, row);
        else
            colour_row(p, channels, plane, (float)mean, v, width, row);
    }
}

enum ct_status ct_augment_run(const struct ct_transform *t,
                              const struct ct_pixels *in, int64_t epoch,
                              int64_t sample, int height, int width,
                              struct ct_room *room, struct ct_pixels *out)
{
    const struct draws d = { t->key, epoch, sample };
    size_t n = (size_t)in->channels * (size_t)height * (size_t)width;
    struct plan plan;

    CT_TRY(ct_room_grow(room, n * sizeof(float)));
    plan_make(t->param->augment, &d, in, height, width, &plan);
    geometry(&plan, in, height, width, room->ptr);
    if (plan.colour)
        colour(&plan, in->channels, height, width, room->ptr);
    *out = (struct ct_pixels){ room->ptr, true, true, in->channels, height,
                               width };
    return CT_OK;
}
