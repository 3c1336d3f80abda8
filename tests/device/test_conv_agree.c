/* test_conv_agree.c - every implementation of the CPU meets a table of odd
 * descriptions in all layouts, where the reference on plain arrays says what
 * is right. */
#include "conv_test.h"
#include "device/layout.h"

#ifdef CT_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl_version.h>
#endif

struct odd {
    const char *text;
    int         n_spatial;
    int64_t     batch, in_channels, out_channels, group;
    int64_t     in[4], kernel[4], stride[4], pad[4], dilation[4];
    bool        has_bias;
};

static const struct odd odds[] = {
    { "no axes", 0, 3, 6, 4, 2, { 0 }, { 0 }, { 0 }, { 0 }, { 0 }, true },
    { "1-D", 1, 2, 3, 5, 1, { 9 }, { 3 }, { 2 }, { 1 }, { 1 }, true },
    { "1-D dilated", 1, 1, 2, 2, 2, { 11 }, { 3 }, { 1 }, { 4 }, { 4 }, true },
    { "3x3", 2, 2, 4, 5, 1, { 8, 10 }, { 3, 3 }, { 1, 1 }, { 0, 0 }, { 1, 1 },
      true },
    { "3x3 same", 2, 2, 16, 32, 1, { 7, 7 }, { 3, 3 }, { 1, 1 }, { 1, 1 },
      { 1, 1 }, true },
    { "3x3 without bias", 2, 3, 17, 33, 1, { 6, 5 }, { 3, 3 }, { 1, 1 },
      { 1, 1 }, { 1, 1 }, false },
    { "3x3 of many channels", 2, 2, 128, 160, 1, { 5, 3 }, { 3, 3 }, { 1, 1 },
      { 1, 2 }, { 1, 1 }, true },
    { "1x1", 2, 2, 32, 16, 1, { 5, 6 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 },
      true },
    { "1x1 stride 2", 2, 2, 16, 20, 1, { 7, 6 }, { 1, 1 }, { 2, 2 }, { 0, 0 },
      { 1, 1 }, false },
    { "1x1 padded", 2, 1, 3, 4, 1, { 4, 3 }, { 1, 1 }, { 1, 1 }, { 1, 2 },
      { 1, 1 }, true },
    { "image to features", 2, 2, 3, 24, 1, { 19, 23 }, { 7, 7 }, { 2, 2 },
      { 3, 3 }, { 1, 1 }, true },
    { "11x11 stride 4", 2, 1, 3, 16, 1, { 35, 31 }, { 11, 11 }, { 4, 4 },
      { 0, 0 }, { 1, 1 }, true },
    { "rectangular", 2, 2, 5, 3, 1, { 8, 9 }, { 1, 5 }, { 2, 1 }, { 0, 2 },
      { 1, 1 }, true },
    { "stride beyond the kernel", 2, 2, 4, 6, 1, { 13, 11 }, { 2, 2 },
      { 5, 3 }, { 1, 0 }, { 1, 1 }, true },
    { "padding beyond the kernel", 2, 1, 3, 4, 1, { 3, 4 }, { 2, 3 }, { 1, 1 },
      { 3, 4 }, { 1, 1 }, true },
    { "kernel as large as the input", 2, 2, 6, 8, 1, { 5, 4 }, { 5, 4 },
      { 1, 1 }, { 0, 0 }, { 1, 1 }, true },
    { "dilated", 2, 2, 8, 8, 1, { 11, 12 }, { 3, 3 }, { 1, 1 }, { 2, 2 },
      { 2, 2 }, true },
    { "dilated with stride", 2, 1, 4, 3, 1, { 13, 14 }, { 3, 2 }, { 2, 3 },
      { 1, 4 }, { 3, 5 }, true },
    { "dilation zero", 2, 1, 2, 3, 1, { 4, 5 }, { 3, 2 }, { 1, 2 }, { 0, 1 },
      { 0, 1 }, true },
    { "two groups", 2, 2, 6, 4, 2, { 7, 8 }, { 3, 3 }, { 1, 1 }, { 1, 1 },
      { 1, 1 }, true },
    { "two wide groups", 2, 2, 32, 64, 2, { 6, 7 }, { 5, 5 }, { 1, 1 },
      { 2, 2 }, { 1, 1 }, true },
    { "two wide groups of 3x3", 2, 3, 32, 64, 2, { 9, 6 }, { 3, 3 }, { 1, 1 },
      { 1, 0 }, { 1, 1 }, true },
    { "5x5 of many channels", 2, 2, 96, 80, 1, { 5, 4 }, { 5, 5 }, { 1, 1 },
      { 2, 4 }, { 1, 1 }, false },
    { "three odd groups", 2, 1, 15, 21, 3, { 6, 5 }, { 3, 2 }, { 2, 1 },
      { 1, 1 }, { 1, 1 }, false },
    { "depthwise", 2, 2, 32, 32, 32, { 9, 8 }, { 3, 3 }, { 1, 1 }, { 1, 1 },
      { 1, 1 }, true },
    { "depthwise stride 2", 2, 2, 10, 10, 10, { 9, 8 }, { 3, 3 }, { 2, 2 },
      { 1, 1 }, { 1, 1 }, false },
    { "depthwise by two", 2, 2, 6, 12, 6, { 7, 7 }, { 3, 3 }, { 1, 1 },
      { 1, 1 }, { 1, 1 }, true },
    { "blocks that are half empty", 2, 2, 20, 50, 1, { 12, 11 }, { 5, 5 },
      { 1, 1 }, { 0, 1 }, { 1, 1 }, true },
    { "one row", 2, 2, 4, 4, 1, { 1, 17 }, { 1, 3 }, { 1, 1 }, { 0, 1 },
      { 1, 1 }, true },
    { "larger than a loop's grain", 2, 2, 16, 16, 1, { 40, 40 }, { 3, 3 },
      { 1, 1 }, { 1, 1 }, { 1, 1 }, true },
    { "3-D", 3, 2, 3, 4, 1, { 5, 6, 7 }, { 3, 2, 3 }, { 1, 2, 1 },
      { 1, 0, 1 }, { 1, 1, 1 }, true },
    { "3-D grouped and dilated", 3, 1, 4, 6, 2, { 6, 5, 4 }, { 2, 3, 2 },
      { 2, 1, 1 }, { 1, 2, 0 }, { 2, 1, 3 }, true },
    { "4-D", 4, 2, 2, 3, 1, { 3, 4, 3, 5 }, { 2, 2, 3, 2 }, { 1, 2, 1, 2 },
      { 0, 1, 1, 1 }, { 1, 1, 1, 2 }, true },
};

