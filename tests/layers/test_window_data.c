/* test_window_data.c - windows of small pictures, worked out by hand.
 *
 * Picture "a" is 8 x 8 with B = 10 x + y, G = 100, R = 7 at column x, row y;
 * picture "b" is 8 x 8 and all 200. */
#include "base/text.h"
#include "data/images.h"
#include "testing/files.h"
#include "testing/layer_test.h"

static void picture(const char *name, bool flat)
{
    struct ct_image im = { 0 };
    struct ct_text png = { 0 };

    ASSERT_OK(ct_image_size(&im, 8, 8, 3));
    for (int i = 0; i < 64; i++) {
        int x = i % 8, y = i / 8;

        im.pixels[3 * i]     = (unsigned char)(flat ? 200 : 10 * x + y);
        im.pixels[3 * i + 1] = flat ? 200 : 100;
        im.pixels[3 * i + 2] = flat ? 200 : 7;
    }
    ASSERT_OK(ct_image_encode(&im, "png", &png));
    test_write(test_path(name), png.s, png.n_bytes);
    ct_text_fini(&png);
    ct_image_fini(&im);
}

static const char *windows(const char *text)
{
    const char *path = test_path("windows.txt");

    picture("a.png", false);
    picture("b.png", true);
    test_write(path, text, strlen(text));
    return path;
}

static struct layer_case *reader(const char *file, const char *param,
                                 const char *transform)
{
    return layer_case(CT_CPU, test_format(
        "name: 'w' type: 'WindowData' top: 'x' top: 'y' window_data_param { "
        "source: '%s' root_folder: '%s/' %s } transform_param { %s }", file,
        test_folder(), param, transform));
}

static const char two_images[] = "# 0\na.png\n3\n8\n8\n3\n"
                                 "5 1 2 3 3 4\n"     /* foreground */
                                 "6 0.4 0 0 1 1\n"   /* neither */
                                 "7 0.1 6 6 7 7\n"   /* background */
                                 "# 1\nb.png\n3\n8\n8\n1\n"
                                 "9 0.2 0 0 1 1\n";  /* background */

TEST(window_data, background_comes_first_then_foreground)
{
    struct layer_case *c = reader(windows(two_images),
        "batch_size: 4 fg_fraction: 0.3 fg_threshold: 0.5 bg_threshold: 0.3",
        "crop_size: 2");
    const float *x, *y;

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 4, 3, 2, 2);
    ASSERT_SHAPE(c, "top[1]", 4);
    for (int p = 0; p < 3; p++) {
        ASSERT_OK(case_forward(c));
        x = ct_data(case_find(c, "top[0]"));
        y = ct_data(case_find(c, "top[1]"));
        for (int i = 0; i < 3; i++) { /* int(4 * 0.3) = 1 is foreground */
            ASSERT_FLOAT(0, y[i], 0);
            ASSERT(x[12 * i] == 66 || x[12 * i] == 200);
        }
        ASSERT_FLOAT(5, y[3], 0);
        ASSERT_FLOAT(23, x[36], 0);
        ASSERT_FLOAT(33, x[37], 0);
        ASSERT_FLOAT(24, x[38], 0);
        ASSERT_FLOAT(34, x[39], 0);
        ASSERT_FLOAT(100, x[40], 0);
        ASSERT_FLOAT(7, x[44], 0);
    }
}

TEST(window_data, draws_repeat_after_seek_and_with_cached_images)
{
    struct layer_case *c, *d;
    struct ct_layer *l;
    float kept[48];

    c = reader(windows(two_images), "batch_size: 4 bg_threshold: 0.3",
               "crop_size: 2 mirror: true");
    d = reader(test_path("windows.txt"), "batch_size: 4 bg_threshold: 0.3 "
               "cache_images: true", "crop_size: 2 mirror: true");
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_setup(d));
    for (int p = 0; p < 3; p++) {
        ASSERT_OK(case_forward(c));
        ASSERT_OK(case_forward(d));
        ASSERT(memcmp(ct_data(case_find(c, "top[0]")),
                      ct_data(case_find(d, "top[0]")), sizeof(kept)) == 0);
    }
    memcpy(kept, ct_data(case_find(c, "top[0]")), sizeof(kept));
    l = case_layer(c);
    ASSERT_OK(l->type->seek(l, 2));
    ASSERT_OK(case_reshape(c));
    ASSERT_OK(case_forward(c));
    ASSERT(memcmp(ct_data(case_find(c, "top[0]")), kept, sizeof(kept)) == 0);
}

