/* test_conv.c - convolution as a device operation: a small case that is worked
 * out by hand for every implementation, and what objects may and may not be.
 * Larger cases are in test_conv_agree.c. */
#include "conv_test.h"
#include "device/impl.h"

/* One channel, 3 x 3, kernel 2 x 2:
 *
 *     x = 1 2 3   w = 1 2   y = x w + 1 = 1+4+12+20+1 ...
 *         4 5 6       3 4
 *         7 8 9                                                        */
static const struct ct_conv_desc small = {
    .n_spatial = 2, .batch = 1, .in_channels = 1, .out_channels = 1,
    .group = 1, .in = { 3, 3 }, .kernel = { 2, 2 }, .stride = { 1, 1 },
    .pad = { 0, 0 }, .dilation = { 1, 1 }, .has_bias = true,
};

TEST(conv, a_small_case_is_what_the_hand_says)
{
    static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    static const float w[] = { 1, 2, 3, 4 }, b[] = { 1 };
    static const float dy[] = { 1, 0, 0, 2 };
    static const float y[]  = { 38, 48, 68, 78 };
    static const float dx[] = { 1, 2, 0, 3, 6, 4, 0, 6, 8 };
    static const float dw[] = { 1 + 10, 2 + 12, 4 + 16, 5 + 18 };

    for (int i = 0; i < N_IMPLS; i++) {
        struct ct_conv *c = make(&small, impl_name(i));
        float got[9], got_dw[4] = { 0 }, got_db[1] = { 5 };

        if (!c)
            continue;
        ASSERT_OK(ct_conv_forward(c, x, w, b, got));
        near("y", y, got, 4);
        ASSERT_OK(ct_conv_backward_data(c, w, dy, got));
        near("dx", dx, got, 9);
        ASSERT_OK(ct_conv_backward_weights(c, x, dy, got_dw, got_db));
        near("dw", dw, got_dw, 4);
        ASSERT_FLOAT(8, got_db[0], 0);
        ASSERT_OK(ct_conv_backward_weights(c, x, dy, NULL, got_db));
        ASSERT_OK(ct_conv_backward_weights(c, x, dy, got_dw, NULL));
        ASSERT_FLOAT(22, got_dw[0], 0);
        ASSERT_FLOAT(11, got_db[0], 0);
    }
}

/* Two objects in one workspace, the second of which makes it grow and move. */
TEST(conv, objects_share_a_workspace)
{
    struct ct_conv_desc large = small;
    struct ct_workspace work  = { 0 };
    struct ct_conv *a, *b;
    static const float x[100] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    static const float w[] = { 1, 2, 3, 4 }, bias[] = { 1 };
    float y[81], dw[4] = { 0 }, dy[4] = { 1, 0, 0, 2 };

    large.in[0] = large.in[1] = 10;
    for (int i = 0; i < N_IMPLS; i++) {
        char text[64];

        snprintf(text, sizeof(text), "conv:%s", impl_name(i));
        ASSERT(setenv("CORTADO_IMPL", text, 1) == 0);
        if (ct_conv_create(ct_device_cpu(), &small, &work, &a) == CT_OK) {
            ASSERT_OK(ct_conv_create(ct_device_cpu(), &large, &work, &b));
            ASSERT_OK(ct_conv_forward(b, x, w, bias, y));
            ASSERT_OK(ct_conv_forward(a, x, w, bias, y));
            ASSERT_FLOAT(78, y[3], 0);
            ASSERT_OK(ct_conv_backward_weights(a, x, dy, dw, NULL));
            ASSERT_FLOAT(23, dw[3], 0);
            dw[0] = dw[1] = dw[2] = dw[3] = 0;
            ct_conv_destroy(a);
            ct_conv_destroy(b);
        }
        unforce(NULL);
        ct_workspace_fini(&work);
    }
}

TEST(conv, an_empty_batch_does_nothing)
{
    struct ct_conv_desc d = small;
    float w[4] = { 1, 1, 1, 1 }, dw[4] = { 5, 5, 5, 5 }, b = 1, db = 7;
    struct ct_conv *c;

    d.batch = 0;
    ASSERT_OK(ct_conv_create(ct_device_cpu(), &d, NULL, &c));
    keep(conv_free, c);
    ASSERT_OK(ct_conv_forward(c, NULL, w, &b, NULL));
    ASSERT_OK(ct_conv_backward_data(c, w, NULL, NULL));
    ASSERT_OK(ct_conv_backward_weights(c, NULL, NULL, dw, &db));
    ASSERT_FLOAT(5, dw[0], 0);
    ASSERT_FLOAT(7, db, 0);
}

/* oneDNN's counts overflow at such sizes, and it divides by them.  What is left
 * asks for 54 terabytes. */
TEST(conv, a_sea_of_padding_is_refused)
{
    struct ct_conv *c;
    struct ct_conv_desc d = small;

    d.in_channels  = 16;
    d.out_channels = 7;
    d.in[0] = d.in[1] = 6;
    d.kernel[0] = d.kernel[1] = 7;
    d.pad[0] = d.pad[1] = 65536;
    ASSERT_STATUS(CT_ENOMEM, ct_conv_create(ct_device_cpu(), &d, NULL, &c));
}

TEST(conv, what_makes_no_sense_is_refused)
{
    struct ct_conv *c;
    struct ct_conv_desc d = small;

    d.kernel[1] = 4;
    ASSERT_STATUS(CT_ESHAPE, ct_conv_create(ct_device_cpu(), &d, NULL, &c));
    ASSERT_HAS("axis 1", ct_last_error());
    d       = small;
    d.group = 2;
    ASSERT_STATUS(CT_EINVAL, ct_conv_create(ct_device_cpu(), &d, NULL, &c));
    ASSERT_HAS("group 2", ct_last_error());
    d           = small;
    d.stride[0] = 0;
    ASSERT_STATUS(CT_EINVAL, ct_conv_create(ct_device_cpu(), &d, NULL, &c));
    d        = small;
    d.pad[0] = d.pad[1] = INT64_C(1) << 33;
    ASSERT_STATUS(CT_ESHAPE, ct_conv_create(ct_device_cpu(), &d, NULL, &c));
    ASSERT_HAS("more values than memory", ct_last_error());
    ASSERT(setenv("CORTADO_IMPL", "conv:whole", 1) == 0);
    test_defer(unforce, NULL);
    ASSERT_STATUS(CT_ENOTSUP,
                  ct_conv_create(ct_device_cpu(), &small, NULL, &c));
    ASSERT_HAS("CORTADO_IMPL", ct_last_error());
}
