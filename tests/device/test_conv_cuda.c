/* test_conv_cuda.c - every way through a convolution on a GPU gives what the
 * reference on the CPU does, in every precision.
 *
 * Runs where CORTADO_TEST_DEVICE names a GPU.  With arrays in host memory the
 * first engine that works is taken; in the GPU's own memory they are measured
 * as in training. */
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "device/conv.h"
#include "testing/test.h"

static const struct precision {
    const char       *name;
    enum ct_precision value;
    float             limit; /* of errors, against the largest value */
} precisions[] = {
    { "fp32", CT_FP32, 1e-4f },
    { "tf32", CT_TF32, 5e-3f },
    { "bf16", CT_BF16_MIXED, 3e-2f },
    { "fp16", CT_FP16_MIXED, 5e-3f },
};
enum { N_PRECISIONS = 4 };

/* `way` is the only one that must take it, NULL for none in particular. */
static const struct shape {
    const char *text, *way;
    int64_t     batch, in_channels, out_channels, group;
    int64_t     in[2], kernel[2], stride[2], pad[2], dilation[2];
    bool        has_bias, relu;
} shapes[] = {
    { "3x3", NULL, 3, 16, 32, 1, { 9, 10 }, { 3, 3 }, { 1, 1 }, { 1, 1 },
      { 1, 1 }, true, true },
    { "odd channels", NULL, 2, 5, 7, 1, { 9, 8 }, { 3, 2 }, { 2, 1 },
      { 1, 0 }, { 1, 1 }, true, false },
    { "dilated", NULL, 2, 8, 8, 1, { 11, 12 }, { 3, 3 }, { 1, 1 }, { 2, 2 },
      { 2, 2 }, false, true },
    { "1x1", NULL, 4, 32, 48, 1, { 6, 6 }, { 1, 1 }, { 1, 1 }, { 0, 0 },
      { 1, 1 }, true, true },
    { "many positions", NULL, 5, 4, 20, 1, { 34, 30 }, { 3, 3 }, { 1, 1 },
      { 0, 0 }, { 1, 1 }, true, true },
    { "11x11 stride 4", "fold", 2, 3, 16, 1, { 35, 31 }, { 11, 11 }, { 4, 4 },
      { 0, 0 }, { 1, 1 }, true, true },
    { "7x7 stride 2", "fold", 2, 3, 24, 1, { 19, 23 }, { 7, 7 }, { 2, 2 },
      { 3, 3 }, { 1, 1 }, true, false },
    { "one channel", "fold", 3, 1, 20, 1, { 28, 28 }, { 5, 5 }, { 1, 1 },
      { 0, 0 }, { 1, 1 }, true, false },
    { "strides that differ", "fold", 2, 4, 8, 1, { 13, 17 }, { 3, 4 },
      { 2, 3 }, { 1, 2 }, { 1, 1 }, false, false },
    { "3x3 of three channels", NULL, 7, 3, 33, 1, { 17, 15 }, { 3, 3 },
      { 1, 1 }, { 1, 1 }, { 1, 1 }, true, true },
    { "5x5 of three channels", NULL, 20, 3, 32, 1, { 32, 32 }, { 5, 5 },
      { 1, 1 }, { 2, 2 }, { 1, 1 }, true, false },
    { "7x7 stride 2, odd", NULL, 1, 3, 13, 1, { 30, 37 }, { 7, 7 }, { 2, 2 },
      { 3, 3 }, { 1, 1 }, true, true },
    { "11x11 stride 4, 96", NULL, 3, 3, 96, 1, { 67, 71 }, { 11, 11 },
      { 4, 4 }, { 2, 1 }, { 1, 1 }, true, true },
    { "one channel, 100 images", NULL, 100, 1, 6, 1, { 12, 10 }, { 5, 3 },
      { 1, 1 }, { 0, 1 }, { 1, 1 }, true, false },
    { "wide kernel", NULL, 2, 2, 9, 1, { 14, 23 }, { 2, 9 }, { 3, 2 },
      { 1, 4 }, { 1, 1 }, false, true },
    { "one position", NULL, 5, 4, 10, 1, { 4, 4 }, { 4, 4 }, { 1, 1 },
      { 0, 0 }, { 1, 1 }, true, false },
    { "stride beyond the kernel", NULL, 3, 2, 8, 1, { 16, 14 }, { 1, 2 },
      { 2, 3 }, { 0, 1 }, { 1, 1 }, true, true },
    { "two groups of 5x5", "apart", 2, 48, 64, 2, { 9, 8 }, { 5, 5 },
      { 1, 1 }, { 2, 2 }, { 1, 1 }, true, true },
    { "three groups", "apart", 2, 48, 96, 3, { 7, 7 }, { 3, 3 }, { 2, 2 },
      { 1, 1 }, { 1, 1 }, false, false },
    { "21 outputs", "wide", 2, 32, 21, 1, { 9, 8 }, { 3, 3 }, { 1, 1 },
      { 1, 1 }, { 1, 1 }, true, true },
    { "126 outputs", "wide", 3, 16, 126, 1, { 10, 10 }, { 3, 3 }, { 2, 2 },
      { 1, 1 }, { 1, 1 }, false, false },
    { "5x5 to 208", NULL, 2, 24, 208, 1, { 9, 8 }, { 5, 5 }, { 1, 1 },
      { 2, 2 }, { 1, 1 }, true, true },
    { "7x7 stride 1", NULL, 2, 20, 40, 1, { 11, 9 }, { 7, 7 }, { 1, 1 },
      { 3, 3 }, { 1, 1 }, true, false },
    { "4x4", NULL, 2, 12, 24, 1, { 9, 9 }, { 4, 4 }, { 2, 2 }, { 1, 1 },
      { 1, 1 }, true, true },
    { "33 channels", NULL, 2, 33, 40, 1, { 9, 8 }, { 3, 3 }, { 1, 1 },
      { 1, 1 }, { 1, 1 }, true, false },
    { "large weights", NULL, 1, 256, 512, 1, { 6, 6 }, { 3, 3 }, { 1, 1 },
      { 1, 1 }, { 1, 1 }, true, true },
    { "384 outputs", NULL, 2, 16, 384, 1, { 40, 40 }, { 1, 1 }, { 1, 1 },
      { 0, 0 }, { 1, 1 }, true, true },
    { "depthwise", NULL, 2, 32, 32, 32, { 9, 8 }, { 3, 3 }, { 1, 1 },
      { 1, 1 }, { 1, 1 }, true, false },
};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* Few input channels need no library. */
static bool is_direct(const struct shape *s)
{
    return s->in_channels <= 4 && s->group == 1 && s->dilation[0] == 1 &&
           s->dilation[1] == 1;
}

