/* test_slabs.c - the gradient of weights from float16 images (conv_slabs.h), in
 * every form, and from float32 images that are scaled (conv_scale.h).
 *
 * Runs where CORTADO_TEST_DEVICE names a GPU, but what cuts the product, which
 * needs none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/conv.h"
#include "device/cuda/slab_cut.h"
#include "testing/gpu.h"
#ifdef CT_HAVE_CUDA
#include "device/cuda/conv_scale.h"
#include "device/cuda/conv_slabs.h"
#endif

static const struct shape {
    int64_t batch, channels, outputs, in[2], kernel[2], stride[2], pad[2];
    int64_t dilation[2];
} shapes[] = {
    { 5, 72, 136, { 13, 11 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
    { 3, 64, 64, { 56, 28 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
    { 16, 256, 64, { 7, 7 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
    { 4, 64, 200, { 15, 14 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
    { 2, 24, 48, { 14, 14 }, { 5, 5 }, { 1, 1 }, { 2, 2 }, { 1, 1 } },
    { 3, 8, 16, { 9, 10 }, { 3, 2 }, { 1, 3 }, { 2, 1 }, { 2, 1 } },
    { 1, 128, 192, { 4, 4 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static struct ct_conv_desc desc_of(const struct shape *s)
{
    struct ct_conv_desc d = { .n_spatial = 2, .batch = s->batch,
                              .in_channels  = s->channels,
                              .out_channels = s->outputs, .group = 1,
                              .src_layout = CT_NHWC, .dst_layout = CT_NHWC };

    memcpy(d.in, s->in, sizeof(s->in));
    memcpy(d.kernel, s->kernel, sizeof(s->kernel));
    memcpy(d.stride, s->stride, sizeof(s->stride));
    memcpy(d.pad, s->pad, sizeof(s->pad));
    memcpy(d.dilation, s->dilation, sizeof(s->dilation));
    return d;
}

TEST(slabs, boxes_cover_every_position_and_shares_every_box)
{
    static const struct ct_slab_form forms[] = { { 2, 2, 3, 112, 1 },
                                                 { 3, 3, 3, 64, 1 },
                                                 { 4, 4, 2, 64, 3 },
                                                 { 1, 3, 3, 48, 1 } };

    for (int i = 0; i < N_SHAPES; i++)
        for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
            const struct ct_conv_desc d = desc_of(&shapes[i]);
            struct ct_slab_shape s = { .batch = d.batch,
                                       .channels = d.in_channels,
                                       .outputs  = d.out_channels };
            struct ct_slabs cut = { 0 };
            int images;

            for (int k = 0; k < 2; k++) {
                s.out[k]      = ct_conv_out(&d, k);
                s.kernel[k]   = d.kernel[k];
                s.stride[k]   = d.stride[k];
                s.dilation[k] = d.dilation[k];
            }
            ASSERT(ct_slabs_cut(&s, &forms[f], 132, &cut));
            images = cut.boxes / cut.n_box[0] / cut.n_box[1];
            ASSERT(cut.n_box[0] * cut.box[0] >= s.out[1]);
            ASSERT(cut.n_box[1] * cut.box[1] >= s.out[0]);
            ASSERT(images * cut.box[2] >= d.batch);
            ASSERT_INT(cut.positions, cut.box[0] * cut.box[1] * cut.box[2]);
            ASSERT_INT(0, cut.positions % 16);
            ASSERT(cut.positions <= forms[f].positions);
            ASSERT(cut.shares >= 1 && cut.shares <= cut.boxes);
            ASSERT(cut.stages * ct_slab_stage(&cut, &forms[f]) <=
                   CT_SLAB_SHARED);
        }
}

#ifdef CT_HAVE_CUDA

/* NHWC images and what the gradient should be, added up in double. */
struct problem {
    struct ct_conv_desc d;
    int64_t             n_x, n_y, n_w, taps, out[2];
    float              *x, *dy;
    double             *dw;
};

