/* test_lrn.c - every implementation of LRN against the definition. */
#include "device/cpu/lrn_impl.h"
#include "layouts.h"

static const struct ct_lrn_impl *const impls[] = { &ct_lrn_blocked,
                                                   &ct_lrn_plain,
                                                   &ct_lrn_ref };

/* Channels 1 2 4, alpha 3, so that a = 1, k 1, beta 1: s = 6, 22, 21. */
TEST(lrn, reference_across_channels_by_hand)
{
    static const float x[] = { 1, 2, 4 }, dy[] = { 1, 0, 0 };
    struct ct_lrn p = { 1, 3, 1, 1, 3, 3, 1, 1, false, CT_PLAIN,
                        &ct_lrn_ref };
    float y[3], dx[3];

    ct_lrn_forward(&p, x, y);
    ASSERT_FLOAT(1 / 6.0, y[0], 1e-6);
    ASSERT_FLOAT(2 / 22.0, y[1], 1e-6);
    ASSERT_FLOAT(4 / 21.0, y[2], 1e-6);
    /* y0 = x0 / (1 + x0^2 + x1^2). */
    ct_lrn_backward(&p, x, dy, NULL, dx);
    ASSERT_FLOAT(1 / 6.0 - 2 * 1 * 1 / 36.0, dx[0], 1e-6);
    ASSERT_FLOAT(-2 * 2 * 1 / 36.0, dx[1], 1e-6);
    ASSERT_FLOAT(0, dx[2], 1e-6);
}

/* A row 1 2 4 alone in its image: nine positions count, three are inside. */
TEST(lrn, reference_within_a_channel_by_hand)
{
    static const float x[] = { 1, 2, 4 };
    struct ct_lrn p = { 1, 1, 1, 3, 3, 9, 1, 1, true, CT_PLAIN, &ct_lrn_ref };
    float y[3];

    ct_lrn_forward(&p, x, y);
    ASSERT_FLOAT(1 / 6.0, y[0], 1e-6);
    ASSERT_FLOAT(2 / 22.0, y[1], 1e-6);
    ASSERT_FLOAT(4 / 21.0, y[2], 1e-6);
}

static void compare(struct ct_lrn p, const struct ct_lrn_impl *impl,
                    enum ct_layout layout)
{
    struct ct_lrn q = p;
    int64_t inner = p.h * p.w, n = p.n * p.c * inner;
    int64_t big = test_elements(p.n, p.c, inner, layout);
    float *x = test_values(n, 1, 0), *dy = test_values(n, 2, 0);
    float *y = test_floats(n), *dx = test_floats(n);
    float *xb = test_in_layout(x, p.n, p.c, inner, layout);
    float *dyb = test_in_layout(dy, p.n, p.c, inner, layout);
    float *yb = test_values(big, 3, 0), *dxb = test_values(big, 4, 0);

    p.impl   = &ct_lrn_ref;
    q.impl   = impl;
    q.layout = layout;
    if (!impl->takes(&q))
        return;
    ct_lrn_forward(&p, x, y);
    ct_lrn_forward(&q, xb, yb);
    test_same("forward", y, yb, p.n, p.c, inner, layout, 2e-6f);
    ct_lrn_backward(&p, x, dy, NULL, dx);
    ct_lrn_backward(&q, xb, dyb, test_floats(ct_lrn_scratch(&q)), dxb);
    test_same("backward", dx, dxb, p.n, p.c, inner, layout, 5e-6f);
}

TEST(lrn, implementations_agree)
{
    static const struct ct_lrn cases[] = {
        { 2, 5, 4, 6, 5, 1.5f, 0.75f, 1, false, CT_PLAIN, NULL },
        { 1, 37, 9, 8, 5, 2, 0.75f, 2, false, CT_PLAIN, NULL },
        { 1, 32, 3, 3, 3, 0.5f, 0.6f, 1, false, CT_PLAIN, NULL },
        { 1, 2, 2, 2, 7, 1, 0.5f, 1, false, CT_PLAIN, NULL },
        { 1, 20, 3, 2, 17, 1, 0.75f, 1, false, CT_PLAIN, NULL },
        { 1, 40, 2, 2, 35, 1, 0.75f, 1, false, CT_PLAIN, NULL },
        { 1, 24, 2, 3, 1, 1, 0.75f, 1, false, CT_PLAIN, NULL },
        { 1, 16, 5, 5, 3, 1, 0.75f, 0, false, CT_PLAIN, NULL },
        { 1, 17, 5, 5, 3, 1, 0.75f, 0, false, CT_PLAIN, NULL },
        { 2, 19, 6, 7, 3, 1.5f, 0.75f, 1, true, CT_PLAIN, NULL },
        { 1, 3, 4, 5, 7, 1.5f, 0.3f, 1, true, CT_PLAIN, NULL },
        { 1, 1, 2, 2100, 3, 1.5f, 0.75f, 1, true, CT_PLAIN, NULL },
        { 0, 3, 4, 4, 3, 1, 0.75f, 1, false, CT_PLAIN, NULL },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int layout = CT_PLAIN; layout <= CT_NHWC; layout++)
            for (int k = 0; k < 3; k++)
                compare(cases[i], impls[k], (enum ct_layout)layout);
}

TEST(lrn, layouts_that_matter_have_fast_implementations)
{
    struct ct_lrn p = { 1, 37, 4, 4, 5, 1, 0.75f, 1, false, CT_PLAIN, NULL };

    for (int within = 0; within < 2; within++) {
        p.within = within;
        p.layout = CT_PLAIN;
        ASSERT_OK(ct_lrn_choose(&p));
        ASSERT_STR("plain", ct_lrn_impl_name(&p));
        p.layout = CT_BLOCKED8;
        ASSERT_OK(ct_lrn_choose(&p));
        ASSERT_STR("blocked", ct_lrn_impl_name(&p));
        p.layout = CT_BLOCKED16;
        ASSERT_OK(ct_lrn_choose(&p));
        ASSERT_STR("blocked", ct_lrn_impl_name(&p));
    }
}
