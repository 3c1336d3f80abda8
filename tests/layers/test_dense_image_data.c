/* test_dense_image_data.c - pairs of pictures, by hand. */
#include "layers/segments_case.h"

static struct layer_case *pairs(const char *list, const char *param,
                                const char *transform)
{
    return layer_case(CT_CPU, test_format(
        "name: 'd' type: 'DenseImageData' top: 'data' top: 'label' "
        "dense_image_data_param { source: '%s' root_folder: '%s/' %s } "
        "transform_param { %s }", list, test_folder(), param, transform));
}

TEST(dense_image_data, tops_are_images_and_labels)
{
    struct layer_case *c = pairs(make_pairs(2, 2, 3), "batch_size: 2", "");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 2, 3);
    ASSERT_SHAPE(c, "top[1]", 2, 1, 2, 3);
    ASSERT_NEAR(c, "top[0].data", 0, 0, 1, 2, 10, 11, 12, 100, 100, 100, 100,
                100, 100, 200, 200, 200, 200, 200, 200, 0, 1, 2, 10, 11, 12,
                101, 101, 101, 101, 101, 101, 200, 200, 200, 200, 200, 200);
    ASSERT_NEAR(c, "top[1].data", 0, 1, 2, 3, 11, 12, 13, 1, 2, 3, 11, 12, 13);
}

/* Labels are taken, not mixed: 3 columns of 6 in pairs. */
TEST(dense_image_data, labels_are_resized_to_the_nearest)
{
    struct layer_case *c = pairs(make_pairs(1, 2, 3),
                                 "new_height: 2 new_width: 6", "");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 3, 2, 6);
    ASSERT_NEAR(c, "top[1].data", 0, 1, 1, 2, 2, 3, 3, 11, 11, 12, 12, 13, 13);
}

/* Whatever is drawn, image and label show the same place. */
TEST(dense_image_data, crops_and_mirrors_turn_both_alike)
{
    bool turned = false, straight = false, moved = false;
    struct layer_case *c = pairs(make_pairs(4, 6, 8),
                                 "batch_size: 4 is_color: true",
                                 "crop_size: 3 mirror: true mean_value: 7 "
                                 "mean_value: 0 mean_value: 0 scale: 2");

    ASSERT_OK(case_setup(c));
    for (int pass = 0; pass < 8; pass++) {
        const float *x, *t;

        ASSERT_OK(case_forward(c));
        x = ct_data(case_find(c, "top[0]"));
        t = ct_data(case_find(c, "top[1]"));
        for (int i = 0; i < 4; i++)
            for (int p = 0; p < 9; p++)
                ASSERT_FLOAT((t[i * 9 + p] - 1 - 7) * 2, x[i * 27 + p], 0);
        for (int i = 0; i < 4; i++) {
            turned |= t[i * 9 + 1] < t[i * 9];
            straight |= t[i * 9 + 1] > t[i * 9];
            moved |= t[i * 9] != t[0];
        }
    }
    ASSERT(turned && straight && moved);
}

TEST(dense_image_data, a_seek_continues_where_a_run_stopped)
{
    struct layer_case *a = pairs(make_pairs(5, 4, 4), "batch_size: 2 "
                                 "shuffle: true", "crop_size: 2 mirror: true");
    struct layer_case *b = pairs(test_path("pairs.txt"), "batch_size: 2 "
                                 "shuffle: true", "crop_size: 2 mirror: true");

    ASSERT_OK(case_setup(a));
    ASSERT_OK(case_setup(b));
    for (int i = 0; i < 6; i++)
        ASSERT_OK(case_forward(a));
    ASSERT_OK(case_layer(b)->type->seek(case_layer(b), 5));
    ASSERT_OK(case_forward(b));
    case_near(b, __FILE__, __LINE__, "top[0].data", 0,
              ct_data(case_find(a, "top[0]")), 24);
    case_near(b, __FILE__, __LINE__, "top[1].data", 0,
              ct_data(case_find(a, "top[1]")), 8);
}

TEST(dense_image_data, a_label_of_another_size_is_refused_by_its_name)
{
    struct ct_image small = { 0 };
    struct layer_case *c;
    const char *list = make_pairs(1, 2, 3);

    ASSERT_OK(ct_image_size(&small, 1, 1, 1));
    small.pixels[0] = 0;
    write_png("label0.png", &small);
    ct_image_fini(&small);
    c = pairs(list, "", "");
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer d: image", ct_last_error());
    ASSERT_HAS("label0.png has 1 x 1 pixels, its image 3 x 2",
               ct_last_error());
}

TEST(dense_image_data, what_makes_no_sense_is_refused)
{
    const char *list = make_pairs(1, 2, 3), *bad = test_path("bad.txt");
    struct layer_case *c = pairs("", "", "");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer d: dense_image_data_param has no source",
               ct_last_error());
    test_write(bad, "a.png b.png\nalone.png\n", 22);
    c = pairs(bad, "", "");
    ASSERT_STATUS(CT_EPARSE, case_setup(c));
    ASSERT_HAS("bad.txt:2: the label of alone.png is missing",
               ct_last_error());
    c = pairs(list, "new_height: 3", "");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = pairs(list, "", "mean_file: 'x'");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer d: images with labels take mean_value",
               ct_last_error());
    c = pairs(list, "", "scale_factors: 2");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("random sizes need a crop_size", ct_last_error());
    c = pairs(list, "", "crop_size: 2 scale_factors: 0");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = pairs(list, "", "mean_value: 1 mean_value: 2");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
}
