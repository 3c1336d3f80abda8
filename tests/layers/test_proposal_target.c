/* test_proposal_target.c - a box of 10 x 10 pixels and regions around it.
 *
 *     region 0  the left half of the box         overlap 50 / 100
 *     region 1  shifted by 8 to the right        overlap 20 / 180
 *     region 2  far away                         0
 *     region 3  of another image, far away       0
 *
 * and the box itself, which joins them. */
#include "testing/layer_test.h"

static const float rois[] = { 0, 10, 10, 14, 19, 0, 18, 10, 27, 19,
                              0, 50, 50, 59, 59, 1, 50, 50, 59, 59 };
static const float truth[] = { 0,  10, 10, 19, 19, 2, 0,
                               -1, 0,  0,  0,  0,  0, 0 };

static struct layer_case *sample(const char *param, const char *regression)
{
    char text[512];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 't' type: 'ProposalTarget' "
             "proposal_target_param { cls_num: 3 %s } bbox_reg_param { %s }",
             param, regression);
    c = layer_case(CT_CPU, text);
    case_tops(c, 7);
    case_bottom(c, 0, CT_SHAPE(4, 5), rois);
    case_bottom(c, 1, CT_SHAPE(2, 7), truth);
    return c;
}

TEST(proposal_target, all_that_qualify_with_batch_size_minus_one)
{
    struct layer_case *c = sample("batch_size: -1 bg_thr_lw: 0.1", "");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[2]", 3, 12, 1, 1);
    ASSERT_NEAR(c, "top[0].data", 0, 0, 10, 10, 14, 19, 0, 10, 10, 19, 19, 0,
                18, 10, 27, 19);
    ASSERT_NEAR(c, "top[1].data", 0, 2, 2, 0);
    /* From 5 x 10 to 10 x 10: half a width to the right, twice as wide. */
    ASSERT_NEAR(c, "top[2].data", 1e-6f, 0, 0, 0, 0, 0, 0, 0, 0, 0.5f, 0,
                0.69314718f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, 0, 0, 0, 0);
    ASSERT_NEAR(c, "top[3].data", 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0,
                0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0);
    ASSERT_NEAR(c, "top[5].data", 1e-6f, 2, 10, 10, 19, 19, 0.5f, 2, 10, 10,
                19, 19, 1, 0, 0, 0, 0, 0, 0);
    /* A quarter of 3 on the two, the rest on the third. */
    ASSERT_NEAR(c, "top[6].data", 1e-6f, 0.375f, 0.375f, 2.25f);
}

TEST(proposal_target, codes_are_normalised_and_may_know_no_class)
{
    struct layer_case *c = sample("batch_size: -1 iou_weighted: true "
        "bbox_thr_hg: 0.9",
        "cls_aware: false bbox_mean: 0.1 bbox_mean: 0 bbox_mean: 0 "
        "bbox_mean: 0 bbox_std: 0.1 bbox_std: 1 bbox_std: 1 bbox_std: 1");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[2]", 3, 8, 1, 1);
    ASSERT_NEAR(c, "top[2].data", 1e-5f, 0, 0, 0, 0, 4, 0, 0.69314718f, 0, 0,
                0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    /* The box itself overlaps too much for its weights. */
    ASSERT_NEAR(c, "top[4].data", 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    ASSERT_NEAR(c, "top[6].data", 1e-6f, 0.25f, 0.5f, 2.25f);
}

TEST(proposal_target, a_batch_has_its_share_of_foreground)
{
    struct layer_case *c = sample("batch_size: 4 fg_fraction: 0.25", "");
    const float *label, *roi;

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 4, 5, 1, 1);
    label = ct_data(case_find(c, "top[1]"));
    roi   = ct_data(case_find(c, "top[0]"));
    ASSERT_FLOAT(2, label[0], 0);
    for (int i = 1; i < 4; i++)
        ASSERT_FLOAT(0, label[i], 0);
    /* One in the band, then the first others. */
    ASSERT_FLOAT(18, roi[6], 0);
    ASSERT_FLOAT(50, roi[11], 0);
    ASSERT_FLOAT(1, roi[15], 0);
}

/* Two foreground regions, one wanted: both come up over passes, and the draw
 * of a pass repeats. */
TEST(proposal_target, draws_follow_the_pass)
{
    int seen = 0;

    for (uint64_t pass = 0; pass < 16; pass++) {
        struct layer_case *c = sample("batch_size: 4 fg_fraction: 0.25", "");
        float first[2];

        ASSERT_OK(case_setup(c));
        case_run(c)->pass = pass;
        for (int again = 0; again < 2; again++) {
            ASSERT_OK(case_forward(c));
            first[again] = ct_data(case_find(c, "top[0]"))[3];
        }
        ASSERT_FLOAT(first[0], first[1], 0);
        seen |= first[0] == 14 ? 1 : 2;
    }
    ASSERT_INT(3, seen);
}

TEST(proposal_target, an_ignored_box_is_neither)
{
    static const float ignored[] = { 0, 10, 10, 19, 19, 2, 1 };
    struct layer_case *c = sample("batch_size: -1", "");

    case_bottom(c, 1, CT_SHAPE(1, 7), ignored);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 0);
    ASSERT_NEAR(c, "top[0].data", 0, 0, 18, 10, 27, 19);
}

/* Nothing lies in the band: the region that overlaps least stands in. */
TEST(proposal_target, there_is_always_a_region)
{
    static const float none[] = { -1, 0, 0, 0, 0, 0, 0 };
    struct layer_case *c = sample("batch_size: -1", "");

    case_bottom(c, 1, CT_SHAPE(1, 7), none);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 10, 10, 14, 19);
    ASSERT_NEAR(c, "top[1].data", 0, 0);
    ASSERT_NEAR(c, "top[6].data", 0, 1);
}

TEST(proposal_target, five_values_are_faster_r_cnns_boxes)
{
    static const float five[] = { 10, 10, 19, 19, 1 };
    struct layer_case *c = sample("batch_size: -1 append_gtbox: false", "");

    case_bottom(c, 1, CT_SHAPE(1, 5), five);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 1, 0);
}

TEST(proposal_target, what_makes_no_sense_is_refused)
{
    static const float label[] = { 0, 10, 10, 19, 19, 3, 0 };
    static const float image[] = { 4, 10, 10, 19, 19, 1, 0 };
    struct layer_case *c = sample("batch_size: 0", "");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer t: batch_size is 0", ct_last_error());
    c = sample("fg_thr: 0.3", "");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer t: fg_thr 0.3 is below bg_thr_hg 0.5", ct_last_error());
    c = sample("", "");
    case_bottom(c, 1, CT_SHAPE(1, 7), label);
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer t: box 0 has label 3", ct_last_error());
    c = sample("", "");
    case_bottom(c, 1, CT_SHAPE(1, 7), image);
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer t: box 0 is in image 4", ct_last_error());
    c = sample("", "");
    case_bottom(c, 1, CT_SHAPE(1, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
}
