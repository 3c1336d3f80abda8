/* test_embed.c - a learned vector for each index. */
#include "testing/layer_test.h"

static const float x[] = { 2, 0, 2 }, w[] = { 1, 2, 3, 4, 5, 6 };
static const float b[] = { 10, 20 }, dy[] = { 1, 2, 3, 4, 5, 6 };

static struct layer_case *three(const char *prototxt)
{
    struct layer_case *c = layer_case(CT_CPU, prototxt);

    case_bottom(c, 0, CT_SHAPE(3, 1), x);
    case_want_grad(c, 0, false);
    return c;
}

TEST(embed, each_index_gives_its_row_and_the_bias)
{
    struct layer_case *c = three("type: 'Embed' embed_param "
                                 "{ num_output: 2 input_dim: 3 }");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 3, 1, 2);
    ASSERT_SHAPE(c, "blob[0]", 3, 2);
    ASSERT_SHAPE(c, "blob[1]", 2);
    case_blob(c, 0, w);
    case_blob(c, 1, b);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 15, 26, 11, 22, 15, 26);
    ASSERT_OK(case_backward(c));     /* twice, to tell += from = */
    ASSERT_NEAR(c, "blob[0].diff", 0, 6, 8, 0, 0, 12, 16);
    ASSERT_NEAR(c, "blob[1].diff", 0, 18, 24);
}

TEST(embed, the_bias_can_be_left_out)
{
    struct layer_case *c = three("type: 'Embed' embed_param "
        "{ num_output: 2 input_dim: 3 bias_term: false }");

    ASSERT_OK(case_setup(c));
    ASSERT_INT(1, case_layer(c)->n_blob);
    case_blob(c, 0, w);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 5, 6, 1, 2, 5, 6);
}

TEST(embed, gradient_matches_finite_differences)
{
    struct layer_case *c = layer_case(CT_CPU, "type: 'Embed' embed_param "
        "{ num_output: 70 input_dim: 3 weight_filler { type: 'gaussian' } }");

    case_bottom_labels(c, 0, CT_SHAPE(2, 2), 3);
    case_want_grad(c, 0, false);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(embed, an_index_out_of_range_is_refused)
{
    static const float bad[] = { 3, -1, NAN, 1e30f };

    for (int i = 0; i < 4; i++) {
        struct layer_case *c = layer_case(CT_CPU, "name: 'em' type: 'Embed' "
            "embed_param { num_output: 2 input_dim: 3 }");

        case_bottom(c, 0, CT_SHAPE(1), &bad[i]);
        ASSERT_OK(case_setup(c));
        ASSERT_STATUS(CT_EINVAL, case_forward(c));
        ASSERT_HAS("layer em: index", ct_last_error());
    }
}

TEST(embed, no_outputs_or_no_indices_are_refused)
{
    struct layer_case *c = three("name: 'em' type: 'Embed' embed_param "
                                 "{ input_dim: 3 }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer em: num_output", ct_last_error());
    c = three("name: 'em' type: 'Embed' embed_param { num_output: 3 }");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer em: input_dim", ct_last_error());
}
