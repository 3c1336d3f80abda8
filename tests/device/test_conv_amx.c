/* test_conv_amx.c - convolution in the tiles of AMX, emulated where the CPU has
 * none: many shapes against the definition. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/conv_impl.h"
#include "device/cpu/amx.h"
#include "device/cpu/amx_pack.h"
#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/tiles16.h"
#include "testing/test.h"

enum { SHAPES = 60 };

static void emulate_no_more(void *unused)
{
    (void)unused;
    ct_amx_emulate(false);
    unsetenv("CORTADO_IMPL");
}

/* Values that bfloat16 has.  Arrays are as large as they must be, so that
 * tools which watch memory see what is read beyond. */
static float *values(uint64_t stream, int64_t n)
{
    float *v = ct_malloc((size_t)n * sizeof(*v), "values");

    ASSERT(v != NULL);
    for (int64_t i = 0; i < n; i++)
        v[i] = stream ? ct_widen(ct_narrow(
                            2 * ct_uniform(3, stream, (uint64_t)i) - 1))
                      : 0;
    return v;
}

/* One array as the definition has it, and as the convolution under test. */
struct side {
    int64_t        n, c, s;
    enum ct_layout layout;
    enum ct_dtype  type;
};

static int64_t count(const struct side *a)
{
    return a->n * a->c * a->s;
}

static float *put(const struct side *a, const float *plain)
{
    const struct ct_device *d = ct_device_cpu();
    const size_t each = a->type == CT_BF16 ? 2 : 4;
    float *to         = ct_malloc((size_t)count(a) * each, "values");

    ASSERT(to != NULL);
    ASSERT_OK(d->ops->convert(d, a->n, a->c, a->s, CT_PLAIN, CT_F32, plain,
                              a->layout, a->type, to));
    return to;
}

static float *get(const struct side *a, const float *from)
{
    const struct ct_device *d = ct_device_cpu();
    float *to = values(0, count(a));

    ASSERT_OK(d->ops->convert(d, a->n, a->c, a->s, a->layout, a->type, from,
                              CT_PLAIN, CT_F32, to));
    return to;
}

struct problem {
    struct ct_conv_desc d;
    struct side x, y;
    int64_t n_w;
    bool    write, tiles;
    float  *source, *w, *b, *before, *dy; /* as the definition has them */
};

struct results {
    float *y, *dx, *dw, *db;
};

static void results_free(struct results *r)
{
    ct_free(r->y);
    ct_free(r->dx);
    ct_free(r->dw);
    ct_free(r->db);
}

/* Weights in tiles, where the problem has them so, and back. */
static void turn(const struct problem *p, bool in, float *w)
{
    const struct ct_conv_desc *d = &p->d;
    const int64_t taps = d->kernel[0] * d->kernel[1];
    float *copy        = values(0, p->n_w);

    memcpy(copy, w, (size_t)p->n_w * sizeof(*w));
    if (in)
        ct_tiles_in(d->out_channels, d->in_channels, taps, copy, w);
    else
        ct_tiles_out(d->out_channels, d->in_channels, taps, copy, false, w);
    ct_free(copy);
}

static void passes(const struct problem *p, struct ct_conv *c, float *x,
                   float *w, float *y, const float *dy, float *dx,
                   struct results *r)
{
    const bool bias = p->d.has_bias;
    bool kept;

    if (p->d.packed) {
        ASSERT_OK(ct_conv_pack(c, w, &kept));
        ASSERT(kept);
        ASSERT_OK(ct_conv_forward(c, x, NULL, bias ? p->b : NULL, y));
        return;
    }
    ASSERT_OK(ct_conv_set_tiles(c, p->tiles));
    ASSERT_OK(ct_conv_forward(c, x, w, bias ? p->b : NULL, y));
    ASSERT_OK(ct_conv_backward_data(c, w, dy, dx));
    if (p->write)
        ASSERT_OK(ct_conv_write_weights(c, x, dy, r->dw,
                                        bias ? r->db : NULL));
    else
        ASSERT_OK(ct_conv_backward_weights(c, x, dy, r->dw,
                                           bias ? r->db : NULL));
}

