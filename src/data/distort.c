/* distort.c - random changes of colour.
 *
 * Each change happens with its own probability.  Contrast comes second or
 * fourth, with equal chance; every step rounds and cuts to a byte, as in SSD:
 *
 *     brightness  x + d       d in [-brightness_delta, brightness_delta]
 *     contrast    f x         f in [contrast_lower, contrast_upper]
 *     saturation  f s         of the pixel in HSV
 *     hue         h + d       likewise, h in [0, 180); cut to a byte  */
#include "data/distort.h"

#include <math.h>

/* Limits in a pair that may be drawn between. */
static bool ordered(float prob, float lower, float upper)
{
    return prob <= 0 || (lower >= 0 && upper >= lower);
}

enum ct_status ct_distort_check(const Caffe__DistortionParameter *p,
                                const char *layer)
{
    if (p->brightness_delta < 0 || p->hue_delta < 0)
        return ct_fail(CT_EINVAL, "layer %s: distort_param: brightness_delta "
                       "and hue_delta must not be negative", layer);
    if (!ordered(p->contrast_prob, p->contrast_lower, p->contrast_upper) ||
        !ordered(p->saturation_prob, p->saturation_lower,
                 p->saturation_upper))
        return ct_fail(CT_EINVAL, "layer %s: distort_param: contrast_lower "
                       "and saturation_lower must be at least 0 and at most "
                       "their upper", layer);
    return CT_OK;
}

static inline unsigned char to_byte(float v)
{
    return (unsigned char)(v <= 0 ? 0 : v >= 255 ? 255 : lrintf(v));
}

void ct_bgr_to_hsv(const unsigned char *bgr, unsigned char *hsv)
{
    const int b = bgr[0], g = bgr[1], r = bgr[2];
    const int top  = r > g ? (r > b ? r : b) : (g > b ? g : b);
    const int low  = r < g ? (r < b ? r : b) : (g < b ? g : b);
    const float by = (float)(top - low);
    float h        = 0;

    if (top > low) {
        h = top == r   ? (float)(g - b) / by
            : top == g ? 2 + (float)(b - r) / by
                       : 4 + (float)(r - g) / by;
        h *= 30;
        h = h < 0 ? h + 180 : h;
    }
    hsv[0] = (unsigned char)(lrintf(h) % 180);
    hsv[1] = top ? to_byte(255 * by / (float)top) : 0;
    hsv[2] = (unsigned char)top;
}

void ct_hsv_to_bgr(const unsigned char *hsv, unsigned char *bgr)
{
    /* Which of v, p, q and t is blue, green and red in each sixth. */
    static const unsigned char sixth[6][3] = {
        { 1, 3, 0 }, { 1, 0, 2 }, { 3, 0, 1 },
        { 0, 2, 1 }, { 0, 1, 3 }, { 2, 1, 0 },
    };
    const float h = (float)(hsv[0] % 180) / 30;
    const float s = (float)hsv[1] / 255, v = hsv[2];
    const int i   = (int)h;
    const float f = h - (float)i;
    const float part[4] = { v, v * (1 - s), v * (1 - s * f),
                            v * (1 - s * (1 - f)) };

    for (int c = 0; c < 3; c++)
        bgr[c] = to_byte(part[sixth[i][c]]);
}

static size_t n_bytes(const struct ct_image *im)
{
    return (size_t)im->width * (size_t)im->height * (size_t)im->channels;
}

/* x := scale x + add, by a table. */
static void linear(struct ct_image *im, float scale, float add)
{
    const size_t n = n_bytes(im);
    unsigned char table[256];

    for (int i = 0; i < 256; i++)
        table[i] = to_byte(scale * (float)i + add);
    for (size_t i = 0; i < n; i++)
        im->pixels[i] = table[im->pixels[i]];
}

/* Saturation times `scale`, then hue plus `add`, each where it is wanted. */
static void in_hsv(struct ct_image *im, bool saturate, float scale, bool turn,
                   float add)
{
    const size_t n = n_bytes(im);

    for (size_t i = 0; i < n; i += 3) {
        unsigned char *pixel = im->pixels + i, hsv[3];

        if (saturate) {
            ct_bgr_to_hsv(pixel, hsv);
            hsv[1] = to_byte((float)hsv[1] * scale);
            ct_hsv_to_bgr(hsv, pixel);
        }
        if (turn) {
            ct_bgr_to_hsv(pixel, hsv);
            hsv[0] = to_byte((float)hsv[0] + add);
            ct_hsv_to_bgr(hsv, pixel);
        }
    }
}

static void reorder(struct ct_image *im, struct ct_draws *draws)
{
    const size_t n = n_bytes(im);
    unsigned to[3] = { 0, 1, 2 };

    for (unsigned i = 2; i > 0; i--) {
        unsigned k = ct_draws_below(draws, i + 1), was = to[i];

        to[i] = to[k];
        to[k] = was;
    }
    for (size_t i = 0; i < n; i += 3) {
        unsigned char *p = im->pixels + i;
        const unsigned char was[3] = { p[0], p[1], p[2] };

        for (int c = 0; c < 3; c++)
            p[c] = was[to[c]];
    }
}

void ct_distort(const Caffe__DistortionParameter *p, struct ct_draws *draws,
                struct ct_image *im)
{
    const bool early    = ct_draws_happens(draws, 0.5f);
    const bool brighten = ct_draws_happens(draws, p->brightness_prob);
    const float light   = ct_draws_between(draws, -p->brightness_delta,
                                           p->brightness_delta);
    const bool stretch  = ct_draws_happens(draws, p->contrast_prob);
    const float by      = ct_draws_between(draws, p->contrast_lower,
                                           p->contrast_upper);
    const bool saturate = ct_draws_happens(draws, p->saturation_prob);
    const float colour  = ct_draws_between(draws, p->saturation_lower,
                                           p->saturation_upper);
    const bool turn     = ct_draws_happens(draws, p->hue_prob);
    const float angle   = ct_draws_between(draws, -p->hue_delta, p->hue_delta);
    const bool order    = ct_draws_happens(draws, p->random_order_prob);

    if (brighten)
        linear(im, 1, light);
    if (stretch && early)
        linear(im, by, 0);
    if (im->channels == 3 && (saturate || turn))
        in_hsv(im, saturate, colour, turn, angle);
    if (stretch && !early)
        linear(im, by, 0);
    if (im->channels == 3 && order)
        reorder(im, draws);
}
