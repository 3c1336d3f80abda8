/* test_mask_bits.c - the mask of a ReLU behind a sum with BatchNorm: bits of
 * the forward pass give what the values do, to the last bit.
 *
 * On a GPU, where CORTADO_TEST_DEVICE names one. */
#include <stdio.h>

#include "base/rng.h"
#include "layers/batch_norm.h"
#include "net_gpu.h"

#define SCALE(name, bottom)                                                  \
    "layer { name: '" name "' type: 'Scale' bottom: '" bottom "' "           \
    "  top: '" name "' scale_param { bias_term: true "                       \
    "  filler { type: 'uniform' min: 0.5 max: 2 } } }"

/* The end of a residual block that two layers read, without a layer whose
 * results need not repeat. */
static const char *const block =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'want' input_param { "
    "  shape { dim: %d dim: %d dim: %d dim: %d } "
    "  shape { dim: %d dim: %d dim: %d dim: %d } } }"
    SCALE("p", "x")
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'p' top: 'q' }"
    SCALE("sc", "q")
    "layer { name: 'sum' type: 'Eltwise' bottom: 'p' bottom: 'sc' top: 's' }"
    "layer { name: 'r' type: 'ReLU' bottom: 's' top: 's' }"
    SCALE("u", "s") SCALE("v", "s")
    "layer { name: 'w' type: 'Eltwise' bottom: 'u' bottom: 'v' top: 'w' }"
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'w' bottom: 'want' "
    "  top: 'l' }";

static struct ct_net *net_on(const struct ct_device *g, const int *d,
                             const char *impl)
{
    char text[2048];

    ASSERT(snprintf(text, sizeof(text), block, d[0], d[1], d[2], d[3], d[0],
                    d[1], d[2], d[3]) < (int)sizeof(text));
    return net_gpu(g, text, CAFFE__PHASE__TRAIN, impl);
}

static double pass(const struct ct_device *g, struct ct_net *net, uint64_t turn)
{
    net_gpu_draw(g, net_blob_named(net, "x"), 5, turn, 0);
    net_gpu_draw(g, net_blob_named(net, "want"), 6, turn, 0);
    return net_gpu_pass(g, net, true);
}

static const struct batch_norm *norm_of(const struct ct_net *net)
{
    return net_layer_named(net, "bn")->state;
}

/* Whether 16 bytes never cross the end of an image, or of a channel where they
 * are large. */
static bool fits(const struct batch_norm *s)
{
    const struct ct_channels *v = &s->view;
    const int64_t row = v->layout == CT_NHWC ? v->c
                        : v->inner < 256     ? v->c * v->inner
                                             : v->inner;

    return row * (int64_t)ct_dtype_bytes(v->dtype) % 16 == 0;
}

/* Passes one by one, and recorded ones from the third on. */
static void compare(const struct ct_device *g, const int *d, int *n_noted)
{
    struct ct_net *values = net_on(g, d, "signs:values");
    struct ct_net *bits;
    double want[5];

    for (uint64_t turn = 0; turn < 5; turn++)
        want[turn] = pass(g, values, turn);
    bits = net_on(g, d, "signs:bits");
    for (uint64_t turn = 0; turn < 5; turn++)
        if (pass(g, bits, turn) != want[turn])
            FAIL("%d x %d x %d x %d: another loss", d[0], d[1], d[2], d[3]);
    ASSERT_INT(0, net_gpu_near(g, "gradient", ct_net_arena_count(values),
                               ct_net_arena_diff(values),
                               ct_net_arena_diff(bits), 0));
    ASSERT(norm_of(bits)->sum && norm_of(bits)->relu);
    ASSERT(!norm_of(values)->noted);
    ASSERT_INT(fits(norm_of(bits)), norm_of(bits)->noted);
    *n_noted += norm_of(bits)->noted;
}

static int below(uint64_t draw, uint64_t i, int n)
{
    return (int)(ct_uniform(91, draw, i) * (float)n);
}

TEST(mask_bits, bits_are_as_good_as_values)
{
    static const enum ct_precision ways[] = { CT_FP32, CT_BF16_MIXED,
                                              CT_FP16_MIXED };
    static const int fixed[][4] = { { 700, 64, 1, 1 }, { 90, 520, 1, 1 },
                                    { 3, 5, 20, 20 }, { 3, 7, 13, 3 },
                                    { 2, 3, 40, 41 } };
    const size_t n_fixed = sizeof(fixed) / sizeof(fixed[0]);

    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        const struct ct_device *g = test_gpu(ways[w]);
        int n_noted = 0;

        for (size_t i = 0; i < n_fixed; i++)
            compare(g, fixed[i], &n_noted);
        for (uint64_t i = 0; i < 12; i++) {
            const int d[4] = { 2 + below(i, 0, 30), 1 + below(i, 1, 90),
                               1 + below(i, 2, 24), 1 + below(i, 3, 24) };

            compare(g, d, &n_noted);
        }
        ASSERT(n_noted >= 2);
    }
}
