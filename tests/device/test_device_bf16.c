/* test_device_bf16.c - operations on bfloat16 against the same ones on floats.
 *
 * Floats are rounded first, so that both see the same values; then results
 * differ by one rounding of what is written, 2^-9 of it, and where factors of
 * products are rounded, too, by that of a few of them. */
#include "base/mem.h"
#include "base/rng.h"
#include "device/conv_impl.h"
#include "device/cpu/amx.h"
#include "device/cpu/bf16.h"
#include "device/cpu/lrn_impl.h"
#include "device/cpu/pool_impl.h"
#include "device/ip.h"
#include "device/norm_gate.h"
#include "testing/test.h"

static uint16_t narrow_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return ct_narrow(f);
}

TEST(device_bf16, rounds_to_the_nearest_and_ties_to_even)
{
    ASSERT_INT(0x3f80, ct_narrow(1));
    ASSERT_INT(0xc040, ct_narrow(-3));
    ASSERT_INT(0x3f80, narrow_bits(0x3f808000)); /* a tie: down to even */
    ASSERT_INT(0x3f82, narrow_bits(0x3f818000)); /* a tie: up to even */
    ASSERT_INT(0x3f81, narrow_bits(0x3f808001));
    ASSERT_INT(0x3f80, narrow_bits(0x3f807fff));
    ASSERT_INT(0x7f80, narrow_bits(0x7f7fffff)); /* beyond the largest */
    ASSERT_INT(0xff80, narrow_bits(0xff800000));
    ASSERT_INT(0x8000, narrow_bits(0x80000000));
    ASSERT(isnan(ct_widen(narrow_bits(0x7f800001)))); /* not an infinity */
    ASSERT(isnan(ct_widen(narrow_bits(0xffffffff))));
}

static float *floats(int64_t n)
{
    float *v = ct_calloc((size_t)n + 1, sizeof(*v), "values");

    test_defer(ct_free, v);
    return v;
}

/* Normal values that bfloat16 holds; and the same in bfloat16. */
static float *drawn(uint64_t key, int64_t n)
{
    float *v = floats(n);

    for (int64_t i = 0; i < n; i++)
        v[i] = ct_widen(ct_narrow(ct_normal(key, 1, (uint64_t)i)));
    return v;
}

static float *shorts_of(const float *v, int64_t n)
{
    float *to = floats((n + 1) / 2);

    ct_narrow_row(n, v, ct_bf16_out(to));
    return to;
}

static float *floats_of(const float *shorts, int64_t n)
{
    float *to = floats(n);

    ct_widen_row(n, ct_bf16(shorts), to);
    return to;
}

/* Each value within `share` of itself and `of_most` of the largest. */
static void same(const char *what, int64_t n, const float *want,
                 const float *got, double share, double of_most)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)want[i]));
    ASSERT(most > 0);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)want[i] - (double)got[i]) <=
              share * fabs((double)want[i]) + of_most * most + 1e-30))
            FAIL("%s: value %lld is %.9g, wanted %.9g", what, (long long)i,
                 (double)got[i], (double)want[i]);
}

static const double ROUNDING = 1.0 / 256;

/* Channels of one position lie side by side, for odd sizes and large ones. */
TEST(device_bf16, converts_between_plain_floats_and_nhwc)
{
    static const int64_t shapes[][3] = { { 2, 3, 5 }, { 1, 70, 67 },
                                         { 3, 64, 64 }, { 2, 1, 130 },
                                         { 1, 129, 1 } };
    const struct ct_device *d = ct_device_cpu();

    for (int k = 0; k < 5; k++) {
        const int64_t n = shapes[k][0], c = shapes[k][1], s = shapes[k][2];
        const float *x = drawn(3, n * c * s);
        float *y = floats(n * c * s), *back = floats(n * c * s);

        ASSERT_OK(d->ops->convert(d, n, c, s, CT_PLAIN, CT_F32, x, CT_NHWC,
                                  CT_BF16, y));
        for (int64_t i = 0; i < n * c * s; i++)
            ASSERT_INT(ct_narrow(x[i]),
                       ct_bf16(y)[(i / (c * s) * s + i % s) * c + i / s % c]);
        ASSERT_OK(d->ops->convert(d, n, c, s, CT_NHWC, CT_BF16, y, CT_PLAIN,
                                  CT_F32, back));
        ASSERT(memcmp(x, back, (size_t)(n * c * s) * sizeof(*x)) == 0);
    }
}