/* A 4 x 4 window in the corner, crop 6, padding 1: grown by 6/4 around
 * (2, 2) it spans -1..5, of which 0..5 are there; 6 of 7 pixels become 5 of
 * 6, after one column and row of zeros.  Mirrored, the column comes last. */
TEST(window_data, context_outside_of_the_image_is_zero)
{
    struct layer_case *c = reader(
        windows("# 0\nb.png\n3\n8\n8\n1\n1 1 0 0 3 3\n"),
        "batch_size: 8 fg_fraction: 1 context_pad: 1 scale: 0.5",
        "crop_size: 6 mean_value: 40 mirror: true");
    int n_mirrored = 0;

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    for (int i = 0; i < 8; i++) {
        const float *x = ct_data(case_find(c, "top[0]")) + i * 108;
        bool mirrored  = x[6 * 3] != 0;

        n_mirrored += mirrored;
        for (int k = 0; k < 108; k++) {
            int row = k / 6 % 6, column = k % 6;
            bool out = row == 0 || column == (mirrored ? 5 : 0);

            ASSERT_FLOAT(out ? 0 : 80, x[k], 0);
        }
    }
    ASSERT(n_mirrored > 0 && n_mirrored < 8);
}

/* A 4 x 2 window, square: 5 rows 2..6 (corners are rounded outwards, as in
 * Caffe) by 5 columns 2..6, scaled to 5 x 5: unchanged. */
TEST(window_data, square_mode_takes_the_square_around)
{
    struct layer_case *c = reader(
        windows("# 0\na.png\n3\n8\n8\n1\n1 1 2 3 5 4\n"),
        "batch_size: 1 fg_fraction: 1 crop_mode: 'square'", "crop_size: 5");
    const float *x;

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    x = ct_data(case_find(c, "top[0]"));
    for (int i = 0; i < 25; i++)
        ASSERT_FLOAT(10 * (2 + i % 5) + 2 + i / 5, x[i], 0);
}

static void refused(enum ct_status want, const char *text, const char *file,
                    const char *param, const char *transform)
{
    struct layer_case *c = reader(windows(file), param, transform);

    ASSERT_STATUS(want, case_setup(c));
    ASSERT_HAS("layer w", ct_last_error());
    ASSERT_HAS(text, ct_last_error());
}

TEST(window_data, bad_files_and_parameters_are_refused)
{
    const char *crop = "crop_size: 2", *batch = "batch_size: 2";

    refused(CT_EINVAL, "crop_size", two_images, batch, "");
    refused(CT_EINVAL, "batch_size", two_images, "", crop);
    refused(CT_EINVAL, "context_pad", two_images,
            "batch_size: 2 context_pad: 1", crop);
    refused(CT_EINVAL, "crop_mode", two_images,
            "batch_size: 2 crop_mode: 'round'", crop);
    refused(CT_EINVAL, "fg_fraction", two_images,
            "batch_size: 2 fg_fraction: 2", crop);
    refused(CT_EINVAL, "no foreground", "# 0\na.png\n3\n8\n8\n1\n1 0 0 0 1 1\n",
            "batch_size: 4", crop);
    refused(CT_EPARSE, "windows.txt:8: y2 is \"missing\"",
            "# 0\na.png\n3\n8\n8\n1\n1 1 0 0 1\n", batch, crop);
    refused(CT_EPARSE, "\"#\" belongs", "0\na.png\n", batch, crop);
    refused(CT_EPARSE, "label", "# 0\na.png\n3\n8\n8\n1\n0 1 0 0 1 1\n", batch,
            crop);
    refused(CT_EPARSE, "not inside",
            "# 0\na.png\n3\n8\n8\n1\n1 1 0 0 8 8\n",
            "batch_size: 1 fg_fraction: 1", crop);
    refused(CT_ENOTFOUND, "gone.png",
            "# 0\ngone.png\n3\n8\n8\n1\n1 1 0 0 1 1\n",
            "batch_size: 1 fg_fraction: 1", crop);
}
