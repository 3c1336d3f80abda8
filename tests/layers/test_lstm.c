/* test_lstm.c - sequences through the LSTM.
 *
 * With all weights 0 the gates are those of the bias alone.  For the bias
 * (0, 0, 0, ln 2) they are i = f = o = 1/2, g = 3/5, so
 *     c_t = cont c_{t-1} / 2 + 3/10       from 0:  .3  .45  .525  ... */
#include "testing/layer_test.h"

#define LN2 0.69314718f

static const float bias[] = { 0, 0, 0, LN2 };
static const float x[]    = { 1, 2 };

#define ONE_UNIT "name: 'l' type: 'LSTM' recurrent_param { num_output: 1 "

static float h_of(float c)
{
    return tanhf(c) / 2;
}

/* Two steps of one stream; state carries over between passes. */
TEST_EACH_DEVICE(lstm, the_state_goes_on_until_a_mark_of_zero)
{
    static const float start[] = { 0, 1 }, on[] = { 1, 1 }, cut[] = { 1, 0 };
    struct layer_case *c = layer_case(dev, ONE_UNIT "}");

    case_bottom(c, 0, CT_SHAPE(2, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), start);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 1, 1);
    ASSERT_SHAPE(c, "blob[0]", 4, 1);
    ASSERT_SHAPE(c, "blob[1]", 4);
    ASSERT_SHAPE(c, "blob[2]", 4, 1);
    case_blob(c, 1, bias);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, h_of(.3f), h_of(.45f));
    case_bottom(c, 1, CT_SHAPE(2, 1), on);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, h_of(.525f), h_of(.5625f));
    case_bottom(c, 1, CT_SHAPE(2, 1), cut);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, h_of(.58125f), h_of(.3f));
}

/* x drives g alone: W_xc = (0,0,0,1), and h feeds g back with weight 2. */
TEST_EACH_DEVICE(lstm, input_and_hidden_weights_have_their_places)
{
    static const float w_x[] = { 0, 0, 0, 1 }, w_h[] = { 0, 0, 0, 2 };
    static const float start[] = { 0, 1 };
    struct layer_case *c = layer_case(dev, ONE_UNIT "}");
    float c1 = tanhf(1) / 2, h1 = tanhf(c1) / 2;
    float c2 = c1 / 2 + tanhf(2 + 2 * h1) / 2;

    case_bottom(c, 0, CT_SHAPE(2, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), start);
    ASSERT_OK(case_setup(c));
    case_blob(c, 0, w_x);
    case_blob(c, 2, w_h);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, h1, tanhf(c2) / 2);
}

/* First marks are 0, so that no pass depends on the one before. */
static const float marks[] = { 0, 0, 1, 0, 1, 1, 1, 1 };