/* The numbers of the mean, the sums and the maps of NHWC in both types. */
static void check_norm(int64_t n, int64_t c, int64_t inner)
{
    const struct ct_channels v = { n, c, inner, CT_NHWC, 0, CT_F32 };
    const struct ct_channels w = { n, c, inner, CT_NHWC, 0, CT_BF16 };
    const int64_t all = n * c * inner;
    const float *x = drawn(4, all), *dy = drawn(5, all);
    const float *xs = shorts_of(x, all), *dys = shorts_of(dy, all);
    float *scratch = floats(ct_channel_scratch(&w) + ct_channel_scratch(&v));
    float *want[2] = { floats(c), floats(c) };
    float *got[2] = { floats(c), floats(c) };
    float *y = floats(all), *ys = floats(all), *kept = floats(all);
    const float *a = drawn(6, c), *b = drawn(7, c), *t = drawn(8, c);
    const struct ct_channel_gate gate = { t, a, b };
    const struct ct_channel_line line = { a, b, t, a };

    ct_channel_moments(&v, x, scratch, want[0], want[1]);
    ct_channel_moments(&w, xs, scratch, got[0], got[1]);
    same("mean", c, want[0], got[0], 1e-5, 1e-5);
    same("variance", c, want[1], got[1], 1e-5, 1e-5);
    ct_channel_sums(&v, dy, x, t, scratch, want[0], want[1]);
    ct_channel_sums(&w, dys, xs, t, scratch, got[0], got[1]);
    same("sum", c, want[0], got[0], 1e-5, 1e-5);
    same("dot", c, want[1], got[1], 1e-5, 1e-5);
    ct_gate_sums(&v, dy, x, &gate, scratch, want[0], want[1]);
    ct_gate_sums(&w, dys, xs, &gate, scratch, got[0], got[1]);
    same("gated sum", c, want[0], got[0], 1e-5, 1e-5);
    same("gated dot", c, want[1], got[1], 1e-5, 1e-5);
    ct_channel_map(&v, x, t, a, b, y, NULL);
    ct_channel_map(&w, xs, t, a, b, ys, kept);
    same("map", all, y, floats_of(ys, all), ROUNDING, 1e-6);
    same("kept", all, x, floats_of(kept, all), 0, 0);
    ct_gate_map(&v, x, &gate, y);
    ct_gate_map(&w, xs, &gate, ys);
    same("gated map", all, y, floats_of(ys, all), ROUNDING, 1e-6);
    ct_channel_join(&v, dy, x, &line, y);
    ct_channel_join(&w, dys, xs, &line, ys);
    same("join", all, y, floats_of(ys, all), ROUNDING, 1e-6);
    ct_gate_join(&v, dy, x, &gate, &line, y);
    ct_gate_join(&w, dys, xs, &gate, &line, ys);
    same("gated join", all, y, floats_of(ys, all), ROUNDING, 1e-6);
}

TEST(device_bf16, channel_wise_arithmetic_is_that_of_floats)
{
    check_norm(2, 3, 7);
    check_norm(3, 64, 50);
    check_norm(2, 131, 400);
}

