/* transform.c - crop, mirror, mean and scale in one pass over the output. */
#include "data/transform.h"

#include <limits.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/log.h"
#include "data/augment.h"

enum { DRAW_MIRROR, DRAW_ROW, DRAW_COLUMN }; /* augment.c's come after */

uint32_t ct_draw(uint64_t key, int64_t epoch, int64_t sample, unsigned i)
{
    return ct_philox(key, (uint64_t)epoch, (uint64_t)sample << 8 | i / 4)
        .v[i % 4];
}

uint32_t ct_draw_below(uint64_t key, int64_t epoch, int64_t sample, unsigned i,
                       uint32_t n)
{
    return (uint32_t)(((uint64_t)ct_draw(key, epoch, sample, i) * n) >> 32);
}

static enum ct_status transform_mean(struct ct_transform *t,
                                     const Caffe__BlobProto *b)
{
    int64_t c = b->channels, h = b->height, w = b->width, n;

    if (b->shape && b->shape->n_dim >= 3) {
        const int64_t *dim = b->shape->dim + b->shape->n_dim - 3;

        c = dim[0], h = dim[1], w = dim[2];
    }
    n = b->n_double_data ? (int64_t)b->n_double_data : (int64_t)b->n_data;
    if (c < 1 || h < 1 || w < 1 || c > 65536 || h > 65536 || w > 65536 ||
        c * h * w != n)
        return ct_fail(CT_EPARSE, "a mean of %lld x %lld x %lld with %lld "
                       "values", (long long)c, (long long)h, (long long)w,
                       (long long)n);
    CT_TRY(ct_alloc((size_t)n, sizeof(*t->mean), "mean", &t->mean));
    for (int64_t i = 0; i < n; i++)
        t->mean[i] = b->n_double_data ? (float)b->double_data[i] : b->data[i];
    t->mean_channels = (int)c;
    t->mean_height   = (int)h;
    t->mean_width    = (int)w;
    return CT_OK;
}

static enum ct_status transform_read_mean(struct ct_transform *t,
                                          const char *path)
{
    Caffe__BlobProto *b = NULL;
    enum ct_status st;

    CT_INFO("Loading mean file from: %s", path);
    CT_TRY(ct_binary_read(&caffe__blob_proto__descriptor, path, &b));
    st = transform_mean(t, b);
    ct_message_free(b);
    return st == CT_OK ? st : ct_fail_in(st, "mean file %s", path);
}

static enum ct_status transform_check(const Caffe__TransformationParameter *p,
                                      const char *layer)
{
    if (p->mean_file && p->n_mean_value)
        return ct_fail(CT_EINVAL, "layer %s: give mean_file or mean_value, "
                       "not both", layer);
    if (p->force_color && p->force_gray)
        return ct_fail(CT_EINVAL, "layer %s: give force_color or force_gray, "
                       "not both", layer);
    if (p->crop_size > INT32_MAX || p->crop_h > INT32_MAX)
        return ct_fail(CT_EINVAL, "layer %s: a crop_size of %u", layer,
                       p->crop_size ? p->crop_size : p->crop_h);
    if (p->crop_h != p->crop_w || (p->crop_h && p->crop_size))
        return ct_fail(CT_EINVAL, "layer %s: crops are square: give crop_size, "
                       "or crop_h and crop_w of the same size", layer);
    return p->augment ? ct_augment_check(p->augment, layer) : CT_OK;
}

enum ct_status ct_transform_create(const Caffe__TransformationParameter *param,
                                   Caffe__Phase phase, uint64_t key,
                                   const char *layer,
                                   struct ct_transform **out)
{
    struct ct_transform *t;
    enum ct_status st = CT_OK;

    *out = NULL;
    CT_TRY(transform_check(param, layer));
    CT_TRY(ct_alloc(1, sizeof(*t), "transform", &t));
    t->param    = param;
    t->phase    = phase;
    t->key      = key;
    t->crop     = (int)(param->crop_size ? param->crop_size : param->crop_h);
    t->n_values = (int)param->n_mean_value;
    if (param->mean_file)
        st = transform_read_mean(t, param->mean_file);
    if (st != CT_OK) {
        ct_transform_destroy(t);
        return ct_fail_in(st, "layer %s", layer);
    }
    *out = t;
    return CT_OK;
}

