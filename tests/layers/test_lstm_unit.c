/* test_lstm_unit.c - one cell by hand.
 *
 * Gates i f o are sigmoid(ln 3) = 3/4, sigmoid(0) = 1/2, sigmoid(ln 3) = 3/4,
 * g is tanh(ln 2) = 3/5; c_prev = 1:
 *     cont 1:  c = 1/2 + 9/20 = .95     cont 0:  c = .45
 *     h = 3/4 tanh(c)                                                     */
#include "testing/layer_test.h"

#define LN2 0.69314718f
#define LN3 1.09861229f

/* Two streams, one unit each: the second begins a sequence. */
static const float c_prev[] = { 1, 1 };
static const float gates[] = { LN3, 0, LN3, LN2, LN3, 0, LN3, LN2 };
static const float cont[] = { 1, 0 };

static struct layer_case *two(enum ct_device_kind dev)
{
    struct layer_case *c = layer_case(dev, "name: 'u' type: 'LSTMUnit'");

    case_bottom(c, 0, CT_SHAPE(1, 2, 1), c_prev);
    case_bottom(c, 1, CT_SHAPE(1, 2, 4), gates);
    case_bottom(c, 2, CT_SHAPE(1, 2), cont);
    case_want_grad(c, 2, false);
    return c;
}

TEST_EACH_DEVICE(lstm_unit, a_mark_of_zero_forgets_the_cell)
{
    struct layer_case *c = two(dev);

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 2, 1);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, .95f, .45f);
    ASSERT_NEAR(c, "top[1].data", 1e-6f, .75f * tanhf(.95f),
                .75f * tanhf(.45f));
}

/* With dh = 0 and dc = 1: di = g i (1-i), df = c_prev f (1-f), do = 0,
 * dg = i (1 - g^2), dc_prev = f. */
TEST_EACH_DEVICE(lstm_unit, backward_by_hand)
{
    static const float one[] = { 1, 1 }, none[] = { 0, 0 };
    struct layer_case *c = two(dev);

    ASSERT_OK(case_setup(c));
    case_want_grad(c, 2, true);
    case_top_diff(c, 0, one);
    case_top_diff(c, 1, none);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, .5f, 0);
    ASSERT_NEAR(c, "bottom[1].diff", 1e-6f, .1125f, .25f, 0, .48f, .1125f, 0,
                0, .48f);
    ASSERT_NEAR(c, "bottom[2].diff", 0, 0, 0);
}

TEST_EACH_DEVICE(lstm_unit, gradient_matches_finite_differences)
{
    static const float marks[] = { 1, 0, 1 };
    struct layer_case *c = layer_case(dev, "type: 'LSTMUnit'");

    case_bottom(c, 0, CT_SHAPE(1, 3, 5), NULL);
    case_bottom(c, 1, CT_SHAPE(1, 3, 20), NULL);
    case_bottom(c, 2, CT_SHAPE(1, 3), marks);
    case_want_grad(c, 2, false);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

static void refused(int bottom, struct ct_shape shape, const char *text)
{
    struct layer_case *c = two(CT_CPU);

    case_bottom(c, bottom, shape, NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer u", ct_last_error());
    ASSERT_HAS(text, ct_last_error());
}

TEST(lstm_unit, shapes_that_do_not_fit_are_refused)
{
    refused(0, CT_SHAPE(2, 1), "bottom 0");
    refused(0, CT_SHAPE(2, 2, 1), "bottom 0");
    refused(1, CT_SHAPE(1, 2, 3), "four gates");
    refused(2, CT_SHAPE(2), "bottom 2");
}