TEST_EACH_DEVICE(lstm, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(dev, "type: 'LSTM' recurrent_param { "
        "num_output: 3 weight_filler { type: 'uniform' min: -.5 max: .5 } "
        "bias_filler { type: 'uniform' min: -.5 max: .5 } }");

    case_bottom(c, 0, CT_SHAPE(4, 2, 1, 5), NULL);
    case_bottom(c, 1, CT_SHAPE(4, 2), marks);
    case_want_grad(c, 1, false);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "blob[0]", 12, 5);
    ASSERT_SHAPE(c, "top[0]", 4, 2, 3);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(lstm, a_static_input_joins_every_step)
{
    struct layer_case *c = layer_case(dev, "type: 'LSTM' recurrent_param { "
        "num_output: 3 weight_filler { type: 'uniform' min: -.5 max: .5 } }");

    case_bottom(c, 0, CT_SHAPE(4, 2, 5), NULL);
    case_bottom(c, 1, CT_SHAPE(4, 2), marks);
    case_bottom(c, 2, CT_SHAPE(2, 2, 2), NULL);
    case_want_grad(c, 1, false);
    ASSERT_OK(case_setup(c));
    ASSERT_INT(4, case_layer(c)->n_blob);
    ASSERT_SHAPE(c, "blob[2]", 12, 4);
    ASSERT_SHAPE(c, "blob[3]", 12, 3);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(lstm, blob_gradients_add_up)
{
    static const float dy[] = { 1, 2 };
    struct layer_case *c = layer_case(dev, ONE_UNIT "}");
    float once;

    case_bottom(c, 0, CT_SHAPE(2, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), marks);
    ASSERT_OK(case_setup(c));
    case_blob(c, 1, bias);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    once = ct_diff(case_find(c, "blob[1]"))[3];
    ASSERT(once != 0);
    ASSERT_OK(case_backward(c));
    ASSERT_FLOAT(2 * once, ct_diff(case_find(c, "blob[1]"))[3], 1e-6);
    ASSERT_NEAR(c, "bottom[1].diff", 0, 0, 0);
}

TEST_EACH_DEVICE(lstm, exposed_states_come_in_and_go_out)
{
    static const float on[] = { 1, 1 }, h0[] = { 5 }, c0[] = { .3f };
    static const float dy[] = { 1, 1 };
    struct layer_case *c = layer_case(dev, ONE_UNIT "expose_hidden: true }");

    case_bottom(c, 0, CT_SHAPE(2, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), on);
    case_bottom(c, 2, CT_SHAPE(1, 1, 1), h0);
    case_bottom(c, 3, CT_SHAPE(1, 1, 1), c0);
    case_tops(c, 3);
    ASSERT_OK(case_setup(c));
    case_blob(c, 1, bias);
    case_top_diff(c, 0, dy);
    for (int pass = 0; pass < 2; pass++) {
        ASSERT_OK(case_backward(c));
        ASSERT_NEAR(c, "top[0].data", 1e-6f, h_of(.45f), h_of(.525f));
        ASSERT_NEAR(c, "top[1].data", 1e-6f, h_of(.525f));
        ASSERT_NEAR(c, "top[2].data", 1e-6f, .525f);
        ASSERT_NEAR(c, "bottom[2].diff", 0, 0);
        ASSERT_NEAR(c, "bottom[3].diff", 0, 0);
    }
}

TEST(lstm, another_number_of_streams_starts_afresh)
{
    static const float on[] = { 1, 1, 1, 1 };
    struct layer_case *c = layer_case(CT_CPU, ONE_UNIT "}");

    case_bottom(c, 0, CT_SHAPE(1, 2, 1), x);
    case_bottom(c, 1, CT_SHAPE(1, 2), on);
    ASSERT_OK(case_setup(c));
    case_blob(c, 1, bias);
    ASSERT_OK(case_forward(c));
    case_bottom(c, 0, CT_SHAPE(2, 1, 1), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), on);
    ASSERT_OK(case_reshape(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, h_of(.3f), h_of(.45f));
}

static struct layer_case *plain(const char *prototxt)
{
    struct layer_case *c = layer_case(CT_CPU, prototxt);

    case_bottom(c, 0, CT_SHAPE(4, 2, 5), NULL);
    case_bottom(c, 1, CT_SHAPE(4, 2), NULL);
    return c;
}

static void refused(struct layer_case *c, enum ct_status st, const char *text)
{
    ASSERT_STATUS(st, case_setup(c));
    ASSERT_HAS("layer l", ct_last_error());
    ASSERT_HAS(text, ct_last_error());
}

TEST(lstm, parameters_that_make_no_sense_are_refused)
{
    struct layer_case *c;

    refused(plain("name: 'l' type: 'LSTM'"), CT_EINVAL, "num_output");
    refused(plain(ONE_UNIT "expose_hidden: true }"), CT_EINVAL, "4 bottoms");
    c = plain(ONE_UNIT "}");
    case_tops(c, 2);
    refused(c, CT_EINVAL, "expose_hidden");
    c = plain(ONE_UNIT "}");
    case_bottom(c, 2, CT_SHAPE(3, 2), NULL);
    refused(c, CT_ESHAPE, "static");
    c = plain(ONE_UNIT "}");
    case_bottom(c, 1, CT_SHAPE(4, 3), NULL);
    refused(c, CT_ESHAPE, "bottom 1");
    c = plain(ONE_UNIT "}");
    case_bottom(c, 0, CT_SHAPE(4, 2), NULL);
    refused(c, CT_ESHAPE, "bottom 0");
}

TEST(lstm, a_bottom_that_no_longer_fits_is_refused)
{
    struct layer_case *c = plain(ONE_UNIT "}");

    ASSERT_OK(case_setup(c));
    case_bottom(c, 0, CT_SHAPE(4, 2, 6), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_reshape(c));
    ASSERT_HAS("6 values, weights take 5", ct_last_error());
}
