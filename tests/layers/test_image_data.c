/* test_image_data.c - lists of image files, against BVLC Caffe and by hand. */
#include <sys/stat.h>

#include "base/text.h"
#include "data/images.h"
#include "layers/batches.h"
#include "testing/files.h"
#include "testing/layer_test.h"

static void equals_caffe(const char *name, const char *param,
                         const char *transform, float tol)
{
    const char *file = test_format("caffe_files/%s.h5", name);
    const char *root = test_format("%s", test_recorded("caffe_files"));
    struct layer_case *c = layer_case(CT_CPU, test_format(
        "name: 'd' type: 'ImageData' top: 'data' top: 'label' "
        "image_data_param { source: '%s/list.txt' root_folder: '%s/images/' "
        "batch_size: 30 %s } transform_param { %s }", root, root, param,
        transform));

    case_phase(c, CAFFE__PHASE__TEST);
    ASSERT_OK(case_setup(c));
    for (int k = 0; k < 4; k++) {
        const struct ct_blob *data, *label;

        ASSERT_OK(case_forward(c));
        data  = case_find(c, "top[0]");
        label = case_find(c, "top[1]");
        test_h5_equal(file, test_format("/data/%d", k), ct_data(data),
                      data->count, tol);
        test_h5_equal(file, test_format("/label/%d", k), ct_data(label),
                      label->count, 0);
    }
}

TEST(image_data, colour_images_are_read_as_caffe_reads_them)
{
    equals_caffe("image_data", "", "", 0);
}

TEST(image_data, gray_images_are_read_as_caffe_reads_them)
{
    equals_caffe("image_data_gray", "is_color: false", "", 0);
}

TEST(image_data, resized_images_are_caffes_within_one_in_255)
{
    equals_caffe("image_data_resize", "new_height: 40 new_width: 48",
                 "crop_size: 36 mean_value: 100", 1);
}

/* n PNGs of 2 x 2 pixels; all of picture i are (i, 50 + i, 100 + i). */
static const char *small_list(int n)
{
    const char *list  = test_path("list.txt");
    struct ct_text t  = { 0 }, png = { 0 };
    struct ct_image im = { 0 };

    ASSERT_OK(ct_image_size(&im, 2, 2, 3));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 12; k++)
            im.pixels[k] = (unsigned char)(i + 50 * (k % 3));
        ASSERT_OK(ct_image_encode(&im, "png", &png));
        test_write(test_path(test_format("im %d.png", i)), png.s, png.n_bytes);
        ct_text_addf(&t, "im %d.png %d\n", i, 3 * i);
    }
    test_write(list, t.s, t.n_bytes);
    ct_text_fini(&t);
    ct_text_fini(&png);
    ct_image_fini(&im);
    return list;
}

static struct layer_case *reader(const char *list, int batch, const char *more)
{
    return layer_case(CT_CPU, test_format(
        "name: 'd' type: 'ImageData' top: 'x' top: 'y' image_data_param { "
        "source: '%s' root_folder: '%s/' batch_size: %d %s }", list,
        test_folder(), batch, more));
}

static void pass(struct layer_case *c, int n, int *which)
{
    ASSERT_OK(case_forward(c));
    for (int i = 0; i < n; i++) {
        const float *x = ct_data(case_find(c, "top[0]")) + 12 * i;

        which[i] = (int)x[0];
        ASSERT_FLOAT(which[i] + 50, x[4], 0);
        ASSERT_FLOAT(which[i] + 100, x[11], 0);
        ASSERT_FLOAT(3 * which[i], ct_data(case_find(c, "top[1]"))[i], 0);
    }
}

TEST(image_data, lines_follow_in_order_and_names_may_have_spaces)
{
    struct layer_case *c = reader(small_list(3), 2, "");
    int got[2];

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 2, 2);
    ASSERT_SHAPE(c, "top[1]", 2);
    for (int p = 0; p < 4; p++) {
        pass(c, 2, got);
        ASSERT_INT(2 * p % 3, got[0]);
        ASSERT_INT((2 * p + 1) % 3, got[1]);
    }
}