/* What patches can take; the rest would go through the library once more. */
static bool is_patch(const struct shape *s)
{
    return s->stride[0] == 1 && s->stride[1] == 1 && s->group == 1 &&
           s->dilation[0] == 1 && s->dilation[1] == 1;
}

static void close_device(void *d)
{
    ct_device_close(d);
}

static void forget(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
    unsetenv("CORTADO_CACHE");
    unsetenv("CORTADO_CUDA_MEMORY");
    unsetenv("XDG_CACHE_HOME");
}

/* Skips the test where there is none. */
static const struct ct_device *open_gpu(enum ct_precision p, bool measured)
{
    const char *name          = getenv("CORTADO_TEST_DEVICE");
    const struct ct_device *d = NULL;

    if (!name || strncmp(name, "cuda", 4) != 0)
        test_skip("CORTADO_TEST_DEVICE names no GPU");
    if (measured)
        ASSERT(unsetenv("CORTADO_CUDA_MEMORY") == 0);
    else
        ASSERT(setenv("CORTADO_CUDA_MEMORY", "host", 1) == 0);
    ASSERT_OK(ct_device_cuda_open(0, p, &d));
    return d;
}

static struct ct_conv_desc desc_of(const struct shape *s)
{
    struct ct_conv_desc d = { .n_spatial = 2, .batch = s->batch,
                              .in_channels = s->in_channels,
                              .out_channels = s->out_channels,
                              .group = s->group, .has_bias = s->has_bias,
                              .relu = s->relu };

    memcpy(d.in, s->in, sizeof(s->in));
    memcpy(d.kernel, s->kernel, sizeof(s->kernel));
    memcpy(d.stride, s->stride, sizeof(s->stride));
    memcpy(d.pad, s->pad, sizeof(s->pad));
    memcpy(d.dilation, s->dilation, sizeof(s->dilation));
    return d;
}

enum { X, W, B, DY, Y, DX, DW, DB, N_ARRAYS };

/* Plain arrays: what goes in, and what the reference makes of it. */
struct problem {
    struct ct_conv_desc d;
    int64_t             n[N_ARRAYS];
    float              *v[N_ARRAYS];
};

