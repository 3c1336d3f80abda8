/* test_decode_bbox.c - regions of 10 x 20 pixels, by hand. */
#include "testing/layer_test.h"

static const float rois[] = { 0, 10, 20, 19, 39, 1, 10, 20, 19, 39 };
/* Half a width to the right and twice as high; as it is. */
static const float codes[] = { 9, 9, 9, 9, 0.5f, 0, 0, 0.69314718f,
                               9, 9, 9, 9, 0,    0, 0, 0 };

static struct layer_case *boxes(const char *text)
{
    struct layer_case *c = layer_case(CT_CPU, text);

    case_bottom(c, 0, CT_SHAPE(2, 8), codes);
    case_bottom(c, 1, CT_SHAPE(2, 5), rois);
    return c;
}

TEST(decode_bbox, the_object_code_moves_a_region)
{
    struct layer_case *c = boxes("type: 'DecodeBBox'");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 5, 1, 1);
    ASSERT_NEAR(c, "top[0].data", 1e-4f, 0, 15, 10, 24, 49, 1, 10, 20, 19,
                39);
}

TEST(decode_bbox, codes_are_scaled_first)
{
    struct layer_case *c = boxes("type: 'DecodeBBox' bbox_reg_param { "
        "bbox_mean: 0.1 bbox_mean: 0 bbox_mean: 0 bbox_mean: 0 "
        "bbox_std: 0.2 bbox_std: 1 bbox_std: 1 bbox_std: 1 }");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-4f, 0, 12, 10, 21, 49, 1, 11, 20, 20,
                39);
}

TEST(decode_bbox, in_training_ground_truth_is_dropped)
{
    static const float match[] = { 1, 0, 0, 0, 0, 0.6f, 1, 0, 0, 0, 0, 0.95f };
    static const float both[]  = { 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1 };
    struct layer_case *c       = boxes("type: 'DecodeBBox'");

    case_bottom(c, 2, CT_SHAPE(2, 6), match);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-4f, 0, 15, 10, 24, 49);
    case_bottom(c, 2, CT_SHAPE(2, 6), both);
    ASSERT_OK(case_forward(c)); /* none is left: the first, as it was */
    ASSERT_NEAR(c, "top[0].data", 0, 0, 10, 20, 19, 39);
}

TEST(decode_bbox, boxes_inside_out_are_dropped_in_training)
{
    static const float thin[] = { 0, 0, 0, 0, 0, 0, -9, 0,
                                  0, 0, 0, 0, 0, 0, 0,  0 };
    struct layer_case *c      = boxes("type: 'DecodeBBox'");

    case_bottom(c, 0, CT_SHAPE(2, 8), thin);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-4f, 1, 10, 20, 19, 39);
    c = boxes("type: 'DecodeBBox'");
    case_phase(c, CAFFE__PHASE__TEST);
    case_bottom(c, 0, CT_SHAPE(2, 8), thin);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 5, 1, 1);
}

TEST(decode_bbox, shapes_that_do_not_fit_are_refused)
{
    struct layer_case *c = boxes("name: 'd' type: 'DecodeBBox'");

    case_bottom(c, 1, CT_SHAPE(2, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer d: bottoms must be R x 8 codes", ct_last_error());
    c = boxes("name: 'd' type: 'DecodeBBox' bbox_reg_param { bbox_mean: 0 "
              "bbox_std: 1 }");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer d: bbox_reg_param takes four", ct_last_error());
}