static struct results run(const struct problem *p, const char *impl)
{
    float *x = put(&p->x, p->source), *y = put(&p->y, p->before);
    float *dy = put(&p->y, p->dy), *dx = put(&p->x, p->source);
    float *w = values(0, p->n_w);
    struct results r = { .dw = values(5, p->n_w),
                         .db = values(6, p->d.out_channels) };
    struct ct_conv *c;

    memcpy(w, p->w, (size_t)p->n_w * sizeof(*w));
    setenv("CORTADO_IMPL", impl, 1);
    ASSERT_OK(ct_conv_create(ct_device_cpu(), &p->d, NULL, &c));
    if (p->tiles) {
        turn(p, true, w);
        turn(p, true, r.dw);
    }
    passes(p, c, x, w, y, dy, dx, &r);
    if (p->tiles)
        turn(p, false, r.dw);
    ct_conv_destroy(c);
    r.y  = get(&p->y, y);
    r.dx = get(&p->x, dx);
    ct_free(x);
    ct_free(y);
    ct_free(dy);
    ct_free(dx);
    ct_free(w);
    return r;
}

/* Each value within its rounding, and that of sums. */
static void near(const struct problem *p, const char *what, int64_t n,
                 const float *want, const float *got, double rounding)
{
    const struct ct_conv_desc *d = &p->d;
    double scale = 0;

    for (int64_t i = 0; i < n; i++)
        scale = fmax(scale, fabs((double)want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)want[i] - (double)got[i]) <=
              rounding * fabs((double)want[i]) + 1e-5 * scale))
            FAIL("%s[%d] is %g, wanted %g: %dx%d to %d of %dx%d, kernel %dx%d, "
                 "stride %dx%d, pad %dx%d", what, (int)i, (double)got[i],
                 (double)want[i], (int)d->batch, (int)d->in_channels,
                 (int)d->out_channels, (int)d->in[0], (int)d->in[1],
                 (int)d->kernel[0], (int)d->kernel[1], (int)d->stride[0],
                 (int)d->stride[1], (int)d->pad[0], (int)d->pad[1]);
}

static struct problem problem_of(const struct ct_conv_desc *d)
{
    const int64_t out = ct_conv_out(d, 0) * ct_conv_out(d, 1);
    struct problem p  = { .d = *d };

    p.x      = (struct side){ d->batch, d->in_channels, d->in[0] * d->in[1],
                              d->src_layout, d->src_type };
    p.y      = (struct side){ d->batch, d->out_channels, out, d->dst_layout,
                              d->dst_type };
    p.n_w    = d->out_channels * d->in_channels * d->kernel[0] * d->kernel[1];
    p.source = values(21, count(&p.x));
    p.w      = values(22, p.n_w);
    p.b      = values(23, d->out_channels);
    p.before = values(25, count(&p.y));
    p.dy     = values(24, count(&p.y));
    return p;
}

static void problem_free(struct problem *p)
{
    ct_free(p->source);
    ct_free(p->w);
    ct_free(p->b);
    ct_free(p->before);
    ct_free(p->dy);
}