/* y and dy of a description. */
static struct ct_bias_desc outside(const struct ct_conv_desc *d)
{
    return (struct ct_bias_desc){ d->batch, d->out_channels,
                                  ct_conv_out(d, 0) * ct_conv_out(d, 1),
                                  d->dst_layout, d->dst_type };
}

/* The reference's backward passes, of a dy that is masked by y. */
static void solve_backward(struct problem *p, struct ct_conv *c)
{
    const struct ct_bias_desc out = outside(&p->d);
    const size_t bytes            = (size_t)p->n[DY] * sizeof(float);
    float *dy                     = ct_malloc(bytes, "test values");

    ASSERT(dy != NULL);
    memcpy(dy, p->v[DY], bytes);
    if (p->d.relu)
        ASSERT_OK(ct_bias_mask(ct_device_cpu(), &out, p->v[Y], dy, NULL));
    ASSERT_OK(ct_conv_backward_data(c, p->v[W], dy, p->v[DX]));
    ASSERT_OK(ct_conv_backward_weights(c, p->v[X], dy, p->v[DW],
                                       p->d.has_bias ? p->v[DB] : NULL));
    ct_free(dy);
}

static void problem_make(const struct shape *s, struct problem *p)
{
    struct ct_conv *c = NULL;

    *p = (struct problem){ .d = desc_of(s) };
    p->n[X] = p->n[DX] = s->batch * s->in_channels * s->in[0] * s->in[1];
    p->n[W] = p->n[DW] = s->out_channels * (s->in_channels / s->group) *
                         s->kernel[0] * s->kernel[1];
    p->n[B] = p->n[DB] = s->out_channels;
    p->n[Y] = p->n[DY] = s->batch * s->out_channels * ct_conv_out(&p->d, 0) *
                         ct_conv_out(&p->d, 1);
    for (int i = 0; i < N_ARRAYS; i++) {
        p->v[i] = ct_malloc((size_t)p->n[i] * sizeof(float), "test values");
        ASSERT(p->v[i] != NULL);
        for (int64_t j = 0; j < p->n[i]; j++)
            p->v[i][j] = i < Y ? 2 * ct_uniform(7, (uint64_t)i, (uint64_t)j) - 1
                               : 0;
    }
    ASSERT(setenv("CORTADO_IMPL", "conv:ref", 1) == 0);
    ASSERT_OK(ct_conv_create(ct_device_cpu(), &p->d, NULL, &c));
    ASSERT(unsetenv("CORTADO_IMPL") == 0);
    ASSERT_OK(ct_conv_forward(c, p->v[X], p->v[W],
                              s->has_bias ? p->v[B] : NULL, p->v[Y]));
    solve_backward(p, c);
    ct_conv_destroy(c);
}

static void problem_free(struct problem *p)
{
    for (int i = 0; i < N_ARRAYS; i++)
        ct_free(p->v[i]);
}

static bool is_image(int i)
{
    return i == X || i == DX || i == Y || i == DY;
}

/* Array i of the problem between the plain float32 `flat` and the form that
 * the convolution has it in. */
static void convert(const struct ct_device *g, const struct ct_conv_desc *d,
                    int i, int64_t n, bool in, void *flat, void *formed)
{
    const bool x         = i == X || i == DX;
    const int64_t c      = x ? d->in_channels : d->out_channels;
    enum ct_layout other = !is_image(i) ? CT_PLAIN
                           : x          ? d->src_layout
                                        : d->dst_layout;
    enum ct_dtype type   = !is_image(i) ? CT_F32
                           : x          ? d->src_type
                                        : d->dst_type;
    const int64_t one    = is_image(i) ? n / d->batch / c : n;

    ASSERT_OK(g->ops->convert(g, is_image(i) ? d->batch : 1,
                              is_image(i) ? c : 1, one,
                              in ? CT_PLAIN : other, in ? CT_F32 : type,
                              in ? flat : formed, in ? other : CT_PLAIN,
                              in ? type : CT_F32, in ? formed : flat));
}

static int n_wrong;

/* Counts, so that one run shows all that is wrong. */
static void check(const struct problem *p, const char *what, int i,
                  const float *got, float limit)
{
    float scale = 1;

    for (int64_t j = 0; j < p->n[i]; j++)
        scale = fmaxf(scale, fabsf(p->v[i][j]));
    for (int64_t j = 0; j < p->n[i]; j++)
        if (!(fabsf(p->v[i][j] - got[j]) <= limit * scale)) {
            printf("%s: array %d, value %lld is %.9g, wanted %.9g\n", what, i,
                   (long long)j, (double)got[j], (double)p->v[i][j]);
            n_wrong++;
            return;
        }
}