void ct_transform_destroy(struct ct_transform *t)
{
    if (!t)
        return;
    ct_free(t->mean);
    ct_free(t);
}

enum ct_status ct_transform_size(const struct ct_transform *t, int channels,
                                 int height, int width, int *out_height,
                                 int *out_width)
{
    bool resized = ct_augment_resizes(t);

    if (channels < 1 || height < 1 || width < 1)
        return ct_fail(CT_ESHAPE, "a sample of %d x %d x %d values", channels,
                       height, width);
    if (!resized && (height < t->crop || width < t->crop))
        return ct_fail(CT_ESHAPE, "a sample of %d x %d pixels is smaller than "
                       "crop_size %d", width, height, t->crop);
    if (t->mean && (channels != t->mean_channels ||
                    (!resized && (height != t->mean_height ||
                                  width != t->mean_width))))
        return ct_fail(CT_ESHAPE, "a sample of %d x %d x %d values, but the "
                       "mean file has %d x %d x %d", channels, height, width,
                       t->mean_channels, t->mean_height, t->mean_width);
    if (t->n_values > 1 && t->n_values != channels)
        return ct_fail(CT_ESHAPE, "%d values of mean_value for %d channels: "
                       "give 1 or as many as channels", t->n_values, channels);
    *out_height = t->crop ? t->crop : height;
    *out_width  = t->crop ? t->crop : width;
    if (resized && t->mean && (*out_height > t->mean_height ||
                               *out_width > t->mean_width))
        return ct_fail(CT_ESHAPE, "the mean file is smaller than crop_size");
    return CT_OK;
}

/* Some rows of one channel.  Strides are in values. */
struct band {
    const void  *x;
    size_t       x_stride;
    const float *mean; /* NULL: `value` */
    size_t       mean_stride;
    float        value, scale;
    int          step; /* from pixel to pixel of a row */
    int          n_rows, width;
    bool         mirror;
    bool         stream; /* around the caches, where that can be done */
    float       *out;    /* rows without a gap */
};

/* Kept small, so that each call below becomes a loop with a constant step. */
static inline __attribute__((always_inline)) void row_u8(
    const unsigned char *restrict x, int step, const struct band *b,
    const float *restrict mean, float *restrict out)
{
    const ptrdiff_t n         = b->width;
    const float scale         = b->scale, value = b->value;
    const unsigned char *last = x + (n - 1) * step;

    if (b->mirror && mean)
        for (ptrdiff_t w = 0; w < n; w++)
            out[w] = ((float)last[-w * step] - mean[n - 1 - w]) * scale;
    else if (b->mirror)
        for (ptrdiff_t w = 0; w < n; w++)
            out[w] = ((float)last[-w * step] - value) * scale;
    else if (mean)
        for (ptrdiff_t w = 0; w < n; w++)
            out[w] = ((float)x[w * step] - mean[w]) * scale;
    else
        for (ptrdiff_t w = 0; w < n; w++)
            out[w] = ((float)x[w * step] - value) * scale;
}

static void band_u8(const struct band *b)
{
    const unsigned char *x = b->x;
    const float *mean      = b->mean;
    float *out             = b->out;

    for (int y = 0; y < b->n_rows; y++) {
        if (b->step == 1)
            row_u8(x, 1, b, mean, out);
        else
            row_u8(x, b->step, b, mean, out);
        x += b->x_stride;
        mean = mean ? mean + b->mean_stride : NULL;
        out += b->width;
    }
}

