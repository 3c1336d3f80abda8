/* test_conv_bf16.c - convolutions of bfloat16 against those of floats. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/conv_impl.h"
#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/tiles16.h"
#include "device/cpu/wino_bf16.h"
#include "device/kernels.h"
#include "testing/test.h"

static float *values(uint64_t key, int64_t n, bool zero)
{
    float *v = ct_calloc((size_t)n + 1, sizeof(*v), "values");

    test_defer(ct_free, v);
    for (int64_t i = 0; i < n && !zero; i++)
        v[i] = ct_widen(ct_narrow(ct_normal(key, 1, (uint64_t)i)));
    return v;
}

/* An array of the case as one of its convolutions wants it, and back. */
struct side {
    int64_t        n, c, s;
    enum ct_layout layout;
    enum ct_dtype  type;
};

static float *put(const struct side *a, const float *plain)
{
    const struct ct_device *d = ct_device_cpu();
    float *to = values(0, a->n * a->c * a->s, true);

    ASSERT_OK(d->ops->convert(d, a->n, a->c, a->s, CT_PLAIN, CT_F32, plain,
                              a->layout, a->type, to));
    return to;
}

static float *get(const struct side *a, const float *from)
{
    const struct ct_device *d = ct_device_cpu();
    float *to = values(0, a->n * a->c * a->s, true);

    ASSERT_OK(d->ops->convert(d, a->n, a->c, a->s, a->layout, a->type, from,
                              CT_PLAIN, CT_F32, to));
    return to;
}

/* Rounding of factors and of what is written: in all, a small share. */
static void same(const char *what, int64_t n, const float *want,
                 const float *got, double bound)
{
    double off = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        off += pow((double)want[i] - (double)got[i], 2);
        size += pow((double)want[i], 2);
    }
    ASSERT(size > 0);
    if (!(sqrt(off / size) <= bound))
        FAIL("%s is off by %g of its size", what, sqrt(off / size));
}

struct results {
    float *y, *dx, *dw, *db;
};

/* All passes of `d` by `impl`; gradients are added to ones, or written. */
static struct results run(const struct ct_conv_desc *d, const char *impl,
                          bool write)
{
    const int64_t taps = d->kernel[0] * d->kernel[1];
    const int64_t out = ct_conv_out(d, 0) * ct_conv_out(d, 1);
    const struct side x = { d->batch, d->in_channels, d->in[0] * d->in[1],
                            d->src_layout, d->src_type };
    const struct side y = { d->batch, d->out_channels, out, d->dst_layout,
                            d->dst_type };
    const int64_t n_w = d->out_channels * d->in_channels / d->group * taps;
    const float *w = values(22, n_w, false);
    const float *b = values(23, d->out_channels, false);
    struct results r = { NULL, NULL, values(0, n_w, true),
                         values(0, d->out_channels, true) };
    float *source = put(&x, values(21, x.n * x.c * x.s, false));
    float *dy = put(&y, values(24, y.n * y.c * y.s, false));
    float *to = put(&y, values(25, y.n * y.c * y.s, false));
    float *dx = values(0, x.n * x.c * x.s, true);
    struct ct_conv *c;

    setenv("CORTADO_IMPL", impl, 1);
    ASSERT_OK(ct_conv_create(ct_device_cpu(), d, NULL, &c));
    unsetenv("CORTADO_IMPL");
    for (int64_t i = 0; i < n_w; i++)
        r.dw[i] = 1;
    ASSERT_OK(ct_conv_forward(c, source, w, d->has_bias ? b : NULL, to));
    ASSERT_OK(ct_conv_backward_data(c, w, dy, dx));
    if (write)
        ASSERT_OK(ct_conv_write_weights(c, source, dy, r.dw,
                                        d->has_bias ? r.db : NULL));
    else
        ASSERT_OK(ct_conv_backward_weights(c, source, dy, r.dw,
                                           d->has_bias ? r.db : NULL));
    ct_conv_destroy(c);
    r.y  = get(&y, to);
    r.dx = get(&x, dx);
    return r;
}

