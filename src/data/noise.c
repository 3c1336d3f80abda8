/* noise.c - an image made worse on purpose.
 *
 *     luma     Y = .299 R + .587 G + .114 B
 *     blur     7 x 7, standard deviation 1.5
 *     erosion  the least of a pixel and its four neighbours
 *     colours  x / 64 * 64 + 32
 *
 * Equalisation works on Y and adds what it changed to all three channels,
 * which is what a way through YCrCb and back does. */
#include "data/noise.h"

#include <math.h>
#include <string.h>

#include "data/clahe.h"
#include "data/distort.h"

enum { BLUR = 3, POSTER = 64 };

enum ct_status ct_noise_check(const Caffe__NoiseParameter *p,
                              const char *layer)
{
    if (p->saltpepper && (!p->saltpepper_param ||
                          p->saltpepper_param->n_value == 0 ||
                          !(p->saltpepper_param->fraction >= 0 &&
                            p->saltpepper_param->fraction <= 1)))
        return ct_fail(CT_EINVAL, "layer %s: noise_param: saltpepper needs a "
                       "saltpepper_param with values and a fraction in "
                       "[0, 1]", layer);
    if (p->jpeg > 100)
        return ct_fail(CT_EINVAL, "layer %s: noise_param: jpeg is a quality "
                       "of at most 100", layer);
    if (p->convert_to_hsv && p->convert_to_lab)
        return ct_fail(CT_EINVAL, "layer %s: noise_param: give convert_to_hsv "
                       "or convert_to_lab, not both", layer);
    return CT_OK;
}

static size_t n_bytes(const struct ct_image *im)
{
    return (size_t)im->width * (size_t)im->height * (size_t)im->channels;
}

static inline unsigned char to_byte(float v)
{
    return (unsigned char)(v <= 0 ? 0 : v >= 255 ? 255 : lrintf(v));
}

static inline unsigned char luma(const unsigned char *bgr)
{
    return to_byte(.114f * (float)bgr[0] + .587f * (float)bgr[1] +
                   .299f * (float)bgr[2]);
}

static void decolorize(struct ct_image *im)
{
    for (size_t i = 0; im->channels == 3 && i < n_bytes(im); i += 3)
        memset(im->pixels + i, luma(im->pixels + i), 3);
}

/* Past the edge pixels repeat backwards, without the edge itself. */
static inline int mirrored(int at, int n)
{
    if (n == 1)
        return 0;
    while (at < 0 || at >= n)
        at = at < 0 ? -at : 2 * n - 2 - at;
    return at;
}

/* One direction of the blur: `step` bytes from a pixel to the next, lines of
 * `n` pixels. */
static void blur_line(const unsigned char *in, size_t step, int n,
                      unsigned char *out)
{
    float weight[2 * BLUR + 1], sum = 0;

    for (int k = -BLUR; k <= BLUR; k++)
        sum += weight[k + BLUR] = expf((float)(-k * k) / (2 * 1.5f * 1.5f));
    for (int i = 0; i < n; i++) {
        float v = 0;

        for (int k = -BLUR; k <= BLUR; k++)
            v += weight[k + BLUR] *
                 (float)in[(size_t)mirrored(i + k, n) * step];
        out[(size_t)i * step] = to_byte(v / sum);
    }
}

static void blur(struct ct_image *scratch, struct ct_image *im)
{
    const size_t ch = (size_t)im->channels, row = (size_t)im->width * ch;

    for (int y = 0; y < im->height; y++)
        for (size_t c = 0; c < ch; c++)
            blur_line(im->pixels + (size_t)y * row + c, ch, im->width,
                      scratch->pixels + (size_t)y * row + c);
    for (size_t x = 0; x < row; x++)
        blur_line(scratch->pixels + x, row, im->height, im->pixels + x);
}

/* scratch holds the new luma of each pixel, one byte each. */
static void take_luma(const struct ct_image *scratch, struct ct_image *im)
{
    const size_t n = n_bytes(im) / (size_t)im->channels;

    for (size_t i = 0; i < n; i++) {
        unsigned char *p = im->pixels + i * (size_t)im->channels;
        const int by     = im->channels == 3 ? scratch->pixels[i] - luma(p)
                                             : scratch->pixels[i] - p[0];

        for (int c = 0; c < im->channels; c++)
            p[c] = to_byte((float)(p[c] + by));
    }
}

static void luma_plane(const struct ct_image *im, struct ct_image *out)
{
    const size_t ch = (size_t)im->channels, n = n_bytes(im) / ch;

    for (size_t i = 0; i < n; i++)
        out->pixels[i] = ch == 3 ? luma(im->pixels + i * ch)
                                 : im->pixels[i * ch];
}

static void equalize(unsigned char *y, size_t n)
{
    size_t count[256] = { 0 }, below = 0, first = 0;
    unsigned char table[256] = { 0 };

    for (size_t i = 0; i < n; i++)
        count[y[i]]++;
    while (first < 255 && count[first] == 0)
        first++;
    if (count[first] == n)
        return;
    for (size_t v = first + 1; v < 256; v++) {
        below += count[v];
        table[v] = to_byte(255 * (float)below / (float)(n - count[first]));
    }
    for (size_t i = 0; i < n; i++)
        y[i] = table[y[i]];
}

static enum ct_status through_jpeg(struct ct_codec *codec, int quality,
                                   struct ct_image *im)
{
    const enum ct_image_mode mode = im->channels == 1 ? CT_IMAGE_GRAY
                                                      : CT_IMAGE_COLOR;
    struct ct_text file = { 0 };
    enum ct_status st = ct_image_encode_jpeg(im, quality < 1 ? 1 : quality,
                                             &file);

