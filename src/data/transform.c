/* transform.c - crop, mirror, mean and scale in one pass over the output. */
#include "data/transform.h"

#include <string.h>
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
    if (p->crop_size > INT32_MAX)
        return ct_fail(CT_EINVAL, "layer %s: a crop_size of %u", layer,
                       p->crop_size);
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
    t->crop     = (int)param->crop_size;
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

/* One row of one channel; `step` is the distance of its pixels.  Kept small,
 * so that each call below becomes a loop with a constant step. */
static inline __attribute__((always_inline)) void row_u8(
    const unsigned char *restrict x, int step, const float *restrict mean,
    float value, float scale, bool mirror, int n, float *restrict out)
{
    const unsigned char *last = x + (ptrdiff_t)(n - 1) * step;

    if (mirror && mean)
        for (ptrdiff_t w = 0; w < n; w++)
            out[w] = ((float)last[-w * step] - mean[n - 1 - w]) * scale;
    else if (mirror)
        for (ptrdiff_t w = 0; w < n; w++)
            out[w] = ((float)last[-w * step] - value) * scale;
    else if (mean)
        for (int w = 0; w < n; w++)
            out[w] = ((float)x[w * step] - mean[w]) * scale;
    else
        for (int w = 0; w < n; w++)
            out[w] = ((float)x[w * step] - value) * scale;
}

/* Every third byte: a row of interleaved pixels, the most common kind. */
typedef void (*row_thirds_fn)(const unsigned char *x, const float *mean,
                              float value, float scale, bool mirror, int n,
                              float *out);

static void row_thirds(const unsigned char *x, const float *mean, float value,
                       float scale, bool mirror, int n, float *out)
{
    row_u8(x, 3, mean, value, scale, mirror, n, out);
}

static inline __attribute__((always_inline)) void row_float(
    const float *x, int step, const float *mean, float value, float scale,
    bool mirror, int n, float *out)
{
    for (int w = 0; w < n; w++)
        out[mirror ? n - 1 - w : w] =
            (x[w * step] - (mean ? mean[w] : value)) * scale;
}

static inline __attribute__((always_inline)) void transform_row(
    const struct ct_pixels *in, size_t at, int step, const float *mean,
    float value, float scale, bool mirror, int n, row_thirds_fn thirds,
    float *out)
{
    const unsigned char *x = (const unsigned char *)in->ptr + at;

    if (in->is_float)
        row_float((const float *)in->ptr + at, step, mean, value, scale,
                  mirror, n, out);
    else if (step == 1)
        row_u8(x, 1, mean, value, scale, mirror, n, out);
    else if (step == 3)
        thirds(x, mean, value, scale, mirror, n, out);
    else
        row_u8(x, step, mean, value, scale, mirror, n, out);
}

struct window {
    int  row, column; /* of the crop in the pixels */
    int  mean_row, mean_column;
    int  height, width;
    bool mirror;
};

static inline __attribute__((always_inline)) void transform_rows(
    const struct ct_transform *t, const struct ct_pixels *in,
    const struct window *win, row_thirds_fn thirds, float *out)
{
    const size_t h = (size_t)in->height, w = (size_t)in->width;
    const size_t channels = (size_t)in->channels;
    const int step = in->planar ? 1 : in->channels;

    for (int y = 0; y < win->height; y++) {
        size_t row = (size_t)(y + win->row), column = (size_t)win->column;
        size_t mean_at = (size_t)(y + win->mean_row) * (size_t)t->mean_width +
                         (size_t)win->mean_column;

        for (size_t c = 0; c < channels; c++) {
            size_t at = in->planar ? (c * h + row) * w + column
                                   : (row * w + column) * channels + c;
            const float *mean =
                t->mean ? t->mean + mean_at + c * (size_t)t->mean_height *
                                                  (size_t)t->mean_width
                        : NULL;
            float value = t->n_values == 0 ? 0
                          : t->param->mean_value[t->n_values > 1 ? c : 0];

            transform_row(in, at, step, mean, value, t->param->scale,
                          win->mirror, win->width, thirds,
                          out + (c * (size_t)win->height + (size_t)y) *
                                    (size_t)win->width);
        }
    }
}

