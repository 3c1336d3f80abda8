/* test_image_seg_data.c - pictures with labels of three kinds, by hand. */
#include "layers/segments_case.h"

static struct layer_case *pairs(const char *list, const char *param,
                                const char *transform)
{
    return layer_case(CT_CPU, test_format(
        "name: 's' type: 'ImageSegData' top: 'data' top: 'label' "
        "top: 'data_dim' image_data_param { source: '%s' root_folder: '%s/' "
        "%s } transform_param { %s }", list, test_folder(), param, transform));
}

/* 2 x 3 pixels in a window of 4: the rest is the mean and to be ignored. */
TEST(image_seg_data, small_images_are_padded)
{
    struct layer_case *c = pairs(make_pairs(1, 2, 3),
                                 "label_type: PIXEL is_color: false",
                                 "crop_size: 4 mean_value: 50");
    const float *x;

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 4, 4);
    ASSERT_NEAR(c, "top[1].data", 0, 1, 2, 3, 255, 11, 12, 13, 255, 255, 255,
                255, 255, 255, 255, 255, 255);
    ASSERT_NEAR(c, "top[2].data", 0, 2, 3);
    x = ct_data(case_find(c, "top[0]"));
    for (int i = 0; i < 16; i++)
        ASSERT(i % 4 < 3 && i < 8 ? x[i] > 0 : x[i] == 0);
}

TEST(image_seg_data, one_label_for_all_pixels_or_none)
{
    const char *list = test_path("numbers.txt");
    struct layer_case *c;

    make_pairs(1, 2, 2);
    test_write(list, "image0.png 7\n", 13);
    c = pairs(list, "", "");
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 7, 7, 7, 7);
    test_write(list, "image0.png\n", 11);
    c = pairs(list, "label_type: NONE ignore_label: 99", "");
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 99, 99, 99, 99);
}

/* In TEST the crop lies in the centre, and sizes are not drawn. */
TEST(image_seg_data, tests_see_the_centre)
{
    struct layer_case *c = pairs(make_pairs(1, 6, 8), "label_type: PIXEL",
                                 "crop_size: 2 scale_factors: 3");

    case_phase(c, CAFFE__PHASE__TEST);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 24, 25, 34, 35);
}

/* Twice as large: labels come in fours, from even places on or not. */
TEST(image_seg_data, random_sizes_scale_images_and_labels)
{
    struct layer_case *c = pairs(make_pairs(1, 6, 8), "label_type: PIXEL",
                                 "crop_size: 2 scale_factors: 2");
    int pairs_seen = 0;

    ASSERT_OK(case_setup(c));
    for (int i = 0; i < 16; i++) {
        const float *t;

        ASSERT_OK(case_forward(c));
        t = ct_data(case_find(c, "top[1]"));
        pairs_seen += t[0] == t[1];
        ASSERT(t[1] == t[0] || t[1] == t[0] + 1);
        ASSERT(t[2] == t[0] || t[2] == t[0] + 10);
    }
    ASSERT(pairs_seen > 0 && pairs_seen < 16);
    c = pairs(test_path("pairs.txt"), "label_type: PIXEL",
              "crop_size: 8 rand_resize: 0.5 rand_resize: 0.5");
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 1, 3, 5, 7, 255, 255, 255, 255, 21, 23,
                25, 27, 255, 255, 255, 255, 41, 43, 45, 47, 255, 255, 255, 255,
                255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                255, 255, 255, 255);
}

TEST(image_seg_data, a_batch_of_one_may_change_its_size)
{
    struct ct_image im = { 0 };
    struct layer_case *c;
    const char *list = make_pairs(2, 2, 3);

    ASSERT_OK(ct_image_size(&im, 1, 4, 1));
    memset(im.pixels, 5, 4);
    write_png("image1.png", &im);
    write_png("label1.png", &im);
    ct_image_fini(&im);
    c = pairs(list, "label_type: PIXEL", "");
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 3, 2, 3);
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 3, 4, 1);
    c = pairs(list, "label_type: PIXEL batch_size: 2", "");
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_ESHAPE, case_forward(c));
    ASSERT_HAS("an image of 1 x 4 pixels in a batch of others",
               ct_last_error());
}

TEST(image_seg_data, what_makes_no_sense_is_refused)
{
    struct layer_case *c = pairs(make_pairs(1, 2, 3), "", "");

    ASSERT_STATUS(CT_EPARSE, case_setup(c));
    ASSERT_HAS("pairs.txt:1: label label0.png is no number", ct_last_error());
    c = pairs(test_path("pairs.txt"), "label_type: PIXEL",
              "crop_size: 2 rand_resize: 1");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer s: rand_resize takes two numbers", ct_last_error());
    c = pairs(test_path("pairs.txt"), "label_type: PIXEL rand_skip: 1",
              "expand_param { prob: 1 }");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
}