static void band_float(const struct band *b)
{
    for (int y = 0; y < b->n_rows; y++) {
        const float *x = (const float *)b->x + (size_t)y * b->x_stride;
        const float *mean =
            b->mean ? b->mean + (size_t)y * b->mean_stride : NULL;
        float *out = b->out + (size_t)y * (size_t)b->width;

        for (int i = 0; i < b->width; i++) {
            int w = b->mirror ? b->width - 1 - i : i;

            out[i] = (x[w * b->step] - (mean ? mean[w] : b->value)) *
                     b->scale;
        }
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Taking pixels apart and mirroring them needs the byte shuffles that came
 * after SSE2.  The arithmetic is the same to the bit.  Mirrored too, the
 * output is written upwards, which is what memory is fast at. */
__attribute__((target("avx2"), always_inline)) static inline void row_avx2(
    const unsigned char *x, int step, const struct band *b, const float *mean,
    bool mirror, bool stream, float *out)
{
    /* Eight pixels at 3 w are in the 22 bytes from there on. */
    const __m256i pick = _mm256_setr_epi8(
        0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9, -1, -1, -1,
        6, -1, -1, -1, 9, -1, -1, -1, 12, -1, -1, -1, 15, -1, -1, -1);
    const __m256i turn  = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    const __m256 factor = _mm256_set1_ps(b->scale);
    const int n         = b->width;
    __m256 m = _mm256_set1_ps(b->value), v;
    int i    = 0;

    for (; i + 8 <= n; i += 8) {
        int w                   = mirror ? n - 8 - i : i;
        const unsigned char *at = x + step * w;

        if (step == 1)
            v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(
                _mm_loadl_epi64((const __m128i *)at)));
        else
            v = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(
                _mm256_inserti128_si256(
                    _mm256_castsi128_si256(
                        _mm_loadu_si128((const __m128i *)at)),
                    _mm_loadu_si128((const __m128i *)(at + 6)), 1), pick));
        if (mean)
            m = _mm256_loadu_ps(mean + w);
        v = _mm256_mul_ps(_mm256_sub_ps(v, m), factor);
        if (mirror)
            v = _mm256_permutevar8x32_ps(v, turn);
        if (stream)
            _mm256_stream_ps(out + i, v);
        else
            _mm256_storeu_ps(out + i, v);
    }
    for (; i < n; i++) {
        int w = mirror ? n - 1 - i : i;

        out[i] = ((float)x[step * w] - (mean ? mean[w] : b->value)) *
                 b->scale;
    }
}

__attribute__((target("avx2"), always_inline)) static inline void rows_avx2(
    const struct band *b, int step, bool mirror, bool stream)
{
    const unsigned char *x = b->x;
    const float *mean      = b->mean;
    float *out             = b->out;

    for (int y = 0; y < b->n_rows; y++) {
        /* Hardware does not see rows coming that are read downwards. */
        for (int i = 0; mirror && i < step * b->width; i += 64)
            _mm_prefetch((const char *)(x + 2 * b->x_stride + i),
                         _MM_HINT_T0);
        row_avx2(x, step, b, mean, mirror, stream, out);
        x += b->x_stride;
        mean = mean ? mean + b->mean_stride : NULL;
        out += b->width;
    }
}

__attribute__((target("avx2"), always_inline)) static inline void steps_avx2(
    const struct band *b, bool stream)
{
    if (b->step == 1)
        b->mirror ? rows_avx2(b, 1, true, stream)
                  : rows_avx2(b, 1, false, stream);
    else
        b->mirror ? rows_avx2(b, 3, true, stream)
                  : rows_avx2(b, 3, false, stream);
}

__attribute__((target("avx2"))) static void band_avx2(const struct band *b)
{
    if (b->stream && (uintptr_t)b->out % 32 == 0 && b->width % 8 == 0) {
        steps_avx2(b, true);
        _mm_sfence();
    } else {
        steps_avx2(b, false);
    }
}
#define HAS_AVX2() __builtin_cpu_supports("avx2")
#else
#define band_avx2(b) band_u8(b)
#define HAS_AVX2()   0
#endif

static void transform_band(const struct ct_pixels *in, const struct band *b)
{
    if (in->is_float)
        band_float(b);
    else if ((b->step == 1 || b->step == 3) && HAS_AVX2())
        band_avx2(b);
    else
        band_u8(b);
}

/* Interleaved pixels go channel after channel in bands that stay in the
 * cache; planes go whole, and as one row where nothing lies between rows.  A
 * large sample is out of the caches long before the net comes for it: it does
 * not go there at all, and leaves them to the decoder. */
enum { BAND_ROWS = 16, LARGE_BYTES = 128 << 10 };

