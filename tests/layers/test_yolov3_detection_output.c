/* test_yolov3_detection_output.c - one cell of 32 pixels, anchors of 16 and 8
 * pixels, two classes; scores of 0 give sigmoids of 1/2. */
#include "testing/layer_test.h"

#define LN3 1.09861229f /* a sigmoid of 3/4 */

static struct layer_case *cell(const char *param)
{
    char text[512];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'o' type: 'Yolov3DetectionOutput' "
             "yolov3_detection_output_param { num_classes: 2 num_box: 1 "
             "biases: 16 biases: 16 biases: 8 biases: 8 %s }", param);
    c = layer_case(CT_CPU, text);
    return c;
}

static const char *const one =
    "mask_group_num: 1 mask: 0 anchors_scale: 32 confidence_threshold: 0.3 "
    "nms_threshold: 0.5";

/* 3/4 by 3/4 for class 1; class 0 is at 3/8, and has the same box. */
TEST(yolov3_detection_output, the_best_class_of_a_box_is_left)
{
    static const float x[] = { 0, 0, 0, 0, LN3, 0, LN3 };
    struct layer_case *c   = cell(one);

    case_bottom(c, 0, CT_SHAPE(1, 7, 1, 1), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 1, 7);
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 2, 0.5625f, 0.25f, 0.25f, 0.75f,
                0.75f);
}

/* Two scales: boxes of 16 and 8 pixels around one middle overlap by 1/4. */
TEST(yolov3_detection_output, scales_have_masks_and_anchors_of_their_own)
{
    static const float x[] = { 0, 0, 0, 0, LN3, LN3, -9 };
    struct layer_case *c = cell("mask_group_num: 2 mask: 0 mask: 1 "
        "anchors_scale: 32 anchors_scale: 16 confidence_threshold: 0.5 "
        "nms_threshold: 0.3");

    case_bottom(c, 0, CT_SHAPE(1, 7, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(1, 7, 1, 1), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    /* The second scale has 16 pixels a cell: 8 of 16, the same box. */
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 1, 0.5625f, 0.25f, 0.25f, 0.75f,
                0.75f);
    c = cell("mask_group_num: 2 mask: 0 mask: 1 anchors_scale: 32 "
             "anchors_scale: 32 confidence_threshold: 0.5 nms_threshold: 0.3");
    case_bottom(c, 0, CT_SHAPE(1, 7, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(1, 7, 1, 1), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 1, 0.5625f, 0.25f, 0.25f, 0.75f,
                0.75f, 0, 1, 0.5625f, 0.375f, 0.375f, 0.625f, 0.625f);
}

TEST(yolov3_detection_output, images_of_a_batch_are_apart)
{
    static const float x[] = { 0, 0, 0, 0, LN3, LN3, -9,
                               0, 0, 0, 0, LN3, -9, LN3 };
    static const float none[14] = { 0, 0, 0, 0, -9 };
    struct layer_case *c = cell(one);

    case_bottom(c, 0, CT_SHAPE(2, 7, 1, 1), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 1, 0.5625f, 0.25f, 0.25f, 0.75f,
                0.75f, 1, 2, 0.5625f, 0.25f, 0.25f, 0.75f, 0.75f);
    case_bottom(c, 0, CT_SHAPE(2, 7, 1, 1), none);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1,
                -1, -1, -1);
}

TEST(yolov3_detection_output, what_does_not_fit_is_refused)
{
    struct layer_case *c = cell("mask_group_num: 2 mask: 0 anchors_scale: 32");

    case_bottom(c, 0, CT_SHAPE(1, 7, 1, 1), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer o: 2 scales (mask_group_num) need", ct_last_error());
    c = cell("mask_group_num: 1 mask: 2 anchors_scale: 32");
    case_bottom(c, 0, CT_SHAPE(1, 7, 1, 1), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer o: mask 0 is 2", ct_last_error());
    c = cell(one);
    case_bottom(c, 0, CT_SHAPE(1, 8, 1, 1), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer o: bottom 0 must be N x 7", ct_last_error());
}