/* dy masked by the reference's y, with the gradient of the bias, twice; `gate`
 * and `flat` are room. */
static void mask(const struct problem *p, const struct ct_device *g,
                 const struct ct_conv_desc *d, void *flat, void *gate,
                 float *dy, float *db)
{
    const struct ct_bias_desc out = outside(d);

    ASSERT_OK(g->ops->from_host(g, (size_t)p->n[Y] * sizeof(float), p->v[Y],
                                flat));
    convert(g, d, Y, p->n[Y], true, flat, gate);
    for (int twice = 0; twice < 2; twice++)
        ASSERT_OK(ct_bias_mask(g, &out, gate, dy, db));
}

/* All passes on the GPU; gradients of parameters are added up twice. */
static void solve(const struct problem *p, const struct ct_device *g,
                  struct ct_conv *c, const char *what, float limit)
{
    const struct ct_conv_desc *d = ct_conv_description(c);
    void *flat = NULL, *gate = NULL, *a[N_ARRAYS] = { NULL };
    int64_t most = 0;
    float *got, *db;

    for (int i = 0; i < N_ARRAYS; i++)
        most = p->n[i] > most ? p->n[i] : most;
    got = ct_malloc((size_t)most * sizeof(*got), "test values");
    ASSERT(got != NULL);
    ASSERT_OK(g->ops->alloc(g, (size_t)most * sizeof(float), "test", &flat));
    for (int i = 0; i < N_ARRAYS; i++) {
        ASSERT_OK(g->ops->alloc(g, (size_t)p->n[i] * sizeof(float), "test",
                                &a[i]));
        if (i >= Y)
            continue;
        ASSERT_OK(g->ops->from_host(g, (size_t)p->n[i] * sizeof(float),
                                    p->v[i], flat));
        convert(g, d, i, p->n[i], true, flat, a[i]);
    }
    ASSERT_OK(g->ops->alloc(g, (size_t)p->n[Y] * sizeof(float), "test",
                            &gate));
    db = d->has_bias ? a[DB] : NULL;
    ASSERT_OK(ct_conv_forward(c, a[X], a[W], d->has_bias ? a[B] : NULL, a[Y]));
    if (d->relu)
        mask(p, g, d, flat, gate, a[DY], db);
    ASSERT_OK(ct_conv_backward_data(c, a[W], a[DY], a[DX]));
    for (int twice = 0; twice < 2; twice++)
        ASSERT_OK(ct_conv_backward_weights(c, a[X], a[DY], a[DW],
                                           d->relu ? NULL : db));
    for (int i = Y; i < N_ARRAYS; i++) {
        convert(g, d, i, p->n[i], false, flat, a[i]);
        ASSERT_OK(g->ops->to_host(g, (size_t)p->n[i] * sizeof(float), flat,
                                  got));
        for (int64_t j = 0; j < p->n[i] && (i == DW || i == DB); j++)
            got[j] /= 2;
        if (i != DB || d->has_bias)
            check(p, what, i, got, limit);
    }
    for (int i = 0; i < N_ARRAYS; i++)
        g->ops->free(g, a[i]);
    g->ops->free(g, flat);
    g->ops->free(g, gate);
    ct_free(got);
}

/* In plain float32, and in the layout and type that the device likes; in fp32
 * that is the same. */
static int solve_forms(const struct problem *p, const char *text,
                       const struct precision *at, const struct ct_device *g,
                       const char *way, int first_form)
{
    const int forms = at->value == CT_FP32 ? first_form + 1 : 3;
    int n           = 0;

    for (int form = first_form; form < forms; form++) {
        struct ct_conv_desc d = p->d;
        struct ct_conv *c     = NULL;
        char what[128], force[64];
        enum ct_status st;

        if (form > 0 && at->value != CT_FP32) {
            d.dst_layout = CT_NHWC;
            d.dst_type   = ct_device_dtype(g);
        }
        if (form > 1 && at->value != CT_FP32) {
            d.src_layout = CT_NHWC;
            d.src_type   = ct_device_dtype(g);
        }
        snprintf(force, sizeof(force), "conv:%s", way);
        ASSERT(setenv("CORTADO_IMPL", force, 1) == 0);
        st = ct_conv_create(g, &d, NULL, &c);
        ASSERT(unsetenv("CORTADO_IMPL") == 0);
        if (st == CT_ENOTSUP)
            continue;
        ASSERT_OK(st);
        snprintf(what, sizeof(what), "%s by %s in %s, form %d", text, way,
                 at->name, form);
        solve(p, g, c, what, at->limit);
        ct_conv_destroy(c);
        n++;
    }
    return n;
}

