/* test_pool.c - every implementation of pooling against the definition.
 *
 * The reference is checked by hand first; then all of them must agree on a
 * table of windows, in every layout they take, equal values included. */
#include <float.h>
#include <stdlib.h>

#include "device/cpu/pool_impl.h"
#include "layouts.h"

static const struct ct_impl *const impls[] = {
    &ct_pool_blocked.head,
    &ct_pool_rows.head,
    &ct_pool_ref.head,
#ifdef CT_HAVE_ONEDNN
    &ct_pool_onednn.head,
#endif
};
enum { N_IMPLS = sizeof(impls) / sizeof(impls[0]) };

struct window_case {
    int64_t n, c, h, w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    bool    floor;
};

static const struct window_case cases[] = {
    { 2, 3, 7, 9, 3, 3, 2, 2, 0, 0, false },  /* overhanging windows */
    { 1, 16, 8, 8, 2, 2, 2, 2, 0, 0, false }, /* full blocks */
    { 2, 19, 7, 6, 3, 3, 2, 2, 1, 1, false }, /* padded channels */
    { 1, 24, 6, 7, 5, 5, 1, 1, 2, 2, false },
    { 1, 5, 9, 4, 2, 3, 3, 1, 1, 2, true },
    { 2, 8, 5, 6, 5, 6, 1, 1, 0, 0, false },  /* global */
    { 1, 9, 8, 7, 1, 1, 3, 3, 0, 0, false },  /* windows without values */
    { 1, 2, 2, 2, 3, 3, 2, 2, 0, 0, false },  /* larger than the image */
    { 1, 3, 3, 2100, 3, 3, 2, 2, 1, 1, false }, /* very wide */
    { 0, 3, 4, 4, 2, 2, 2, 2, 0, 0, false },  /* no images */
    { 3, 33, 12, 10, 2, 2, 2, 2, 0, 0, false },
    { 2, 17, 11, 13, 3, 2, 1, 2, 1, 0, false },
    { 2, 20, 8, 8, 3, 3, 2, 2, 1, 1, false }, /* overhangs a padding */
    { 1, 16, 20, 21, 17, 16, 1, 1, 3, 2, false }, /* places beyond a byte */
    { 1, 4, 2, 2, 3, 3, 1, 1, 1, 1, false },  /* wider than the image */
};
enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };

static struct ct_pool pool_of(const struct window_case *w,
                              enum ct_layout layout)
{
    struct ct_pool p = {
        w->n, w->c, w->h, w->w, w->kernel_h, w->kernel_w, w->stride_h,
        w->stride_w, w->pad_h, w->pad_w, .layout = layout
    };

    ct_pool_shape(&p, w->floor);
    for (int i = 0; i < CT_PASSES; i++)
        ASSERT_OK(ct_impl_try(&ct_pool_ref.head, &p, (enum ct_pass)i,
                              &p.pass[i]));
    return p;
}

/* `impl` in both passes; false where it does not take the description. */
static bool use(struct ct_pool *p, const struct ct_impl *impl)
{
    for (int i = 0; i < CT_PASSES; i++) {
        enum ct_status st = ct_impl_try(impl, p, (enum ct_pass)i, &p->pass[i]);

        if (st == CT_ENOTSUP)
            return false;
        ASSERT_OK(st);
    }
    return true;
}

TEST(pool, reference_takes_the_first_of_equal_values)
{
    static const float x[] = { 1, 5, 2, 5, 5, 0, 3, 4, 9 };
    struct ct_pool p = pool_of(&(struct window_case){ 1, 1, 3, 3, 2, 2, 1, 1,
                                                      0, 0, false },
                               CT_PLAIN);
    static const float dy[] = { 1, 10, 100, 1000 };
    static const float want[] = { 5, 5, 5, 9 };
    static const int places[] = { 1, 1, 3, 8 };
    static const float back[] = { 0, 11, 0, 100, 0, 0, 0, 0, 1000 };
    float y[4], dx[9];
    int32_t at[4];

    ASSERT_INT(2, p.out_h);
    ASSERT_OK(ct_pool_max(&p, x, y, at));
    for (int i = 0; i < 4; i++) {
        ASSERT_FLOAT(want[i], y[i], 0);
        ASSERT_INT(places[i], at[i]);
    }
    ASSERT_OK(ct_pool_max_backward(&p, dy, at, dx));
    for (int i = 0; i < 9; i++)
        ASSERT_FLOAT(back[i], dx[i], 0);
}