static void check(struct ct_conv_desc d, bool write, bool tiles)
{
    struct problem p = problem_of(&d), plain = p;
    struct results want, got;

    p.write = plain.write = write;
    p.tiles          = tiles;
    plain.d.src_type = plain.d.dst_type = CT_F32;
    plain.d.src_layout = plain.d.dst_layout = CT_PLAIN;
    plain.d.packed  = false;
    plain.x.layout  = plain.y.layout = CT_PLAIN;
    plain.x.type    = plain.y.type = CT_F32;
    ct_amx_emulate(!ct_amx_runs());
    want = run(&plain, "conv:ref");
    got  = run(&p, "conv:amx");
    near(&p, "y", count(&p.y), want.y, got.y, 1.0 / 256);
    if (!d.packed) {
        near(&p, "dx", count(&p.x), want.dx, got.dx, 1.0 / 256);
        near(&p, "dw", p.n_w, want.dw, got.dw, 1e-5);
        if (d.has_bias)
            near(&p, "db", d.out_channels, want.db, got.db, 1e-5);
    }
    results_free(&want);
    results_free(&got);
    problem_free(&p);
    emulate_no_more(NULL);
}

static struct ct_conv_desc desc(int64_t batch, int64_t in, int64_t out,
                                int64_t size, int64_t kernel, int64_t stride)
{
    return (struct ct_conv_desc){
        .n_spatial = 2, .batch = batch, .in_channels = in, .out_channels = out,
        .group = 1, .in = { size, size }, .kernel = { kernel, kernel },
        .stride = { stride, stride }, .pad = { kernel / 2, kernel / 2 },
        .dilation = { 1, 1 }, .has_bias = true, .src_layout = CT_NHWC,
        .dst_layout = CT_NHWC, .src_type = CT_BF16, .dst_type = CT_BF16
    };
}

/* A number in [from, to]. */
static int64_t draw(uint64_t key, uint64_t i, int64_t from, int64_t to)
{
    const double u = (double)ct_uniform(key, 77, i);
    const int64_t n = from + (int64_t)(u * (double)(to - from + 1));

    return n < to ? n : to;
}

/* Channels up to 70, and often such as fill tiles. */
static int64_t draw_channels(uint64_t key, uint64_t i)
{
    return draw(key, i, 0, 2) ? draw(key, i + 1, 1, 70)
                              : 16 * draw(key, i + 1, 1, 5);
}

static struct ct_conv_desc draw_desc(uint64_t key)
{
    static const int64_t kernels[] = { 1, 1, 3, 3, 4, 5, 7, 2 };
    struct ct_conv_desc d = desc(draw(key, 0, 1, 4), draw_channels(key, 10),
                                 draw_channels(key, 20), 1, 1, 1);
    const bool square     = draw(key, 1, 0, 3) > 0;

    if (draw(key, 2, 0, 5) == 0)
        d.in_channels = draw(key, 3, 1, 4);
    for (uint64_t i = 0; i < 2; i++) {
        const uint64_t from = square ? 30 : 30 + 10 * i;

        d.kernel[i] = kernels[draw(key, from, 0, 7)];
        d.stride[i] = draw(key, from + 1, 1, 2);
        d.pad[i]    = draw(key, from + 2, 0, d.kernel[i] - 1);
        d.in[i]     = draw(key, 60 + i, 1, 15);
        if (d.in[i] + 2 * d.pad[i] < d.kernel[i])
            d.in[i] = d.kernel[i];
    }
    d.has_bias = draw(key, 70, 0, 1);
    d.relu     = draw(key, 71, 0, 1);
    d.sum      = draw(key, 72, 0, 3) == 0;
    d.packed   = draw(key, 73, 0, 7) == 0;
    if (draw(key, 74, 0, 5) == 0) {
        d.src_type   = CT_F32;
        d.src_layout = CT_PLAIN;
    }
    return d;
}

static void check_drawn(uint64_t key)
{
    const struct ct_conv_desc d = draw_desc(key);
    const bool may = d.in_channels % 16 == 0 && d.out_channels % 16 == 0;

    check(d, draw(key, 80, 0, 1), may && !d.packed && draw(key, 81, 0, 1));
}

static void threads_back(void *unused)
{
    (void)unused;
    (void)ct_cpu_team(1);
}

TEST(conv_amx, random_shapes_agree_with_the_definition)
{
    test_defer(emulate_no_more, NULL);
    test_defer(threads_back, NULL);
    for (uint64_t key = 0; key < SHAPES; key++) {
        (void)ct_cpu_team((int)draw(key, 90, 1, 5));
        check_drawn(key);
    }
}

