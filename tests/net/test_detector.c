/* test_detector.c - the heads of a detector, on whatever device and in whatever
 * layout, give what plain blobs on the CPU give: Normalize, Permute, PriorBox
 * and MultiBoxLoss behind convolutions. */
#include <stdlib.h>

#include "base/rng.h"
#include "net/net_inner.h"
#include "net_test.h"
#include "testing/files.h"

/* 21 and 42 outputs are no whole number of vectors. */
static const char *const heads =
    "layer { name: 'in' type: 'Input' top: 'data' top: 'truth' "
    "  input_param { shape { dim: 3 dim: 3 dim: 20 dim: 20 } "
    "                shape { dim: 1 dim: 1 dim: 4 dim: 8 } } }"
    "layer { name: 'c1' type: 'Convolution' bottom: 'data' top: 'c1' "
    "  convolution_param { num_output: 32 kernel_size: 3 stride: 2 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' }"
    "layer { name: 'norm' type: 'Normalize' bottom: 'c1' top: 'norm' "
    "  norm_param { across_spatial: false channel_shared: false "
    "               scale_filler { value: 3 } } }"
    "layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2' "
    "  convolution_param { num_output: 32 kernel_size: 3 stride: 2 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'loc1' type: 'Convolution' bottom: 'norm' top: 'loc1' "
    "  convolution_param { num_output: 12 kernel_size: 3 pad: 1 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'loc1p' type: 'Permute' bottom: 'loc1' top: 'loc1p' "
    "  permute_param { order: 0 order: 2 order: 3 order: 1 } }"
    "layer { name: 'loc1f' type: 'Flatten' bottom: 'loc1p' top: 'loc1f' }"
    "layer { name: 'conf1' type: 'Convolution' bottom: 'norm' top: 'conf1' "
    "  convolution_param { num_output: 21 kernel_size: 3 pad: 1 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'conf1p' type: 'Permute' bottom: 'conf1' top: 'conf1p' "
    "  permute_param { order: 0 order: 2 order: 3 order: 1 } }"
    "layer { name: 'conf1f' type: 'Flatten' bottom: 'conf1p' top: 'conf1f' }"
    "layer { name: 'prior1' type: 'PriorBox' bottom: 'norm' bottom: 'data' "
    "  top: 'prior1' prior_box_param { min_size: 4 aspect_ratio: 2 "
    "  flip: true } }"
    "layer { name: 'loc2' type: 'Convolution' bottom: 'c2' top: 'loc2' "
    "  convolution_param { num_output: 24 kernel_size: 3 pad: 1 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'loc2p' type: 'Permute' bottom: 'loc2' top: 'loc2p' "
    "  permute_param { order: 0 order: 2 order: 3 order: 1 } }"
    "layer { name: 'loc2f' type: 'Flatten' bottom: 'loc2p' top: 'loc2f' }"
    "layer { name: 'conf2' type: 'Convolution' bottom: 'c2' top: 'conf2' "
    "  convolution_param { num_output: 42 kernel_size: 3 pad: 1 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'conf2p' type: 'Permute' bottom: 'conf2' top: 'conf2p' "
    "  permute_param { order: 0 order: 2 order: 3 order: 1 } }"
    "layer { name: 'conf2f' type: 'Flatten' bottom: 'conf2p' top: 'conf2f' }"
    "layer { name: 'prior2' type: 'PriorBox' bottom: 'c2' bottom: 'data' "
    "  top: 'prior2' prior_box_param { min_size: 8 max_size: 11 "
    "  aspect_ratio: 2 aspect_ratio: 3 flip: true } }"
    "layer { name: 'loc' type: 'Concat' bottom: 'loc1f' bottom: 'loc2f' "
    "  top: 'loc' }"
    "layer { name: 'conf' type: 'Concat' bottom: 'conf1f' bottom: 'conf2f' "
    "  top: 'conf' }"
    "layer { name: 'prior' type: 'Concat' bottom: 'prior1' bottom: 'prior2' "
    "  top: 'prior' concat_param { axis: 2 } }"
    "layer { name: 'loss' type: 'MultiBoxLoss' bottom: 'loc' bottom: 'conf' "
    "  bottom: 'prior' bottom: 'truth' top: 'loss' propagate_down: true "
    "  propagate_down: true propagate_down: false propagate_down: false "
    "  multibox_loss_param { "
    "  num_classes: 7 overlap_threshold: 0.4 mining_type: NONE } }";

