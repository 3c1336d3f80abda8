/* segments_case.h - pictures with labels for the tests of DenseImageData and
 * ImageSegData.
 *
 * Pixel (y, x) of picture i has B = 10 y + x, G = 100 + i, R = 200; its label
 * is 10 y + x + 1, so that every value tells where it comes from. */
#ifndef CT_TESTS_SEGMENTS_CASE_H
#define CT_TESTS_SEGMENTS_CASE_H

#include "base/text.h"
#include "data/images.h"
#include "testing/files.h"
#include "testing/layer_test.h"

static void write_png(const char *name, const struct ct_image *im)
{
    struct ct_text png = { 0 };

    ASSERT_OK(ct_image_encode(im, "png", &png));
    test_write(test_path(name), png.s, png.n_bytes);
    ct_text_fini(&png);
}

/* n pairs of height x width pixels, and a list of them; returns its path. */
static const char *make_pairs(int n, int height, int width)
{
    struct ct_image im = { 0 }, label = { 0 };
    struct ct_text list = { 0 };
    const char *path    = test_path("pairs.txt");

    ASSERT_OK(ct_image_size(&im, width, height, 3));
    ASSERT_OK(ct_image_size(&label, width, height, 1));
    for (int i = 0; i < n; i++) {
        for (int p = 0; p < height * width; p++) {
            const int at = 10 * (p / width) + p % width;

            im.pixels[3 * p]     = (unsigned char)at;
            im.pixels[3 * p + 1] = (unsigned char)(100 + i);
            im.pixels[3 * p + 2] = 200;
            label.pixels[p]      = (unsigned char)(at + 1);
        }
        write_png(test_format("image%d.png", i), &im);
        write_png(test_format("label%d.png", i), &label);
        ct_text_addf(&list, "image%d.png  label%d.png\n", i, i);
    }
    test_write(path, list.s, list.n_bytes);
    ct_text_fini(&list);
    ct_image_fini(&im);
    ct_image_fini(&label);
    return path;
}

#endif
