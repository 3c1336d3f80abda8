/* test_center_loss.c - by hand.
 *
 *     x = 1 2   t = 0   c = 0 0   x - c = 1 2
 *         3 4       1       1 1           2 3
 *         5 6       0                     5 6 */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 5, 6 }, t[] = { 0, 1, 0 };
static const float centers[] = { 0, 0, 1, 1 }, three[] = { 3 };

static struct layer_case *faces(enum ct_device_kind dev, const char *param)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text),
             "name: 'f' type: 'CenterLoss' center_loss_param { %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(3, 2), x);
    case_bottom(c, 1, CT_SHAPE(3), t);
    return c;
}

TEST_EACH_DEVICE(center_loss, centers_move_towards_their_class)
{
    struct layer_case *c = faces(dev, "num_output: 2");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "blob[0]", 2, 2);
    case_blob(c, 0, centers);
    case_want_grad(c, 1, false);
    case_top_diff(c, 0, three);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "blob[0].diff", 1e-6f, -2, -8 / 3.0f, -1, -1.5f);
    ASSERT_OK(case_backward(c)); /* twice, to tell += from = */
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 79 / 6.0f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1, 2, 2, 3, 5, 6);
    ASSERT_NEAR(c, "blob[0].diff", 1e-6f, -4, -16 / 3.0f, -2, -3);
}

TEST_EACH_DEVICE(center_loss, l1_takes_signs)
{
    struct layer_case *c =
        faces(dev, "num_output: 2 distance_type: 'L1'");

    ASSERT_OK(case_setup(c));
    case_blob(c, 0, centers);
    case_want_grad(c, 1, false);
    case_top_diff(c, 0, three);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 19 / 3.0f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1, 1, 1, 1, 1, 1);
    ASSERT_NEAR(c, "blob[0].diff", 1e-6f, -2 / 3.0f, -2 / 3.0f, -0.5f, -0.5f);
}

TEST_EACH_DEVICE(center_loss, gradient_of_features_matches_differences)
{
    struct layer_case *c = faces(dev, "num_output: 2 center_filler { "
                                 "type: 'constant' value: 0.3 }");

    ASSERT_OK(case_setup(c));
    case_want_grad(c, 1, false);
    case_layer(c)->blob_wants_grad[0] = false; /* a step, no gradient */
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(center_loss, what_makes_no_sense_is_refused)
{
    static const float high[] = { 0, 2, 0 };
    struct layer_case *c = faces(CT_CPU, "");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer f: center_loss_param needs num_output", ct_last_error());
    c = faces(CT_CPU, "num_output: 2 distance_type: 'L3'");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("distance_type is \"L3\"", ct_last_error());
    c = faces(CT_CPU, "num_output: 2");
    case_bottom(c, 1, CT_SHAPE(3, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("6 labels for 3 features", ct_last_error());
    c = faces(CT_CPU, "num_output: 2");
    ASSERT_OK(case_setup(c));
    case_bottom(c, 1, CT_SHAPE(3), high);
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer f: label 1 is 2", ct_last_error());
}
