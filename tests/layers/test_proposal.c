/* test_proposal.c - one anchor of 16 x 16 pixels, from (0, 0) to (15, 15), at
 * two positions 16 pixels apart, in an image of 20 x 32 pixels. */
#include "testing/layer_test.h"

/* Background, then foreground; codes dx, dy, dw, dh of both positions. */
static const float scores[] = { 0.8f, 0.1f, 0.2f, 0.9f };
static const float codes[]  = { 0.5f, 0, 0, 0, 0, 0, 0, 0.69314718f };
static const float size[]   = { 20, 32, 1 };

static struct layer_case *image(const char *param, const float *score,
                                const float *code)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'p' type: 'Proposal' proposal_param { "
             "ratio: 1 scale: 1 %s }", param);
    c = layer_case(CT_CPU, text);
    case_bottom(c, 0, CT_SHAPE(1, 2, 1, 2), score);
    case_bottom(c, 1, CT_SHAPE(1, 4, 1, 2), code);
    case_bottom(c, 2, CT_SHAPE(1, 3), size);
    return c;
}

/* The second anchor is twice as high and cut at the image; the first moves half
 * a width: centre 8 + 8, and ends half a width behind it. */
TEST(proposal, boxes_are_decoded_cut_and_ordered_by_score)
{
    struct layer_case *c = image("min_size: 4", scores, codes);

    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 5);
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0, 16, 0, 31, 19, 0, 8, 0, 24, 16);
    ASSERT_NEAR(c, "top[1].data", 1e-6f, 0.9f, 0.2f);
}

/* They overlap in 9 x 17 = 153 of 16 x 20 + 17 x 17 - 153 = 456: 0.3355. */
TEST(proposal, a_box_suppresses_those_that_overlap_it)
{
    struct layer_case *c = image("nms_thresh: 0.33", scores, codes);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 5);
    c = image("nms_thresh: 0.34", scores, codes);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 5);
}

TEST(proposal, counts_limit_what_is_looked_at_and_left)
{
    struct layer_case *c = image("post_nms_topn: 1", scores, codes);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0, 16, 0, 31, 19);
    c = image("pre_nms_topn: 1", scores, codes);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 5);
}

/* The second box is 16 wide, the first 17. */
TEST(proposal, small_boxes_are_dropped)
{
    struct layer_case *c = image("min_size: 16.5", scores, codes);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0, 8, 0, 24, 16);
    c = image("min_size: 100", scores, codes);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0, 0, 31, 19); /* all of the image */
}

TEST(proposal, codes_that_are_not_finite_are_dropped)
{
    static const float wild[] = { 0, 0, 0, NAN, 0, 1000, 0, 0 };
    struct layer_case *c = image("", scores, wild);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0, 0, 0, 16, 16);
}

/* Faster R-CNN's nine anchors, as its authors print them. */
TEST(proposal, default_anchors_are_faster_r_cnns)
{
    static const float want[9][4] = {
        { -84, -40, 99, 55 },     { -176, -88, 191, 103 },
        { -360, -184, 375, 199 }, { -56, -56, 71, 71 },
        { -120, -120, 135, 135 }, { -248, -248, 263, 263 },
        { -36, -80, 51, 95 },     { -80, -168, 95, 183 },
        { -168, -344, 183, 359 },
    };
    static const float huge[] = { 2000, 2000, 1 };
    float score[18] = { 0 }, code[36] = { 0 };

    for (int i = 0; i < 9; i++) {
        struct layer_case *c = layer_case(CT_CPU, "type: 'Proposal' "
                                          "proposal_param { min_size: 1 "
                                          "post_nms_topn: 1 }");

        for (int k = 0; k < 9; k++)
            score[9 + k] = k == i;
        /* Moved by whole widths, so that nothing is cut. */
        code[4 * i] = 1000 / (want[i][2] - want[i][0] + 1);
        code[4 * i + 1] = 1000 / (want[i][3] - want[i][1] + 1);
        case_bottom(c, 0, CT_SHAPE(1, 18, 1, 1), score);
        case_bottom(c, 1, CT_SHAPE(1, 36, 1, 1), code);
        case_bottom(c, 2, CT_SHAPE(1, 3), huge);
        ASSERT_OK(case_setup(c));
        ASSERT_OK(case_forward(c));
        ASSERT_NEAR(c, "top[0].data", 1e-3f, 0, 1000 + want[i][0],
                    1000 + want[i][1], 1001 + want[i][2], 1001 + want[i][3]);
        code[4 * i] = code[4 * i + 1] = 0;
    }
}

TEST(proposal, images_of_a_batch_are_apart)
{
    static const float two[] = { 0, 0.9f, 0, 0.5f }, code[8] = { 0 };
    static const float sizes[] = { 20, 32, 1, 1, 10, 12, 1, 1 };
    struct layer_case *c = image("min_size: 4", scores, codes);

    case_bottom(c, 0, CT_SHAPE(2, 2, 1, 1), two);
    case_bottom(c, 1, CT_SHAPE(2, 4, 1, 1), code);
    case_bottom(c, 2, CT_SHAPE(2, 4), sizes);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0, 0, 0, 16, 16, 1, 0, 0, 11, 9);
}

TEST(proposal, shapes_that_do_not_fit_are_refused)
{
    static const float none[] = { 0, 32, 1 };
    struct layer_case *c = image("ratio: 2", scores, codes);

    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer p: 2 anchors (ratios times scales) need bottoms of N x 4",
               ct_last_error());
    c = image("", scores, codes);
    case_bottom(c, 2, CT_SHAPE(1, 2), size);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer p: bottom 2 must have height", ct_last_error());
    c = image("post_nms_topn: 0", scores, codes);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = image("ratio: 0", scores, codes);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = image("", scores, codes);
    case_bottom(c, 2, CT_SHAPE(1, 3), none);
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer p: image 0 has 0 x 32 pixels", ct_last_error());
}
