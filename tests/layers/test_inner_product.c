/* test_inner_product.c - every number below is worked out by hand.
 *
 *     x = 1 2 3    W = 1 0 -1    b = 10 20    dy = 1 0
 *         4 5 7        2 1  0                      0 2              */
#include "testing/layer_test.h"

static const float x[] = { 1, 2, 3, 4, 5, 7 }, w[] = { 1, 0, -1, 2, 1, 0 };
static const float b[] = { 10, 20 }, dy[] = { 1, 0, 0, 2 };

/* Cases live in the test's arena; the harness frees and leak-checks it. */
static struct layer_case *two_outputs(enum ct_device_kind dev)
{
    struct layer_case *c = layer_case(dev,
        "type: 'InnerProduct' inner_product_param { num_output: 2 }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    case_blob(c, 0, w);
    case_blob(c, 1, b);
    return c;
}

TEST_EACH_DEVICE(inner_product, forward_is_x_wt_plus_b)
{
    struct layer_case *c = two_outputs(dev);

    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 8, 24, 7, 33);
}

TEST_EACH_DEVICE(inner_product, backward_adds_to_blobs_and_overwrites_bottom)
{
    struct layer_case *c = two_outputs(dev);

    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));     /* twice, to tell += from = */
    ASSERT_NEAR(c, "blob[0].diff", 1e-6f, 2, 4, 6, 16, 20, 28);
    ASSERT_NEAR(c, "blob[1].diff", 1e-6f, 2, 4);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1, 0, -1, 4, 2, 0);
}

TEST_EACH_DEVICE(inner_product, gradient_matches_finite_differences)
{
    ASSERT_GRADIENT(two_outputs(dev), 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(inner_product, transposed_weights_give_the_same)
{
    static const float wt[] = { 1, 2, 0, 1, -1, 0 };
    struct layer_case *c = layer_case(dev, "type: 'InnerProduct' "
        "inner_product_param { num_output: 2 transpose: true }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "blob[0]", 3, 2);
    case_blob(c, 0, wt);
    case_blob(c, 1, b);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 8, 24, 7, 33);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST_EACH_DEVICE(inner_product, axis_two_keeps_two_leading_axes)
{
    struct layer_case *c = layer_case(dev, "type: 'InnerProduct' "
        "inner_product_param { num_output: 5 axis: 2 "
        "weight_filler { type: 'gaussian' } bias_term: false }");

    case_bottom(c, 0, CT_SHAPE(2, 3, 2, 2), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 2, 3, 5);
    ASSERT_SHAPE(c, "blob[0]", 5, 4);
    ASSERT_INT(1, case_layer(c)->n_blob);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

/* Large enough for W to be the first factor; y_ij is a sum over 1024. */
TEST_EACH_DEVICE(inner_product, large_weights_give_the_same_sums)
{
    enum { M = 17, N = 1025, K = 1024 };
    struct layer_case *c = layer_case(dev, "type: 'InnerProduct' "
        "inner_product_param { num_output: 1025 weight_filler { "
        "type: 'uniform' min: -1 max: 1 } bias_filler { type: 'constant' "
        "value: 2 } }");
    const float *in, *weight, *out;

    case_bottom(c, 0, CT_SHAPE(M, K), NULL);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    in     = ct_data(case_io(c).bottom[0]);
    weight = ct_data(case_layer(c)->blob[0]);
    out    = ct_data(case_io(c).top[0]);
    for (int i = 0; i < M; i += 4)
        for (int j = 0; j < N; j += 128) {
            double sum = 2;

            for (int k = 0; k < K; k++)
                sum += (double)in[i * K + k] * (double)weight[j * K + k];
            ASSERT_FLOAT(sum, out[i * N + j], 1e-3);
        }
}

TEST_EACH_DEVICE(inner_product, factors_multiply_to_the_gradient)
{
    struct layer_case *c = two_outputs(dev);
    const struct ct_io io = case_io(c);
    struct ct_layer *l = case_layer(c);
    struct ct_factors f;
    float dw[6];

    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(l->type->factors(l, &io, 0, &f));
    ASSERT_OK(ct_gemm(ct_device_cpu(), CT_T, CT_N, f.u_cols, f.v_cols, f.rows,
                      1, f.u, f.v, 0, dw));
    for (int i = 0; i < 6; i++)
        ASSERT_FLOAT(ct_diff(l->blob[0])[i], dw[i], 1e-6);
    ASSERT_STATUS(CT_ENOTSUP, l->type->factors(l, &io, 1, &f));
}

TEST(inner_product, zero_outputs_is_refused_by_layer_name)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'fc6' "
        "type: 'InnerProduct' inner_product_param { num_output: 0 }");

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("fc6", ct_last_error());
}

TEST(inner_product, a_bottom_that_no_longer_fits_is_refused)
{
    struct layer_case *c = two_outputs(CT_CPU);

    case_bottom(c, 0, CT_SHAPE(2, 4), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_reshape(c));
}
