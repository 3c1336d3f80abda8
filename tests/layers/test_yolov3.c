/* test_yolov3.c - YOLO 3's loss: one cell by hand, a grid by differences. */
#include "layers/yolo_case.h"

/* One cell of 32 pixels; scores are 0.  The truth, in the middle, is 16 pixels
 * wide and high, as the second anchor. */
static struct layer_case *cell(enum ct_device_kind dev, const char *param)
{
    static const float x[7] = { 0 }, truth[] = { 1, 0.5f, 0.5f, 0.5f, 0.5f };
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'y' type: 'Yolov3' yolov3_param { "
             "num: 1 num_class: 2 thresh: 0.5 biases: 4 biases: 4 "
             "biases: 16 biases: 16 %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 7, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(1, 1, 1, 5), truth);
    return c;
}

TEST_EACH_DEVICE(yolov3, a_right_box_gets_object_and_class)
{
    static const float two[] = { 2 };
    struct layer_case *c = cell(dev, "mask: 1");

    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    case_top_diff(c, 0, two);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 0, 0, 0, -1, 1, -1);
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0.75f);
}

/* The truth belongs to an anchor of another layer; the box that is here, of 4
 * pixels, holds nothing. */
TEST_EACH_DEVICE(yolov3, another_scale_answers_for_it)
{
    static const float one[] = { 1 };
    struct layer_case *c = cell(dev, "mask: 0");

    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    case_top_diff(c, 0, one);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 0, 0, 0, 0.5f, 0, 0);
}

TEST_EACH_DEVICE(yolov3, a_second_truth_adds_its_class)
{
    static const float one[] = { 1 };
    static const float both[] = { 1, 0.5f, 0.5f, 0.5f, 0.5f,
                                  0, 0.5f, 0.5f, 0.5f, 0.5f };
    struct layer_case *c = cell(dev, "mask: 1");

    case_bottom(c, 1, CT_SHAPE(1, 2, 5), both);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    case_top_diff(c, 0, one);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 0, 0, 0, -0.5f, -0.5f, -0.5f);
}

static void check_grid(enum ct_device_kind dev, const char *param,
                       const struct yolo_ref *r)
{
    static const float truth[] = {
        1, 0.3f, 0.2f, 0.4f, 0.3f, 0, 0.8f, 0.7f, 0.3f, 0.6f,
        2, 0.5f, 0.9f, 0.9f, 0.2f, 0, 0,    0,    0,    0,
    };
    char text[512];
    struct layer_case *c;

    snprintf(text, sizeof(text), "type: 'Yolov3' yolov3_param { num: 2 "
             "num_class: 3 anchors_scale: 8 biases: 8 biases: 9 biases: 12 "
             "biases: 8 biases: 24 biases: 6 mask: 1 mask: 2 thresh: 0.3 %s }",
             param);
    c = layer_case(dev, text);
    case_bottom_range(c, 0, CT_SHAPE(2, 16, 3, 4), -1.5f, 1.5f);
    case_bottom(c, 1, CT_SHAPE(2, 2, 5), truth);
    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    ref_check(r, c, truth);
}

static const struct yolo_ref of_three = {
    2, 2, 3, 3, 4, 2, 3, { 8, 9, 12, 8, 24, 6 }, 32, 24, 0.3, 1, 1, 1, 5,
    { 1, 2 }, false, false, false, false
};

TEST_EACH_DEVICE(yolov3, gradient_matches_a_plain_version)
{
    check_grid(dev, "", &of_three);
}

TEST_EACH_DEVICE(yolov3, logic_gradient_is_that_of_squares)
{
    struct yolo_ref r = of_three;

    r.logic    = true;
    r.object   = 4;
    r.of_class = 2;
    r.coord    = 1;
    check_grid(dev, "use_logic_gradient: true object_scale: 4 class_scale: 2 "
               "coord_scale: 1", &r);
}

TEST(yolov3, what_makes_no_sense_is_refused)
{
    struct layer_case *c = cell(CT_CPU, "");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer y: yolov3_param needs", ct_last_error());
    c = cell(CT_CPU, "mask: 2");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer y: mask 0 is 2", ct_last_error());
    c = cell(CT_CPU, "mask: 1 use_focal_loss: true");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = cell(CT_CPU, "mask: 1");
    case_bottom(c, 0, CT_SHAPE(1, 6, 1, 1), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}