static struct ct_conv_desc desc_of(const struct odd *o)
{
    struct ct_conv_desc d = { .n_spatial = o->n_spatial, .batch = o->batch,
                              .in_channels = o->in_channels,
                              .out_channels = o->out_channels,
                              .group = o->group, .has_bias = o->has_bias };

    for (int i = 0; i < o->n_spatial; i++) {
        d.in[i] = o->in[i], d.kernel[i] = o->kernel[i];
        d.stride[i] = o->stride[i], d.pad[i] = o->pad[i];
        d.dilation[i] = o->dilation[i];
    }
    return d;
}

/* One array: its logical size and where a value lies in a layout. */
struct array {
    int64_t batch, channels, spatial;
};

static int64_t padded(const struct array *a, enum ct_layout layout)
{
    return ct_layout_blocks(layout, a->channels) *
           ct_layout_block(layout, a->channels);
}

static int64_t size_in(const struct array *a, enum ct_layout layout)
{
    return a->batch * padded(a, layout) * a->spatial;
}

/* The plain array `from` as `layout`, padding filled with zero. */
static float *to_layout(const struct array *a, enum ct_layout layout,
                        const float *from)
{
    int64_t c_all = padded(a, layout);
    float *to = room(size_in(a, layout), 0), *t = to;
    int64_t block = ct_layout_block(layout, c_all);

    for (int64_t n = 0; n < a->batch; n++)
        for (int64_t c0 = 0; c0 < c_all; c0 += block)
            for (int64_t s = 0; s < a->spatial; s++)
                for (int64_t c = c0; c < c0 + block; c++, t++)
                    if (c < a->channels)
                        *t = from[(n * a->channels + c) * a->spatial + s];
    return to;
}