static void add_position(struct problem *p, int64_t image, int64_t y, int64_t x)
{
    const struct ct_conv_desc *d = &p->d;
    const int64_t c = d->in_channels, o = d->out_channels;
    const float *dy = p->dy + ((image * p->out[0] + y) * p->out[1] + x) * o;

    for (int64_t t = 0; t < p->taps; t++) {
        const int64_t i = y * d->stride[0] - d->pad[0] +
                          t / d->kernel[1] * d->dilation[0];
        const int64_t j = x * d->stride[1] - d->pad[1] +
                          t % d->kernel[1] * d->dilation[1];
        const float *v = p->x + ((image * d->in[0] + i) * d->in[1] + j) * c;

        if (i < 0 || j < 0 || i >= d->in[0] || j >= d->in[1])
            continue;
        for (int64_t a = 0; a < o; a++)
            for (int64_t b = 0; b < c; b++)
                p->dw[(a * c + b) * p->taps + t] +=
                    (double)dy[a] * (double)v[b];
    }
}

static void solve(struct problem *p)
{
    for (int64_t i = 0; i < p->n_w; i++)
        p->dw[i] = 0;
    for (int64_t i = 0; i < p->d.batch; i++)
        for (int64_t y = 0; y < p->out[0]; y++)
            for (int64_t x = 0; x < p->out[1]; x++)
                add_position(p, i, y, x);
}

/* Small whole numbers: their products and sums are exact in every type. */
static void problem_make(const struct shape *s, struct problem *p)
{
    struct ct_conv_desc d = desc_of(s);

    *p = (struct problem){ .d = d, .taps = d.kernel[0] * d.kernel[1],
                           .out = { ct_conv_out(&d, 0), ct_conv_out(&d, 1) } };
    p->n_x = d.batch * d.in_channels * d.in[0] * d.in[1];
    p->n_y = d.batch * d.out_channels * p->out[0] * p->out[1];
    p->n_w = d.out_channels * d.in_channels * p->taps;
    p->x   = test_values(p->n_x, sizeof(float));
    p->dy  = test_values(p->n_y, sizeof(float));
    p->dw  = test_values(p->n_w, sizeof(*p->dw));
    for (int64_t i = 0; i < p->n_x; i++)
        p->x[i] = floorf(17 * ct_uniform(1, 0, (uint64_t)i)) - 8;
    for (int64_t i = 0; i < p->n_y; i++)
        p->dy[i] = floorf(17 * ct_uniform(1, 1, (uint64_t)i)) - 8;
}

static void problem_free(struct problem *p)
{
    ct_free(p->x);
    ct_free(p->dy);
    ct_free(p->dw);
}

/* Skips the test where there is none, or one without these instructions. */
static const struct ct_device *open_gpu(enum ct_precision precision)
{
    const struct ct_device *g = test_gpu(precision);
    struct ct_conv_desc d     = desc_of(&shapes[0]);
    struct ct_conv *c         = NULL;
    size_t bytes;
    bool takes;

    ASSERT_OK(ct_conv_create(g, &d, NULL, &c));
    takes = ct_cuda_slabs_takes(c, 0, &bytes);
    ct_conv_destroy(c);
    if (!takes)
        test_skip("a GPU without Hopper's tensor cores");
    return g;
}

/* The gradient in one form, added to ones. */
static bool run_form(const struct ct_device *g, const struct problem *p,
                     int form, float *got)
{
    struct ct_conv_desc d = p->d;
    struct ct_conv *c     = NULL;
    void *x = NULL, *dy = NULL, *dw = NULL, *part = NULL;
    size_t bytes = 0;
    bool takes;

    d.src_type = d.dst_type = CT_F16;
    ASSERT_OK(ct_conv_create(g, &d, NULL, &c));
    takes = ct_cuda_slabs_takes(c, form, &bytes);
    if (takes) {
        x  = gpu_bring(g, p->n_x, CT_F16, p->x);
        dy = gpu_bring(g, p->n_y, CT_F16, p->dy);
        ASSERT_OK(g->ops->alloc(g, bytes, "test", &part));
        ASSERT_OK(g->ops->alloc(g, (size_t)p->n_w * sizeof(float), "test",
                                &dw));
        ASSERT_OK(g->ops->fill(g, (int64_t)(bytes / sizeof(float)), NAN,
                               part));
        ASSERT_OK(g->ops->fill(g, p->n_w, 1, dw));
        ASSERT_OK(ct_cuda_slabs_gradient(c, form, x, dy, NULL, part, dw));
        ASSERT_OK(g->ops->to_host(g, (size_t)p->n_w * sizeof(float), dw, got));
        g->ops->free(g, x);
        g->ops->free(g, dy);
        g->ops->free(g, part);
        g->ops->free(g, dw);
    }
    ct_conv_destroy(c);
    return takes;
}

