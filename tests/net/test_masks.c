/* test_masks.c - a pooling or an LRN that masks gradients for the convolution
 * before it gives what both give one by one; so does a max pooling that clamps
 * for a ReLU behind it.
 *
 * Nets of drawn shapes are built with CORTADO_IMPL=mask:all and clamp:pool,
 * as they come and with fuse:none, and trained on the same numbers.
 * CORTADO_TEST_DEVICE names the device; on a CPU they do nothing for others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "layers/lrn.h"
#include "layers/pooling.h"
#include "net_test.h"

/* What comes between the convolution c and the inner product of p. */
#define POOL(window, more)                                                   \
    "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p' " more           \
    "  pooling_param { " window " } }"
#define RELU(more)                                                           \
    "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' " more "}"

enum { TEXT = 4096 };

struct sizes {
    int n, h, w, outputs;
};

/* `words`: more of the convolution c. */
static void write_net(const struct sizes *s, const char *words,
                      const char *between, char *text)
{
    snprintf(text, TEXT,
             "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
             "  input_param { shape { dim: %d dim: 8 dim: %d dim: %d } "
             "                shape { dim: %d } } }"
             "layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' "
             "  convolution_param { num_output: 8 kernel_size: 1 "
             "  } }"
             "layer { name: 'c' type: 'Convolution' bottom: 'a' top: 'c' "
             "  convolution_param { num_output: %d kernel_size: 3 pad: 1 "
             "  %s } } %s"
             "layer { name: 'fc' type: 'InnerProduct' bottom: 'p' top: 'fc' "
             "  inner_product_param { num_output: 3 } }"
             "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' "
             "  bottom: 'label' top: 'l' }",
             s->n, s->h, s->w, s->n, s->outputs, words, between);
}

static int draw(int n, uint64_t i, uint64_t k)
{
    return (int)(ct_philox_word(21, i, k) % (uint32_t)n);
}

static bool is_gpu(void)
{
    return test_device()->kind == CT_CUDA;
}

/* Whether channels are to be last, as layers need it that mask for others. */
static bool nhwc(void)
{
    return is_gpu() && ct_device_prefers_nhwc(test_device());
}

/* Weights of -1, 0 and 1 and images of the same give a y of small whole
 * numbers, which no way through a convolution and no precision rounds: else
 * another value of a window might be its largest.  With these biases many
 * windows have nothing above 0.  Those of the inner product keep the loss
 * small. */
static void fill(struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_blob *b = ct_net_param(net, i)->blob;
        const bool last         = i >= ct_net_n_params(net) - 2;
        const bool bias         = i == 3;

        for (int64_t k = 0; k < b->count; k++) {
            const uint64_t at = (uint64_t)k, of = 100 + (uint64_t)i;

            ct_data(b)[k] = last   ? (float)(draw(3, of, at) - 1) / 512
                            : bias ? (float)-draw(31, of, at)
                                   : (float)(draw(3, of, at) - 1);
        }
    }
}

/* conv:ref takes plain float32 alone, and so would the whole net with it. */
static struct ct_net *built(const char *text, const char *more)
{
    struct ct_net_options o = { .device = test_device() };
    struct ct_net *net;
    char impl[96];

    snprintf(impl, sizeof(impl), "%s%s", nhwc() ? "" : "conv:ref,", more);
    setenv("CORTADO_IMPL", impl, 1);
    net = net_with(text, CAFFE__PHASE__TRAIN, o);
    unsetenv("CORTADO_IMPL");
    fill(net);
    return net;
}

static double pass(struct ct_net *net, uint64_t turn)
{
    struct ct_blob *x = net_blob_named(net, "x");
    struct ct_blob *y = net_blob_named(net, "label");

    for (int64_t i = 0; i < x->count; i++)
        ct_data(x)[i] = (float)(draw(3, 200 + turn, (uint64_t)i) - 1);
    for (int64_t i = 0; i < y->count; i++)
        ct_data(y)[i] = (float)(i % 3);
    return net_pass(net);
}

/* Of a parameter's largest gradient: short formats round between layers. */
static double tolerance(void)
{
    return ct_device_prefers_nhwc(test_device()) ? 0.02 : 2e-5;
}

static void same_gradients(const char *what, struct ct_net *want,
                           struct ct_net *got)
{
    for (int i = 0; i < ct_net_n_params(want); i++) {
        const struct ct_blob *a = ct_net_param(want, i)->blob;
        const struct ct_blob *b = ct_net_param(got, i)->blob;
        char text[96];

        snprintf(text, sizeof(text), "%s, parameter %d", what, i);
        ASSERT(net_near(text, a->count, ct_diff(a), ct_diff(b), tolerance()) >
               1e-6);
    }
}

