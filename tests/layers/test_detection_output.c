/* test_detection_output.c - four priors, three classes (0 is background).
 *
 * Priors 0 and 1 overlap by 1/2 (widths 2, shifted by 2/3: 4/3 of 8/3), 2 and
 * 3 stand alone.  Locations are 0, so that boxes are the priors. */
#include "layers/bbox.h"
#include "testing/layer_test.h"

#define THIRD (1.0f / 3)

static const float priors[] = {
    0, 0, 2, 1, 2 * THIRD, 0, 2 + 2 * THIRD, 1, 5, 0, 6, 1, 7, 0, 8, 1,
    .1f, .1f, .2f, .2f, .1f, .1f, .2f, .2f, .1f, .1f, .2f, .2f,
    .1f, .1f, .2f, .2f,
};
/* By prior: background, class 1, class 2. */
static const float conf[] = { .1f, .8f, .1f, .1f, .7f, .2f,
                              .3f, .1f, .6f, .9f, .05f, .05f };
static const float still[32] = { 0 };

static struct layer_case *four(const char *param, int n, const float *scores)
{
    char text[512];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'd' type: 'DetectionOutput' "
             "detection_output_param { num_classes: 3 %s }", param);
    c = layer_case(CT_CPU, text);
    case_bottom(c, 0, CT_SHAPE(n, 16), still);
    case_bottom(c, 1, CT_SHAPE(n, 12), scores);
    case_bottom(c, 2, CT_SHAPE(1, 2, 16), priors);
    return c;
}

TEST(detection_output, overlapping_boxes_lose_to_the_better)
{
    struct layer_case *c = four("confidence_threshold: 0.15 "
        "nms_param { nms_threshold: 0.45 }", 1, conf);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 3, 7);
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 1, .8f, 0, 0, 2, 1, 0, 2, .6f, 5,
                0, 6, 1, 0, 2, .2f, 2 * THIRD, 0, 2 + 2 * THIRD, 1);
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 3, 7);
}

TEST(detection_output, a_higher_threshold_keeps_both)
{
    struct layer_case *c = four("confidence_threshold: 0.65 "
        "nms_param { nms_threshold: 0.55 }", 1, conf);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 7);
}

/* The threshold falls from .55 to .495 after the first box kept. */
TEST(detection_output, eta_lowers_the_threshold)
{
    struct layer_case *c = four("confidence_threshold: 0.65 "
        "nms_param { nms_threshold: 0.55 eta: 0.9 }", 1, conf);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 1, 7);
}

TEST(detection_output, the_best_of_all_classes_are_kept)
{
    struct layer_case *c = four("confidence_threshold: 0.15 keep_top_k: 2 "
        "nms_param { nms_threshold: 0.45 }", 1, conf);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 1, .8f, 0, 0, 2, 1, 0, 2, .6f, 5,
                0, 6, 1);
}

TEST(detection_output, top_k_bounds_a_class)
{
    struct layer_case *c = four("nms_param { nms_threshold: 0.9 top_k: 1 }",
                                1, conf);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 1, .8f, 0, 0, 2, 1, 0, 2, .6f, 5,
                0, 6, 1);
}

TEST(detection_output, nothing_found_is_a_row_an_image)
{
    float twice[24];
    struct layer_case *c;

    memcpy(twice, conf, sizeof(conf));
    memcpy(twice + 12, conf, sizeof(conf));
    c = four("confidence_threshold: 0.95", 2, twice);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 7);
    ASSERT_NEAR(c, "top[0].data", 0, 0, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1,
                -1, -1, -1);
}

/* Every class has locations of its own: class 1 moves prior 0, class 2 none;
 * the background may be another class. */
TEST(detection_output, locations_may_differ_by_class)
{
    float loc[48] = { 0 };
    struct layer_case *c = four("share_location: false code_type: CORNER "
        "background_label_id: 2 confidence_threshold: 0.75", 1, conf);

    loc[4] = 10; /* prior 0, class 1, xmin; its variance is .1 */
    case_bottom(c, 0, CT_SHAPE(1, 48), loc);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 0, 0, .9f, 7, 0, 8, 1, 0, 1, .8f, 1,
                0, 2, 1);
}

/* Prior (0, 0)-(2, 1) and location (1, 2, ln 2, 0) by each code. */
TEST(detection_output, codes_decode_by_hand)
{
    static const float loc[] = { 1, 2, 0.69314718f, 0 };
    static const float half[] = { .5f, .5f, 1, 1 };
    struct ct_bbox b = ct_bbox_decode(CT_BBOX_CORNER, priors, half, loc);

    ASSERT_FLOAT(.5, b.xmin, 1e-6);
    ASSERT_FLOAT(1, b.ymin, 1e-6);
    ASSERT_FLOAT(2.6931472, b.xmax, 1e-6);
    b = ct_bbox_decode(CT_BBOX_CORNER_SIZE, priors, NULL, loc);
    ASSERT_FLOAT(2, b.xmin, 1e-6);
    ASSERT_FLOAT(2, b.ymin, 1e-6);
    ASSERT_FLOAT(1, b.ymax, 1e-6);
    b = ct_bbox_decode(CT_BBOX_CENTER_SIZE, priors, half, loc);
    ASSERT_FLOAT(0, b.xmin, 1e-6); /* centre (2, 1.5), size (4, 1) */
    ASSERT_FLOAT(1, b.ymin, 1e-6);
    ASSERT_FLOAT(4, b.xmax, 1e-6);
    ASSERT_FLOAT(2, b.ymax, 1e-6);
    b = ct_bbox_decode(CT_BBOX_CENTER_SIZE, priors, NULL, loc);
    ASSERT_FLOAT(1, b.xmin, 1e-6); /* centre (3, 2.5) */
}

static void refused(struct layer_case *c, enum ct_status st, const char *text)
{
    ASSERT_STATUS(st, case_setup(c));
    ASSERT_HAS("layer d", ct_last_error());
    ASSERT_HAS(text, ct_last_error());
}

TEST(detection_output, a_missing_number_of_classes_is_refused)
{
    struct layer_case *c =
        layer_case(CT_CPU, "name: 'd' type: 'DetectionOutput'");

    case_bottom(c, 0, CT_SHAPE(1, 16), still);
    case_bottom(c, 1, CT_SHAPE(1, 12), conf);
    case_bottom(c, 2, CT_SHAPE(1, 2, 16), priors);
    refused(c, CT_EINVAL, "num_classes");
}

TEST(detection_output, what_does_not_fit_is_refused)
{
    struct layer_case *c = four("", 1, conf);

    case_bottom(c, 0, CT_SHAPE(1, 12), NULL);
    refused(c, CT_ESHAPE, "12 locations");
    c = four("", 1, conf);
    case_bottom(c, 1, CT_SHAPE(1, 8), NULL);
    refused(c, CT_ESHAPE, "8 confidences");
    c = four("", 1, conf);
    case_bottom(c, 1, CT_SHAPE(2, 12), NULL);
    refused(c, CT_ESHAPE, "first dimension");
    c = four("", 1, conf);
    case_bottom(c, 2, CT_SHAPE(1, 16), NULL);
    refused(c, CT_ESHAPE, "priors");
    c = four("", 1, conf);
    case_bottom(c, 2, CT_SHAPE(0, 2, 16), NULL);
    refused(c, CT_ESHAPE, "priors");
    refused(four("nms_param { eta: 2 }", 1, conf), CT_EINVAL, "eta");
}