/* Images that fall into chunks of rows, and gradients that do into parts. */
TEST(conv_amx, large_images_agree_with_the_definition)
{
    test_defer(emulate_no_more, NULL);
    check(desc(1, 12, 8, 120, 3, 1), false, false);
    check(desc(1, 16, 16, 110, 3, 2), true, true);
    check(desc(2, 3, 8, 97, 7, 2), true, false);
    check(desc(1, 64, 32, 85, 1, 1), false, true);
    check(desc(3, 33, 40, 31, 1, 1), false, false);
    check(desc(4, 160, 48, 14, 1, 2), true, true);
    check(desc(3, 1088, 16, 6, 1, 1), true, true);
    check(desc(2, 24, 1100, 7, 1, 2), false, false);
    check(desc(4, 96, 208, 7, 3, 1), false, true);
}

/* 1x1 kernels: some places through all outputs; all steps of few places in
 * parts; what lacks to 32 places at the end. */
TEST(conv_amx, any_order_of_places_and_outputs_agrees_with_the_definition)
{
    test_defer(emulate_no_more, NULL);
    check(desc(2, 64, 160, 17, 1, 1), false, true);
    check(desc(3, 256, 80, 9, 1, 1), true, false);
    check(desc(1, 1088, 96, 5, 1, 1), false, true);
    check(desc(1, 96, 1088, 5, 1, 1), true, false);
}

/* Rows longer than what is packed at once. */
TEST(conv_amx, images_of_floats_agree_with_the_definition)
{
    test_defer(emulate_no_more, NULL);
    for (int64_t channels = 1; channels <= 4; channels++)
        for (int64_t stride = 1; stride <= 2; stride++) {
            struct ct_conv_desc d = desc(2, channels, 20, 37, 7, stride);

            d.src_type   = CT_F32;
            d.src_layout = CT_PLAIN;
            check(d, true, false);
        }
}

/* A phase of the gradient may need fewer zeros behind dy than before it. */
TEST(conv_amx, even_kernels_with_stride_agree_with_the_definition)
{
    test_defer(emulate_no_more, NULL);
    for (int64_t size = 6; size < 10; size++)
        for (int64_t pad = 0; pad < 4; pad++) {
            struct ct_conv_desc d = desc(2, 16, 20, size, 4, 2);

            d.pad[0] = d.pad[1] = pad;
            check(d, false, false);
        }
}

static void check_bits(const char *what, int64_t n, const float *a,
                       const float *b)
{
    if (memcmp(a, b, (size_t)n * sizeof(*a)) != 0)
        FAIL("%s has other bits with another number of threads", what);
}

TEST(conv_amx, bits_do_not_depend_on_the_number_of_threads)
{
    const struct ct_conv_desc d[] = { desc(3, 48, 80, 14, 3, 1),
                                      desc(2, 3, 32, 64, 7, 2),
                                      desc(4, 64, 96, 28, 1, 1),
                                      desc(2, 64, 64, 13, 3, 2) };

    test_defer(emulate_no_more, NULL);
    test_defer(threads_back, NULL);
    for (int i = 0; i < 4; i++) {
        struct problem p = problem_of(&d[i]);
        struct results one, many;

        ct_amx_emulate(!ct_amx_runs());
        (void)ct_cpu_team(1);
        one = run(&p, "conv:amx");
        for (int threads = 2; threads <= 7; threads += 5) {
            (void)ct_cpu_team(threads);
            many = run(&p, "conv:amx");
            check_bits("y", count(&p.y), one.y, many.y);
            check_bits("dx", count(&p.x), one.dx, many.dx);
            check_bits("dw", p.n_w, one.dw, many.dw);
            check_bits("db", d[i].out_channels, one.db, many.db);
            results_free(&many);
        }
        results_free(&one);
        problem_free(&p);
        emulate_no_more(NULL);
    }
}

