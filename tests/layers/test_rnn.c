/* test_rnn.c - sequences through the simple recurrent net, one unit by hand:
 *
 *     h_t = tanh(x_t + cont_t 2 h_{t-1})      o_t = tanh(3 h_t + .5) */
#include "testing/layer_test.h"

static const float x[] = { 1, -2 }, w_x[] = { 1 }, w_h[] = { 2 };
static const float w_o[] = { 3 }, b_o[] = { .5f };

#define ONE_UNIT "name: 'r' type: 'RNN' recurrent_param { num_output: 1 "

static void weights(struct layer_case *c)
{
    case_blob(c, 0, w_x);
    case_blob(c, 2, w_h);
    case_blob(c, 3, w_o);
    case_blob(c, 4, b_o);
}

static float o_of(float h)
{
    return tanhf(3 * h + .5f);
}

TEST_EACH_DEVICE(rnn, the_state_goes_on_until_a_mark_of_zero)
{
    static const float start[] = { 0, 1 }, on[] = { 1, 0 };
    struct layer_case *c = layer_case(dev, ONE_UNIT "}");
    float h1 = tanhf(1), h2 = tanhf(-2 + 2 * h1), h3 = tanhf(1 + 2 * h2);

    case_bottom(c, 0, CT_SHAPE(2, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), start);
    ASSERT_OK(case_setup(c));
    ASSERT_INT(5, case_layer(c)->n_blob);
    weights(c);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, o_of(h1), o_of(h2));
    case_bottom(c, 1, CT_SHAPE(2, 1), on);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, o_of(h3), o_of(tanhf(-2)));
}

TEST_EACH_DEVICE(rnn, the_exposed_state_comes_in_and_goes_out)
{
    static const float on[] = { 1, 1 }, h0[] = { .5f };
    struct layer_case *c = layer_case(dev, ONE_UNIT "expose_hidden: true }");
    float h1 = tanhf(1 + 1), h2 = tanhf(-2 + 2 * h1);

    case_bottom(c, 0, CT_SHAPE(2, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), on);
    case_bottom(c, 2, CT_SHAPE(1, 1, 1), h0);
    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    weights(c);
    ASSERT_OK(case_forward(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, o_of(h1), o_of(h2));
    ASSERT_NEAR(c, "top[1].data", 1e-6f, h2);
}

static const float marks[] = { 0, 0, 1, 0, 1, 1, 1, 1 };

TEST_EACH_DEVICE(rnn, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'RNN' recurrent_param { "
        "num_output: 3 weight_filler { type: 'uniform' min: -.5 max: .5 } "
        "bias_filler { type: 'uniform' min: -.5 max: .5 } }");

    case_bottom(c, 0, CT_SHAPE(4, 2, 5), NULL);
    case_bottom(c, 1, CT_SHAPE(4, 2), marks);
    case_want_grad(c, 1, false);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(rnn, a_static_input_joins_every_step)
{
    struct layer_case *c = layer_case(dev, "type: 'RNN' recurrent_param { "
        "num_output: 3 weight_filler { type: 'uniform' min: -.5 max: .5 } }");

    case_bottom(c, 0, CT_SHAPE(4, 2, 5), NULL);
    case_bottom(c, 1, CT_SHAPE(4, 2), marks);
    case_bottom(c, 2, CT_SHAPE(2, 4), NULL);
    case_want_grad(c, 1, false);
    ASSERT_OK(case_setup(c));
    ASSERT_INT(6, case_layer(c)->n_blob);
    ASSERT_SHAPE(c, "blob[2]", 3, 4);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(rnn, blob_gradients_add_up)
{
    static const float dy[] = { 1, 2 };
    struct layer_case *c = layer_case(dev, ONE_UNIT "}");
    float once[5];

    case_bottom(c, 0, CT_SHAPE(2, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), marks);
    ASSERT_OK(case_setup(c));
    weights(c);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    for (int i = 0; i < 5; i++)
        once[i] = ct_diff(case_layer(c)->blob[i])[0];
    ASSERT_OK(case_backward(c));
    for (int i = 0; i < 5; i++)
        ASSERT_FLOAT(2 * once[i], ct_diff(case_layer(c)->blob[i])[0], 1e-5);
    ASSERT(once[3] != 0);
}

TEST(rnn, the_initial_state_must_fit)
{
    struct layer_case *c =
        layer_case(CT_CPU, ONE_UNIT "expose_hidden: true }");

    case_bottom(c, 0, CT_SHAPE(2, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), NULL);
    case_bottom(c, 2, CT_SHAPE(1, 1, 2), NULL);
    case_tops(c, 2);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer r: bottom 2", ct_last_error());
}

TEST(rnn, no_outputs_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'r' type: 'RNN'");

    case_bottom(c, 0, CT_SHAPE(2, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer r", ct_last_error());
}
