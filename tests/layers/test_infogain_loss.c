/* test_infogain_loss.c - by hand, and against SoftmaxWithLoss's formula.
 *
 *     p = 1/4 1/4 1/2   t = 2   H = 1 0 0     H[2] = .5 0 2
 *         1/2 1/4 1/4       0       0 1 0
 *                                  .5 0 2
 *     loss = (.5 ln 4 + 2 ln 2  +  ln 2) / 2 = 2 ln 2                  */
#include "core/blob_proto.h"
#include "cortado/proto.h"
#include "testing/layer_test.h"

#define LN2 0.69314718f

static const float x[] = { 0, 0, LN2, LN2, 0, 0 }, t[] = { 2, 0 };
static const float gain[] = { 1, 0, 0, 0, 1, 0, .5f, 0, 2 };
static const float weight[] = { 2 };

static struct layer_case *two(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(2, 3), x);
    case_bottom(c, 1, CT_SHAPE(2), t);
    case_want_grad(c, 1, false);
    case_want_grad(c, 2, false);
    return c;
}

static void check(struct layer_case *c)
{
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 2 * LN2);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, .125f, .625f, -.75f, -.5f, .25f,
                .25f);
}

TEST_EACH_DEVICE(infogain_loss, the_matrix_may_be_a_bottom)
{
    struct layer_case *c = two(dev, "type: 'InfogainLoss'");

    case_bottom(c, 2, CT_SHAPE(1, 1, 3, 3), gain);
    check(c);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

static void free_message(void *m)
{
    ct_message_free(m);
}

TEST(infogain_loss, the_matrix_may_be_a_file)
{
    Caffe__BlobProto *proto;
    struct ct_blob *b;
    char path[512], text[1024];

    ASSERT_OK(ct_blob_create(ct_device_cpu(), &b));
    ASSERT_OK(ct_reshape(b, CT_SHAPE(3, 3)));
    memcpy(ct_data(b), gain, sizeof(gain));
    ASSERT_OK(ct_blob_to_proto(b, false, &proto));
    ct_blob_destroy(b);
    test_defer(free_message, proto);
    snprintf(path, sizeof(path), "%s/H.binaryproto", test_folder());
    ASSERT_OK(ct_binary_write(proto, path));
    snprintf(text, sizeof(text), "type: 'InfogainLoss' "
             "infogain_loss_param { source: '%s' }", path);
    check(two(CT_CPU, text));
}

TEST_EACH_DEVICE(infogain_loss, the_second_top_is_the_softmax)
{
    struct layer_case *c = two(dev, "type: 'InfogainLoss'");

    case_bottom(c, 2, CT_SHAPE(3, 3), gain);
    case_tops(c, 2);
    check(c);
    ASSERT_NEAR(c, "top[1].data", 1e-6f, .25f, .25f, .5f, .5f, .25f, .25f);
}

/* Classes on the last axis, and one of the two positions ignored. */
TEST_EACH_DEVICE(infogain_loss, ignored_labels_and_other_axes)
{
    struct layer_case *c = layer_case(dev, "type: 'InfogainLoss' "
        "infogain_loss_param { axis: -1 } loss_param { ignore_label: 2 }");

    case_bottom(c, 0, CT_SHAPE(1, 2, 3), x);
    case_bottom(c, 1, CT_SHAPE(1, 2), t);
    case_bottom(c, 2, CT_SHAPE(3, 3), gain);
    case_want_grad(c, 1, false);
    case_want_grad(c, 2, false);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, weight);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, LN2);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 0, 0, 0, -1, .5f, .5f);
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(infogain_loss, pixels_have_gradients_too)
{
    struct layer_case *c = layer_case(CT_CPU, "type: 'InfogainLoss'");

    case_bottom(c, 0, CT_SHAPE(2, 3, 4), NULL);
    case_bottom_labels(c, 1, CT_SHAPE(2, 4), 3);
    case_bottom(c, 2, CT_SHAPE(3, 3), gain);
    case_want_grad(c, 1, false);
    case_want_grad(c, 2, false);
    ASSERT_OK(case_setup(c));
    ASSERT_GRADIENT(c, 1e-2f, 1e-3f);
}

TEST(infogain_loss, a_missing_matrix_is_refused)
{
    struct layer_case *c = two(CT_CPU, "name: 'i' type: 'InfogainLoss'");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer i: the infogain matrix is missing", ct_last_error());
}

TEST(infogain_loss, a_matrix_of_another_size_is_refused)
{
    struct layer_case *c = two(CT_CPU, "name: 'i' type: 'InfogainLoss'");

    case_bottom(c, 2, CT_SHAPE(2, 2), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer i: the infogain matrix has 4 values", ct_last_error());
}

TEST(infogain_loss, a_label_out_of_range_is_refused)
{
    static const float wrong[] = { 2, -4 };
    struct layer_case *c = two(CT_CPU, "name: 'i' type: 'InfogainLoss'");

    case_bottom(c, 2, CT_SHAPE(3, 3), gain);
    ASSERT_OK(case_setup(c));
    case_bottom(c, 1, CT_SHAPE(2), wrong);
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer i: label 1 is -4", ct_last_error());
}
