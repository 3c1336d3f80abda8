/* test_tune.c - a net measures its convolutions when it is built, if it is one
 * that runs, and gives the same numbers as one that does not. */
#include <stdlib.h>

#include "base/file.h"
#include "net/training.h"
#include "net_test.h"

/* Two convolutions, of which gemm and oneDNN's take the first. */
static const char *const small =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 8 dim: 16 dim: 12 dim: 10 } "
    "                shape { dim: 8 } } }"
    "layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1' "
    "  convolution_param { num_output: 32 kernel_size: 3 pad: 1 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' }"
    "layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2' "
    "  convolution_param { num_output: 32 kernel_size: 5 pad: 2 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'c2' top: 'fc' "
    "  inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' "
    "  bottom: 'label' top: 'l' }";

static void forget(void *unused)
{
    (void)unused;
    setenv("CORTADO_TUNE", "off", 1);
    unsetenv("CORTADO_IMPL");
    unsetenv("XDG_CACHE_HOME");
}

/* As a user has it: no word about measuring. */
static void start(void)
{
    test_defer(forget, NULL);
    ASSERT(setenv("XDG_CACHE_HOME", test_folder(), 1) == 0);
    ASSERT(unsetenv("CORTADO_TUNE") == 0);
}

static bool has_measured(void)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/cortado/conv-cpu", test_folder());
    return ct_file_exists(path);
}

/* The gradients of c1's weights after both passes on the same numbers. */
static const float *gradient(struct ct_net *net, int64_t *n)
{
    float *x = ct_data(net_blob_named(net, "x"));

    for (int64_t i = 0; i < net_blob_named(net, "x")->count; i++)
        x[i] = (float)(i * 37 % 101) / 100 - 0.5f;
    ASSERT_OK(ct_net_clear_diffs(net));
    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_OK(ct_net_backward(net));
    *n = ct_net_param(net, 0)->blob->count;
    return ct_diff(ct_net_param(net, 0)->blob);
}

TEST(tune, measured_nets_give_the_numbers_of_others)
{
    const struct ct_net_options kept = { .keep_blobs = true };
    const float *a, *b;
    int64_t n;

    start();
    setenv("CORTADO_TUNE", "off", 1);
    a = gradient(net_with(small, CAFFE__PHASE__TRAIN, kept), &n);
    ASSERT(!has_measured());
    unsetenv("CORTADO_TUNE");
    for (int i = 0; i < 2; i++) { /* measures, then knows */
        b = gradient(net_with(small, CAFFE__PHASE__TRAIN, kept), &n);
        for (int64_t k = 0; k < n; k++)
            ASSERT_FLOAT(a[k], b[k], 1e-4f);
    }
#ifdef CT_HAVE_ONEDNN
    ASSERT(has_measured());
    ASSERT_HAS("measured before",
               net_plan(net_with(small, CAFFE__PHASE__TRAIN, kept)));
#endif
}

TEST(tune, nets_that_are_looked_at_and_ranks_measure_nothing)
{
    const struct ct_net_training trial = { .trial = true },
                                 more = { .more_come = true },
                                 shares = { .share = 1 };

    start();
    (void)net_with(small, CAFFE__PHASE__TRAIN,
                   (struct ct_net_options){ .quiet = true });
    (void)net_with(small, CAFFE__PHASE__TRAIN,
                   (struct ct_net_options){ .training = &trial });
    (void)net_with(small, CAFFE__PHASE__TRAIN,
                   (struct ct_net_options){ .size = 2 });
    (void)net_with(small, CAFFE__PHASE__TRAIN,
                   (struct ct_net_options){ .training = &more });
    (void)net_with(small, CAFFE__PHASE__TRAIN,
                   (struct ct_net_options){ .training = &shares });
    setenv("CORTADO_IMPL", "pool:ref", 1);
    (void)net_of(small);
    ASSERT(!has_measured());
}

TEST(tune, another_word_is_refused)
{
    start();
    setenv("CORTADO_TUNE", "of", 1);
    net_refused(small, "CORTADO_TUNE is 'of'; it can be off or measure");
    setenv("CORTADO_TUNE", "", 1);
    (void)net_of(small);
}

#ifdef CT_HAVE_ONEDNN
/* Its layers run as twins, with fewer images. */
TEST(tune, the_groups_of_a_chain_are_measured_not_its_layers)
{
    const char *plan;

    start();
    setenv("CORTADO_IMPL", "chain:4", 1);
    setenv("CORTADO_TUNE", "measure", 1);
    plan = net_plan(net_of(small));
    ASSERT_HAS("c1 .. c2: 8 images in 2 groups", plan);
    ASSERT_HAS("measured: ", plan);
    plan = net_plan(net_of(small));
    ASSERT_HAS("measured before", plan);
    setenv("CORTADO_IMPL", "chain:none", 1);
    setenv("CORTADO_TUNE", "", 1); /* which asks for nothing */
    plan = net_plan(net_of(small));
    ASSERT(strstr(plan, "measured") == NULL);
}
#endif