/* Three windows of 2 over 1 2 3, padded by 1: | 0 1 | 2 3 | and, not dropped
 * because 2 * 2 = 4 is not beyond 3 + 1 - 1, nothing more. */
TEST(pool, average_divides_by_the_window_within_the_padding)
{
    static const float x[] = { 1, 2, 3 }, dy[] = { 1, 2 };
    struct ct_pool p = pool_of(&(struct window_case){ 1, 1, 1, 3, 1, 2, 1, 2,
                                                      0, 1, false },
                               CT_PLAIN);
    float y[2], dx[3];

    ASSERT_INT(2, p.out_w);
    ASSERT_OK(ct_pool_average(&p, x, y));
    ASSERT_FLOAT(0.5, y[0], 0);
    ASSERT_FLOAT(2.5, y[1], 0);
    ASSERT_OK(ct_pool_average_backward(&p, dy, dx));
    ASSERT_FLOAT(0.5, dx[0], 0);
    ASSERT_FLOAT(1, dx[1], 0);
    ASSERT_FLOAT(1, dx[2], 0);
}

TEST(pool, shapes_follow_caffes_rule)
{
    static const struct {
        int64_t in, kernel, stride, pad, up, down;
    } table[] = {
        { 8, 3, 2, 0, 4, 3 },  { 10, 3, 2, 0, 5, 4 }, { 7, 3, 2, 0, 3, 3 },
        { 8, 3, 2, 1, 5, 4 },  { 7, 2, 2, 1, 4, 4 },  { 4, 2, 2, 1, 3, 3 },
        { 2, 3, 2, 0, 1, 0 },  { 5, 5, 1, 2, 5, 5 },  { 1, 2, 2, 1, 1, 1 },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct ct_pool p = { .h = table[i].in, .w = table[i].in,
                             .kernel_h = table[i].kernel,
                             .kernel_w = table[i].kernel,
                             .stride_h = table[i].stride,
                             .stride_w = table[i].stride,
                             .pad_h = table[i].pad, .pad_w = table[i].pad };

        ct_pool_shape(&p, false);
        ASSERT_INT(table[i].up, p.out_h);
        ASSERT_INT(table[i].up, p.out_w);
        ct_pool_shape(&p, true);
        ASSERT_INT(table[i].down, p.out_h);
    }
}

/* Runs impl in a layout beside the reference on plain arrays; twice, because
 * what an implementation keeps must not show in its results. */
static void compare_max(const struct window_case *w,
                        const struct ct_impl *impl, enum ct_layout layout)
{
    struct ct_pool a = pool_of(w, CT_PLAIN), b = pool_of(w, layout);
    int64_t in = a.h * a.w, out = a.out_h * a.out_w;
    float *x = test_values(a.n * a.c * in, 1, 3);
    float *dy = test_values(a.n * a.c * out, 2, 0);
    float *xb = test_in_layout(x, a.n, a.c, in, layout);
    float *dyb = test_in_layout(dy, a.n, a.c, out, layout);
    float *y = test_floats(a.n * a.c * out), *dx = test_floats(a.n * a.c * in);
    int64_t small = test_elements(a.n, a.c, out, layout);
    int32_t *at = test_floats(a.n * a.c * out), *atb = test_floats(small);

    ASSERT_OK(ct_pool_max(&a, x, y, at));
    ASSERT_OK(ct_pool_max_backward(&a, dy, at, dx));
    for (int turn = 0; turn < 2 && use(&b, impl); turn++) {
        /* Rubbish where results go: all of it must be overwritten. */
        float *yb  = test_values(small, 3, 0);
        float *dxb = test_values(test_elements(a.n, a.c, in, layout), 4, 0);

        ASSERT_OK(ct_pool_max(&b, xb, yb, atb));
        test_same("max", y, yb, a.n, a.c, out, layout, 0);
        for (int64_t i = 0; i < a.n * a.c * out; i++) {
            int64_t o = ct_layout_at(ct_layout_blocks(layout, a.c), out,
                                     ct_layout_block(layout, a.c),
                                     i / out / a.c, i / out % a.c, i % out);

            ASSERT_INT(at[i], atb[o]);
        }
        ASSERT_OK(ct_pool_max_backward(&b, dyb, atb, dxb));
        test_same("max backward", dx, dxb, a.n, a.c, in, layout, 1e-5f);
    }
    ct_pool_fini(&b);
}

