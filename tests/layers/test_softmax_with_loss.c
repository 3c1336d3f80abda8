/* test_softmax_with_loss.c - softmax and its loss, by hand.
 *
 * Scores are logarithms of small integers, so probabilities are fractions:
 *     x = ln 1  ln 1  ln 2      p = 1/4 1/4 1/2      t = 2      -log p = ln 2
 *         ln 3  ln 4  ln 1          3/8 1/2 1/8          0      ln 8/3 */
#include "testing/layer_test.h"

#define LN2 0.69314718f
#define LN3 1.09861229f
#define LN4 1.38629436f

static const float x[]      = { 0, 0, LN2, LN3, LN4, 0 };
static const float labels[] = { 2, 0 };

static struct layer_case *two(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2), labels);
    case_want_grad(c, 1, false);
    return c;
}

TEST_EACH_DEVICE(softmax_with_loss, loss_and_gradient_are_means_over_the_batch)
{
    static const float weight[] = { 2 };
    struct layer_case *c = two(dev, "type: 'SoftmaxWithLoss'");

    ASSERT_OK(case_setup(c));
    ASSERT_INT(0, case_find(c, "top[0]")->shape.n_axes);
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, (LN2 + 0.98082925f) / 2);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.25f, 0.25f, -0.5f, -0.625f, 0.5f,
                0.125f);
}

/* Long rows are summed otherwise than short ones, on a GPU. */
TEST_EACH_DEVICE(softmax_with_loss, rows_of_16_17_and_40_classes)
{
    static const int classes[] = { 16, 17, 40 };

    for (int i = 0; i < 3; i++) {
        const int n      = classes[i];
        const float t[]  = { 0, (float)(n - 1) };
        float scores[80] = { 0 };
        struct layer_case *c = layer_case(dev, "type: 'SoftmaxWithLoss'");

        scores[n] = LN2; /* the second row's first */
        case_bottom(c, 0, CT_SHAPE(2, n), scores);
        case_bottom(c, 1, CT_SHAPE(2), t);
        case_want_grad(c, 1, false);
        ASSERT_OK(case_setup(c));
        ASSERT_OK(case_forward(c));
        ASSERT_NEAR(c, "top[0].data", 1e-5f,
                    (logf((float)n) + logf((float)(n + 1))) / 2);
    }
}

TEST_EACH_DEVICE(softmax_with_loss, normalization_none_sums)
{
    struct layer_case *c = two(dev, "type: 'SoftmaxWithLoss' "
        "loss_param { normalization: NONE }");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, LN2 + 0.98082925f);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

/* Positions: N = 2, 3 pixels each; one of six is ignored. */
static struct layer_case *pixels(const char *prototxt)
{
    static const float t[] = { 0, 1, 2, 3, 255, 0 };
    struct layer_case *c   = layer_case(CT_CPU, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 4, 3), NULL);
    case_bottom(c, 1, CT_SHAPE(2, 1, 3), t);
    case_want_grad(c, 1, false);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    return c;
}

static float loss(struct layer_case *c)
{
    return ct_data(case_find(c, "top[0]"))[0];
}

TEST(softmax_with_loss, each_normalization_divides_by_its_own_count)
{
    float sum = loss(pixels("type: 'SoftmaxWithLoss' loss_param { "
                            "ignore_label: 255 normalization: NONE }"));

    ASSERT_FLOAT(sum / 6, loss(pixels("type: 'SoftmaxWithLoss' loss_param { "
                 "ignore_label: 255 normalization: FULL }")), 1e-6);
    ASSERT_FLOAT(sum / 5, loss(pixels("type: 'SoftmaxWithLoss' loss_param { "
                 "ignore_label: 255 }")), 1e-6);
    ASSERT_FLOAT(sum / 2, loss(pixels("type: 'SoftmaxWithLoss' loss_param { "
                 "ignore_label: 255 normalization: BATCH_SIZE }")), 1e-6);
    ASSERT_FLOAT(sum / 2, loss(pixels("type: 'SoftmaxWithLoss' loss_param { "
                 "ignore_label: 255 normalize: false }")), 1e-6);
    ASSERT_FLOAT(sum / 5, loss(pixels("type: 'SoftmaxWithLoss' loss_param { "
                 "ignore_label: 255 normalize: true }")), 1e-6);
    ASSERT_FLOAT(sum / 6, loss(pixels("type: 'SoftmaxWithLoss' loss_param { "
                 "ignore_label: 255 normalize: true normalization: FULL }")),
                 1e-6);
}

