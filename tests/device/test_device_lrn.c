/* test_device_lrn.c - every implementation of LRN against the definition. */
#include "device/cpu/lrn_impl.h"
#include "layouts.h"

static const struct ct_impl *const impls[] = {
    &ct_lrn_blocked.head,
    &ct_lrn_plain.head,
    &ct_lrn_ref.head,
#ifdef CT_HAVE_ONEDNN
    &ct_lrn_onednn.head,
#endif
};
enum { N_IMPLS = sizeof(impls) / sizeof(impls[0]) };

/* `impl` in both passes; false where it does not take the description. */
static bool use(struct ct_lrn *p, const struct ct_impl *impl)
{
    for (int i = 0; i < CT_PASSES; i++) {
        enum ct_status st = ct_impl_try(impl, p, (enum ct_pass)i, &p->pass[i]);

        if (st == CT_ENOTSUP)
            return false;
        ASSERT_OK(st);
    }
    return true;
}

/* Channels 1 2 4, alpha 3, so that a = 1, k 1, beta 1: s = 6, 22, 21. */
TEST(device_lrn, reference_across_channels_by_hand)
{
    static const float x[] = { 1, 2, 4 }, dy[] = { 1, 0, 0 };
    struct ct_lrn p = { 1, 3, 1, 1, 3, 3, 1, 1, false, CT_PLAIN, CT_F32,
                        { { 0 } } };
    float y[3], dx[3];

    ASSERT(use(&p, &ct_lrn_ref.head));
    ASSERT_OK(ct_lrn_forward(&p, x, y));
    ASSERT_FLOAT(1 / 6.0, y[0], 1e-6);
    ASSERT_FLOAT(2 / 22.0, y[1], 1e-6);
    ASSERT_FLOAT(4 / 21.0, y[2], 1e-6);
    /* y0 = x0 / (1 + x0^2 + x1^2). */
    ASSERT_OK(ct_lrn_backward(&p, x, dy, NULL, dx));
    ASSERT_FLOAT(1 / 6.0 - 2 * 1 * 1 / 36.0, dx[0], 1e-6);
    ASSERT_FLOAT(-2 * 2 * 1 / 36.0, dx[1], 1e-6);
    ASSERT_FLOAT(0, dx[2], 1e-6);
}

/* A row 1 2 4 alone in its image: nine positions count, three are inside. */
TEST(device_lrn, reference_within_a_channel_by_hand)
{
    static const float x[] = { 1, 2, 4 };
    struct ct_lrn p = { 1, 1, 1, 3, 3, 9, 1, 1, true, CT_PLAIN, CT_F32,
                        { { 0 } } };
    float y[3];

    ASSERT(use(&p, &ct_lrn_ref.head));
    ASSERT_OK(ct_lrn_forward(&p, x, y));
    ASSERT_FLOAT(1 / 6.0, y[0], 1e-6);
    ASSERT_FLOAT(2 / 22.0, y[1], 1e-6);
    ASSERT_FLOAT(4 / 21.0, y[2], 1e-6);
}

static void compare(struct ct_lrn p, const struct ct_impl *impl,
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

    q.layout = layout;
    ASSERT(use(&p, &ct_lrn_ref.head));
    if (!use(&q, impl))
        return;
    ASSERT_OK(ct_lrn_forward(&p, x, y));
    ASSERT_OK(ct_lrn_forward(&q, xb, yb));
    test_same("forward", y, yb, p.n, p.c, inner, layout, 2e-6f);
    ASSERT_OK(ct_lrn_backward(&p, x, dy, NULL, dx));
    ASSERT_OK(ct_lrn_backward(&q, xb, dyb, test_floats(ct_lrn_scratch(&q)),
                              dxb));
    test_same("backward", dx, dxb, p.n, p.c, inner, layout, 5e-6f);
    ct_lrn_fini(&q);
}

TEST(device_lrn, implementations_agree)
{
    static const struct ct_lrn cases[] = {
        { 2, 5, 4, 6, 5, 1.5f, 0.75f, 1, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 37, 9, 8, 5, 2, 0.75f, 2, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 32, 3, 3, 3, 0.5f, 0.6f, 1, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 2, 2, 2, 7, 1, 0.5f, 1, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 20, 3, 2, 17, 1, 0.75f, 1, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 40, 2, 2, 35, 1, 0.75f, 1, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 24, 2, 3, 1, 1, 0.75f, 1, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 16, 5, 5, 3, 1, 0.75f, 0, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 17, 5, 5, 3, 1, 0.75f, 0, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 2, 19, 6, 7, 3, 1.5f, 0.75f, 1, true, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 3, 4, 5, 7, 1.5f, 0.3f, 1, true, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 1, 2, 2100, 3, 1.5f, 0.75f, 1, true, CT_PLAIN, CT_F32, { { 0 } } },
        { 0, 3, 4, 4, 3, 1, 0.75f, 1, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 2, 16, 7, 7, 5, 1, 0.75f, 1, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 2, 32, 13, 11, 5, 1, 0.75f, 1, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 96, 6, 8, 5, 0.1f, 0.75f, 1, false, CT_PLAIN, CT_F32, { { 0 } } },
        { 2, 32, 16, 16, 3, 1, 0.75f, 1, true, CT_PLAIN, CT_F32, { { 0 } } },
        { 1, 16, 9, 7, 5, 1, 0.75f, 1, true, CT_PLAIN, CT_F32, { { 0 } } },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int layout = CT_PLAIN; layout <= CT_NHWC; layout++)
            for (int k = 0; k < N_IMPLS; k++)
                compare(cases[i], impls[k], (enum ct_layout)layout);
}

static const char *chosen(struct ct_lrn *p, enum ct_pass pass)
{
    ASSERT_OK(ct_lrn_choose(p));
    return p->pass[pass].impl->name;
}

TEST(device_lrn, layouts_that_matter_have_fast_implementations)
{
    struct ct_lrn p = { 1, 37, 4, 4, 5, 1, 0.75f, 1, false, CT_PLAIN,
                        CT_F32, { { 0 } } };

    ASSERT_STR("plain", chosen(&p, CT_BACKWARD));
    p.layout = CT_BLOCKED8;
    ASSERT_STR("blocked", chosen(&p, CT_BACKWARD));
    p.layout = CT_BLOCKED16;
    ASSERT_STR("blocked", chosen(&p, CT_BACKWARD));
    p.within = true;
    p.layout = CT_PLAIN;
    ASSERT_STR("plain", chosen(&p, CT_FORWARD));
    ASSERT_STR("plain", chosen(&p, CT_BACKWARD));
    ct_lrn_fini(&p);
}

#ifdef CT_HAVE_ONEDNN
TEST(device_lrn, onednn_runs_where_it_is_faster)
{
    struct ct_lrn p = { 1, 32, 8, 8, 5, 1, 0.75f, 1, false, CT_PLAIN,
                        CT_F32, { { 0 } } };

    ASSERT_STR("onednn", chosen(&p, CT_FORWARD));
    p.within = true;
    p.layout = ct_layout_blocked();
    ASSERT_STR("onednn", chosen(&p, CT_BACKWARD));
    p.beta = 0.5f; /* which it has no fast kernel for */
    ASSERT_STR("blocked", chosen(&p, CT_BACKWARD));
    ct_lrn_fini(&p);
}
#endif
