/* test_accuracy.c - counted by hand.
 *
 *     x = .1 .7 .2    t = 1  right: nothing is as high
 *         .5 .5 .0        0  wrong: class 1 is as high
 *         .2 .3 .5        0  wrong: two are higher
 *         .0 .1 .9        2  right                                  */
#include "testing/layer_test.h"

static const float x[] = { .1f, .7f, .2f, .5f, .5f, 0,
                           .2f, .3f, .5f, 0,   .1f, .9f };
static const float t[] = { 1, 0, 0, 2 };

static struct layer_case *four(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(4, 3), x);
    case_bottom(c, 1, CT_SHAPE(4), t);
    return c;
}

TEST_EACH_DEVICE(accuracy, ties_count_against_the_label)
{
    struct layer_case *c = four(dev, "type: 'Accuracy'");

    ASSERT_OK(case_setup(c));
    ASSERT_INT(0, case_find(c, "top[0]")->shape.n_axes);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0.5f);
}

TEST_EACH_DEVICE(accuracy, top_two_takes_the_second_best_too)
{
    struct layer_case *c =
        four(dev, "type: 'Accuracy' accuracy_param { top_k: 2 }");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0.75f);
}

TEST_EACH_DEVICE(accuracy, ignored_labels_do_not_count)
{
    struct layer_case *c =
        four(dev, "type: 'Accuracy' accuracy_param { ignore_label: 0 }");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 1);
}

TEST(accuracy, nothing_to_count_is_zero)
{
    static const float ones[] = { 1, 1, 1, 1 };
    struct layer_case *c =
        four(CT_CPU, "type: 'Accuracy' accuracy_param { ignore_label: 1 }");

    case_bottom(c, 1, CT_SHAPE(4), ones);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0);
}

TEST_EACH_DEVICE(accuracy, the_second_top_is_per_class)
{
    static const float other[] = { 1, 1, 0, 1 };
    struct layer_case *c = four(dev, "type: 'Accuracy'");

    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[1]", 3);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 0, 1, 1);
    case_bottom(c, 1, CT_SHAPE(4), other);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 1e-6f, 0, 1.0f / 3, 0);
}

/* The same scores with classes on axis 0: 3 classes x 4 positions. */
TEST_EACH_DEVICE(accuracy, classes_may_lie_on_any_axis)
{
    static const float across[] = { .1f, .5f, .2f, 0,   .7f, .5f,
                                    .3f, .1f, .2f, 0,   .5f, .9f };
    struct layer_case *c =
        layer_case(dev, "type: 'Accuracy' accuracy_param { axis: -2 }");

    case_bottom(c, 0, CT_SHAPE(3, 4), across);
    case_bottom(c, 1, CT_SHAPE(4), t);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0.5f);
}

TEST(accuracy, a_label_out_of_range_is_refused)
{
    static const float wrong[] = { 1, 0, 3, 2 };
    struct layer_case *c = four(CT_CPU, "name: 'acc' type: 'Accuracy'");

    ASSERT_OK(case_setup(c));
    case_bottom(c, 1, CT_SHAPE(4), wrong);
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer acc: label 2 is 3", ct_last_error());
}

TEST(accuracy, more_than_all_classes_is_refused)
{
    struct layer_case *c = four(CT_CPU, "name: 'acc' type: 'Accuracy' "
                                        "accuracy_param { top_k: 4 }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer acc: top_k is 4", ct_last_error());
}

TEST(accuracy, too_few_labels_are_refused)
{
    struct layer_case *c = four(CT_CPU, "name: 'acc' type: 'Accuracy'");

    case_bottom(c, 1, CT_SHAPE(3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer acc", ct_last_error());
}

TEST(accuracy, there_is_no_backward_pass)
{
    struct layer_case *c = four(CT_CPU, "type: 'Accuracy'");

    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_ENOTSUP, case_backward(c));
}