TEST(softmax_with_loss, an_ignored_pixel_gets_no_gradient)
{
    static const float weight[] = { 1 };
    struct layer_case *c =
        pixels("type: 'SoftmaxWithLoss' loss_param { ignore_label: 255 }");
    const float *dx = ct_diff(case_find(c, "bottom[0]"));

    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    for (int k = 0; k < 4; k++)
        ASSERT_FLOAT(0, dx[(4 + k) * 3 + 1], 0);
    ASSERT(dx[(4 + 0) * 3 + 0] != 0);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(softmax_with_loss, all_ignored_is_a_loss_of_zero)
{
    static const float t[] = { 7, 7 };
    struct layer_case *c =
        two(CT_CPU, "type: 'SoftmaxWithLoss' loss_param { ignore_label: 7 }");

    case_bottom(c, 1, CT_SHAPE(2), t);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0);
}

TEST_EACH_DEVICE(softmax_with_loss, the_second_top_is_the_softmax)
{
    static const float weight[] = { 1 };
    struct layer_case *c = two(dev, "type: 'SoftmaxWithLoss'");

    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[1]", 2, 3);
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[1].data", 1e-6f, 0.25f, 0.25f, 0.5f, 0.375f, 0.5f,
                0.125f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.125f, 0.125f, -0.25f, -0.3125f,
                0.25f, 0.0625f);
}

TEST(softmax_with_loss, the_axis_may_be_counted_from_the_end)
{
    static const float t[] = { 1, 0 };
    struct layer_case *c   = layer_case(CT_CPU,
        "type: 'SoftmaxWithLoss' softmax_param { axis: -1 }");

    case_bottom(c, 0, CT_SHAPE(2, 1, 3), x);
    case_bottom(c, 1, CT_SHAPE(2, 1), t);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, (LN4 + 0.98082925f) / 2);
}

/* -log(FLT_MIN) = 126 ln 2. */
TEST(softmax_with_loss, a_probability_of_zero_costs_a_finite_loss)
{
    static const float sure[] = { 0, 1000 }, t[] = { 0 };
    struct layer_case *c = layer_case(CT_CPU, "type: 'SoftmaxWithLoss'");

    case_bottom(c, 0, CT_SHAPE(1, 2), sure);
    case_bottom(c, 1, CT_SHAPE(1), t);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-4f, 126 * LN2);
}

TEST(softmax_with_loss, a_label_out_of_range_is_refused_by_index_and_value)
{
    static const float high[] = { 2, 3 }, low[] = { -1, 0 };
    static const float nan[] = { 0, NAN };
    struct layer_case *c = two(CT_CPU, "name: 'loss' type: 'SoftmaxWithLoss'");

    ASSERT_OK(case_setup(c));
    case_bottom(c, 1, CT_SHAPE(2), high);
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer loss: label 1 is 3", ct_last_error());
    case_bottom(c, 1, CT_SHAPE(2), low);
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("label 0 is -1", ct_last_error());
    case_bottom(c, 1, CT_SHAPE(2), nan);
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
}

TEST(softmax_with_loss, labels_that_do_not_match_are_refused)
{
    struct layer_case *c = two(CT_CPU, "name: 'loss' type: 'SoftmaxWithLoss'");

    case_bottom(c, 1, CT_SHAPE(3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer loss", ct_last_error());
}

TEST(softmax_with_loss, two_labels_for_one_prediction_are_refused)
{
    struct layer_case *c = two(CT_CPU, "name: 'loss' type: 'SoftmaxWithLoss'");

    case_bottom(c, 1, CT_SHAPE(2, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("4 labels for 2 predictions", ct_last_error());
}

TEST(softmax_with_loss, an_axis_that_is_not_there_is_refused)
{
    struct layer_case *c = two(CT_CPU, "name: 'loss' type: 'SoftmaxWithLoss' "
                                       "softmax_param { axis: 2 }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer loss", ct_last_error());
}

/* Label 2 weighs 3, label 0 weighs 1/2; the mean is still over two. */
TEST_EACH_DEVICE(softmax_with_loss, classes_may_have_weights)
{
    static const float weight[] = { 2 };
    struct layer_case *c = two(dev, "type: 'SoftmaxWithLoss' loss_param { "
        "weight_by_label_freqs: true class_weighting: 0.5 "
        "class_weighting: 1 class_weighting: 3 }");

    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, (3 * LN2 + 0.98082925f / 2) / 2);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0.75f, 0.75f, -1.5f, -0.3125f,
                0.25f, 0.0625f);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(softmax_with_loss, weights_for_other_classes_are_refused)
{
    struct layer_case *c = two(CT_CPU, "name: 'loss' type: 'SoftmaxWithLoss' "
        "loss_param { weight_by_label_freqs: true class_weighting: 1 }");

    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer loss: 1 values of class_weighting for 3 classes",
               ct_last_error());
    c = two(CT_CPU, "name: 'loss' type: 'SoftmaxWithLoss' "
                    "loss_param { weight_by_label_freqs: true }");
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer loss: weight_by_label_freqs needs", ct_last_error());
}
