/* test_detection_evaluate.c - three classes, 0 is the background. */
#include "testing/layer_test.h"

#define HALF 0, 0, .5f, 1 /* overlaps the left 6/10 by 5/6 */

static const float truths[] = {
    0, 1, 0, 0, 0, .6f, 1, 0, /* image 0: class 1 on the left */
    0, 1, 1, .7f, 0, 1, 1, 1, /* and a difficult one on the right */
    1, 2, 0, 0, 0, .6f, 1, 0, /* image 1: class 2 on the left */
    -1, -1, -1, -1, -1, -1, -1, -1,
};
static const float found[] = {
    0, 1, .5f, HALF,              /* right */
    0, 1, .4f, HALF,              /* wrong: taken */
    0, 1, .9f, .7f, 0, 1, 1,      /* of the difficult one */
    0, 2, .3f, HALF,              /* wrong: no such class there */
    1, 2, .2f, .5f, 0, 1, 1,      /* wrong: too far off */
    1, 2, .7f, HALF,              /* right */
};

static struct layer_case *three(const char *param)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'e' type: 'DetectionEvaluate' "
             "detection_evaluate_param { num_classes: 3 %s }", param);
    c = layer_case(test_device()->kind, text);
    case_bottom(c, 0, CT_SHAPE(1, 1, 6, 7), found);
    case_bottom(c, 1, CT_SHAPE(1, 1, 4, 8), truths);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    return c;
}

TEST(detection_evaluate, detections_are_judged_best_first)
{
    struct layer_case *c = three("");

    ASSERT_SHAPE(c, "top[0]", 1, 1, 8, 5);
    ASSERT_NEAR(c, "top[0].data", 1e-6f, -1, 1, 2, -1, -1, -1, 2, 1, -1, -1,
                0, 1, .9f, 1, 0, 0, 1, .5f, 1, 0, 0, 1, .4f, 0, 1,
                0, 2, .3f, 0, 1, 1, 2, .7f, 1, 0, 1, 2, .2f, 0, 1);
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 8, 5);
}

TEST(detection_evaluate, difficult_truths_may_count_for_nothing)
{
    struct layer_case *c = three("evaluate_difficult_gt: false");

    ASSERT_NEAR(c, "top[0].data", 1e-6f, -1, 1, 1, -1, -1, -1, 2, 1, -1, -1,
                0, 1, .9f, 0, 0, 0, 1, .5f, 1, 0, 0, 1, .4f, 0, 1,
                0, 2, .3f, 0, 1, 1, 2, .7f, 1, 0, 1, 2, .2f, 0, 1);
}

TEST(detection_evaluate, the_threshold_says_what_is_near_enough)
{
    struct layer_case *c = three("overlap_threshold: 0.9");

    ASSERT_FLOAT(0, ct_data(case_find(c, "top[0]"))[3 * 5 + 3], 0);
    ASSERT_FLOAT(1, ct_data(case_find(c, "top[0]"))[3 * 5 + 4], 0);
}

TEST(detection_evaluate, nothing_found_leaves_the_counts)
{
    static const float none[] = { 0, -1, -1, -1, -1, -1, -1 };
    struct layer_case *c      = three("");

    case_bottom(c, 0, CT_SHAPE(1, 1, 1, 7), none);
    ASSERT_OK(case_reshape(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, -1, 1, 2, -1, -1, -1, 2, 1, -1, -1);
}

TEST(detection_evaluate, what_does_not_fit_is_refused)
{
    struct layer_case *c =
        layer_case(CT_CPU, "name: 'e' type: 'DetectionEvaluate'");

    case_bottom(c, 0, CT_SHAPE(1, 1, 6, 7), found);
    case_bottom(c, 1, CT_SHAPE(1, 1, 4, 8), truths);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer e: detection_evaluate_param needs num_classes",
               ct_last_error());
    c = layer_case(CT_CPU, "name: 'e' type: 'DetectionEvaluate' "
                           "detection_evaluate_param { num_classes: 3 }");
    case_bottom(c, 0, CT_SHAPE(1, 1, 6, 7), found);
    case_bottom(c, 1, CT_SHAPE(1, 1, 4, 7), truths);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("AnnotatedData", ct_last_error());
}

TEST(detection_evaluate, detections_out_of_range_are_named)
{
    static const float bad[][7] = { { 0, 3, .5f, 0, 0, 1, 1 },
                                    { 1e9f, 1, .5f, 0, 0, 1, 1 },
                                    { 1e30f, 1, .5f, 0, 0, 1, 1 } };

    for (int i = 0; i < 3; i++) {
        struct layer_case *c =
            layer_case(CT_CPU, "name: 'e' type: 'DetectionEvaluate' "
                               "detection_evaluate_param { num_classes: 3 }");

        case_bottom(c, 0, CT_SHAPE(1, 1, 1, 7), bad[i]);
        case_bottom(c, 1, CT_SHAPE(1, 1, 4, 8), truths);
        ASSERT_OK(case_setup(c));
        ASSERT_STATUS(CT_EINVAL, case_forward(c));
        ASSERT_HAS("layer e: detection 0 is of class", ct_last_error());
    }
}