static void compare_average(const struct window_case *w,
                            const struct ct_impl *impl, enum ct_layout layout)
{
    struct ct_pool a = pool_of(w, CT_PLAIN), b = pool_of(w, layout);
    int64_t in = a.h * a.w, out = a.out_h * a.out_w;
    float *x = test_values(a.n * a.c * in, 1, 0);
    float *dy = test_values(a.n * a.c * out, 2, 0);
    float *xb = test_in_layout(x, a.n, a.c, in, layout);
    float *dyb = test_in_layout(dy, a.n, a.c, out, layout);
    float *y = test_floats(a.n * a.c * out), *dx = test_floats(a.n * a.c * in);

    b.average = true;
    ASSERT_OK(ct_pool_average(&a, x, y));
    ASSERT_OK(ct_pool_average_backward(&a, dy, dx));
    for (int turn = 0; turn < 2 && use(&b, impl); turn++) {
        float *yb  = test_values(test_elements(a.n, a.c, out, layout), 3, 0);
        float *dxb = test_values(test_elements(a.n, a.c, in, layout), 4, 0);

        ASSERT_OK(ct_pool_average(&b, xb, yb));
        test_same("average", y, yb, a.n, a.c, out, layout, 1e-5f);
        ASSERT_OK(ct_pool_average_backward(&b, dyb, dxb));
        test_same("average backward", dx, dxb, a.n, a.c, in, layout, 1e-5f);
    }
    ct_pool_fini(&b);
}

TEST(pool, implementations_agree)
{
    for (int i = 0; i < N_CASES; i++)
        for (int layout = CT_PLAIN; layout <= CT_NHWC; layout++)
            for (int k = 0; k < N_IMPLS; k++) {
                compare_max(&cases[i], impls[k], (enum ct_layout)layout);
                compare_average(&cases[i], impls[k], (enum ct_layout)layout);
            }
}

/* A window of NaN has no largest value, and its gradient goes nowhere. */
TEST(pool, implementations_agree_on_windows_where_nothing_compares)
{
    static const struct window_case w = { 1, 16, 2, 4, 2, 2, 2, 2, 0, 0,
                                          false };

    for (int layout = CT_PLAIN; layout <= CT_NHWC; layout++)
        for (int k = 0; k < N_IMPLS; k++) {
            struct ct_pool p = pool_of(&w, (enum ct_layout)layout);
            float *x = test_values(128, 1, 0), *dy = test_values(32, 2, 0);
            float *xb, *y = test_floats(32), *dx = test_values(128, 3, 0);
            int32_t *at = test_floats(32);
            double sum = 0, given = 0;

            x[0] = x[1] = x[4] = x[5] = NAN; /* the first window */
            xb = test_in_layout(x, 1, 16, 8, (enum ct_layout)layout);
            if (!use(&p, impls[k]))
                continue;
            ASSERT_OK(ct_pool_max(&p, xb, y, at));
            ASSERT_FLOAT(-FLT_MAX, y[0], 0);
            ASSERT_INT(-1, at[0]);
            ASSERT_OK(ct_pool_max_backward(&p, dy, at, dx));
            for (int i = 0; i < 128; i++)
                sum += dx[i];
            for (int i = 1; i < 32; i++)
                given += dy[i];
            ASSERT_FLOAT(given, sum, 1e-5);
            ct_pool_fini(&p);
        }
}

static const char *chosen(struct ct_pool *p, enum ct_pass pass)
{
    ASSERT_OK(ct_pool_choose(p));
    return p->pass[pass].impl->name;
}

