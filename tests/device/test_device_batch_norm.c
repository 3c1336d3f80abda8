/* test_device_batch_norm.c - batch normalisation against sums in double. */
#include "device/cpu/batch_norm_impl.h"
#include "layouts.h"

static const struct ct_impl *const impls[] = {
    &ct_batch_norm_ref.head,
#ifdef CT_HAVE_ONEDNN
    &ct_batch_norm_onednn.head,
#endif
};
enum { N_IMPLS = sizeof(impls) / sizeof(impls[0]) };

static const struct ct_channels views[] = {
    { 2, 3, 5, CT_PLAIN, 0, CT_F32 },   { 3, 19, 7, CT_PLAIN, 0, CT_F32 },
    { 5, 21, 1, CT_PLAIN, 0, CT_F32 },  { 1, 16, 1100, CT_PLAIN, 0, CT_F32 },
    { 2, 1, 600, CT_PLAIN, 0, CT_F32 }, { 70, 40, 1, CT_PLAIN, 0, CT_F32 },
    { 2, 32, 9, CT_PLAIN, 0, CT_F32 },  { 1, 2, 1, CT_PLAIN, 0, CT_F32 },
};

/* What the layer should get, in plain order. */
struct wanted {
    float *x, *dy, *mean, *var, *y, *dx;
};

static const float eps = 1e-3f;

static struct wanted want(const struct ct_channels *v)
{
    const int64_t n = v->n * v->c * v->inner;
    const double m = (double)(v->n * v->inner);
    struct wanted w = { test_values(n, 1, 0), test_values(n, 2, 0),
                        test_floats(v->c),    test_floats(v->c),
                        test_floats(n),       test_floats(n) };

    for (int64_t i = 0; i < n; i++)
        w.x[i] += 3; /* a mean above the spread */
    for (int64_t c = 0; c < v->c; c++) {
        double mean = 0, var = 0, sum = 0, dot = 0, inverse;

        for (int64_t i = 0; i < n; i++)
            mean += i / v->inner % v->c == c ? w.x[i] / m : 0;
        for (int64_t i = 0; i < n; i++)
            if (i / v->inner % v->c == c)
                var += (w.x[i] - mean) * (w.x[i] - mean) / m;
        inverse = 1 / sqrt(var + (double)eps);
        for (int64_t i = 0; i < n; i++)
            if (i / v->inner % v->c == c) {
                w.y[i] = (float)((w.x[i] - mean) * inverse);
                sum += w.dy[i] / m;
                dot += w.dy[i] * (w.x[i] - mean) * inverse / m;
            }
        for (int64_t i = 0; i < n; i++)
            if (i / v->inner % v->c == c)
                w.dx[i] = (float)((w.dy[i] - sum - w.y[i] * dot) * inverse);
        w.mean[c] = (float)mean;
        w.var[c]  = (float)var;
    }
    return w;
}

static void check(const struct ct_channels *v, enum ct_layout layout,
                  const struct ct_impl *impl, bool in_place)
{
    struct ct_batch_norm p = { .view = { v->n, v->c, v->inner, layout, 0 },
                               .eps = eps, .in_place = in_place };
    const struct wanted w = want(v);
    const int64_t big = test_elements(v->n, v->c, v->inner, layout);
    float *x = test_in_layout(w.x, v->n, v->c, v->inner, layout);
    float *dy = test_in_layout(w.dy, v->n, v->c, v->inner, layout);
    float *y = in_place ? x : test_values(big, 3, 0);
    float *dx = in_place ? dy : test_values(big, 4, 0);
    float *kept = in_place ? test_values(big, 5, 0) : NULL;
    float *scratch = test_floats(ct_batch_norm_scratch(&p));
    float *mean = test_floats(v->c), *var = test_floats(v->c);

    for (int i = 0; i < CT_PASSES; i++)
        ASSERT_OK(ct_impl_try(impl, &p, (enum ct_pass)i, &p.pass[i]));
    ASSERT_OK(ct_batch_norm_forward(&p, x, scratch, mean, var, y, kept));
    for (int64_t c = 0; c < v->c; c++) {
        ASSERT_FLOAT(w.mean[c], mean[c], 1e-5);
        ASSERT_FLOAT(w.var[c], var[c], 1e-5);
    }
    test_same("y", w.y, y, v->n, v->c, v->inner, layout, 1e-4f);
    if (kept)
        test_same("kept", w.x, kept, v->n, v->c, v->inner, layout, 0);
    ASSERT_OK(ct_batch_norm_backward(&p, kept ? kept : x, dy, mean, var,
                                     scratch, dx));
    test_same("dx", w.dx, dx, v->n, v->c, v->inner, layout, 1e-4f);
    ct_batch_norm_fini(&p);
}

TEST(device_batch_norm, implementations_agree_with_the_definition)
{
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++)
        for (int layout = CT_PLAIN; layout <= CT_NHWC; layout++)
            for (int k = 0; k < N_IMPLS; k++)
                for (int in_place = 0; in_place < 2; in_place++)
                    check(&views[i], (enum ct_layout)layout, impls[k],
                          in_place);
}

static const char *chosen(struct ct_batch_norm *p)
{
    ASSERT_OK(ct_batch_norm_choose(p));
    return p->pass[CT_FORWARD].impl->name;
}

TEST(device_batch_norm, plain_arrays_and_those_in_place_are_ours)
{
    struct ct_batch_norm p = { .view = views[3], .eps = eps };

    ASSERT_STR("ref", chosen(&p));
    p.view.layout = CT_BLOCKED16;
    p.in_place    = true;
    ASSERT_STR("ref", chosen(&p));
#ifdef CT_HAVE_ONEDNN
    p.in_place    = false;
    p.view.layout = ct_layout_blocked();
    ASSERT_STR("onednn", chosen(&p));
#endif
    p.view.n = 0;
    ASSERT_STR("ref", chosen(&p));
    ct_batch_norm_fini(&p);
}