struct problem {
    struct ct_conv_desc d;
    struct array        x_size, y_size;
    int64_t             n_w;
    float *x, *w, *b, *dy;    /* plain */
    float *y, *dx, *dw, *db;  /* what the reference makes of them */
};

static struct problem problem_of(const struct odd *o)
{
    struct problem p = { .d = desc_of(o) };
    struct ct_conv *c = make(&p.d, "ref");

    p.x_size = (struct array){ o->batch, o->in_channels, 1 };
    p.y_size = (struct array){ o->batch, o->out_channels, 1 };
    p.n_w    = o->out_channels * (o->in_channels / o->group);
    for (int i = 0; i < o->n_spatial; i++) {
        p.x_size.spatial *= o->in[i];
        p.y_size.spatial *= ct_conv_out(&p.d, i);
        p.n_w *= o->kernel[i];
    }
    p.x  = noise(size_in(&p.x_size, CT_PLAIN), 1);
    p.w  = noise(p.n_w, 2);
    p.b  = o->has_bias ? noise(o->out_channels, 3) : NULL;
    p.dy = noise(size_in(&p.y_size, CT_PLAIN), 4);
    p.y  = room(size_in(&p.y_size, CT_PLAIN), NAN);
    p.dx = room(size_in(&p.x_size, CT_PLAIN), NAN);
    p.dw = room(p.n_w, 1);
    p.db = o->has_bias ? room(o->out_channels, 2) : NULL;
    ASSERT_OK(ct_conv_forward(c, p.x, p.w, p.b, p.y));
    ASSERT_OK(ct_conv_backward_data(c, p.w, p.dy, p.dx));
    ASSERT_OK(ct_conv_backward_weights(c, p.x, p.dy, p.dw, p.db));
    return p;
}

/* Runs `impl` on the problem in the two layouts; false when it declines. */
static bool solve(const struct problem *p, const char *text, const char *impl,
                  enum ct_layout src, enum ct_layout dst)
{
    struct ct_conv_desc d = p->d;
    int64_t n_x = size_in(&p->x_size, src), n_y = size_in(&p->y_size, dst);
    float *x, *dy, *y = room(n_y, NAN), *dx = room(n_x, NAN);
    float *dw = room(p->n_w, 1);
    float *db = d.has_bias ? room(d.out_channels, 2) : NULL;
    char what[256];
    uint64_t n_calls;
    struct ct_conv *c;

    d.src_layout = src, d.dst_layout = dst;
    if (!(c = make(&d, impl)))
        return false;
    x = to_layout(&p->x_size, src, p->x);
    dy = to_layout(&p->y_size, dst, p->dy);
    n_calls = ct_mem_stats().n_calls;
    ASSERT_OK(ct_conv_forward(c, x, p->w, p->b, y));
    ASSERT_OK(ct_conv_backward_data(c, p->w, dy, dx));
    ASSERT_OK(ct_conv_backward_weights(c, x, dy, dw, db));
    ASSERT_INT(n_calls, ct_mem_stats().n_calls);
    snprintf(what, sizeof(what), "%s by %s in layouts %d, %d", text, impl,
             (int)src, (int)dst);
    near(what, to_layout(&p->y_size, dst, p->y), y, n_y);
    near(what, to_layout(&p->x_size, src, p->dx), dx, n_x);
    near(what, p->dw, dw, p->n_w);
    if (db)
        near(what, p->db, db, d.out_channels);
    return true;
}