TEST(slabs, every_form_adds_the_exact_gradient)
{
    const struct ct_device *g = open_gpu(CT_FP16_MIXED);
    int n_wrong               = 0;

    for (int i = 0; i < N_SHAPES; i++) {
        struct problem p;
        float *got;

        problem_make(&shapes[i], &p);
        solve(&p);
        got = test_values(p.n_w, sizeof(float));
        for (int form = 0; form < CT_SLABS_FORMS; form++) {
            ASSERT(run_form(g, &p, form, got));
            for (int64_t j = 0; j < p.n_w; j++)
                if (!((double)got[j] == p.dw[j] + 1)) {
                    printf("shape %d, form %d, value %lld is %.9g, wanted "
                           "%.9g\n", i, form, (long long)j, (double)got[j],
                           p.dw[j] + 1);
                    n_wrong++;
                    break;
                }
        }
        ct_free(got);
        problem_free(&p);
    }
    ASSERT_INT(0, n_wrong);
}

/* A convolution of the problem's, as CORTADO_IMPL=force has it. */
static struct ct_conv *forced(const struct ct_device *g,
                              const struct problem *p, const char *force)
{
    struct ct_conv *c = NULL;

    ASSERT(setenv("CORTADO_IMPL", force, 1) == 0);
    ASSERT_OK(ct_conv_create(g, &p->d, NULL, &c));
    ASSERT(unsetenv("CORTADO_IMPL") == 0);
    return c;
}

/* The gradient of weights, by one more pass. */
static void run_pass(const struct ct_device *g, const struct problem *p,
                     struct ct_conv *c, float *got)
{
    void *x, *dy, *dw = NULL;

    x  = gpu_bring(g, p->n_x, CT_F32, p->x);
    dy = gpu_bring(g, p->n_y, CT_F32, p->dy);
    ASSERT_OK(g->ops->alloc(g, (size_t)p->n_w * sizeof(float), "test", &dw));
    ASSERT_OK(g->ops->fill(g, p->n_w, 0, dw));
    ASSERT_OK(ct_conv_backward_weights(c, x, dy, dw, NULL));
    ASSERT_OK(g->ops->to_host(g, (size_t)p->n_w * sizeof(float), dw, got));
    g->ops->free(g, x);
    g->ops->free(g, dy);
    g->ops->free(g, dw);
}

/* In tf32, by one way through the convolution. */
static void run_way(const struct ct_device *g, const struct problem *p,
                    const char *way, float *got)
{
    struct ct_conv *c;
    char force[32];

    snprintf(force, sizeof(force), "conv:%s", way);
    c = forced(g, p, force);
    ASSERT(strcmp(way, ct_conv_impl_name(c)) == 0);
    run_pass(g, p, c, got);
    ct_conv_destroy(c);
}

/* Powers of two between 2^-45 and 2^45, one a channel. */
static float power_of(int64_t channel)
{
    return ldexpf(1, (int)(channel * 37 % 91) - 45);
}

/* The error of all gradients, each in the measure of its channels. */
static double error_of(const struct problem *p, const float *got)
{
    const int64_t c = p->d.in_channels;
    double wrong = 0, all = 0;

    for (int64_t i = 0; i < p->n_w; i++) {
        const double by = (double)power_of(i / p->taps / c + 3) *
                          (double)power_of(i / p->taps % c);
        const double e = ((double)got[i] - p->dw[i]) / by;

        wrong += e * e;
        all += p->dw[i] / by * (p->dw[i] / by);
    }
    return sqrt(wrong / all);
}