/* item, label, instance, xmin, ymin, xmax, ymax, difficult */
static const float truth[] = {
    0, 1, 0, .1f, .1f, .5f, .4f, 0, 0, 3, 0, .5f, .5f, .9f, .9f, 0,
    1, 6, 0, .2f, .3f, .6f, .8f, 0, 2, 2, 0, .0f, .4f, .4f, .7f, 0,
};

/* A pass; gradients go to `out`, which has room for them. */
static double pass(struct ct_net *net, float *out)
{
    struct ct_blob *x = net_blob_named(net, "data");
    const size_t n    = ct_net_arena_count(net);
    float *values;
    double loss;

    values = ct_malloc((size_t)x->count * sizeof(*values), "test values");
    ASSERT(values != NULL);
    for (int64_t i = 0; i < x->count; i++)
        values[i] = ct_normal(5, 1, (uint64_t)i);
    ASSERT_OK(ct_blob_put(x, false, values));
    ct_free(values);
    ASSERT_OK(ct_blob_put(net_blob_named(net, "truth"), false, truth));
    ASSERT_OK(ct_net_forward_backward(net, true, &loss));
    net_settle();
    memcpy(out, ct_net_arena_diff(net), n * sizeof(*out));
    return loss;
}

static struct ct_net *plain_net(void)
{
    struct ct_net *net;

    setenv("CORTADO_IMPL", "layout:plain", 1);
    net = net_of(heads);
    unsetenv("CORTADO_IMPL");
    return net;
}

/* Of the largest value. */
static double limit(void)
{
    const char *name = getenv("CORTADO_TEST_DEVICE");

    return !name || !strchr(name, ':') || strstr(name, "fp32") ? 1e-4
           : strstr(name, "tf32")                              ? 2e-2
                                                               : 6e-2;
}

TEST(detector, every_device_and_layout_gives_the_same_gradients)
{
    struct ct_net *net  = net_with(heads, CAFFE__PHASE__TRAIN,
                                   (struct ct_net_options){
                                       .device = test_device() });
    struct ct_net *flat = plain_net();
    const size_t n      = ct_net_arena_count(flat);
    float *want         = ct_malloc(n * sizeof(*want), "test values");
    float *got          = ct_malloc(n * sizeof(*got), "test values");
    double most = 0, loss;

    test_defer(ct_free, want);
    test_defer(ct_free, got);
    ASSERT_INT(n, ct_net_arena_count(net));
    loss = pass(flat, want);
    for (int turn = 0; turn < 4; turn++) /* the last ones are replayed */
        ASSERT_FLOAT(loss, pass(net, got), limit() * fabs(loss));
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)want[i]));
    ASSERT(most > 0.01);
    for (size_t i = 0; i < n; i++)
        ASSERT_FLOAT(want[i], got[i], limit() * most);
}

/* Rows that mean nothing may follow the truth if a loss alone reads it. */
TEST(detector, only_who_knows_of_open_ends_gets_them)
{
    static const char *const also =
        "layer { name: 'more' type: 'Power' bottom: 'truth' top: 'more' }";
    static const char *const nobody =
        "layer { name: 'in' type: 'Input' top: 'data' top: 'truth' "
        "  input_param { shape { dim: 1 } shape { dim: 1 } } }";
    const struct ct_net *net = net_of(heads);

    ASSERT_INT(2, net->layer[0].layer->may_pad);
    net = net_of(test_format("%s%s", heads, also));
    ASSERT_INT(0, net->layer[0].layer->may_pad);
    net = net_of(nobody);
    ASSERT_INT(0, net->layer[0].layer->may_pad);
}

/* A PriorBox looks at shapes alone: nobody converts an image for it. */
TEST(detector, prior_boxes_have_no_bottom_converted)
{
    struct ct_net *net = net_with(heads, CAFFE__PHASE__TRAIN,
                                  (struct ct_net_options){
                                      .device = test_device() });
    int n = 0;

    for (int i = 0; i < net->n_layer; i++) {
        const struct net_layer *l = &net->layer[i];

        if (strcmp(l->layer->type->name, "PriorBox") != 0)
            continue;
        n++;
        for (int b = 0; l->shadow && b < l->n_bottom; b++)
            ASSERT(l->shadow[b] == NULL);
        ASSERT_INT(CT_PLAIN, l->top[0]->data.layout);
    }
    ASSERT_INT(2, n);
#ifdef CT_HAVE_ONEDNN
    /* Where there would be something to convert. */
    if (test_device()->kind == CT_CPU)
        ASSERT(net_blob_named(net, "c2")->data.layout != CT_PLAIN);
#endif
}
