/* test_image_formats.c - a small picture in every format that is read.
 *
 * tests/data/images has each file and, as FILE.bgr, what OpenCV reads of it in
 * color: rows and columns as 32-bit numbers, then B G R.  (GIF: the colors of
 * its palette.) */
#include <dirent.h>
#include <stdlib.h>

#include "base/mem.h"
#include "data/images.h"
#include "testing/files.h"

#define FOLDER CT_TEST_SOURCE "/tests/data/images/"

static struct ct_codec codec;
static struct ct_image im;

static void gone(void *arg)
{
    (void)arg;
    ct_image_fini(&im);
    ct_codec_fini(&codec);
}

/* Whether this build has the library for a file. */
static bool is_read(const char *name)
{
    const char *end = strrchr(name, '.') + 1;

    (void)end;
#ifndef CT_HAVE_JPEG
    if (strcmp(end, "jpg") == 0)
        return false;
#endif
#ifndef CT_HAVE_PNG
    if (strcmp(end, "png") == 0)
        return false;
#endif
#ifndef CT_HAVE_TIFF
    if (strcmp(end, "tif") == 0)
        return false;
#endif
#ifndef CT_HAVE_WEBP
    if (strcmp(end, "webp") == 0)
        return false;
#endif
#ifndef CT_HAVE_GIF
    if (strcmp(end, "gif") == 0)
        return false;
#endif
    return true;
}

/* Libraries of other versions decode lossy files a little differently. */
static int tolerance(const char *name)
{
    return strstr(name, ".jpg") || strstr(name, "lossy") ? 3
           : strstr(name, "text")                        ? 4
                                                         : 0;
}

typedef void (*file_fn)(const char *name, struct ct_bytes file,
                        struct ct_bytes bgr);

/* Calls fn for every file; there are at least so many. */
static void each_file(int least, file_fn fn)
{
    DIR *d = opendir(FOLDER);
    const struct dirent *e;
    int n = 0;

    if (!d)
        FAIL("no " FOLDER);
    test_defer(gone, NULL);
    while ((e = readdir(d))) {
        const char *path = test_format(FOLDER "%s", e->d_name);

        if (e->d_name[0] == '.' || strstr(e->d_name, ".bgr") ||
            !is_read(e->d_name))
            continue;
        fn(e->d_name, test_read(path), test_read(test_format("%s.bgr", path)));
        n++;
    }
    closedir(d);
    if (n < least)
        FAIL("only %d files", n);
}

static void same_pixels(const char *name, struct ct_bytes file,
                        struct ct_bytes bgr)
{
    const unsigned char *want = (const unsigned char *)bgr.ptr + 8;
    struct ct_image size      = { 0 };
    int32_t rows, columns;

    memcpy(&rows, bgr.ptr, 4);
    memcpy(&columns, (const char *)bgr.ptr + 4, 4);
    ASSERT_OK(ct_image_peek(&codec, file, CT_IMAGE_COLOR, &size));
    ASSERT_OK(ct_image_decode(&codec, file, CT_IMAGE_COLOR, &im));
    if (size.width != columns || size.height != rows || im.width != columns ||
        im.height != rows || im.channels != 3 || size.channels != 3)
        FAIL("%s: %d x %d x %d", name, im.height, im.width, im.channels);
    for (int i = 0; i < rows * columns * 3; i++)
        if (abs(im.pixels[i] - want[i]) > tolerance(name))
            FAIL("%s: value %d is %d and not %d", name, i, im.pixels[i],
                 want[i]);
}

TEST(image_formats, pixels_are_opencvs)
{
    each_file(5, same_pixels);
}

/* 0.299 R + 0.587 G + 0.114 B */
static void same_gray(const char *name, struct ct_bytes file,
                      struct ct_bytes bgr)
{
    const unsigned char *want = (const unsigned char *)bgr.ptr + 8;

    ASSERT_OK(ct_image_decode(&codec, file, CT_IMAGE_GRAY, &im));
    ASSERT_INT(1, im.channels);
    for (int i = 0; i < im.width * im.height; i++) {
        const double gray = .114 * want[3 * i] + .587 * want[3 * i + 1] +
                            .299 * want[3 * i + 2];

        if (fabs(im.pixels[i] - gray) > 3 + tolerance(name))
            FAIL("%s: pixel %d is %d and not %g", name, i, im.pixels[i], gray);
    }
}

TEST(image_formats, gray_is_the_weighted_mean_of_colors)
{
    each_file(5, same_gray);
}

static void survives(const char *name, struct ct_bytes file,
                     struct ct_bytes bgr)
{
    (void)name, (void)bgr;
    for (size_t n = 0; n < file.n; n++) {
        unsigned char *cut = ct_malloc(n, "cut image");
        enum ct_status st;

        memcpy(cut, file.ptr, n);
        st = ct_image_decode(&codec, (struct ct_bytes){ cut, n },
                             CT_IMAGE_NATIVE, &im);
        ct_free(cut);
        if (st != CT_OK && !ct_last_error()[0])
            FAIL("%s at %d bytes: no reason", name, (int)n);
        if (st == CT_OK && n < file.n / 2)
            FAIL("%s: %d of %d bytes are an image", name, (int)n,
                 (int)file.n);
    }
}

TEST(image_formats, truncated_files_are_refused)
{
    each_file(5, survives);
}

/* A picture on its side is only turned where color or gray is asked for. */
#ifdef CT_HAVE_PNG
/* 132 bytes that speak of 370 MB of EXIF. */
TEST(image_formats, a_chunk_that_is_not_there_takes_no_memory)
{
    const struct ct_bytes file = test_read(
        CT_TEST_SOURCE "/tests/fuzz/seeds/fuzz_image/found_long_exif.png");

    test_defer(gone, NULL);
    ASSERT_STATUS(CT_EPARSE, ct_image_decode(&codec, file, CT_IMAGE_COLOR,
                                             &im));
    ASSERT_HAS("a chunk is longer than the file", ct_last_error());
}
#endif

TEST(image_formats, as_it_is_means_as_it_is)
{
    if (!is_read("turned6.jpg"))
        test_skip("no JPEG");
    test_defer(gone, NULL);
    ASSERT_OK(ct_image_decode(&codec, test_read(FOLDER "turned6.jpg"),
                              CT_IMAGE_NATIVE, &im));
    ASSERT_INT(12, im.width);
    ASSERT_INT(9, im.height);
}

TEST(image_formats, alpha_is_kept_where_files_are_wanted_as_they_are)
{
    if (!is_read("alpha.webp"))
        test_skip("no WebP");
    test_defer(gone, NULL);
    ASSERT_OK(ct_image_decode(&codec, test_read(FOLDER "alpha.webp"),
                              CT_IMAGE_NATIVE, &im));
    ASSERT_INT(4, im.channels);
    ASSERT_INT(20, im.pixels[7]);
}