TEST(pool, layouts_that_matter_have_fast_implementations)
{
    struct ct_pool p = pool_of(&cases[2], CT_PLAIN);

    ASSERT_STR("rows", chosen(&p, CT_BACKWARD));
    p.layout = CT_BLOCKED16;
    ASSERT_STR("blocked", chosen(&p, CT_FORWARD));
    ASSERT_STR("blocked", chosen(&p, CT_BACKWARD));
    p.layout = CT_BLOCKED8;
    ASSERT_STR("blocked", chosen(&p, CT_FORWARD));
    ct_pool_fini(&p);
}

#ifdef CT_HAVE_ONEDNN
TEST(pool, onednn_runs_where_it_is_faster)
{
    struct ct_pool p = pool_of(&cases[2], CT_PLAIN);

    /* Its kernels for plain images are those for AVX-512. */
    ASSERT_STR(ct_layout_blocked() == CT_BLOCKED16 ? "onednn" : "rows",
               chosen(&p, CT_FORWARD));
    p.average = true;
    p.layout  = ct_layout_blocked();
    ASSERT_STR("blocked", chosen(&p, CT_FORWARD));
    ASSERT_STR("onednn", chosen(&p, CT_BACKWARD));
    ct_pool_fini(&p);
    p = pool_of(&cases[6], CT_PLAIN); /* not for it */
    ASSERT_STR("rows", chosen(&p, CT_FORWARD));
    ct_pool_fini(&p);
}
#endif

static void forget(void *name)
{
    unsetenv(name);
}

TEST(pool, the_environment_can_force_one)
{
    static char name[] = "CORTADO_IMPL";
    struct ct_pool p = pool_of(&cases[2], CT_BLOCKED16);

    setenv(name, "pool:ref", 1);
    test_defer(forget, name);
    ASSERT_STR("ref", chosen(&p, CT_FORWARD));
    ASSERT_STR("ref", chosen(&p, CT_BACKWARD));
    setenv(name, "pool:rows", 1);
    ASSERT_STATUS(CT_ENOTSUP, ct_pool_choose(&p));
    ASSERT_HAS("CORTADO_IMPL", ct_last_error());
}

TEST(pool, stochastic_draws_in_proportion_to_size)
{
    struct ct_pool p = pool_of(&(struct window_case){ 1, 4000, 1, 4, 1, 4, 1,
                                                      1, 0, 0, false },
                               CT_PLAIN);
    float *x = test_floats(16000), *y = test_floats(4000);
    int32_t *at = test_floats(4000);
    int hits[4] = { 0 };

    for (int i = 0; i < 16000; i++)
        x[i] = (float)(i % 4); /* 0 1 2 3: never, 1/6, 1/3, 1/2 */
    ct_pool_stochastic(&p, 11, 5, x, y, at);
    for (int i = 0; i < 4000; i++) {
        hits[at[i]]++;
        ASSERT_FLOAT(at[i], y[i], 0);
    }
    ASSERT(hits[0] == 0 && abs(hits[1] - 667) < 100);
    ASSERT(abs(hits[2] - 1333) < 130 && abs(hits[3] - 2000) < 130);
}

TEST(pool, stochastic_draws_are_the_same_in_every_layout)
{
    const struct window_case w = { 2, 19, 6, 5, 2, 3, 2, 1, 0, 0, false };
    struct ct_pool a = pool_of(&w, CT_PLAIN), b = pool_of(&w, CT_BLOCKED16);
    float *x = test_values(2 * 19 * 30, 1, 0), *xb;
    float *y = test_floats(2 * 19 * 9), *yb = test_floats(2 * 32 * 9);
    int32_t *at = test_floats(2 * 32 * 9);

    for (int i = 0; i < 2 * 19 * 30; i++)
        x[i] = fabsf(x[i]);
    xb = test_in_layout(x, 2, 19, 30, CT_BLOCKED16);
    ct_pool_stochastic(&a, 3, 4, x, y, at);
    ct_pool_stochastic(&b, 3, 4, xb, yb, at);
    test_same("stochastic", y, yb, 2, 19, 9, CT_BLOCKED16, 0);
    ct_pool_expected(&a, x, y);
    ct_pool_expected(&b, xb, yb);
    test_same("expected", y, yb, 2, 19, 9, CT_BLOCKED16, 0);
}
