/* test_region_loss.c - YOLO 2's loss: one cell by hand, a grid by differences.
 */
#include "layers/yolo_case.h"

/* One cell, one anchor, one class; all scores are 0, so that sigmoids are 1/2,
 * and the truth fills half of the image, in the middle, alike the anchor.  The
 * run has long begun. */
static struct layer_case *cell(enum ct_device_kind dev, const char *param)
{
    static const float x[6] = { 0 }, truth[] = { 0, 0.5f, 0.5f, 0.5f, 0.5f };
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'r' type: 'RegionLoss' "
             "region_loss_param { num: 1 num_class: 1 thresh: 0.6 %s }",
             param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 6, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(1, 1, 1, 5), truth);
    return c;
}

/* The box is right; so should be their overlap, 1: (1/2 - 1) 1/4. */
TEST_EACH_DEVICE(region_loss, a_right_box_gets_object_gradient_only)
{
    static const float two[] = { 2 };
    struct layer_case *c = cell(dev, "biases: 0.5 biases: 0.5 "
                                "object_scale: 5");

    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    case_run(c)->pass = 20000;
    case_top_diff(c, 0, two);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 0, 0, 0, -1.25f, 0);
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.625f * 0.625f);
}

/* An anchor twice as wide: w* = log 1/2, and the overlap is 1/2. */
TEST_EACH_DEVICE(region_loss, a_wrong_box_is_pulled)
{
    static const float one[] = { 1 };
    struct layer_case *c = cell(dev, "biases: 1 biases: 0.5 rescore: 0 "
                                "coord_scale: 2");

    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    case_run(c)->pass = 20000;
    case_top_diff(c, 0, one);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 0, 2 * 1.75f * 0.69314718f, 0,
                -0.125f, 0);
}

static struct layer_case *grid(enum ct_device_kind dev, const char *param,
                               float *truth)
{
    static const float boxes[] = {
        1, 0.3f, 0.2f, 0.4f, 0.3f, 0, 0.8f, 0.7f, 0.3f, 0.6f,
        2, 0.5f, 0.9f, 0.9f, 0.2f, 0, 0,    0,    0,    0,
    };
    char text[512];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'r' type: 'RegionLoss' "
             "region_loss_param { num: 2 num_class: 3 biases: 1 biases: 1.2 "
             "biases: 3 biases: 0.7 %s }", param);
    c = layer_case(dev, text);
    case_bottom_range(c, 0, CT_SHAPE(2, 16, 3, 4), -1.5f, 1.5f);
    case_bottom(c, 1, CT_SHAPE(2, 2, 5), boxes);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    memcpy(truth, boxes, sizeof(boxes));
    return c;
}

static const struct yolo_ref two_of_three = {
    2, 2, 3, 3, 4, 2, 2, { 1, 1.2, 3, 0.7 }, 4, 3, 0.3, 1, 0.5, 1, 5,
    { 0, 1 }, true, true, true, false
};

TEST_EACH_DEVICE(region_loss, gradient_matches_a_plain_version)
{
    struct yolo_ref r = two_of_three;
    float truth[20];

    ref_check(&r, grid(dev, "thresh: 0.3", truth), truth); /* at the start */
}

TEST_EACH_DEVICE(region_loss, later_boxes_are_free_of_their_anchors)
{
    struct yolo_ref r = two_of_three;
    struct layer_case *c;
    float truth[20];

    c = grid(dev, "thresh: 0.3 rescore: 0 class_scale: 2 noobject_scale: 1 "
             "object_scale: 3 coord_scale: 1", truth);
    case_run(c)->pass = 6400;
    r.early           = false;
    r.rescore         = false;
    r.of_class        = 2;
    r.no_object       = 1;
    r.object          = 3;
    r.coord           = 1;
    ref_check(&r, c, truth);
}

TEST(region_loss, what_makes_no_sense_is_refused)
{
    static const float label[] = { 1, 0.5f, 0.5f, 0.5f, 0.5f };
    struct layer_case *c = cell(CT_CPU, "biases: 1");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer r: region_loss_param needs two biases", ct_last_error());
    c = cell(CT_CPU, "biases: 1 biases: 0");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer r: bias 1 is 0", ct_last_error());
    c = cell(CT_CPU, "biases: 1 biases: 1 softmax_tree: 'x'");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = cell(CT_CPU, "biases: 1 biases: 1");
    case_bottom(c, 0, CT_SHAPE(1, 7, 1, 1), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer r: bottom 0 must be N x 6", ct_last_error());
    c = cell(CT_CPU, "biases: 1 biases: 1");
    case_bottom(c, 1, CT_SHAPE(1, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    c = cell(CT_CPU, "biases: 1 biases: 1");
    case_bottom(c, 1, CT_SHAPE(1, 5), label);
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer r: box 0 of image 0 has label 1", ct_last_error());
}