static void check_pool(struct ct_pool p)
{
    const int64_t in = p.n * p.c * p.h * p.w;
    struct ct_pool q;
    int64_t out;

    p.layout = CT_NHWC;
    ct_pool_shape(&p, false);
    q       = p;
    q.dtype = CT_BF16;
    out     = p.n * p.c * p.out_h * p.out_w;
    ASSERT_OK(ct_pool_choose(&p));
    ASSERT_OK(ct_pool_choose(&q));
    ASSERT_STR("bf16", q.pass[0].impl->name);

    const float *x = drawn(9, in), *dy = drawn(10, out);
    float *y = floats(out), *ys = floats(out), *dx = floats(in);
    float *dxs = floats(in);
    int32_t *at = (int32_t *)(void *)floats(out);
    int32_t *ats = (int32_t *)(void *)floats(out);

    if (p.average) {
        ASSERT_OK(ct_pool_average(&p, x, y));
        ASSERT_OK(ct_pool_average(&q, shorts_of(x, in), ys));
        ASSERT_OK(ct_pool_average_backward(&p, dy, dx));
        ASSERT_OK(ct_pool_average_backward(&q, shorts_of(dy, out), dxs));
    } else {
        ASSERT_OK(ct_pool_max(&p, x, y, at));
        ASSERT_OK(ct_pool_max(&q, shorts_of(x, in), ys, ats));
        ASSERT(memcmp(at, ats, (size_t)out * sizeof(*at)) == 0);
        ASSERT_OK(ct_pool_max_backward(&p, dy, at, dx));
        ASSERT_OK(ct_pool_max_backward(&q, shorts_of(dy, out), ats, dxs));
    }
    same("y", out, y, floats_of(ys, out), p.average ? ROUNDING : 0, 1e-6);
    same("dx", in, dx, floats_of(dxs, in), ROUNDING, 1e-6);
    ct_pool_fini(&p);
    ct_pool_fini(&q);
}

TEST(device_bf16, pooling_is_that_of_floats)
{
    for (int average = 0; average < 2; average++) {
        const bool a = average;

        check_pool((struct ct_pool){ .n = 2, .c = 20, .h = 9, .w = 7,
                                     .kernel_h = 3, .kernel_w = 3,
                                     .stride_h = 2, .stride_w = 2,
                                     .average = a });
        check_pool((struct ct_pool){ .n = 1, .c = 131, .h = 6, .w = 5,
                                     .kernel_h = 3, .kernel_w = 2,
                                     .stride_h = 1, .stride_w = 2,
                                     .pad_h = 1, .pad_w = 1, .average = a });
        check_pool((struct ct_pool){ .n = 1, .c = 5, .h = 10, .w = 9,
                                     .kernel_h = 10, .kernel_w = 9,
                                     .stride_h = 1, .stride_w = 1,
                                     .average = a });
        check_pool((struct ct_pool){ .n = 2, .c = 20, .h = 9, .w = 8,
                                     .kernel_h = 2, .kernel_w = 2,
                                     .stride_h = 2, .stride_w = 3,
                                     .average = a });
        check_pool((struct ct_pool){ .n = 2, .c = 64, .h = 7, .w = 7,
                                     .kernel_h = 7, .kernel_w = 7,
                                     .stride_h = 1, .stride_w = 1,
                                     .average = a });
    }
}

/* As with floats: NaN is not larger than anything, the first of equal values
 * wins, and zeros are equal. */
static void check_strange(int64_t channels)
{
    static const uint16_t x[] = {
        0x7fc0, 0xbf80, 0xbf80, /* NaN, -1, -1 */
        0x8000, 0x0000, 0xc000, /* -0, 0, -2 */
        0xff80, 0xffff, 0xff80, /* -infinity, NaN, -infinity */
        0xc000, 0xbf80, 0x7f80, /* -2, -1, infinity */
    };
    static const uint16_t want[] = { 0xbf80, 0x8000, 0xff7f, 0x7f80 };
    static const int32_t from[]  = { 1, 0, -1, 2 };
    struct ct_pool p = { .n = 4, .c = channels, .h = 1, .w = 3, .kernel_h = 1,
                         .kernel_w = 3, .stride_h = 1, .stride_w = 1,
                         .out_h = 1, .out_w = 1, .layout = CT_NHWC,
                         .dtype = CT_BF16 };
    uint16_t all[12 * 20], y[4 * 20];
    int32_t at[4 * 20];

    for (int64_t i = 0; i < 12 * channels; i++)
        all[i] = x[i / channels];
    ASSERT_OK(ct_pool_choose(&p));
    ASSERT_OK(ct_pool_max(&p, (const float *)(const void *)all,
                          (float *)(void *)y, at));
    for (int64_t i = 0; i < 4 * channels; i++) {
        ASSERT_INT(want[i / channels], y[i]);
        ASSERT_INT(from[i / channels], at[i]);
    }
    ct_pool_fini(&p);
}

