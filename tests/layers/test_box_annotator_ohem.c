/* test_box_annotator_ohem.c - five regions of two images, by hand. */
#include "testing/layer_test.h"

static const float rois[] = { 0, 1, 1, 2, 2, 0, 1, 1, 2, 2, 0, 1, 1,
                              2, 2, 1, 1, 1, 2, 2, 1, 1, 1, 2, 2 };
static const float loss[] = { 1, 3, 2, 5, 5 }, labels[] = { 1, 2, 3, 4, 0 };
static const float weights[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };

static struct layer_case *boxes(enum ct_device_kind dev, const char *param)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'o' type: 'BoxAnnotatorOHEM' "
             "box_annotator_ohem_param { %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(5, 5), rois);
    case_bottom(c, 1, CT_SHAPE(5), loss);
    case_bottom(c, 2, CT_SHAPE(5), labels);
    case_bottom(c, 3, CT_SHAPE(5, 2), weights);
    return c;
}

TEST_EACH_DEVICE(box_annotator_ohem, the_hardest_of_each_image_are_left)
{
    struct layer_case *c = boxes(dev, "roi_per_img: 1");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[1]", 5, 2);
    ASSERT_NEAR(c, "top[0].data", 0, -1, 2, -1, 4, -1);
    ASSERT_NEAR(c, "top[1].data", 0, 0, 0, 3, 4, 0, 0, 7, 8, 0, 0);
}

TEST_EACH_DEVICE(box_annotator_ohem, two_of_each_and_another_label)
{
    struct layer_case *c = boxes(dev, "roi_per_img: 2 ignore_label: 255");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 255, 2, 3, 4, 0);
    ASSERT_NEAR(c, "top[1].data", 0, 0, 0, 3, 4, 5, 6, 7, 8, 9, 10);
}

/* One row of regions with two positions each: 1 x 5 x 1 x 2. */
TEST_EACH_DEVICE(box_annotator_ohem, positions_are_regions)
{
    static const float two[] = { 0, 0, 1, 1, 1, 1, 2, 2, 2, 2 };
    static const float cost[] = { 1, 2 }, label[] = { 3, 4 };
    static const float w[] = { 5, 6, 7, 8 };
    struct layer_case *c = boxes(dev, "roi_per_img: 1");

    case_bottom(c, 0, CT_SHAPE(1, 5, 1, 2), two);
    case_bottom(c, 1, CT_SHAPE(1, 1, 1, 2), cost);
    case_bottom(c, 2, CT_SHAPE(1, 1, 1, 2), label);
    case_bottom(c, 3, CT_SHAPE(1, 2, 1, 2), w);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, -1, 4);
    ASSERT_NEAR(c, "top[1].data", 0, 0, 6, 0, 8);
}

TEST(box_annotator_ohem, bottoms_that_do_not_fit_are_refused)
{
    struct layer_case *c = boxes(CT_CPU, "roi_per_img: 0");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer o: box_annotator_ohem_param needs", ct_last_error());
    c = boxes(CT_CPU, "roi_per_img: 1");
    case_bottom(c, 1, CT_SHAPE(4), loss);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer o: bottom 1 has 4 values for 5", ct_last_error());
    c = boxes(CT_CPU, "roi_per_img: 1");
    case_bottom(c, 0, CT_SHAPE(5, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    c = boxes(CT_CPU, "roi_per_img: 1");
    case_bottom(c, 3, CT_SHAPE(4, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer o: bottom 3 must have weights for 5", ct_last_error());
}