TEST(conv_agree, every_implementation_agrees_with_the_reference_on_plain_arrays)
{
    for (size_t i = 0; i < sizeof(odds) / sizeof(odds[0]); i++) {
        struct problem p = problem_of(&odds[i]);

        ASSERT(solve(&p, odds[i].text, "gemm", CT_PLAIN, CT_PLAIN));
        (void)solve(&p, odds[i].text, "onednn", CT_PLAIN, CT_PLAIN);
        (void)solve(&p, odds[i].text, "winograd", CT_PLAIN, CT_PLAIN);
        drop_all(NULL);
    }
}

TEST(conv_agree, every_implementation_agrees_with_the_reference_in_all_layouts)
{
    static const enum ct_layout pairs[][2] = {
        { CT_BLOCKED16, CT_BLOCKED16 }, { CT_BLOCKED8, CT_BLOCKED8 },
        { CT_NHWC, CT_NHWC },           { CT_PLAIN, CT_BLOCKED16 },
        { CT_BLOCKED16, CT_PLAIN },     { CT_NHWC, CT_BLOCKED8 },
    };

    for (size_t i = 0; i < sizeof(odds) / sizeof(odds[0]); i++) {
        struct problem p;

        if (odds[i].n_spatial != 2)
            continue;
        p = problem_of(&odds[i]);
        for (size_t j = 0; j < sizeof(pairs) / sizeof(pairs[0]); j++) {
            ASSERT(solve(&p, odds[i].text, "ref", pairs[j][0], pairs[j][1]));
            ASSERT(!solve(&p, odds[i].text, "gemm", pairs[j][0],
                          pairs[j][1]));
            (void)solve(&p, odds[i].text, "onednn", pairs[j][0], pairs[j][1]);
            (void)solve(&p, odds[i].text, "winograd", pairs[j][0],
                        pairs[j][1]);
            (void)solve(&p, odds[i].text, "tiles", pairs[j][0], pairs[j][1]);
        }
        drop_all(NULL);
    }
}

/* The forward pass of `impl` with what ends it; dy stands for the summand.
 * Weights that are no numbers show, whoever clamps. */
static void finish(const struct problem *p, const char *impl,
                   enum ct_layout src, enum ct_layout dst, int ends)
{
    struct ct_conv_desc d = p->d;
    const int64_t n = size_in(&p->y_size, dst);
    const float *x = to_layout(&p->x_size, src, p->x);
    float *want = to_layout(&p->y_size, dst, p->y), *w = room(p->n_w, 0);
    float *y = to_layout(&p->y_size, dst, p->dy), total = 0;
    struct ct_conv *c;
    bool gone = false;

    d.src_layout = src, d.dst_layout = dst;
    d.sum = ends & 1, d.relu = ends & 2, d.packed = ends & 4;
    if (!(c = make(&d, impl)))
        return;
    for (int64_t i = 0; i < n; i++) {
        want[i] += d.sum ? y[i] : 0;
        want[i] = d.relu ? fmaxf(want[i], 0) : want[i];
    }
    memcpy(w, p->w, (size_t)p->n_w * sizeof(*w));
    for (int turn = 0; turn < 2; turn++) {
        if (d.packed)
            ASSERT_OK(ct_conv_pack(c, w, &gone));
        for (int64_t i = 0; i < p->n_w && gone; i++)
            w[i] = NAN;
        ASSERT_OK(ct_conv_forward(c, x, w, p->b, y));
        if (turn == 0)
            near(impl, want, y, n);
        w[p->n_w / 2] = NAN;
    }
    for (int64_t i = 0; i < n; i++)
        total += y[i];
    ASSERT(isnan(total));
}

TEST(conv_agree, sums_and_relus_end_the_forward_pass_of_every_implementation)
{
    static const enum ct_layout layouts[] = { CT_PLAIN, CT_BLOCKED16, CT_NHWC };
    static const int ends[] = { 1, 2, 3, 6, 7 };

    for (size_t i = 0; i < sizeof(odds) / sizeof(odds[0]); i++) {
        struct problem p = problem_of(&odds[i]);

        for (int j = 0; j < (odds[i].n_spatial == 2 ? 3 : 1) * 5; j++)
            for (int k = j % 5 == 2 ? 0 : 1; k < N_IMPLS; k++)
                finish(&p, impl_name(N_IMPLS - 1 - k), layouts[j / 5],
                       layouts[j / 5], ends[j % 5]);
        drop_all(NULL);
    }
}