TEST(image_data, shuffled_ranks_see_each_image_once_an_epoch)
{
    const char *list = small_list(12);
    int seen[12] = { 0 }, got[2], moved = 0;

    for (int r = 0; r < 3; r++) {
        struct layer_case *c = reader(list, 2, "shuffle: true");

        case_run(c)->rank = r;
        case_run(c)->size = 3;
        ASSERT_OK(case_setup(c));
        for (int p = 0; p < 2; p++) {
            pass(c, 2, got);
            moved += got[0] != 6 * p + 2 * r;
            seen[got[0]]++;
            seen[got[1]]++;
        }
    }
    for (int i = 0; i < 12; i++)
        ASSERT_INT(1, seen[i]);
    ASSERT(moved > 0);
}

TEST(image_data, seek_continues_with_the_next_image)
{
    struct layer_case *c = reader(small_list(5), 2, "shuffle: true");
    struct ct_layer *l;
    int straight[6][2], got[2];

    ASSERT_OK(case_setup(c));
    l = case_layer(c);
    for (int p = 0; p < 6; p++)
        pass(c, 2, straight[p]);
    ASSERT_OK(l->type->seek(l, 4));
    ASSERT_OK(case_reshape(c));
    pass(c, 2, got);
    ASSERT(memcmp(got, straight[4], sizeof(got)) == 0);
}

TEST(image_data, rand_skip_starts_below_it)
{
    struct layer_case *c = reader(small_list(9), 1, "rand_skip: 8");
    int got[2];

    ASSERT_OK(case_setup(c));
    pass(c, 1, got);
    ASSERT(got[0] < 8);
    pass(c, 1, got + 1);
    ASSERT_INT((got[0] + 1) % 9, got[1]);
}

TEST(image_data, missing_image_stops_or_is_skipped)
{
    const char *list     = small_list(4);
    struct layer_case *c = reader(list, 2, "");
    struct layer_case *d = reader(list, 2, "on_error: SKIP");
    int got[4];

    ASSERT(remove(test_path("im 2.png")) == 0);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_STATUS(CT_ENOTFOUND, case_forward(c));
    ASSERT_HAS("layer d", ct_last_error());
    ASSERT_HAS("im 2.png", ct_last_error());
    ASSERT_OK(case_setup(d));
    pass(d, 2, got);
    pass(d, 2, got + 2);
    ASSERT_INT(3, got[2]);
    ASSERT_INT(3, got[3]);
}

TEST(image_data, file_that_is_no_image_is_named)
{
    struct layer_case *c = reader(small_list(2), 1, "");

    test_write(test_path("im 1.png"), "hello", 5);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_STATUS(CT_EPARSE, case_forward(c));
    ASSERT_HAS("im 1.png", ct_last_error());
}

static void refused(enum ct_status want, const char *text, const char *param)
{
    struct layer_case *c = layer_case(CT_CPU, test_format(
        "name: 'd' type: 'ImageData' top: 'x' top: 'y' image_data_param { %s }",
        param));

    ASSERT_STATUS(want, case_setup(c));
    ASSERT_HAS("layer d", ct_last_error());
    ASSERT_HAS(text, ct_last_error());
}

TEST(image_data, bad_parameters_are_refused_by_layer_name)
{
    const char *list = small_list(2);

    refused(CT_EINVAL, "no source", "");
    refused(CT_EINVAL, "or neither",
            test_format("source: '%s' new_height: 2", list));
    refused(CT_EINVAL, "batch_size",
            test_format("source: '%s' batch_size: 0", list));
    refused(CT_ENOTFOUND, "nowhere", "source: 'nowhere'");
    test_write(list, "\n", 1);
    refused(CT_EINVAL, "no images", test_format("source: '%s'", list));
}
