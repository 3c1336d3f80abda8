/* test_multi_box_loss.c - four priors in a row, three classes.
 *
 *     prior  0 [0, 1/4]  1 [1/4, 1/2]  2 [1/2, 3/4]  3 [3/4, 1]
 *     truth  [1/8, 3/8], label 2: overlaps 0 and 1 by 1/3 each
 *
 * all with y in [0, 1/2].
 *
 * python/tests/test_multibox.py compares random cases with numpy. */
#include "testing/layer_test.h"

#define V .1f, .1f, .2f, .2f

static const float priors[] = { 0, 0, .25f, .5f, .25f, 0, .5f, .5f,
                                .5f, 0, .75f, .5f, .75f, 0, 1, .5f,
                                V, V, V, V };
static const float truth[] = { 0, 2, 0, .125f, 0, .375f, .5f, 0 };
static const float zeros[64] = { 0 }, one = 1;
/* By prior: the softmax of prior 3 is 1/2, 1/4, 1/4. */
static const float conf[] = { 0, 0, 0, 0, 0, 0, 5, 0, 0, 0.69314718f, 0, 0 };

static struct layer_case *four(const char *param, const char *more)
{
    char text[768];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'm' type: 'MultiBoxLoss' %s "
             "multibox_loss_param { num_classes: 3 %s }", more, param);
    c = layer_case(test_device()->kind, text);
    case_bottom(c, 0, CT_SHAPE(1, 16), zeros);
    case_bottom(c, 1, CT_SHAPE(1, 12), conf);
    case_bottom(c, 2, CT_SHAPE(1, 2, 16), priors);
    case_bottom(c, 3, CT_SHAPE(1, 1, 1, 8), truth);
    return c;
}

static float loss_of(struct layer_case *c)
{
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    return ct_data(case_find(c, "top[0]"))[0];
}

/* Equal overlaps: the lower prior.  CORNER: t = (1/8, 0, 1/8, 0) / (.1, .1,
 * .2, .2) = (1.25, 0, .625, 0); smooth L1 gives .75 + .1953125.  Confidence:
 * prior 0 has log 3; of three negatives prior 1 has log 3, 3 has log 2, 2 has
 * 0.0134. */
#define LOC_LOSS .9453125f
#define LOG3 1.0986123f
#define LOG2 0.6931472f

TEST(multi_box_loss, the_best_prior_and_the_hardest_negatives_count)
{
    ASSERT_FLOAT(LOC_LOSS + LOG3 + LOG3,
                 loss_of(four("neg_pos_ratio: 1", "")), 1e-5);
    ASSERT_FLOAT(LOC_LOSS + LOG3 + LOG3 + LOG2,
                 loss_of(four("neg_pos_ratio: 2", "")), 1e-5);
    ASSERT_FLOAT(2 * LOC_LOSS + LOG3 + LOG3,
                 loss_of(four("neg_pos_ratio: 1 loc_weight: 2", "")), 1e-5);
}

/* With a lower threshold prior 1 is matched as well, with -t. */
TEST(multi_box_loss, other_priors_match_from_the_threshold_on)
{
    ASSERT_FLOAT((2 * LOC_LOSS + 2 * LOG3 + LOG2 + .0134) / 2,
                 loss_of(four("overlap_threshold: 0.3", "")), 1e-3);
    ASSERT_FLOAT(LOC_LOSS + LOG3 + LOG2 + LOG3 + .0134,
                 loss_of(four("overlap_threshold: 0.3 match_type: BIPARTITE",
                              "")), 1e-3);
}

TEST(multi_box_loss, neg_overlap_keeps_near_priors_out)
{
    ASSERT_FLOAT(LOC_LOSS + LOG3 + LOG2,
                 loss_of(four("neg_pos_ratio: 1 neg_overlap: 0.3", "")),
                 1e-5);
}

TEST(multi_box_loss, no_mining_takes_all)
{
    ASSERT_FLOAT(LOC_LOSS + 2 * LOG3 + LOG2 + .0134,
                 loss_of(four("mining_type: NONE", "")), 1e-3);
    ASSERT_FLOAT(LOC_LOSS + 2 * LOG3 + LOG2 + .0134,
                 loss_of(four("do_neg_mining: false", "")), 1e-3);
    ASSERT_FLOAT((LOC_LOSS + 2 * LOG3 + LOG2 + .0134) / 4,
                 loss_of(four("mining_type: NONE",
                              "loss_param { normalization: FULL }")), 1e-3);
}

/* The hardest of all: prior 0 with its location, then prior 1. */
TEST(multi_box_loss, hard_examples_are_the_highest_losses)
{
    ASSERT_FLOAT(LOC_LOSS + LOG3,
                 loss_of(four("mining_type: HARD_EXAMPLE sample_size: 1",
                              "")), 1e-5);
    ASSERT_FLOAT(LOC_LOSS + LOG3 + LOG3,
                 loss_of(four("mining_type: HARD_EXAMPLE sample_size: 2",
                              "")), 1e-5);
}