TEST(device_bf16, maxima_pass_nan_by_and_take_the_first)
{
    check_strange(1);
    check_strange(20);
}

/* A window that lies in the padding has the lowest number, not -infinity. */
TEST(device_bf16, an_empty_window_has_a_finite_maximum)
{
    struct ct_pool p = { .n = 1, .c = 1, .h = 1, .w = 3, .kernel_h = 1,
                         .kernel_w = 1, .stride_h = 1, .stride_w = 4,
                         .out_h = 1, .out_w = 2, .layout = CT_NHWC,
                         .dtype = CT_BF16 };
    uint16_t x[3] = { 0x3f80, 0x4000, 0x4040 }, y[2], dx[4];
    int32_t at[2];

    ASSERT_OK(ct_pool_choose(&p));
    ASSERT_OK(ct_pool_max(&p, (const float *)(const void *)x,
                          (float *)(void *)y, at));
    ASSERT_INT(0x3f80, y[0]);
    ASSERT_INT(0xff7f, y[1]);
    ASSERT_INT(-1, at[1]);
    dx[3] = 1; /* behind the image */
    ASSERT_OK(ct_pool_max_backward(&p, (const float *)(const void *)y, at,
                                   (float *)(void *)dx));
    ASSERT_INT(0x3f80, dx[0]);
    ASSERT_INT(0, dx[1] | dx[2]);
    ASSERT_INT(1, dx[3]);
    ct_pool_fini(&p);
}

/* The length of the difference is a small share of the length. */
static void near(const char *what, int64_t n, const float *want,
                 const float *got)
{
    double off = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        off += pow((double)want[i] - (double)got[i], 2);
        size += pow((double)want[i], 2);
    }
    if (!(sqrt(off) <= 0.005 * sqrt(size)))
        FAIL("%s is off by %g of its size", what, sqrt(off / size));
}

static void ip_end(void *p)
{
    ct_ip_fini(p);
}

/* Factors that bfloat16 does not hold, sizes that fill no vector. */
static void check_ip(int64_t m, int64_t n, int64_t k, bool relu, bool add,
                     bool packed)
{
    static struct ct_ip p[2];
    float *x = floats(m * k), *w = floats(n * k), *dy = floats(m * n);
    float *b = add ? NULL : drawn(34, n), *y[2], *dx[2], *dw[2];

    for (int64_t i = 0; i < m * k; i++)
        x[i] = ct_normal(31, 1, (uint64_t)i);
    for (int64_t i = 0; i < n * k; i++)
        w[i] = ct_normal(32, 1, (uint64_t)i);
    for (int64_t i = 0; i < m * n; i++)
        dy[i] = ct_normal(33, 1, (uint64_t)i);
    for (int i = 0; i < 2; i++) {
        p[i] = (struct ct_ip){ .dev = i ? ct_device_cpu_bf16()
                                        : ct_device_cpu(),
                               .m = m, .n = n, .k = k, .has_bias = b,
                               .add = add, .relu = relu, .overwrite = relu,
                               .packed = packed };
        test_defer(ip_end, &p[i]);
        ASSERT_OK(ct_ip_choose(&p[i]));
        y[i]  = drawn(35, m * n);
        dx[i] = drawn(36, m * k);
        dw[i] = drawn(37, n * k);
        for (int pass = 0; pass < 2 && packed; pass++)
            ASSERT_OK(ct_ip_pack(&p[i], pass ? CT_BACKWARD : CT_FORWARD, w));
        ASSERT_OK(ct_ip_forward(&p[i], x, w, b, y[i]));
        ASSERT_OK(ct_ip_backward_data(&p[i], w, dy, dx[i]));
        ASSERT_OK(ct_ip_backward_weights(&p[i], x, dy, dw[i], NULL));
        ct_ip_fini(&p[i]);
    }
    near("y", m * n, y[0], y[1]);
    near("dx", m * k, dx[0], dx[1]);
    near("dw", n * k, dw[0], dw[1]);
}