/* `bound`: of the root of the mean square. */
static void check_within(double bound, struct ct_conv_desc d,
                         const char *reference, const char *impl, bool write)
{
    const int64_t taps = d.kernel[0] * d.kernel[1];
    const int64_t n_w = d.out_channels * d.in_channels / d.group * taps;
    const int64_t out = ct_conv_out(&d, 0) * ct_conv_out(&d, 1);
    struct ct_conv_desc f = d;
    struct results want, got;

    f.src_type = f.dst_type = CT_F32;
    f.src_layout = f.dst_layout = CT_PLAIN;
    want = run(&f, reference, write);
    got  = run(&d, impl, write);
    same("y", d.batch * d.out_channels * out, want.y, got.y, bound);
    same("dx", d.batch * d.in_channels * d.in[0] * d.in[1], want.dx, got.dx,
         bound);
    same("dw", n_w, want.dw, got.dw, bound);
    if (d.has_bias)
        same("db", d.out_channels, want.db, got.db, bound);
}

static void check_with(struct ct_conv_desc d, const char *reference,
                       const char *impl, bool write)
{
    check_within(0.006, d, reference, impl, write);
}

static void check(struct ct_conv_desc d, const char *impl, bool write)
{
    check_with(d, "conv:ref", impl, write);
}

static struct ct_conv_desc desc(int64_t in, int64_t out, int64_t group,
                                int64_t kernel, int64_t stride)
{
    return (struct ct_conv_desc){
        .n_spatial = 2, .batch = 3, .in_channels = in, .out_channels = out,
        .group = group, .in = { 9, 11 }, .kernel = { kernel, kernel },
        .stride = { stride, stride }, .pad = { kernel / 2, kernel / 2 },
        .dilation = { 1, 1 }, .has_bias = true, .src_layout = CT_NHWC,
        .dst_layout = CT_NHWC, .src_type = CT_BF16, .dst_type = CT_BF16
    };
}

static void check_all(const char *impl)
{
    static const int64_t shapes[][5] = {
        { 16, 32, 1, 3, 1 }, { 64, 64, 1, 1, 1 }, { 20, 50, 1, 5, 1 },
        { 32, 48, 2, 3, 1 }, { 7, 5, 1, 3, 2 },   { 64, 32, 1, 1, 2 },
        { 24, 24, 24, 3, 1 }
    };

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++) {
        const int64_t *s = shapes[i];

        check(desc(s[0], s[1], s[2], s[3], s[4]), impl, i % 2);
    }
}

TEST(conv_bf16, the_first_that_takes_it_agrees_with_floats)
{
    check_all("conv:onednn+float32");
}

TEST(conv_bf16, by_way_of_floats_agrees_with_floats)
{
    check_all("conv:float32+cached+winograd+tiles+onednn+gemm+ref");
    check_all("conv:float32+ref");
}

/* Large enough that Winograd's method pays; elsewhere oneDNN takes it. */
TEST(conv_bf16, winograds_method_on_floats_agrees_with_floats)
{
    struct ct_conv_desc d = desc(256, 256, 1, 3, 1);

    d.batch = 2;
    d.in[0] = d.in[1] = 66;
    check_with(d, "conv:onednn+gemm", "conv:winograd+onednn+float32+gemm",
               false);
    d.relu = true;
    check_with(d, "conv:onednn+gemm", "conv:winograd+onednn+float32+gemm",
               true);
}

/* Winograd's method in bfloat16, whose rounded tiles bring an error of 0.6 %:
 * tiles at the edges, channels that do not fill the last 32, one bundle of
 * tiles and several, a ReLU, a sum. */
