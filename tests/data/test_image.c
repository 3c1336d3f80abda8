/* test_image.c - pictures in and out. */
#include "base/mem.h"
#include "data/datum.h"
#include "data/images.h"
#include "testing/files.h"

static struct ct_codec codec;

static void codec_gone(void *arg)
{
    ct_codec_fini(arg);
}

static void image_gone(void *arg)
{
    ct_image_fini(arg);
    ct_free(arg);
}

static struct ct_image *image(int width, int height, int channels)
{
    struct ct_image *im = ct_calloc(1, sizeof(*im), "test image");

    test_defer(image_gone, im);
    if (width)
        ASSERT_OK(ct_image_size(im, width, height, channels));
    test_defer(codec_gone, &codec);
    return im;
}

/* Smooth, so that JPEG keeps it within a few levels. */
static struct ct_image *ramp(int width, int height, int channels)
{
    struct ct_image *im = image(width, height, channels);

    for (int i = 0; i < width * height; i++)
        for (int c = 0; c < channels; c++)
            im->pixels[i * channels + c] =
                (unsigned char)(40 + 2 * (i % width) + 3 * (i / width) +
                                20 * c);
    return im;
}

static struct ct_bytes encoded(const struct ct_image *im, const char *type)
{
    struct ct_text t = { 0 };

    ASSERT_OK(ct_image_encode(im, type, &t));
    test_defer(ct_free, t.s);
    return (struct ct_bytes){ t.s, t.n_bytes };
}

TEST(image, png_gives_back_every_pixel)
{
    static const int channels[] = { 1, 3, 4 };

    for (int k = 0; k < 3; k++) {
        struct ct_image *in = ramp(13, 7, channels[k]), *out = image(0, 0, 0);

        ASSERT_OK(ct_image_decode(&codec, encoded(in, ".png"), CT_IMAGE_NATIVE,
                                  out));
        ASSERT_INT(13, out->width);
        ASSERT_INT(7, out->height);
        ASSERT_INT(channels[k], out->channels);
        ASSERT(memcmp(in->pixels, out->pixels,
                      (size_t)(13 * 7 * channels[k])) == 0);
    }
}

TEST(image, jpeg_gives_back_nearly_every_pixel)
{
    for (int channels = 1; channels <= 3; channels += 2) {
        struct ct_image *in = ramp(32, 24, channels), *out = image(0, 0, 0);

        ASSERT_OK(ct_image_decode(&codec, encoded(in, "jpeg"), CT_IMAGE_NATIVE,
                                  out));
        ASSERT_INT(channels, out->channels);
        for (int i = 0; i < 32 * 24 * channels; i++)
            ASSERT_FLOAT(in->pixels[i], out->pixels[i], 4);
    }
}

TEST(image, modes_convert_colour_and_gray)
{
    struct ct_image *in = image(1, 1, 3), *out = image(0, 0, 0);
    struct ct_bytes file;

    memcpy(in->pixels, "\x0a\xc8\x64", 3); /* B 10, G 200, R 100 */
    file = encoded(in, "png");
    ASSERT_OK(ct_image_decode(&codec, file, CT_IMAGE_GRAY, out));
    ASSERT_INT(1, out->channels);
    ASSERT_INT(148, out->pixels[0]); /* 1.14 + 117.4 + 29.9 = 148.4 */
    ASSERT_OK(ct_image_peek(&codec, file, CT_IMAGE_GRAY, out));
    ASSERT_INT(1, out->channels);
    in->channels = 1;
    file         = encoded(in, "png");
    ASSERT_OK(ct_image_decode(&codec, file, CT_IMAGE_COLOR, out));
    ASSERT_INT(3, out->channels);
    ASSERT(memcmp(out->pixels, "\x0a\x0a\x0a", 3) == 0);
    ASSERT_OK(ct_image_decode(&codec, file, CT_IMAGE_NATIVE, out));
    ASSERT_INT(1, out->channels);
}

TEST(image, alpha_is_dropped_where_colour_is_asked_for)
{
    struct ct_image *in = image(1, 1, 4), *out = image(0, 0, 0);

    memcpy(in->pixels, "\x01\x02\x03\x80", 4);
    ASSERT_OK(ct_image_decode(&codec, encoded(in, "png"), CT_IMAGE_COLOR, out));
    ASSERT_INT(3, out->channels);
    ASSERT(memcmp(out->pixels, "\x01\x02\x03", 3) == 0);
}

/* By hand.  Width 2 to 4: sources at -0.25, 0.25, 0.75, 1.25, edges held. */
TEST(image, resize_interpolates_between_pixel_centres)
{
    struct ct_image *in = image(2, 1, 1), *out = image(0, 0, 0);

    memcpy(in->pixels, "\x00\x64", 2);
    ASSERT_OK(ct_image_resize(&codec, in, 4, 1, out));
    ASSERT(memcmp(out->pixels, "\x00\x19\x4b\x64", 4) == 0);
    in->width  = 1;
    in->height = 2;
    ASSERT_OK(ct_image_resize(&codec, in, 1, 4, out));
    ASSERT(memcmp(out->pixels, "\x00\x19\x4b\x64", 4) == 0);
}

TEST(image, half_size_is_the_mean_of_four)
{
    struct ct_image *in = image(2, 2, 3), *out = image(0, 0, 0);

    memcpy(in->pixels, "\x01\x00\x0a\x02\x00\x0a\x03\x01\x0a\x05\x00\x0b", 12);
    ASSERT_OK(ct_image_resize(&codec, in, 1, 1, out));
    ASSERT(memcmp(out->pixels, "\x03\x00\x0a", 3) == 0);
}