/* Whether the layer behind the convolution masked in the last pass. */
static bool masks(struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_layers(net); i++) {
        const struct ct_layer *l = ct_net_layer(net, i);

        if (strcmp(l->type->name, "Pooling") == 0)
            return ((const struct pooling *)l->state)->masks;
        if (strcmp(l->type->name, "LRN") == 0)
            return ((const struct lrn *)l->state)->masks;
    }
    return false;
}

/* Whether a pooling of the net has absorbed a ReLU. */
static bool clamps(struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_layers(net); i++) {
        const struct ct_layer *l = ct_net_layer(net, i);

        if (strcmp(l->type->name, "Pooling") == 0)
            return ((const struct pooling *)l->state)->relu;
    }
    return false;
}

/* `can`: the layer masks, where channels are last; `plain`: elsewhere too, on a
 * GPU. */
static void check_in(const struct sizes *s, const char *words,
                     const char *between, bool can, bool plain)
{
    struct ct_net *net, *conv, *alone;
    bool last;
    char text[TEXT];

    write_net(s, words, between, text);
    net   = built(text, "mask:all,clamp:pool");
    conv  = built(text, "");
    alone = built(text, "fuse:none");
    last  = net_blob_named(net, "c")->data.layout == CT_NHWC;
    ASSERT(last == nhwc() || s->outputs % 8 != 0);
    for (uint64_t turn = 0; turn < 4; turn++) {
        const double loss = pass(net, turn);

        ASSERT(isfinite(loss));
        ASSERT_FLOAT(pass(conv, turn), loss, tolerance());
        ASSERT_FLOAT(pass(alone, turn), loss, tolerance());
        same_gradients("against masks of the convolution", conv, net);
        same_gradients("against single layers", alone, net);
    }
    if (last == nhwc() || !plain)
        ASSERT(masks(net) == (can && ((last && nhwc()) ||
                                      (plain && is_gpu()))));
    ASSERT(!masks(conv) && !masks(alone) && !clamps(alone));
    ASSERT(clamps(net) == (is_gpu() && strstr(between, "'q'")));
}

static void check_with(const struct sizes *s, const char *words,
                       const char *between, bool can)
{
    check_in(s, words, between, can, false);
}

static void check(const struct sizes *s, const char *between, bool can)
{
    check_with(s, "", between, can);
}

/* Windows side by side and overlapping, with and without padding, over images
 * that they cover or not, and channels that come in vectors or not.  With a
 * stride beyond the kernel the last window may lie outside of the image: its
 * maximum is then -FLT_MAX, of which tf32 and 16 bits make an infinity. */
TEST(masks, gradients_of_a_pooling_are_those_of_single_layers)
{
    static const int outputs[] = { 8, 16, 12, 40, 6, 72, 64, 136 };

    for (uint64_t i = 0; i < 12; i++) {
        const int kernel = 2 + draw(3, i, 0);
        const int stride = 1 + draw(kernel < 3 ? kernel : 3, i, 1);
        const int pad    = draw(2, i, 2);
        const struct sizes s = { 1 + draw(5, i, 3),
                                 5 + draw(8, i, 4),
                                 5 + draw(8, i, 5),
                                 outputs[i % 8] };
        char between[512];

        snprintf(between, sizeof(between),
                 RELU("") POOL("kernel_size: %d stride: %d pad: %d", ""),
                 kernel, stride, pad);
        check(&s, between, true);
    }
}

/* Means: any window, in any layout; some plain images go by strips. */
TEST(masks, gradients_of_means_are_those_of_single_layers)
{
    static const int outputs[] = { 8, 16, 12, 40, 6, 72, 64, 136 };

    for (uint64_t i = 0; i < 12; i++) {
        const int kernel     = 2 + draw(3, 30 + i, 0);
        const struct sizes s = { 1 + draw(5, 30 + i, 3),
                                 5 + draw(8, 30 + i, 4),
                                 i % 3 ? 5 + draw(8, 30 + i, 5) : 8,
                                 outputs[i % 8] };
        char between[512];

        snprintf(between, sizeof(between),
                 RELU("") POOL("pool: AVE kernel_size: %d stride: %d pad: %d",
                               ""),
                 i % 3 ? kernel : 2 + kernel % 2,
                 i % 3 ? 1 + draw(kernel, 30 + i, 1) : 2,
                 i % 3 ? draw(2, 30 + i, 2) : 0);
        check_in(&s, i % 4 ? "" : "bias_term: false", between, true, true);
    }
    check_in(&(struct sizes){ 3, 7, 6, 16 }, "",
             RELU("") POOL("pool: AVE global_pooling: true", ""), true, true);
}

