/* test_norms.c - two BatchNorms whose outputs are added: one pass that
 * normalises both gives what two do, in float32 to the last bit.
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

#define NORM(name, bottom)                                                   \
    "layer { name: '" name "' type: 'BatchNorm' bottom: '" bottom "' "       \
    "  top: '" name "' %s }"

/* The end of a residual block with a convolution in both branches, without a
 * layer whose results need not repeat. */
static const char *const block =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'want' input_param { "
    "  shape { dim: %d dim: %d dim: %d dim: %d } "
    "  shape { dim: %d dim: %d dim: %d dim: %d } } }"
    SCALE("p", "x") SCALE("q", "x")
    NORM("side", "p") SCALE("side_sc", "side")
    NORM("bn", "q") SCALE("sc", "bn")
    "layer { name: 'sum' type: 'Eltwise' bottom: 'side_sc' bottom: 'sc' "
    "  top: 's' }"
    "%s"
    SCALE("u", "s") SCALE("v", "s")
    "layer { name: 'w' type: 'Eltwise' bottom: 'u' bottom: 'v' top: 'w' }"
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'w' bottom: 'want' "
    "  top: 'l' }";
static const char *const relu =
    "layer { name: 'r' type: 'ReLU' bottom: 's' top: 's' }";
static const char *const frozen =
    "batch_norm_param { use_global_stats: true eps: 1 }";

/* What a net has: a ReLU behind the sum; in the other branch statistics that
 * stand, so that two passes it is. */
struct kind {
    bool relu, global;
};

static struct ct_net *net_on(const struct ct_device *g, const int *d,
                             const struct kind *k, const char *impl)
{
    char text[3072];

    ASSERT(snprintf(text, sizeof(text), block, d[0], d[1], d[2], d[3], d[0],
                    d[1], d[2], d[3], k->global ? frozen : "", "",
                    k->relu ? relu : "") < (int)sizeof(text));
    return net_gpu(g, text, CAFFE__PHASE__TRAIN, impl);
}

static double pass(const struct ct_device *g, struct ct_net *net, uint64_t turn)
{
    net_gpu_draw(g, net_blob_named(net, "x"), 5, turn, 0);
    net_gpu_draw(g, net_blob_named(net, "want"), 6, turn, 0);
    return net_gpu_pass(g, net, true);
}

static const struct batch_norm *norm_of(const struct ct_net *net,
                                        const char *name)
{
    return net_layer_named(net, name)->state;
}

/* Passes one by one, and recorded ones from the third on.  `off`: how far
 * values may be from each other; 0: they are the same to the last bit. */
static void compare(const struct ct_device *g, const int *d,
                    const struct kind *k, double off)
{
    struct ct_net *each = net_on(g, d, k, "norms:each");
    const size_t n      = ct_net_arena_count(each);
    size_t n_others     = 0;
    struct ct_net *one;
    double want[5];

    for (uint64_t turn = 0; turn < 5; turn++)
        want[turn] = pass(g, each, turn);
    one = net_on(g, d, k, "norms:one");
    for (uint64_t turn = 0; turn < 5; turn++) {
        const double got = pass(g, one, turn);

        if (!(fabs(got - want[turn]) <= off * fabs(want[turn])))
            FAIL("%d x %d x %d x %d: loss %.9g, wanted %.9g", d[0], d[1],
                 d[2], d[3], got, want[turn]);
    }
    n_others += net_gpu_near(g, "gradient", n, ct_net_arena_diff(each),
                             ct_net_arena_diff(one), off);
    n_others += net_gpu_near(g, "parameter", n, ct_net_arena_data(each),
                             ct_net_arena_data(one), off);
    ASSERT(off > 0 || n_others == 0);
    ASSERT(norm_of(one, "bn")->sum);
    ASSERT(!norm_of(each, "side")->left);
    ASSERT_INT(!k->global, norm_of(one, "side")->left != NULL);
}

static int below(uint64_t draw, uint64_t i, int n)
{
    return (int)(ct_uniform(91, draw, i) * (float)n);
}

TEST(norms, one_pass_is_as_good_as_two)
{
    static const enum ct_precision ways[] = { CT_FP32, CT_BF16_MIXED,
                                              CT_FP16_MIXED };
    static const struct kind kinds[] = { { true, false }, { false, false },
                                         { true, true } };
    static const int fixed[][4] = { { 700, 64, 1, 1 }, { 90, 520, 1, 1 },
                                    { 3, 5, 20, 20 }, { 3, 7, 13, 3 },
                                    { 2, 3, 40, 41 } };
    const int n_fixed = sizeof(fixed) / sizeof(fixed[0]);

    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        const struct ct_device *g = test_gpu(ways[w]);
        const double off          = ways[w] == CT_FP32 ? 0 : 0.1;

        for (int i = 0; i < n_fixed + 10; i++) {
            const uint64_t c = (uint64_t)i;
            const int d[4] = { 8 + below(c, 0, 30), 1 + below(c, 1, 90),
                               1 + below(c, 2, 24), 1 + below(c, 3, 24) };

            compare(g, i < n_fixed ? fixed[i] : d, &kinds[i % 3], off);
        }
    }
}