static void emulate_no_more(void *unused)
{
    (void)unused;
    ct_amx_emulate(false);
}

TEST(device_bf16, inner_products_are_those_of_floats)
{
    test_defer(emulate_no_more, NULL);
    for (int k = 0; k < 4; k++) {
        ct_amx_emulate(k / 2);
        check_ip(16, 32, 32, false, false, k % 2);
        check_ip(33, 77, 45, true, false, k % 2);
        check_ip(65, 260, 301, false, true, k % 2);
        check_ip(17, 34, 131, true, true, k % 2);
        check_ip(8, 100, 64, true, false, k % 2);
        check_ip(1, 10, 50, false, false, k % 2);
    }
}

static int64_t size_of(uint64_t i, uint64_t what, int64_t least, int64_t most)
{
    return least + (int64_t)(ct_uniform(38, what, i) * (float)(most - least));
}

/* Few rows of x and many, weights that fill no vector and several caches. */
TEST(device_bf16, any_inner_product_is_that_of_floats)
{
    for (uint64_t i = 0; i < 32; i++)
        check_ip(i % 4 == 3 ? size_of(i, 1, 16, 80) : size_of(i, 1, 1, 16),
                 size_of(i, 2, 32, 200), size_of(i, 3, 32, 1400), i % 2,
                 i / 2 % 2, false);
}

static void check_lrn(struct ct_lrn p)
{
    const int64_t all = p.n * p.c * p.h * p.w;
    const float *x = drawn(11, all), *dy = drawn(12, all);
    float *y = floats(all), *ys = floats(all), *dx = floats(all);
    float *dxs = floats(all), *scratch = floats(all);
    struct ct_lrn q = p;

    q.dtype = CT_BF16;
    for (int i = 0; i < CT_PASSES; i++)
        ASSERT_OK(ct_impl_try(&ct_lrn_ref.head, &p, (enum ct_pass)i,
                              &p.pass[i]));
    ASSERT_OK(ct_lrn_choose(&q));
    ASSERT_OK(ct_lrn_forward(&p, x, y));
    ASSERT_OK(ct_lrn_forward(&q, shorts_of(x, all), ys));
    same("y", all, y, floats_of(ys, all), ROUNDING, 1e-6);
    ASSERT_OK(ct_lrn_backward(&p, x, dy, scratch, dx));
    ASSERT_OK(ct_lrn_backward(&q, shorts_of(x, all), shorts_of(dy, all),
                              scratch, dxs));
    same("dx", all, dx, floats_of(dxs, all), ROUNDING, 1e-5);
    ct_lrn_fini(&p);
    ct_lrn_fini(&q);
}

TEST(device_bf16, lrn_is_that_of_floats)
{
    static const struct ct_lrn base = { .n = 2, .c = 7, .h = 3, .w = 4,
                                        .size = 5, .alpha = 1.5f,
                                        .beta = 0.75f, .k = 1,
                                        .layout = CT_NHWC };
    struct ct_lrn p = base;

    check_lrn(p);
    p.c    = 300; /* more than are worked on at a time */
    p.beta = 0.6f;
    p.size = 9;
    check_lrn(p);
    p.size = 65;
    check_lrn(p);
    p        = base;
    p.within = true;
    p.size   = 3;
    check_lrn(p);
    p.c = 260;
    check_lrn(p);
}