TEST(conv_bf16, winograds_method_in_bfloat16_agrees_with_floats)
{
    static const int64_t shapes[][6] = {
        { 32, 32, 9, 11, 1, 3 },   { 64, 48, 3, 4, 1, 2 },
        { 48, 80, 7, 7, 0, 1 },    { 64, 64, 40, 38, 1, 2 },
        { 512, 96, 14, 14, 2, 7 }, { 32, 160, 1, 5, 1, 1 }
    };

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++) {
        const int64_t *s      = shapes[i];
        struct ct_conv_desc d = desc(s[0], s[1], 1, 3, 1);

        d.in[0]    = s[2];
        d.in[1]    = s[3];
        d.pad[0]   = d.pad[1] = s[4];
        d.batch    = s[5];
        d.has_bias = i % 2;
        d.relu     = i % 3 == 1;
        d.sum      = i % 3 == 2;
        check_within(0.009, d, "conv:onednn+gemm",
                     "conv:bf16+onednn+float32+gemm", i % 2);
    }
}

/* A number from `low` to `high`. */
static int64_t drawn(uint64_t i, uint64_t what, int64_t low, int64_t high)
{
    return low + (int64_t)(ct_uniform(31, what, i) * (float)(high - low + 1));
}

static struct ct_conv_desc drawn_desc(uint64_t i)
{
    struct ct_conv_desc d = desc(16 * drawn(i, 1, 2, 9), 16 * drawn(i, 2, 2, 9),
                                 1, 3, 1);

    d.batch = drawn(i, 3, 1, 5);
    for (unsigned axis = 0; axis < 2; axis++) {
        d.in[axis]  = drawn(i, 4 + axis, 3, 20);
        d.pad[axis] = drawn(i, 6 + axis, 0, 2);
    }
    d.has_bias = drawn(i, 8, 0, 1);
    d.relu     = drawn(i, 9, 0, 1);
    d.sum      = drawn(i, 10, 0, 1);
    return d;
}

TEST(conv_bf16, any_shape_by_winograds_method_agrees_with_floats)
{
    for (uint64_t i = 0; i < 24; i++)
        check_within(0.012, drawn_desc(i), "conv:onednn+gemm",
                     "conv:bf16+onednn+float32+gemm", i % 2);
}

/* Kernels and strides of all sizes on one to four channels of floats. */
TEST(conv_bf16, any_image_of_few_channels_agrees_with_floats)
{
    for (uint64_t i = 0; i < 24; i++) {
        struct ct_conv_desc d = drawn_desc(200 + i);

        d.in_channels  = drawn(i, 20, 1, 4);
        d.out_channels = drawn(i, 21, 1, 70);
        d.src_type     = CT_F32;
        d.src_layout   = CT_PLAIN;
        for (unsigned axis = 0; axis < 2; axis++) {
            d.in[axis]     = drawn(i, 22 + axis, 7, 40);
            d.kernel[axis] = drawn(i, 24 + axis, 1, 7);
            d.stride[axis] = drawn(i, 26 + axis, 1, 4);
        }
        check_with(d, "conv:ref", "conv:few+onednn+float32+gemm", i % 2);
    }
}

static void same_bits(const char *what, int64_t n, const float *a,
                      const float *b)
{
    if (memcmp(a, b, (size_t)n * sizeof(*a)))
        FAIL("%s differs", what);
}

/* With AMX others convolve. */
static void skip_without_winograd(void)
{
    if (ct_cpu_has_amx())
        test_skip("this CPU has AMX");
}

/* With one thread and with three. */
static void check_bits(const struct ct_conv_desc *d, const char *impl,
                       bool write)
{
    const int64_t n_w = d->out_channels * d->in_channels / d->group *
                        d->kernel[0] * d->kernel[1];
    const int64_t out = ct_conv_out(d, 0) * ct_conv_out(d, 1);
    const int team    = ct_cpu_team(1);
    const struct results one = run(d, impl, write);
    struct results three;

    ct_cpu_team(3);
    three = run(d, impl, write);
    ct_cpu_team(team);
    same_bits("y", d->batch * d->out_channels * out, one.y, three.y);
    same_bits("dx", d->batch * d->in_channels * d->in[0] * d->in[1], one.dx,
              three.dx);
    same_bits("dw", n_w, one.dw, three.dw);
}