static bool taken(const struct ct_conv_desc *d)
{
    struct ct_conv *c = NULL;
    enum ct_status st;

    setenv("CORTADO_IMPL", "conv:amx", 1);
    st = ct_conv_create(ct_device_cpu(), d, NULL, &c);
    unsetenv("CORTADO_IMPL");
    ct_conv_destroy(c);
    ASSERT(st == CT_OK || st == CT_ENOTSUP);
    return st == CT_OK;
}

TEST(conv_amx, leaves_what_it_does_not_know_to_others)
{
    struct ct_conv_desc d = desc(2, 32, 32, 9, 3, 1);

    test_defer(emulate_no_more, NULL);
    if (!ct_amx_runs())
        ASSERT(!taken(&d));
    ct_amx_emulate(true);
    ASSERT(taken(&d));
    d.group = 2;
    ASSERT(!taken(&d));
    d           = desc(2, 32, 32, 9, 3, 1);
    d.stride[1] = 3;
    ASSERT(!taken(&d));
    d             = desc(2, 32, 32, 9, 3, 1);
    d.dilation[0] = 2;
    ASSERT(!taken(&d));
    d        = desc(2, 32, 32, 9, 3, 1);
    d.pad[0] = 3;
    ASSERT(!taken(&d));
    d            = desc(2, 32, 32, 9, 3, 1);
    d.dst_type   = CT_F32;
    d.dst_layout = CT_PLAIN;
    ASSERT(!taken(&d));
    d            = desc(2, 32, 32, 9, 3, 1);
    d.src_type   = d.dst_type = CT_F32;
    d.src_layout = d.dst_layout = CT_PLAIN;
    ASSERT(!taken(&d));
}

/* A net that has diverged must say so: max(NaN, 0) is NaN. */
TEST(conv_amx, a_relu_hides_no_nan)
{
    struct ct_conv_desc d = desc(2, 32, 32, 9, 3, 1);
    struct problem p;
    struct results r;

    test_defer(emulate_no_more, NULL);
    d.relu = true;
    p      = problem_of(&d);
    p.w[5] = NAN;
    ct_amx_emulate(!ct_amx_runs());
    r = run(&p, "conv:amx");
    ASSERT(isnan(r.y[30]));
    results_free(&r);
    problem_free(&p);
}

/* What the CPU does and what stands for it in tests is one thing. */
TEST(conv_amx, blocks_of_the_cpu_and_in_plain_c_agree)
{
    static const int64_t at[3] = { 0, 40, 7 };
    float *v = values(9, 4096 + 4096);
    uint16_t a[33 * 64], b[3 * CT_AMX_STEP];
    float c[2][4 * CT_AMX_SUMS];

    test_defer(ct_free, v);
    if (!ct_amx_vectors())
        test_skip("this CPU has neither AMX nor AVX512_BF16");
    ct_narrow_row(33 * 64, v, a);
    ct_narrow_row(3 * CT_AMX_STEP, v + 4096, b);
    for (int k = 0; k < 2; k++) {
        struct ct_amx_sum s = { .n = 3, .a = a, .a_step = 64, .at = at, .b = b,
                                .c_step = 16 };

        for (int i = 0; i < 4; i++)
            s.c[i] = c[k] + i * CT_AMX_SUMS;
        ct_amx_emulate(k == 1);
        ct_amx_begin();
        ct_amx_block(&s, false);
        ct_amx_block(&s, true);
        ct_amx_end();
    }
    emulate_no_more(NULL);
    for (int i = 0; i < 4 * CT_AMX_SUMS; i++)
        if (!(fabsf(c[0][i] - c[1][i]) <= 1e-4f))
            FAIL("sum %d is %g, in plain C %g", i, (double)c[0][i],
                 (double)c[1][i]);
}
