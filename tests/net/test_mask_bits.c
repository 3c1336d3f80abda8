/* test_mask_bits.c - the mask of a ReLU behind a sum with BatchNorm: bits of
 * the forward pass give what the values do, to the last bit.
 *
 * On a GPU, where CORTADO_TEST_DEVICE names one. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "layers/batch_norm.h"
#include "net/training.h"
#include "net_test.h"

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

static void close_device(void *d)
{
    ct_device_close(d);
}

static void forget(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
}

static const struct ct_device *open_gpu(enum ct_precision p)
{
    const char *name          = getenv("CORTADO_TEST_DEVICE");
    const struct ct_device *g = NULL;

    if (!name || strncmp(name, "cuda", 4) != 0)
        test_skip("CORTADO_TEST_DEVICE names no GPU");
    ASSERT_OK(ct_device_cuda_open(0, p, &g));
    test_defer(close_device, (void *)(uintptr_t)g);
    test_defer(forget, NULL);
    return g;
}

static struct ct_net *net_on(const struct ct_device *g, const int *d,
                             const char *impl)
{
    char text[2048];

    ASSERT(snprintf(text, sizeof(text), block, d[0], d[1], d[2], d[3], d[0],
                    d[1], d[2], d[3]) < (int)sizeof(text));
    ASSERT(setenv("CORTADO_IMPL", impl, 1) == 0);
    return net_with(text, CAFFE__PHASE__TRAIN,
                    (struct ct_net_options){ .device = g });
}

static void draw(const struct ct_device *g, const struct ct_blob *b,
                 uint64_t key, uint64_t turn)
{
    float *v = ct_malloc((size_t)b->count * sizeof(*v), "test values");

    ASSERT(v != NULL);
    ASSERT_INT(CT_F32, b->data.dtype);
    for (int64_t i = 0; i < b->count; i++)
        v[i] = ct_normal(key, turn, (uint64_t)i);
    ASSERT_OK(g->ops->from_host(g, (size_t)b->count * sizeof(*v), v,
                                ct_data(b)));
    ASSERT_OK(g->ops->sync(g));
    ct_free(v);
}

static double pass(const struct ct_device *g, struct ct_net *net, uint64_t turn)
{
    double loss;

    draw(g, net_blob_named(net, "x"), 5, turn);
    draw(g, net_blob_named(net, "want"), 6, turn);
    ASSERT_OK(ct_net_forward_backward(net, true, &loss));
    ASSERT_OK(g->ops->sync(g));
    return loss;
}

static void same_gradients(const struct ct_device *g, const struct ct_net *a,
                           const struct ct_net *b)
{
    const size_t n = ct_net_arena_count(a);
    float *v = ct_malloc(2 * n * sizeof(*v), "test values"), *w = v + n;
    double most = 0;

    ASSERT(v != NULL);
    ASSERT_OK(g->ops->to_host(g, n * sizeof(*v), ct_net_arena_diff(a), v));
    ASSERT_OK(g->ops->to_host(g, n * sizeof(*w), ct_net_arena_diff(b), w));
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)v[i]));
        if (memcmp(v + i, w + i, sizeof(*v)) != 0)
            FAIL("gradient %zu is %.9g, wanted %.9g", i, (double)w[i],
                 (double)v[i]);
    }
    ASSERT(most > 1e-3);
    ct_free(v);
}

static const struct batch_norm *norm_of(const struct ct_net *net)
{
    const int i = ct_net_find_layer(net, "bn");

    ASSERT(i >= 0);
    return ct_net_layer(net, i)->state;
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
    same_gradients(g, values, bits);
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
        const struct ct_device *g = open_gpu(ways[w]);
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