/* Prior 2 made so wrong that it alone is left: no match, so z is 1. */
TEST(multi_box_loss, a_matched_prior_may_be_too_easy_to_count)
{
    float wrong[12];
    struct layer_case *c =
        four("mining_type: HARD_EXAMPLE sample_size: 1", "");

    memcpy(wrong, conf, sizeof(wrong));
    wrong[7] = 20; /* class 1, against 5 of the background */
    case_bottom(c, 1, CT_SHAPE(1, 12), wrong);
    ASSERT_FLOAT(15, loss_of(c), 1e-4);
}

TEST(multi_box_loss, codes_and_variances)
{
    /* CENTER_SIZE: 1/8 off, in widths of 1/4: .5 / .1 = 5, 4.5. */
    ASSERT_FLOAT(4.5 + LOG3 + LOG3,
                 loss_of(four("neg_pos_ratio: 1 code_type: CENTER_SIZE", "")),
                 1e-4);
    /* CORNER_SIZE: (.5, 0, .5, 0) / (.1, .1, .2, .2): 5 and 2.5. */
    ASSERT_FLOAT(4.5 + 2 + LOG3 + LOG3,
                 loss_of(four("neg_pos_ratio: 1 code_type: CORNER_SIZE", "")),
                 1e-4);
    ASSERT_FLOAT(LOC_LOSS + LOG3 + LOG3,
                 loss_of(four("neg_pos_ratio: 1 encode_variance_in_target: "
                              "true", "")), 1e-5);
    /* L2: (1.5625 + .390625) / 2. */
    ASSERT_FLOAT(.9765625 + LOG3 + LOG3,
                 loss_of(four("neg_pos_ratio: 1 loc_loss_type: L2", "")),
                 1e-5);
}

TEST(multi_box_loss, logistic_counts_every_class)
{
    /* Zeros: 3 log 2 for each of priors 0 and 1. */
    ASSERT_FLOAT(LOC_LOSS + 6 * LOG2,
                 loss_of(four("neg_pos_ratio: 1 conf_loss_type: LOGISTIC",
                              "")), 1e-5);
}

TEST(multi_box_loss, rows_of_padding_and_difficult_truths_are_left_out)
{
    static const float rows[] = { -1, -1, -1, -1, -1, -1, -1, -1,
                                  0, 2, 0, .125f, 0, .375f, .5f, 0,
                                  0, 1, 0, .75f, 0, 1, .5f, 1 };
    struct layer_case *c = four("neg_pos_ratio: 1 use_difficult_gt: false",
                                "");

    case_bottom(c, 3, CT_SHAPE(1, 1, 3, 8), rows);
    ASSERT_FLOAT(LOC_LOSS + LOG3 + LOG3, loss_of(c), 1e-5);
    c = four("neg_pos_ratio: 1", "");
    case_bottom(c, 3, CT_SHAPE(1, 1, 3, 8), rows);
    /* Prior 3 fits the second truth: log 4 and no location.  Negatives: prior
     * 1 and then prior 2. */
    ASSERT_FLOAT((LOC_LOSS + 2 * LOG3 + 2 * LOG2 + .0134) / 2, loss_of(c),
                 1e-3);
}

TEST(multi_box_loss, an_image_without_truths_adds_nothing)
{
    static const float none[] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    struct layer_case *c      = four("", "");

    case_bottom(c, 3, CT_SHAPE(1, 1, 1, 8), none);
    ASSERT_FLOAT(0, loss_of(c), 0);
    case_top_diff(c, 0, &one);
    ASSERT_OK(case_backward(c));
    for (int i = 0; i < 12; i++)
        ASSERT_FLOAT(0, ct_diff(case_find(c, "bottom[1]"))[i], 0);
}

TEST(multi_box_loss, priors_outside_of_the_image_may_be_ignored)
{
    float moved[32];
    struct layer_case *c = four("neg_pos_ratio: 1 "
                                "ignore_cross_boundary_bbox: true", "");

    memcpy(moved, priors, sizeof(moved));
    moved[0] = -.01f;
    case_bottom(c, 2, CT_SHAPE(1, 2, 16), moved);
    /* Prior 1 takes its place, and 3 is the hardest negative. */
    ASSERT_FLOAT(LOC_LOSS + LOG3 + LOG2, loss_of(c), 1e-5);
}

/* Only the corners of a prior inside of the image get a gradient. */
TEST(multi_box_loss, corners_outside_may_be_left_alone)
{
    static const float near[] = { 0, 2, 0, .05f, 0, .2f, .5f, 0 };
    float moved[32];
    struct layer_case *c = four("neg_pos_ratio: 1 bp_inside: true", "");

    memcpy(moved, priors, sizeof(moved));
    moved[0] = -.02f;
    case_bottom(c, 2, CT_SHAPE(1, 2, 16), moved);
    case_bottom(c, 3, CT_SHAPE(1, 1, 1, 8), near);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, &one);
    ASSERT_OK(case_backward(c));
    ASSERT_FLOAT(0, ct_diff(case_find(c, "bottom[0]"))[0], 0);
    ASSERT_FLOAT(.25, ct_diff(case_find(c, "bottom[0]"))[2], 1e-6);
}