TEST(slabs, scaled_images_are_as_good_as_tf32_whatever_their_magnitudes)
{
    const struct ct_device *g = open_gpu(CT_TF32);
    struct problem p;
    double ours, theirs;
    float *got;

    problem_make(&shapes[1], &p);
    for (int64_t i = 0; i < p.n_x; i++)
        p.x[i] = (2 * ct_uniform(2, 0, (uint64_t)i) - 1) *
                 power_of(i % p.d.in_channels);
    for (int64_t i = 0; i < p.n_y; i++)
        p.dy[i] = (2 * ct_uniform(2, 1, (uint64_t)i) - 1) *
                  power_of(i % p.d.out_channels + 3);
    solve(&p);
    got = test_values(p.n_w, sizeof(float));
    run_way(g, &p, "slabs", got);
    ours = error_of(&p, got);
    run_way(g, &p, "whole", got);
    theirs = error_of(&p, got);
    printf("relative errors: scaled float16 %.2e, tf32 %.2e\n", ours, theirs);
    ASSERT(ours <= 1.01 * theirs && ours < 5e-4);
    ct_free(got);
    problem_free(&p);
}

TEST(slabs, what_is_not_finite_shows_in_its_channels_alone)
{
    enum { X_NAN = 5, X_INF = 20, DY_INF = 7 };
    const struct ct_device *g = open_gpu(CT_TF32);
    struct problem p;
    float *got;

    problem_make(&shapes[1], &p);
    solve(&p);
    /* The same position, in the middle of an image. */
    p.x[(28 * 28 + 14) * p.d.in_channels + X_NAN] = NAN;
    p.x[(28 * 28 + 14) * p.d.in_channels + X_INF] = INFINITY;
    p.dy[(28 * 28 + 14) * p.d.out_channels + DY_INF] = -INFINITY;
    got = test_values(p.n_w, sizeof(float));
    run_way(g, &p, "slabs", got);
    for (int64_t i = 0; i < p.n_w; i++) {
        const int64_t o = i / p.taps / p.d.in_channels;
        const int64_t c = i / p.taps % p.d.in_channels;
        const bool hit  = o == DY_INF || c == X_NAN || c == X_INF;

        if (hit)
            ASSERT(!isfinite(got[i]));
        else
            ASSERT_FLOAT((float)p.dw[i], got[i], 0);
    }
    ct_free(got);
    problem_free(&p);
}

static uint64_t draw(uint64_t turn, uint64_t i, uint64_t below)
{
    return (uint64_t)(ct_uniform(7, turn, i) * (float)below) % below;
}

/* Rows of channels of all magnitudes, some of zeros, a few not finite. */
static void draw_image(uint64_t turn, int64_t rows, int64_t channels, float *x)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY };

    for (int64_t c = 0; c < channels; c++) {
        const uint64_t kind = draw(turn, (uint64_t)c, 12);
        const int power     = (int)draw(turn + 1, (uint64_t)c, 250) - 125;

        for (int64_t r = 0; r < rows; r++) {
            const uint64_t at = (uint64_t)(r * channels + c);
            const float v     = 2 * ct_uniform(8, turn, at) - 1;

            /* Some are far below their channel's largest. */
            x[at] = kind == 0 ? (v < 0 ? -0.0f : 0)
                              : ldexpf(v, power - (int)(at % 7) * 6);
        }
        if (kind == 1)
            x[(int64_t)draw(turn + 2, (uint64_t)c, (uint64_t)rows) * channels +
              c] = odd[c % 3];
    }
}

/* Scales an image of drawn size; `known` is what the pass before is said to
 * have seen, NULL: two passes.  `to` and `largest` are the results. */
static void scale(const struct ct_device *g, int64_t rows, int64_t channels,
                  const float *x, const uint32_t *known, uint16_t *to,
                  uint32_t *largest)
{
    const size_t all = (size_t)(rows * channels), n = (size_t)channels;
    void *from = NULL, *most = NULL, *before = NULL, *out = NULL;

    ASSERT_OK(g->ops->alloc(g, all * sizeof(float), "test", &from));
    ASSERT_OK(g->ops->alloc(g, all * sizeof(float), "test", &out));
    ASSERT_OK(g->ops->alloc(g, n * sizeof(float), "test", &most));
    ASSERT_OK(g->ops->alloc(g, n * sizeof(float), "test", &before));
    ASSERT_OK(g->ops->from_host(g, all * sizeof(float), x, from));
    ASSERT_OK(g->ops->fill(g, (int64_t)all, NAN, out));
    ASSERT_OK(g->ops->fill(g, channels, INFINITY, most));
    if (known) {
        ASSERT_OK(g->ops->from_host(g, n * sizeof(*known), known, most));
        ASSERT_OK(g->ops->from_host(g, n * sizeof(*known), known, before));
        ASSERT_OK(ct_cuda_scale_begin(g, channels, most, before));
    }
    ASSERT_OK(ct_cuda_scale_in(g, rows, channels, from, most,
                               known ? before : NULL, out));
    ASSERT_OK(g->ops->to_host(g, all * sizeof(*to), out, to));
    ASSERT_OK(g->ops->to_host(g, n * sizeof(*largest), most, largest));
    g->ops->free(g, from);
    g->ops->free(g, out);
    g->ops->free(g, most);
    g->ops->free(g, before);
}