TEST(conv_bf16, threads_do_not_change_the_bits_of_winograds_method)
{
    skip_without_winograd();
    for (uint64_t i = 0; i < 6; i++) {
        const struct ct_conv_desc d = drawn_desc(100 + i);

        check_bits(&d, "conv:bf16+onednn+float32+gemm", i % 2);
    }
}

/* Kernels of 3 to 6 taps along each axis, groups, odd batches. */
static struct ct_conv_desc drawn_quarters(uint64_t i)
{
    struct ct_conv_desc d = drawn_desc(300 + i);

    d.group        = drawn(i, 40, 1, 2);
    d.in_channels  = 16 * d.group * drawn(i, 41, d.group, 4);
    d.out_channels = 16 * d.group * drawn(i, 42, d.group, 5);
    for (unsigned axis = 0; axis < 2; axis++) {
        d.kernel[axis] = drawn(i, 43 + axis, 3, 6);
        d.pad[axis]    = drawn(i, 45 + axis, 0, d.kernel[axis] - 1);
        d.in[axis]     = drawn(i, 47 + axis, d.kernel[axis], 19);
    }
    return d;
}

static void skip_without_quarters(void)
{
    skip_without_winograd();
    if (!ct_short_runs())
        test_skip("this CPU has no AVX512_BF16");
}

TEST(conv_bf16, any_kernel_in_quarters_agrees_with_floats)
{
    skip_without_quarters();
    for (uint64_t i = 0; i < 32; i++)
        check_within(0.012, drawn_quarters(i), "conv:onednn+gemm",
                     "conv:quarters", i % 2);
}

/* Of CIFAR's nets: several bundles of images, and an error like 3x3's. */
TEST(conv_bf16, the_error_of_quarters_is_that_of_3x3_kernels)
{
    struct ct_conv_desc d = desc(32, 64, 1, 5, 1);

    skip_without_quarters();
    d.batch = 17;
    d.in[0] = d.in[1] = 16;
    check_within(0.007, d, "conv:onednn+gemm", "conv:quarters", true);
}

TEST(conv_bf16, threads_do_not_change_the_bits_of_quarters)
{
    skip_without_quarters();
    for (uint64_t i = 0; i < 6; i++) {
        const struct ct_conv_desc d = drawn_quarters(100 + i);

        check_bits(&d, "conv:quarters", i % 2);
    }
}

/* The same bits whether weights are plain or in tiles. */
static void check_tiles(int64_t kernel, const char *impl)
{
    const struct ct_conv_desc d = desc(64, 48, 1, kernel, 1);
    const int64_t taps = kernel * kernel, n_w = 64 * 48 * taps;
    const int64_t n_x = 3 * 64 * 99, n_y = 3 * 48 * 99;
    const float *w = values(1, n_w, false), *b = values(2, 48, false);
    const float *x = values(3, n_x, false), *dy = values(4, n_y, false);
    float *tiles = values(0, n_w, true), *turned = values(0, n_w, true);
    float *dw[2] = { values(5, n_w, false), values(0, n_w, true) };
    float *y[2], *dx[2];
    struct ct_conv *c;

    ct_tiles_in(48, 64, taps, w, tiles);
    ct_tiles_in(48, 64, taps, dw[0], dw[1]);
    setenv("CORTADO_IMPL", impl, 1);
    ASSERT_OK(ct_conv_create(ct_device_cpu(), &d, NULL, &c));
    unsetenv("CORTADO_IMPL");
    for (int i = 0; i < 2; i++) {
        y[i]  = values(0, n_y, true);
        dx[i] = values(0, n_x, true);
        ASSERT_OK(ct_conv_set_tiles(c, i == 1));
        ASSERT_OK(ct_conv_forward(c, x, i ? tiles : w, b, y[i]));
        ASSERT_OK(ct_conv_backward_data(c, i ? tiles : w, dy, dx[i]));
        ASSERT_OK(ct_conv_backward_weights(c, x, dy, dw[i], NULL));
    }
    ct_conv_destroy(c);
    ct_tiles_out(48, 64, taps, dw[1], false, turned);
    same_bits("y", n_y, y[0], y[1]);
    same_bits("dx", n_x, dx[0], dx[1]);
    same_bits("dw", n_w, dw[0], turned);
}