#ifdef CT_HAVE_ONEDNN
#if DNNL_VERSION_MAJOR < 3
TEST(conv_agree, winograd_takes_wide_3x3_without_groups)
{
    if (!__builtin_cpu_supports("avx512f"))
        return;
    for (size_t i = 0; i < sizeof(odds) / sizeof(odds[0]); i++) {
        struct ct_conv_desc d = desc_of(&odds[i]);
        bool takes = strcmp(odds[i].text, "3x3 same") == 0 ||
                     strcmp(odds[i].text, "larger than a loop's grain") == 0;

        ASSERT_INT(takes, make(&d, "winograd") != NULL);
        drop_all(NULL);
    }
}
#endif

TEST(conv_agree, tiles_take_wide_5x5_and_groups_of_3x3)
{
    static const char *const names[] = { "two wide groups",
                                         "two wide groups of 3x3",
                                         "5x5 of many channels",
                                         "blocks that are half empty" };

    for (size_t i = 0; i < sizeof(odds) / sizeof(odds[0]); i++) {
        struct ct_conv_desc d = desc_of(&odds[i]);
        bool takes            = false;

        for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++)
            takes |= strcmp(odds[i].text, names[j]) == 0;
        ASSERT(make(&d, "tiles") == NULL); /* plain arrays */
        d.src_layout = d.dst_layout = CT_BLOCKED8;
        ASSERT_INT(takes, make(&d, "tiles") != NULL);
        d.src_layout = d.dst_layout = CT_BLOCKED16;
        ASSERT_INT(takes, make(&d, "tiles") != NULL);
        drop_all(NULL);
    }
}

TEST(conv_agree, onednn_takes_what_common_nets_have)
{
    static const char *const common[] = { "3x3 same", "1x1", "depthwise",
                                          "image to features", "dilated",
                                          "blocks that are half empty",
                                          "two wide groups", "3-D" };

    for (size_t i = 0; i < sizeof(odds) / sizeof(odds[0]); i++)
        for (size_t j = 0; j < sizeof(common) / sizeof(common[0]); j++)
            if (strcmp(odds[i].text, common[j]) == 0) {
                struct ct_conv_desc d = desc_of(&odds[i]);

                ASSERT(make(&d, "onednn") != NULL);
            }
}
#endif

TEST(conv_agree, a_bias_is_added_and_summed_by_channel)
{
    static const struct array a = { 2, 19, 3 };
    static const enum ct_layout layouts[] = { CT_PLAIN, CT_BLOCKED8,
                                              CT_BLOCKED16, CT_NHWC };
    float *b = noise(19, 1), *y = noise(2 * 19 * 3, 2);
    float *want = room(2 * 19 * 3, 0), want_db[19], db[19];

    for (int c = 0; c < 19; c++) {
        want_db[c] = 1;
        for (int n = 0; n < 2; n++)
            for (int s = 0; s < 3; s++) {
                want[(n * 19 + c) * 3 + s] = y[(n * 19 + c) * 3 + s] + b[c];
                want_db[c] += y[(n * 19 + c) * 3 + s];
            }
    }
    for (int i = 0; i < 4; i++) {
        struct ct_bias_desc d = { 2, 19, 3, layouts[i], CT_F32 };
        float *got = to_layout(&a, layouts[i], y);

        for (int c = 0; c < 19; c++)
            db[c] = 1;
        ASSERT_OK(ct_bias_backward(ct_device_cpu(), &d, got, db));
        near("db", want_db, db, 19);
        ASSERT_OK(ct_bias_forward(ct_device_cpu(), &d, b, got));
        near("y", to_layout(&a, layouts[i], want), got,
             size_in(&a, layouts[i]));
    }
}