    if (st == CT_OK)
        st = ct_image_decode(codec, (struct ct_bytes){ file.s, file.n_bytes },
                             mode, im);
    ct_text_fini(&file);
    return st;
}

static void erode(struct ct_image *scratch, struct ct_image *im)
{
    static const int next[5][2] = { { 0, 0 }, { 0, -1 }, { 0, 1 }, { -1, 0 },
                                    { 1, 0 } };
    const int ch = im->channels;

    memcpy(scratch->pixels, im->pixels, n_bytes(im));
    for (int y = 0; y < im->height; y++)
        for (int x = 0; x < im->width; x++)
            for (int c = 0; c < ch; c++) {
                int least = 255;

                for (int k = 0; k < 5; k++) {
                    int i = y + next[k][0], j = x + next[k][1], v;

                    if (i < 0 || j < 0 || i >= im->height || j >= im->width)
                        continue;
                    v     = scratch->pixels[((size_t)i * (size_t)im->width +
                                         (size_t)j) * (size_t)ch + (size_t)c];
                    least = v < least ? v : least;
                }
                im->pixels[((size_t)y * (size_t)im->width + (size_t)x) *
                               (size_t)ch + (size_t)c] = (unsigned char)least;
            }
}

static void salt_and_pepper(const Caffe__SaltPepperParameter *p,
                            struct ct_draws *draws, struct ct_image *im)
{
    const int n = (int)(p->fraction * (float)im->width * (float)im->height);

    for (int i = 0; i < n; i++) {
        size_t x  = ct_draws_below(draws, (uint32_t)im->width);
        size_t y  = ct_draws_below(draws, (uint32_t)im->height);
        size_t at = (y * (size_t)im->width + x) * (size_t)im->channels;

        for (size_t c = 0; c < (size_t)im->channels; c++)
            im->pixels[at + c] =
                to_byte(p->value[p->n_value > 1 ? c % p->n_value : 0]);
    }
}

static void each_byte(const Caffe__NoiseParameter *p, struct ct_image *im)
{
    for (size_t i = 0; i < n_bytes(im); i++) {
        int v = im->pixels[i];

        v             = p->posterize ? v / POSTER * POSTER + POSTER / 2 : v;
        im->pixels[i] = (unsigned char)(p->inverse ? 255 - v : v);
    }
}

enum ct_status ct_noise(const Caffe__NoiseParameter *p,
                        struct ct_draws *draws, struct ct_codec *codec,
                        struct ct_image *scratch, struct ct_image *im)
{
    const size_t n = (size_t)im->width * (size_t)im->height;

    if (p->has_prob && !ct_draws_happens(draws, p->prob))
        return CT_OK;
    CT_TRY(ct_image_size(scratch, im->width, im->height, im->channels));
    if (p->decolorize)
        decolorize(im);
    if (p->gauss_blur)
        blur(scratch, im);
    if (p->hist_eq || p->clahe) {
        luma_plane(im, scratch);
        if (p->hist_eq)
            equalize(scratch->pixels, n);
        if (p->clahe)
            ct_clahe(scratch->pixels, im->width, im->height);
        take_luma(scratch, im);
    }
    if (p->jpeg > 0)
        CT_TRY(through_jpeg(codec, (int)p->jpeg, im));
    if (p->erode)
        erode(scratch, im);
    if (p->posterize || p->inverse)
        each_byte(p, im);
    if (p->saltpepper)
        salt_and_pepper(p->saltpepper_param, draws, im);
    for (size_t i = 0; p->convert_to_hsv && im->channels == 3 && i < 3 * n;
         i += 3) {
        unsigned char hsv[3];

        ct_bgr_to_hsv(im->pixels + i, hsv);
        memcpy(im->pixels + i, hsv, 3);
    }
    return CT_OK;
}

static float linear_light(unsigned char v)
{
    const float x = (float)v / 255;

    return x <= 0.04045f ? x / 12.92f : powf((x + 0.055f) / 1.055f, 2.4f);
}

static float lab_root(float t)
{
    return t > 0.008856f ? cbrtf(t) : 7.787f * t + 16.0f / 116;
}

enum ct_status ct_image_lab(const struct ct_image *im, struct ct_room *out)
{
    const size_t n = n_bytes(im) / 3;
    float light[256], *to;

    if (im->channels != 3)
        return ct_fail(CT_ESHAPE, "convert_to_lab needs images of 3 channels, "
                       "this one has %d", im->channels);
    CT_TRY(ct_room_grow(out, 3 * n * sizeof(*to)));
    to = out->ptr;
    for (int i = 0; i < 256; i++)
        light[i] = linear_light((unsigned char)i);
    for (size_t i = 0; i < n; i++, to += 3) {
        const unsigned char *p = im->pixels + 3 * i;
        const float b = light[p[0]], g = light[p[1]], r = light[p[2]];
        const float x = (.412453f * r + .357580f * g + .180423f * b) /
                        .950456f;
        const float y = .212671f * r + .715160f * g + .072169f * b;
        const float z = (.019334f * r + .119193f * g + .950227f * b) /
                        1.088754f;

        to[0] = y > 0.008856f ? 116 * cbrtf(y) - 16 : 903.3f * y;
        to[1] = 500 * (lab_root(x) - lab_root(y));
        to[2] = 200 * (lab_root(y) - lab_root(z));
    }
    return CT_OK;
}
