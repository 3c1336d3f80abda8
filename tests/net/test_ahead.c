/* test_ahead.c - weights of convolutions that get their form before their turn
 * (CORTADO_IMPL=weights:ahead) give what they give at their turn.
 *
 * Nets of drawn shapes are trained with and without it; weights change after
 * every pass, so that those of a pass before would be seen.  The first two
 * passes run as they come, the others are replayed.  CORTADO_TEST_DEVICE names
 * the device; on a CPU both are the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "net_test.h"

enum { TEXT = 8192, PASSES = 7 };

static int draw(int n, uint64_t i, uint64_t k)
{
    return (int)(ct_philox_word(33, i, k) % (uint32_t)n);
}

static void add(char *text, const char *more)
{
    const size_t n = strlen(text);

    ASSERT(n + strlen(more) < TEXT);
    memcpy(text + n, more, strlen(more) + 1);
}

enum kind { PLAIN, GROUPS, SHARED };

/* `n` convolutions behind each other, some of them with a ReLU; some in groups,
 * or the last but one with the weights of the one before. */
static void write_net(uint64_t i, int n, enum kind kind, char *text)
{
    const bool shares = kind == SHARED;
    int channels      = 1 + draw(5, i, 0);
    char one[512];

    snprintf(text, TEXT,
             "layer { name: 'in' type: 'Input' top: 'c0' top: 'label' "
             "  input_param { shape { dim: %d dim: %d dim: %d dim: %d } "
             "                shape { dim: %d } } }",
             2 + draw(4, i, 1), channels, 6 + draw(7, i, 2),
             6 + draw(7, i, 3), 2 + draw(4, i, 1));
    for (int k = 1; k <= n; k++) {
        const uint64_t at = (uint64_t)k;
        const bool same   = shares && (k == n - 1 || k == n - 2);
        const bool parts  = kind == GROUPS && channels % 2 == 0;
        const int outputs = shares ? 8 : 2 * (1 + draw(12, i, 20 + at));
        const int kernel  = shares || draw(3, i, 40 + at) ? 3 : 1;

        snprintf(one, sizeof(one),
                 "layer { name: 'c%d' type: 'Convolution' bottom: 'c%d' "
                 "  top: 'c%d' %s convolution_param { num_output: %d "
                 "  kernel_size: %d pad: %d group: %d "
                 "  weight_filler { type: 'xavier' } } }", k, k - 1, k,
                 same ? "param { name: 'w' } param { name: 'b' }" : "",
                 outputs, kernel, kernel / 2, parts ? 2 : 1);
        add(text, one);
        channels = outputs;
        if (draw(2, i, 60 + at) == 0)
            continue;
        snprintf(one, sizeof(one),
                 "layer { name: 'r%d' type: 'ReLU' bottom: 'c%d' top: 'c%d' }",
                 k, k, k);
        add(text, one);
    }
    snprintf(one, sizeof(one),
             "layer { name: 'fc' type: 'InnerProduct' bottom: 'c%d' "
             "  top: 'fc' inner_product_param { num_output: 3 "
             "  weight_filler { type: 'xavier' } } }"
             "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' "
             "  bottom: 'label' top: 'l' }", n);
    add(text, one);
}

static struct ct_net *built(const char *text, const char *impl)
{
    struct ct_net_options o = { .device = test_device() };
    struct ct_net *net;

    setenv("CORTADO_IMPL", impl, 1);
    net = net_with(text, CAFFE__PHASE__TRAIN, o);
    unsetenv("CORTADO_IMPL");
    return net;
}

/* One pass, as CORTADO_IMPL has it, and a step down the gradient. */
static double pass(struct ct_net *net, const char *impl, uint64_t turn)
{
    struct ct_blob *x = net_blob_named(net, "c0");
    struct ct_blob *y = net_blob_named(net, "label");
    double loss;

    for (int64_t i = 0; i < x->count; i++)
        ct_data(x)[i] = ct_normal(5, turn, (uint64_t)i);
    for (int64_t i = 0; i < y->count; i++)
        ct_data(y)[i] = (float)(i % 3);
    setenv("CORTADO_IMPL", impl, 1);
    ASSERT_OK(ct_net_forward_backward(net, true, &loss));
    unsetenv("CORTADO_IMPL");
    net_settle();
    for (int p = 0; p < ct_net_n_params(net); p++) {
        const struct ct_blob *b = ct_net_param(net, p)->blob;

        for (int64_t k = 0; k < b->count; k++)
            ct_data(b)[k] -= 0.05f * ct_diff(b)[k];
    }
    return loss;
}

/* The same engines run in the same order: nothing differs but when weights get
 * their form.  Gradients of some engines do not repeat to the bit. */
static void same_weights(uint64_t i, struct ct_net *want, struct ct_net *got)
{
    for (int p = 0; p < ct_net_n_params(want); p++) {
        const struct ct_blob *a = ct_net_param(want, p)->blob;
        const struct ct_blob *b = ct_net_param(got, p)->blob;

        for (int64_t k = 0; k < a->count; k++)
            if (!(fabsf(ct_data(a)[k] - ct_data(b)[k]) <= 1e-4f))
                FAIL("net %d, parameter %d, value %lld is %.9g, wanted %.9g",
                     (int)i, p, (long long)k, (double)ct_data(b)[k],
                     (double)ct_data(a)[k]);
    }
}

static void check(uint64_t i, int n, enum kind kind, const char *ways)
{
    struct ct_net *at_turn, *ahead;
    char text[TEXT], turn[96], before[96];
    double first = 0, last = 0;

    write_net(i, n, kind, text);
    snprintf(turn, sizeof(turn), "%sengines:repeating,replay:none", ways);
    snprintf(before, sizeof(before), "%sengines:repeating,weights:ahead",
             ways);
    at_turn = built(text, turn);
    ahead   = built(text, before);
    for (uint64_t k = 0; k < PASSES; k++) {
        const double want = pass(at_turn, turn, k);

        ASSERT_FLOAT(want, pass(ahead, before, k), 1e-4);
        first = k == 0 ? want : first;
        last  = want;
    }
    ASSERT(first != last);
    same_weights(i, at_turn, ahead);
}

TEST(ahead, weights_made_before_their_turn_are_the_same)
{
    for (uint64_t i = 0; i < 8; i++)
        check(i, 1 + draw(7, i, 5), PLAIN, "");
    for (uint64_t i = 8; i < 12; i++)
        check(i, 4, GROUPS, "");
}

TEST(ahead, so_are_those_for_our_own_kernels)
{
    for (uint64_t i = 12; i < 18; i++)
        check(i, 1 + draw(5, i, 5), PLAIN,
              test_device()->kind == CT_CUDA ? "conv:patch," : "");
}

TEST(ahead, so_are_weights_that_layers_share)
{
    for (uint64_t i = 20; i < 24; i++)
        check(i, 5, SHARED, "");
}