/* What an earlier pass may have seen of a channel whose largest value is
 * `is`: the same, one of a class nearby, or anything at all. */
static uint32_t guess(uint64_t turn, uint64_t c, uint32_t is)
{
    switch (draw(turn + 3, c, 5)) {
    case 0:
        return is;
    case 1:
        return is + (1u << 23);
    case 2:
        return is - (8u << 23);
    case 3:
        return 0;
    default:
        return (uint32_t)(draw(turn + 4, c, 1 << 16) << 16);
    }
}

TEST(slabs, images_scaled_in_one_pass_have_the_bits_of_two)
{
    const struct ct_device *g = open_gpu(CT_TF32);

    for (uint64_t turn = 0; turn < 200; turn += 5) {
        const int64_t channels = 1 + (int64_t)draw(turn, 1000, 300);
        const int64_t rows     = 1 + (int64_t)draw(turn, 1001, 4000);
        const size_t all       = (size_t)(rows * channels);
        float *x               = test_values((int64_t)all, sizeof(float));
        uint32_t most[3][512];
        uint16_t *to[2];

        draw_image(turn, rows, channels, x);
        for (int i = 0; i < 2; i++)
            to[i] = test_values((int64_t)all, sizeof(*to[i]));
        scale(g, rows, channels, x, NULL, to[0], most[0]);
        for (int64_t c = 0; c < channels; c++)
            most[2][c] = guess(turn, (uint64_t)c, most[0][c]);
        scale(g, rows, channels, x, most[2], to[1], most[1]);
        for (int64_t c = 0; c < channels; c++)
            ASSERT_INT(most[0][c], most[1][c]);
        for (size_t i = 0; i < all; i++)
            if (to[0][i] != to[1][i])
                FAIL("%lld rows of %lld: value %zu is %04x, wanted %04x",
                     (long long)rows, (long long)channels, i,
                     (unsigned)to[1][i], (unsigned)to[0][i]);
        ct_free(to[0]);
        ct_free(to[1]);
        ct_free(x);
    }
}

/* Every step has other magnitudes: some channels grow, some shrink, some
 * vanish and come back. */
TEST(slabs, steps_before_leave_no_trace)
{
    static const int tried[] = { 0, 3, 5 };
    const struct ct_device *g = open_gpu(CT_TF32);

    for (int i = 0; i < 3; i++) {
        struct ct_conv *once, *twice;
        struct problem p;
        float *want, *got;

        problem_make(&shapes[tried[i]], &p);
        want = test_values(p.n_w, sizeof(float));
        got  = test_values(p.n_w, sizeof(float));
        once = forced(g, &p, "conv:slabs");
        for (uint64_t turn = 0; turn < 40; turn += 5) {
            draw_image(turn, p.n_x / p.d.in_channels, p.d.in_channels, p.x);
            draw_image(turn + 500, p.n_y / p.d.out_channels, p.d.out_channels,
                       p.dy);
            run_pass(g, &p, once, got);
            twice = forced(g, &p, "conv:slabs,scale:twice");
            run_pass(g, &p, twice, want);
            ct_conv_destroy(twice);
            for (int64_t k = 0; k < p.n_w; k++)
                if (memcmp(want + k, got + k, sizeof(*got)) != 0 &&
                    !(isnan(want[k]) && isnan(got[k])))
                    FAIL("shape %d, step %d, value %lld is %.9g, wanted %.9g",
                         tried[i], (int)turn / 5, (long long)k,
                         (double)got[k], (double)want[k]);
        }
        ct_conv_destroy(once);
        ct_free(want);
        ct_free(got);
        problem_free(&p);
    }
}

#endif