static void transform_window(const struct ct_transform *t,
                             const struct ct_pixels *in,
                             const struct ct_crop *win, int height,
                             int width, float *out)
{
    const size_t h = (size_t)in->height, w = (size_t)in->width;
    const size_t channels = (size_t)in->channels;
    const size_t mean_w = (size_t)t->mean_width;
    const size_t plane  = (size_t)height * (size_t)width;
    const int n_rows    = in->planar ? height : BAND_ROWS;

    for (int y = 0; y < height; y += n_rows)
        for (size_t c = 0; c < channels; c++) {
            size_t row = (size_t)y + (size_t)win->row;
            size_t column = (size_t)win->column;
            size_t at  = in->planar ? (c * h + row) * w + column
                                    : (row * w + column) * channels + c;
            size_t mean_at = (c * (size_t)t->mean_height +
                              (size_t)(y + win->mean_row)) * mean_w +
                             (size_t)win->mean_column;
            struct band b = {
                .x = (const char *)in->ptr +
                     at * (in->is_float ? sizeof(float) : 1),
                .x_stride    = in->planar ? w : w * channels,
                .mean        = t->mean ? t->mean + mean_at : NULL,
                .mean_stride = mean_w,
                .value       = t->n_values == 0 ? 0
                               : t->param->mean_value[t->n_values > 1 ? c : 0],
                .scale       = t->param->scale,
                .step        = in->planar ? 1 : in->channels,
                .n_rows      = height - y < n_rows ? height - y
                                                        : n_rows,
                .width       = width,
                .mirror      = win->mirror,
                .stream      = channels * plane * sizeof(float) >= LARGE_BYTES,
                .out         = out + c * plane + (size_t)y * (size_t)width,
            };

            if (in->planar && !b.mirror && (size_t)b.width == w &&
                (!b.mean || mean_w == w) && plane <= INT_MAX) {
                b.width  = (int)plane;
                b.n_rows = 1;
            }
            transform_band(in, &b);
        }
}

enum ct_status ct_transform_draw(const struct ct_transform *t,
                                 const struct ct_pixels *in, int64_t epoch,
                                 int64_t sample, struct ct_crop *out)
{
    const bool random = t->crop && t->phase == CAFFE__PHASE__TRAIN;
    int height = 0, width = 0;
    uint32_t rows, columns;

    CT_TRY(ct_transform_size(t, in->channels, in->height, in->width, &height,
                             &width));
    rows        = (uint32_t)(in->height - height);
    columns     = (uint32_t)(in->width - width);
    out->mirror = t->param->mirror &&
                  ct_draw_below(t->key, epoch, sample, DRAW_MIRROR, 2);
    out->row    = (int)(random ? ct_draw_below(t->key, epoch, sample, DRAW_ROW,
                                               rows + 1)
                               : rows / 2);
    out->column = (int)(random ? ct_draw_below(t->key, epoch, sample,
                                               DRAW_COLUMN, columns + 1)
                               : columns / 2);
    out->mean_row    = out->row;
    out->mean_column = out->column;
    return CT_OK;
}

enum ct_status ct_transform_apply(const struct ct_transform *t,
                                  const struct ct_pixels *in,
                                  const struct ct_crop *win, float *out)
{
    int height = 0, width = 0;

    CT_TRY(ct_transform_size(t, in->channels, in->height, in->width, &height,
                             &width));
    transform_window(t, in, win, height, width, out);
    return CT_OK;
}

enum ct_status ct_transform_run(const struct ct_transform *t,
                                const struct ct_pixels *in, int64_t epoch,
                                int64_t sample, struct ct_room *room,
                                float *out)
{
    struct ct_pixels augmented;
    struct ct_crop win = { 0 };
    int height = 0, width = 0;

    if (!ct_augment_wanted(t)) {
        CT_TRY(ct_transform_draw(t, in, epoch, sample, &win));
        return ct_transform_apply(t, in, &win, out);
    }
    CT_TRY(ct_transform_size(t, in->channels, in->height, in->width, &height,
                             &width));
    win.mirror = t->param->mirror &&
                 ct_draw_below(t->key, epoch, sample, DRAW_MIRROR, 2);
    CT_TRY(ct_augment_run(t, in, epoch, sample, height, width, room,
                          &augmented));
    win.mean_row    = t->mean ? (t->mean_height - height) / 2 : 0;
    win.mean_column = t->mean ? (t->mean_width - width) / 2 : 0;
    transform_window(t, &augmented, &win, height, width, out);
    return CT_OK;
}