/* A ReLU behind the pooling, in place or not, and before it, too. */
#define CLAMP "layer { name: 'q' type: 'ReLU' bottom: 'p' top: 'p' }"

TEST(masks, maxima_that_are_clamped_are_those_of_single_layers)
{
    static const int outputs[] = { 8, 16, 12, 40, 6, 72, 64, 136 };

    for (uint64_t i = 0; i < 12; i++) {
        const int kernel     = 2 + draw(3, 60 + i, 0);
        const struct sizes s = { 1 + draw(5, 60 + i, 3),
                                 5 + draw(8, 60 + i, 4),
                                 i % 3 ? 5 + draw(8, 60 + i, 5) : 8,
                                 outputs[i % 8] };
        char between[768];

        snprintf(between, sizeof(between),
                 "%s" POOL("kernel_size: %d stride: %d pad: %d", "") CLAMP,
                 i % 4 ? "" : RELU(""), i % 3 ? kernel : 2 + kernel % 2,
                 i % 3 ? 1 + draw(kernel, 60 + i, 1) : 2,
                 i % 3 ? draw(2, 60 + i, 2) : 0);
        check(&s, between, i % 4 == 0);
    }
    check(&(struct sizes){ 2, 20, 19, 16 },
          POOL("kernel_size: 17 stride: 2", "") CLAMP, false);
}

/* Windows that have more places than a byte counts. */
TEST(masks, large_windows_are_the_same)
{
    check(&(struct sizes){ 2, 20, 19, 16 },
          RELU("") POOL("kernel_size: 17 stride: 2", ""), true);
}

/* Nothing is to be added up then; plain images of such sizes go by strips. */
TEST(masks, convolutions_without_a_bias_are_the_same)
{
    check_with(&(struct sizes){ 2, 10, 16, 16 }, "bias_term: false",
               RELU("") POOL("kernel_size: 2 stride: 2", ""), true);
    check_with(&(struct sizes){ 3, 9, 8, 6 }, "bias_term: false",
               RELU("") POOL("kernel_size: 3 stride: 2", ""), true);
}

TEST(masks, others_mask_for_themselves)
{
    const struct sizes s = { 3, 9, 8, 16 };

    check(&s, POOL("kernel_size: 2 stride: 2", ""), false);
    check(&s, RELU("relu_param { negative_slope: 0.1 } ")
              POOL("kernel_size: 2 stride: 2", ""), false);
    check(&s, RELU("") POOL("kernel_size: 2 stride: 2", "top: 'places' "),
          false);
}

/* Channels in vectors are masked on the way, in NHWC. */
TEST(masks, gradients_of_an_lrn_are_those_of_single_layers)
{
    static const int outputs[] = { 8, 40, 6, 72, 12, 16 };
    const size_t bytes = ct_dtype_bytes(ct_device_dtype(test_device()));

    for (uint64_t i = 0; i < 12; i++) {
        const struct sizes s = { 1 + draw(5, i, 3), 3 + draw(8, i, 4),
                                 3 + draw(8, i, 5), outputs[i % 6] };
        char between[512];

        snprintf(between, sizeof(between),
                 RELU("") "layer { name: 'p' type: 'LRN' bottom: 'c' "
                 "  top: 'p' lrn_param { local_size: %d alpha: 0.5 "
                 "  beta: 0.75 } }", i % 2 ? 3 : 5);
        check(&s, between, (size_t)s.outputs * bytes % 16 == 0);
    }
}

/* Windows of channels that are made from their definition. */
TEST(masks, other_lrns_leave_it_to_the_convolution)
{
    check(&(struct sizes){ 2, 7, 6, 16 },
          RELU("") "layer { name: 'p' type: 'LRN' bottom: 'c' top: 'p' "
          "  lrn_param { local_size: 7 alpha: 0.5 beta: 0.75 } }", false);
    check(&(struct sizes){ 2, 7, 6, 16 },
          "layer { name: 'p' type: 'LRN' bottom: 'c' top: 'p' "
          "  lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 } }", false);
}