/* A shape by every way. */
static void solve_ways(const struct shape *s, const struct precision *at,
                       const struct ct_device *g)
{
    static const char *const ways[] = { "cudnn", "whole", "apart", "strided",
                                        "fold", "wide", "direct", "patch" };
    struct problem p;

    problem_make(s, &p);
    for (int k = 0; k < 8; k++) {
        const bool patch = strcmp(ways[k], "patch") == 0;
        int n            = 0;

        if (!patch || is_patch(s))
            n = solve_forms(&p, s->text, at, g, ways[k], 0);
        if (k < 2)
            ASSERT(n > 0);
        if (s->way && strcmp(s->way, ways[k]) == 0 && at->value != CT_FP32)
            ASSERT(n > 0);
        if (is_direct(s) && strcmp(ways[k], "direct") == 0)
            ASSERT_INT(at->value == CT_FP32 ? 1 : 3, n);
    }
    problem_free(&p);
}

TEST(conv_cuda, every_way_agrees_with_the_reference_in_every_precision)
{
    n_wrong = 0;
    test_defer(forget, NULL);
    for (int i = 0; i < N_PRECISIONS; i++) {
        const struct ct_device *g = open_gpu(precisions[i].value, false);

        test_defer(close_device, (void *)(uintptr_t)g);
        for (int j = 0; j < N_SHAPES; j++)
            solve_ways(&shapes[j], &precisions[i], g);
    }
    ASSERT_INT(0, n_wrong);
}

TEST(conv_cuda, what_measures_fastest_agrees_with_the_reference)
{
    n_wrong = 0;
    test_defer(forget, NULL);
    ASSERT(setenv("CORTADO_CACHE", "none", 1) == 0);
    for (int i = 0; i < N_PRECISIONS; i++) {
        const struct ct_device *g = open_gpu(precisions[i].value, true);

        test_defer(close_device, (void *)(uintptr_t)g);
        for (int j = 0; j < N_SHAPES; j++) {
            const struct shape *s = &shapes[j];
            struct problem p;

            if (s->way && strcmp(s->way, "fold") == 0 &&
                precisions[i].value == CT_FP32)
                continue;
            problem_make(s, &p);
            ASSERT_INT(1, solve_forms(&p, s->text, &precisions[i], g, "cudnn",
                                      2));
            problem_free(&p);
        }
    }
    ASSERT_INT(0, n_wrong);
}

/* A net that has diverged must say so. */
TEST(conv_cuda, a_nan_goes_through_a_relu)
{
    n_wrong = 0;
    test_defer(forget, NULL);
    ASSERT(setenv("CORTADO_CACHE", "none", 1) == 0);
    for (int i = 0; i < N_PRECISIONS; i++) {
        const struct ct_device *g = open_gpu(precisions[i].value, true);
        const struct ct_device_ops *ops = g->ops;
        struct ct_conv_desc d = desc_of(&shapes[0]);
        struct ct_conv *c     = NULL;
        void *a[4];
        float w[32 * 16 * 9], b[32] = { 0 }, y[32 * 9 * 10];

        test_defer(close_device, (void *)(uintptr_t)g);
        for (int j = 0; j < 32 * 16 * 9; j++)
            w[j] = NAN;
        d.batch      = 1;
        d.src_type   = d.dst_type   = ct_device_dtype(g);
        d.src_layout = d.dst_layout = i == 0 ? CT_PLAIN : CT_NHWC;
        ASSERT_OK(ct_conv_create(g, &d, NULL, &c));
        ASSERT_OK(ops->alloc(g, 16 * 9 * 10 * sizeof(float), "x", &a[0]));
        ASSERT_OK(ops->alloc(g, sizeof(w) + sizeof(b), "w, b", &a[1]));
        ASSERT_OK(ops->alloc(g, sizeof(y), "y", &a[2]));
        ASSERT_OK(ops->alloc(g, sizeof(y), "plain y", &a[3]));
        ASSERT_OK(ops->from_host(g, sizeof(w), w, a[1]));
        ASSERT_OK(ct_conv_forward(c, a[0], a[1],
                                  (float *)a[1] + 32 * 16 * 9, a[2]));
        ASSERT_OK(ops->convert(g, 1, 32, 90, d.dst_layout, d.dst_type, a[2],
                               CT_PLAIN, CT_F32, a[3]));
        ASSERT_OK(ops->to_host(g, sizeof(y), a[3], y));
        for (int j = 0; j < 32 * 90; j++)
            ASSERT(isnan(y[j]));
        ct_conv_destroy(c);
        for (int j = 0; j < 4; j++)
            ops->free(g, a[j]);
    }
}