static void rough(struct layer_case *c)
{
    static float loc[48], x[12];

    for (int i = 0; i < 48; i++)
        loc[i] = .37f * (float)(i % 7) - 1.2f + .011f * (float)i;
    for (int i = 0; i < 12; i++)
        x[i] = 1.7f * sinf(1.3f * (float)(i * i) + .7f);
    case_bottom(c, 0, case_find(c, "bottom[0]")->shape, loc);
    case_bottom(c, 1, CT_SHAPE(1, 12), x);
}

TEST(multi_box_loss, gradients_are_those_of_finite_differences)
{
    static const char *const how[] = {
        "", "mining_type: NONE", "mining_type: HARD_EXAMPLE sample_size: 3",
        "code_type: CENTER_SIZE", "code_type: CORNER_SIZE loc_weight: 1.5",
        "loc_loss_type: L2", "conf_loss_type: LOGISTIC",
        "encode_variance_in_target: true code_type: CENTER_SIZE",
        "overlap_threshold: 0.3 bp_inside: true",
        "use_prior_for_matching: false code_type: CENTER_SIZE "
        "overlap_threshold: 0.05",
        "mining_type: HARD_EXAMPLE sample_size: 2 nms_param { "
        "nms_threshold: 0.45 } use_prior_for_nms: true",
    };

    for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
        struct layer_case *c = four(how[i], "");

        ASSERT_OK(case_setup(c));
        rough(c);
        case_want_grad(c, 2, false);
        case_want_grad(c, 3, false);
        ASSERT_GRADIENT(c, 1e-3f, 2e-2f);
    }
}

TEST(multi_box_loss, each_class_may_have_its_own_locations)
{
    struct layer_case *c = four("share_location: false mining_type: NONE",
                                "");

    case_bottom(c, 0, CT_SHAPE(1, 48), zeros);
    ASSERT_FLOAT(LOC_LOSS + 2 * LOG3 + LOG2 + .0134, loss_of(c), 1e-3);
    case_top_diff(c, 0, &one);
    rough(c);
    ASSERT_OK(case_backward(c));
    for (int i = 0; i < 48; i++) { /* prior 0, class 2 alone */
        const float d = ct_diff(case_find(c, "bottom[0]"))[i];

        if ((i / 4 == 2) != (d != 0))
            FAIL("value %d is %g", i, (double)d);
    }
}

TEST(multi_box_loss, what_propagate_down_forbids_does_not_count)
{
    ASSERT_FLOAT(LOC_LOSS,
                 loss_of(four("neg_pos_ratio: 1", "propagate_down: true "
                              "propagate_down: false propagate_down: false "
                              "propagate_down: false")), 1e-5);
}

static void refused(struct layer_case *c, enum ct_status st, const char *why)
{
    ASSERT_STATUS(st, case_setup(c));
    ASSERT_HAS("layer m", ct_last_error());
    ASSERT_HAS(why, ct_last_error());
}

TEST(multi_box_loss, what_does_not_fit_is_refused)
{
    struct layer_case *c = four("", "");

    case_bottom(c, 0, CT_SHAPE(1, 12), zeros);
    refused(c, CT_ESHAPE, "12 locations");
    c = four("", "");
    case_bottom(c, 1, CT_SHAPE(1, 8), zeros);
    refused(c, CT_ESHAPE, "8 confidences");
    c = four("", "");
    case_bottom(c, 2, CT_SHAPE(1, 16), zeros);
    refused(c, CT_ESHAPE, "priors");
    c = four("", "");
    case_bottom(c, 3, CT_SHAPE(1, 1, 1, 7), zeros);
    refused(c, CT_ESHAPE, "AnnotatedData");
    refused(four("background_label_id: 3", ""), CT_EINVAL,
            "background_label_id");
    refused(four("share_location: false", ""), CT_EINVAL, "share_location");
    refused(four("neg_pos_ratio: 0", ""), CT_EINVAL, "neg_pos_ratio");
    refused(four("mining_type: HARD_EXAMPLE sample_size: 0", ""), CT_EINVAL,
            "sample_size");
    refused(four("map_object_to_agnostic: true", ""), CT_EINVAL, "agnostic");
    refused(four("bp_inside: true code_type: CENTER_SIZE", ""), CT_EINVAL,
            "bp_inside");
}

TEST(multi_box_loss, truths_out_of_range_are_named)
{
    static const float bad[][8] = { { 1, 2, 0, 0, 0, 1, 1, 0 },
                                    { 0, 3, 0, 0, 0, 1, 1, 0 },
                                    { 0, 0, 0, 0, 0, 1, 1, 0 },
                                    { 0, NAN, 0, 0, 0, 1, 1, 0 } };

    if (test_device()->kind != CT_CPU)
        test_skip("nothing is read back to check it");
    for (int i = 0; i < 4; i++) {
        struct layer_case *c = four("", "");

        case_bottom(c, 3, CT_SHAPE(1, 1, 1, 8), bad[i]);
        ASSERT_OK(case_setup(c));
        ASSERT_STATUS(CT_EINVAL, case_forward(c));
        ASSERT_HAS("layer m: row 0", ct_last_error());
    }
}