/* Taking planes apart needs the byte shuffles that came after SSE2.  The
 * arithmetic is the same to the bit. */
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void row_thirds_avx2(
    const unsigned char *x, const float *mean, float value, float scale,
    bool mirror, int n, float *out)
{
    const __m256i pick = _mm256_setr_epi8(
        0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9, -1, -1, -1,
        6, -1, -1, -1, 9, -1, -1, -1, 12, -1, -1, -1, 15, -1, -1, -1);
    const __m256i turn  = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    const __m256 factor = _mm256_set1_ps(scale);
    __m256 m = _mm256_set1_ps(value);
    int i    = 0;

    /* Pixels w to w + 7 are in the 22 bytes from 3 w on.  Mirrored too, the
     * output is written upwards: that is what memory is fast at. */
    for (; i + 8 <= n; i += 8) {
        int w                   = mirror ? n - 8 - i : i;
        const unsigned char *at = x + 3 * w;
        __m256i bytes           = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)at)),
            _mm_loadu_si128((const __m128i *)(at + 6)), 1);
        __m256 v = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, pick));

        if (mean)
            m = _mm256_loadu_ps(mean + w);
        v = _mm256_mul_ps(_mm256_sub_ps(v, m), factor);
        if (mirror)
            v = _mm256_permutevar8x32_ps(v, turn);
        _mm256_storeu_ps(out + i, v);
    }
    for (; i < n; i++) {
        int w = mirror ? n - 1 - i : i;

        out[i] = ((float)x[3 * w] - (mean ? mean[w] : value)) * scale;
    }
}

__attribute__((target("avx2"))) static void transform_rows_avx2(
    const struct ct_transform *t, const struct ct_pixels *in,
    const struct window *win, float *out)
{
    transform_rows(t, in, win, row_thirds_avx2, out);
}
#define HAS_AVX2() __builtin_cpu_supports("avx2")
#else
#define transform_rows_avx2(t, in, win, out) (void)0
#define HAS_AVX2() 0
#endif

static void transform_window(const struct ct_transform *t,
                             const struct ct_pixels *in,
                             const struct window *win, float *out)
{
    if (HAS_AVX2())
        transform_rows_avx2(t, in, win, out);
    else
        transform_rows(t, in, win, row_thirds, out);
}

enum ct_status ct_transform_run(const struct ct_transform *t,
                                const struct ct_pixels *in, int64_t epoch,
                                int64_t sample, struct ct_room *room,
                                float *out)
{
    struct ct_pixels augmented;
    struct window win = { 0 };

    CT_TRY(ct_transform_size(t, in->channels, in->height, in->width,
                             &win.height, &win.width));
    win.mirror = t->param->mirror &&
                 ct_draw_below(t->key, epoch, sample, DRAW_MIRROR, 2);
    if (ct_augment_wanted(t)) {
        CT_TRY(ct_augment_run(t, in, epoch, sample, win.height, win.width,
                              room, &augmented));
        in              = &augmented;
        win.mean_row    = t->mean ? (t->mean_height - win.height) / 2 : 0;
        win.mean_column = t->mean ? (t->mean_width - win.width) / 2 : 0;
    } else {
        const uint32_t rows    = (uint32_t)(in->height - win.height);
        const uint32_t columns = (uint32_t)(in->width - win.width);
        bool random = t->crop && t->phase == CAFFE__PHASE__TRAIN;

        win.row    = (int)(random ? ct_draw_below(t->key, epoch, sample,
                                                  DRAW_ROW, rows + 1)
                                  : rows / 2);
        win.column = (int)(random ? ct_draw_below(t->key, epoch, sample,
                                                  DRAW_COLUMN, columns + 1)
                                  : columns / 2);
        win.mean_row    = win.row;
        win.mean_column = win.column;
    }
    transform_window(t, in, &win, out);
    return CT_OK;
}