/* Its passes run backwards: weights change behind the convolution's forward. */
TEST(conv_cuda, a_deconvolution_sees_weights_that_have_changed)
{
    test_defer(forget, NULL);
    ASSERT(setenv("CORTADO_CACHE", "none", 1) == 0);
    for (int i = 0; i < N_PRECISIONS; i++) {
        const struct ct_device *g = open_gpu(precisions[i].value, true);
        const struct ct_device_ops *ops = g->ops;
        struct ct_conv_desc d = desc_of(&shapes[0]);
        struct ct_conv *c     = NULL;
        void *dx, *y, *w, *plain;
        float weights[32 * 16 * 9] = { 0 }, got[16 * 90];

        test_defer(close_device, (void *)(uintptr_t)g);
        d.batch      = 1;
        d.has_bias   = d.relu = false;
        d.transposed = true;
        d.src_type   = d.dst_type   = ct_device_dtype(g);
        d.src_layout = d.dst_layout = i == 0 ? CT_PLAIN : CT_NHWC;
        ASSERT_OK(ct_conv_create(g, &d, NULL, &c));
        ASSERT_OK(ops->alloc(g, 16 * 90 * sizeof(float), "dx", &dx));
        ASSERT_OK(ops->alloc(g, 32 * 90 * sizeof(float), "y", &y));
        ASSERT_OK(ops->alloc(g, sizeof(weights), "w", &w));
        ASSERT_OK(ops->alloc(g, sizeof(got), "plain dx", &plain));
        for (int j = 0; j < 32 * 16 * 9; j++)
            weights[j] = NAN;
        ASSERT_OK(ops->from_host(g, sizeof(weights), weights, w));
        ASSERT_OK(ct_conv_backward_data(c, w, y, dx));
        ASSERT_OK(ct_conv_forward(c, dx, w, NULL, y));
        memset(weights, 0, sizeof(weights));
        ASSERT_OK(ops->from_host(g, sizeof(weights), weights, w));
        ASSERT_OK(ops->fill(g, 32 * 90, 0, y));
        ASSERT_OK(ct_conv_backward_data(c, w, y, dx));
        ASSERT_OK(ops->convert(g, 1, 16, 90, d.src_layout, d.src_type, dx,
                               CT_PLAIN, CT_F32, plain));
        ASSERT_OK(ops->to_host(g, sizeof(got), plain, got));
        for (int j = 0; j < 16 * 90; j++)
            ASSERT_FLOAT(0, got[j], 0);
        ct_conv_destroy(c);
        ops->free(g, dx);
        ops->free(g, y);
        ops->free(g, w);
        ops->free(g, plain);
    }
}

TEST(conv_cuda, a_choice_is_kept_in_the_cache_folder_and_taken_again)
{
    const char *folder = test_folder();
    struct problem p;
    char path[512], *text = NULL;
    size_t n_bytes = 0;
    int n_lines    = 0;

    n_wrong = 0;
    test_defer(forget, NULL);
    ASSERT(unsetenv("CORTADO_CACHE") == 0);
    ASSERT(setenv("XDG_CACHE_HOME", folder, 1) == 0);
    problem_make(&shapes[0], &p);
    for (int twice = 0; twice < 2; twice++) {
        const struct ct_device *g = open_gpu(CT_TF32, true);
        struct ct_conv *c         = NULL;

        ASSERT_OK(ct_conv_create(g, &p.d, NULL, &c));
        solve(&p, g, c, twice ? "kept" : "measured", precisions[1].limit);
        ct_conv_destroy(c);
        ct_device_close(g);
    }
    snprintf(path, sizeof(path), "%s/cortado/gpu", folder);
    ASSERT_OK(ct_file_read(path, &text, &n_bytes));
    for (size_t i = 0; i < n_bytes; i++)
        n_lines += text[i] == '\n';
    ct_free(text);
    ASSERT_INT(3, n_lines); /* one a pass, not one a run */
    ASSERT_INT(0, n_wrong);
    problem_free(&p);
}
