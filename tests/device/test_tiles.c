/* test_tiles.c - weights in tiles: where each lies, and that convolutions on
 * them give what they give on plain ones, by every implementation. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/conv.h"
#include "device/layout.h"
#include "testing/test.h"

static float *values(int64_t n, uint64_t stream)
{
    float *p = ct_malloc((size_t)n * sizeof(*p), "test values");

    ASSERT(p != NULL);
    test_defer(ct_free, p);
    for (int64_t i = 0; i < n; i++)
        p[i] = 2 * ct_uniform(11, stream, (uint64_t)i) - 1;
    return p;
}

static float *turned(int64_t o, int64_t i, int64_t taps, const float *x,
                     bool in)
{
    float *y = values(o * i * taps, 0);

    ASSERT_OK(ct_layout_convert(ct_device_cpu(), o, i, taps,
                                in ? CT_PLAIN : CT_TILES16, x,
                                in ? CT_TILES16 : CT_PLAIN, y));
    return y;
}

TEST(tiles, hold_sixteen_outputs_of_an_input_and_a_tap_together)
{
    const int64_t o = 48, i = 32, taps = 6;
    const float *plain = values(o * i * taps, 1);
    const float *tiles = turned(o, i, taps, plain, true);
    const float *back  = turned(o, i, taps, tiles, false);

    for (int64_t a = 0; a < o; a++)
        for (int64_t b = 0; b < i; b++)
            for (int64_t t = 0; t < taps; t++) {
                const int64_t tile = a / 16 * (i / 16) + b / 16;
                const int64_t at   = ((tile * taps + t) * 16 + b % 16) * 16 +
                                   a % 16;

                ASSERT_FLOAT(plain[(a * i + b) * taps + t], tiles[at], 0);
            }
    for (int64_t k = 0; k < o * i * taps; k++)
        ASSERT_FLOAT(plain[k], back[k], 0);
}

struct shape {
    int64_t out, in, side, kernel, stride, pad;
};

/* Winograd's, of few channels and of many; 1x1 with strides; odd ones. */
static const struct shape shapes[] = {
    { 32, 48, 9, 3, 1, 1 }, { 128, 192, 6, 3, 1, 0 }, { 64, 16, 7, 1, 1, 0 },
    { 16, 32, 8, 1, 2, 0 }, { 32, 16, 11, 3, 2, 1 }, { 16, 16, 10, 5, 1, 2 },
};
static const char *const impls[] = { "cached", "winograd", "tiles", "onednn",
                                      "gemm", "ref" };

static struct ct_conv_desc desc_of(const struct shape *s,
                                   enum ct_layout layout)
{
    return (struct ct_conv_desc){
        .n_spatial = 2, .batch = 2, .in_channels = s->in,
        .out_channels = s->out, .group = 1, .in = { s->side, s->side },
        .kernel = { s->kernel, s->kernel }, .stride = { s->stride, s->stride },
        .pad = { s->pad, s->pad }, .dilation = { 1, 1 },
        .src_layout = layout, .dst_layout = layout,
    };
}

static void conv_free(void *c)
{
    ct_conv_destroy(c);
}

static void near(const struct shape *s, const char *impl, const char *what,
                 const float *want, const float *got, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(want[i] - got[i]) <= 1e-6f))
            FAIL("%s of %dx%d by %s: value %lld is %.9g, wanted %.9g", what,
                 (int)s->kernel, (int)s->kernel, impl, (long long)i,
                 (double)got[i], (double)want[i]);
}

/* Plain, in tiles, and plain again with one object. */
static void check(const struct shape *s, const char *impl,
                  enum ct_layout layout)
{
    const struct ct_conv_desc d = desc_of(s, layout);
    const int64_t taps = s->kernel * s->kernel, n_w = s->out * s->in * taps;
    const int64_t out = ct_conv_out(&d, 0);
    const int64_t n_x = 2 * s->in * s->side * s->side;
    const int64_t n_y = 2 * s->out * out * out;
    const float *x = values(n_x, 1), *dy = values(n_y, 2);
    const float *w = values(n_w, 3), *tiles = turned(s->out, s->in, taps, w,
                                                     true);
    float *y[3], *dx[3], *dw[3], *added[3];
    struct ct_conv *c = NULL;
    char text[64];
    enum ct_status st;

    snprintf(text, sizeof(text), "conv:%s", impl);
    setenv("CORTADO_IMPL", text, 1);
    st = ct_conv_create(ct_device_cpu(), &d, NULL, &c);
    unsetenv("CORTADO_IMPL");
    if (st == CT_ENOTSUP)
        return;
    ASSERT_OK(st);
    test_defer(conv_free, c);
    for (int i = 0; i < 3; i++) {
        const float *weights = i == 1 ? tiles : w;
        float *start         = values(n_w, 4);

        y[i]     = values(n_y, 5);
        dx[i]    = values(n_x, 5);
        dw[i]    = values(n_w, 5);
        added[i] = i == 1 ? turned(s->out, s->in, taps, start, true) : start;
        ASSERT_OK(ct_conv_set_tiles(c, i == 1));
        ASSERT_OK(ct_conv_forward(c, x, weights, NULL, y[i]));
        ASSERT_OK(ct_conv_backward_data(c, weights, dy, dx[i]));
        ASSERT_OK(ct_conv_write_weights(c, x, dy, dw[i], NULL));
        ASSERT_OK(ct_conv_backward_weights(c, x, dy, added[i], NULL));
        if (i == 1) {
            dw[i]    = turned(s->out, s->in, taps, dw[i], false);
            added[i] = turned(s->out, s->in, taps, added[i], false);
        }
    }
    for (int i = 1; i < 3; i++) {
        near(s, impl, "y", y[0], y[i], n_y);
        near(s, impl, "dx", dx[0], dx[i], n_x);
        near(s, impl, "dw", dw[0], dw[i], n_w);
        near(s, impl, "dw added", added[0], added[i], n_w);
    }
}

TEST(tiles, every_implementation_takes_them)
{
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (size_t i = 0; i < sizeof(impls) / sizeof(impls[0]); i++)
            check(&shapes[s], impls[i], CT_BLOCKED16);
}

TEST(tiles, plain_images_go_with_them)
{
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (size_t i = 0; i < sizeof(impls) / sizeof(impls[0]); i++)
            check(&shapes[s], impls[i], CT_PLAIN);
}

/* Which one runs may depend on the number of threads only where bits may. */
TEST(tiles, training_that_gives_the_same_bits_anywhere_does_not_count_threads)
{
    struct ct_conv_desc d = desc_of(&shapes[1], CT_BLOCKED16);
    struct ct_conv *c     = NULL;

    d.untuned = true;
    ASSERT_OK(ct_conv_create(ct_device_cpu(), &d, NULL, &c));
    test_defer(conv_free, c);
    ASSERT(strcmp("cached", ct_conv_impl_name(c)) != 0);
}