TEST(image, resize_to_any_size_stays_between_the_extremes)
{
    struct ct_image *in = ramp(17, 11, 3), *out = image(0, 0, 0);
    static const int to[][2] = { { 1, 1 }, { 40, 5 }, { 3, 50 }, { 16, 12 } };

    for (int k = 0; k < 4; k++) {
        ASSERT_OK(ct_image_resize(&codec, in, to[k][0], to[k][1], out));
        ASSERT_INT(to[k][0], out->width);
        for (int i = 0; i < out->width * out->height * 3; i++)
            ASSERT(out->pixels[i] >= 40 && out->pixels[i] <= 142);
    }
}

TEST(image, broken_files_are_refused_at_every_length)
{
    static const char *const types[] = { "png", "jpg" };

    for (int k = 0; k < 2; k++) {
        struct ct_bytes file = encoded(ramp(40, 40, 3), types[k]);
        struct ct_image *out = image(0, 0, 0);

        for (size_t n = 0; n < file.n - 12; n += 7) {
            unsigned char *cut = ct_malloc(n, "cut image");

            memcpy(cut, file.ptr, n);
            ASSERT_STATUS(CT_EPARSE,
                          ct_image_decode(&codec, (struct ct_bytes){ cut, n },
                                          CT_IMAGE_COLOR, out));
            ct_free(cut);
        }
    }
}

TEST(image, unknown_types_are_refused)
{
    struct ct_image *im = ramp(4, 4, 3);
    struct ct_text t    = { 0 };

    ASSERT_STATUS(CT_EINVAL, ct_image_encode(im, "gif", &t));
    ASSERT_HAS("gif", ct_last_error());
    im->channels = 2;
    ASSERT_STATUS(CT_EINVAL, ct_image_encode(im, "jpg", &t));
    ASSERT_STATUS(CT_EINVAL, ct_image_encode(im, "png", &t));
    ASSERT_STATUS(CT_EPARSE, ct_image_decode(&codec, (struct ct_bytes){
                                                 "FIG89a", 6 },
                                             CT_IMAGE_COLOR, im));
}

TEST(image, missing_file_is_named)
{
    struct ct_image *a = image(0, 0, 0), *b = image(0, 0, 0);
    struct ct_room keep = { 0 };

    ASSERT_STATUS(CT_ENOTFOUND, ct_image_load(&codec, "/nowhere/x.jpg",
                                              CT_IMAGE_COLOR, 0, 0, &keep, a,
                                              b));
    ASSERT_HAS("/nowhere/x.jpg", ct_last_error());
}

/* Runs fn on each encoded record of a database that Caffe's tools wrote. */
static void each_record(const char *source,
                        void (*fn)(const struct ct_datum *d, const char *name))
{
    const char *path = test_copy(test_format("caffe_files/%s", source));
    struct ct_cursor *c;
    struct ct_db *db;

    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_READ, &db));
    ASSERT_OK(ct_cursor_create(db, &c));
    while (ct_cursor_valid(c)) {
        struct ct_datum d;
        char name[64];

        ASSERT_OK(ct_datum_read(ct_cursor_value(c), &d));
        fn(&d, ct_key_text(ct_cursor_key(c), name, sizeof(name)) + 9);
        ASSERT_OK(ct_cursor_next(c));
    }
    ct_cursor_destroy(c);
    ct_db_close(db);
}

static void png_is_ours(const struct ct_datum *d, const char *name)
{
    struct ct_room keep = { 0 };
    struct ct_image a = { 0 }, b = { 0 };
    struct ct_text t = { 0 };

    ASSERT_OK(ct_image_load(&codec,
                            test_recorded(test_format("caffe_files/images/%s",
                                                    name)),
                            CT_IMAGE_COLOR, 0, 0, &keep, &a, &b));
    ASSERT_OK(ct_image_encode(&b, "png", &t));
    ASSERT_INT(d->data.n, t.n_bytes);
    ASSERT(memcmp(t.s, d->data.ptr, t.n_bytes) == 0);
    ct_room_fini(&keep);
    ct_image_fini(&a);
    ct_image_fini(&b);
    ct_text_fini(&t);
}

TEST(image, png_bytes_are_those_that_caffes_tools_write)
{
    test_defer(codec_gone, &codec);
    each_record("lmdb_png", png_is_ours);
}

static void gray_is_ours(const struct ct_datum *d, const char *name)
{
    struct ct_room keep = { 0 };
    struct ct_image a = { 0 }, b = { 0 };

    ASSERT_OK(ct_image_load(&codec,
                            test_recorded(test_format("caffe_files/images/%s",
                                                    name)),
                            CT_IMAGE_GRAY, 20, 24, &keep, &a, &b));
    ASSERT_INT(d->data.n, 20 * 24);
    for (size_t i = 0; i < d->data.n; i++)
        ASSERT_FLOAT(((const unsigned char *)d->data.ptr)[i], b.pixels[i], 1);
    ct_room_fini(&keep);
    ct_image_fini(&a);
    ct_image_fini(&b);
}

TEST(image, gray_and_resized_is_caffes_within_one_level)
{
    test_defer(codec_gone, &codec);
    each_record("lmdb_gray_resized", gray_is_ours);
}