TEST(conv_bf16, winograds_method_takes_weights_in_tiles)
{
    skip_without_quarters();
    check_tiles(3, "conv:bf16");
    check_tiles(5, "conv:quarters");
}

/* Where a neighbour has plain floats; without a bias; with a ReLU; added to
 * what is there. */
TEST(conv_bf16, either_side_may_be_plain_floats)
{
    for (int k = 0; k < 2; k++) {
        const char *impl = k ? "conv:float32+ref" : "conv:onednn+float32+ref";
        struct ct_conv_desc d = desc(3, 32, 1, 3, 1);

        d.src_type   = CT_F32;
        d.src_layout = CT_PLAIN;
        check(d, impl, true);
        d            = desc(32, 16, 1, 3, 1);
        d.dst_type   = CT_F32;
        d.dst_layout = CT_PLAIN;
        d.has_bias   = false;
        check(d, impl, false);
        d      = desc(32, 16, 1, 1, 1);
        d.relu = true;
        check(d, impl, false);
        d.sum = true;
        check(d, impl, false);
    }
}

/* A net that has diverged must say so: max(NaN, 0) is NaN. */
TEST(conv_bf16, a_relu_hides_no_nan)
{
    struct ct_conv_desc d = desc(16, 16, 1, 1, 1);
    const int64_t n = d.batch * 16 * 99;
    float *w = values(1, 16 * 16, false), *y = values(0, n, true);
    struct ct_conv *c;

    d.relu     = true;
    d.has_bias = false;
    w[17]      = NAN;
    ASSERT_OK(ct_conv_create(ct_device_cpu(), &d, NULL, &c));
    ASSERT_OK(ct_conv_forward(c, values(2, n, false), w, NULL, y));
    ct_conv_destroy(c);
    ASSERT(isnan(ct_widen(ct_bf16(y)[1])));
}

TEST(conv_bf16, winograds_method_hides_no_nan_either)
{
    struct ct_conv_desc d = desc(32, 32, 1, 3, 1);
    const int64_t n = d.batch * 32 * 99;
    float *w = values(1, 32 * 32 * 9, false), *y = values(0, n, true);
    struct ct_conv *c;

    d.relu                 = true;
    d.has_bias             = false;
    w[32 * 9 + 17 * 9 + 4] = NAN;
    ASSERT_OK(ct_conv_create(ct_device_cpu(), &d, NULL, &c));
    ASSERT_OK(ct_conv_forward(c, values(2, n, false), w, NULL, y));
    ct_conv_destroy(c);
    ASSERT(isnan(ct_widen(ct_bf16(y)[1])));
    ASSERT(!isnan(ct_widen(ct_bf16(y)[2])));
}

/* Implementations of floats alone are not offered bfloat16. */
TEST(conv_bf16, forcing_one_that_knows_floats_alone_is_refused)
{
    struct ct_conv_desc d = desc(16, 16, 1, 3, 1);
    struct ct_conv *c;
    enum ct_status st;

    setenv("CORTADO_IMPL", "conv:ref", 1);
    st = ct_conv_create(ct_device_cpu(), &d, NULL, &c);
    unsetenv("CORTADO_IMPL");
    ASSERT_INT(CT_ENOTSUP, st);
}
