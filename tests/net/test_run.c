/* test_run.c - nets at work: memory by lifetime, reshaping, weights in and
 * out of files, and no allocation in a step. */
#include <stdlib.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "net/arena.h"
#include "net/training.h"
#include "net_test.h"

/* Convolutions, in-place layers, a branch and a join, a loss. */
static const char *const small =
    "name: 'small' layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 4 dim: 2 dim: 8 dim: 8 } "
    "                shape { dim: 4 } } }"
    "layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1' "
    "  convolution_param { num_output: 16 kernel_size: 3 pad: 1 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' }"
    "layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2' "
    "  convolution_param { num_output: 16 kernel_size: 1 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 't2' type: 'TanH' bottom: 'c2' top: 't2' }"
    "layer { name: 'sum' type: 'Eltwise' bottom: 'c1' bottom: 't2' "
    "  top: 'sum' }"
    "layer { name: 'p' type: 'Pooling' bottom: 'sum' top: 'p' "
    "  pooling_param { kernel_size: 2 stride: 2 } }"
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'p' top: 'fc' "
    "  inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' "
    "  top: 'l' }"
    "layer { name: 'acc' type: 'Accuracy' bottom: 'fc' bottom: 'label' "
    "  top: 'acc' }";

static double pass(struct ct_net *net)
{
    net_draw(net, 0, 3);
    return net_pass(net);
}

TEST(run, sharing_memory_by_lifetime_changes_no_number)
{
    struct ct_net *shared = net_of(small);
    struct ct_net *kept = net_with(small, CAFFE__PHASE__TRAIN,
                                   (struct ct_net_options){
                                       .keep_blobs = true });

    ASSERT_FLOAT(pass(kept), pass(shared), 0);
    for (size_t i = 0; i < ct_net_arena_count(kept); i++)
        ASSERT_FLOAT(ct_net_arena_diff(kept)[i],
                     ct_net_arena_diff(shared)[i], 0);
    ASSERT(ct_net_arena_diff(kept)[CT_ARENA_RIDERS] != 0);
}

/* Nobody writes the gradient of 'b': its reader takes none. */
static const char *const half_read =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 4 dim: 6 } shape { dim: 4 } } }"
    "layer { name: 'f1' type: 'InnerProduct' bottom: 'x' top: 'f1' "
    "  inner_product_param { num_output: 64 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 't1' type: 'TanH' bottom: 'f1' top: 't1' }"
    "layer { name: 'f2' type: 'InnerProduct' bottom: 't1' top: 'f2' "
    "  inner_product_param { num_output: 6 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'cut' type: 'Slice' bottom: 'f2' top: 'a' top: 'b' }"
    "layer { name: 'quiet' type: 'Silence' bottom: 'b' }"
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'a' bottom: 'label' "
    "  top: 'l' }";

static void same_after_three_passes(const char *text)
{
    struct ct_net *shared = net_of(text);
    struct ct_net *kept = net_with(text, CAFFE__PHASE__TRAIN,
                                   (struct ct_net_options){
                                       .keep_blobs = true });

    for (int i = 0; i < 3; i++)
        ASSERT_FLOAT(pass(kept), pass(shared), 0);
    for (size_t i = 0; i < ct_net_arena_count(kept); i++)
        ASSERT_FLOAT(ct_net_arena_diff(kept)[i],
                     ct_net_arena_diff(shared)[i], 0);
}

TEST(run, a_gradient_that_nobody_writes_stays_zero_pass_after_pass)
{
    same_after_three_passes(half_read);
}

/* Forced backward reaches a branch that only an accuracy reads. */
TEST(run, an_in_place_layer_does_not_write_its_own_top_gradient)
{
    same_after_three_passes(
        "force_backward: true "
        "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
        "  input_param { shape { dim: 4 dim: 6 } shape { dim: 4 } } }"
        "layer { name: 'f1' type: 'InnerProduct' bottom: 'x' top: 'f1' "
        "  inner_product_param { num_output: 64 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 't1' type: 'TanH' bottom: 'f1' top: 't1' }"
        "layer { name: 'f2' type: 'InnerProduct' bottom: 't1' top: 'f2' "
        "  inner_product_param { num_output: 6 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 's2' type: 'Sigmoid' bottom: 'f2' top: 'f2' }"
        "layer { name: 'acc' type: 'Accuracy' bottom: 'f2' bottom: 'label' "
        "  top: 'acc' }"
        "layer { name: 'g' type: 'InnerProduct' bottom: 'x' top: 'g' "
        "  inner_product_param { num_output: 3 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'g' "
        "  bottom: 'label' top: 'l' }");
}

/* A label takes no gradient, yet what makes it runs backward too. */
TEST(run, forced_backward_goes_through_what_nobody_writes_a_gradient_for)
{
    struct ct_net *net = net_of(
        "force_backward: true "
        "layer { name: 'in' type: 'Input' top: 'x' top: 'raw' "
        "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }"
        "layer { name: 'copy' type: 'Power' bottom: 'raw' top: 'label' }"
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'x' "
        "  bottom: 'label' top: 'l' }");
    struct ct_blob *raw = net_blob_named(net, "raw");

    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_OK(ct_net_backward(net));
    for (int64_t i = 0; i < raw->count; i++)
        ASSERT_FLOAT(0, ct_diff(raw)[i], 0);
    ASSERT(ct_diff(net_blob_named(net, "x"))[0] != 0);
}

static const char *const asked =
    "layer { name: 'd' type: 'DummyData' top: 'x' top: 'label' "
    "  dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } "
    "  data_filler { type: 'gaussian' } data_filler { } } }"
    "layer { name: 'flat' type: 'Flatten' bottom: 'x' top: 'flat' }"
    "layer { name: 'f' type: 'InnerProduct' bottom: 'flat' top: 'f' "
    "  propagate_down: true inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'f' "
    "  bottom: 'label' top: 'l' }";

TEST(run, propagate_down_may_ask_for_a_gradient_that_nobody_uses)
{
    struct ct_net *net = net_of(asked);

    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_OK(ct_net_backward(net));
    ASSERT(ct_diff(net_blob_named(net, "flat")) != NULL);
}

/* 'f' writes the gradient of 'flat', which goes no further: to 'a' comes what
 * the other branch sends. */
TEST(run, a_view_whose_gradient_is_cut_off_has_one_of_its_own)
{
    same_after_three_passes(
        "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
        "  input_param { shape { dim: 4 dim: 6 } shape { dim: 4 } } }"
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' "
        "  inner_product_param { num_output: 8 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'flat' type: 'Flatten' bottom: 'a' top: 'flat' "
        "  propagate_down: false }"
        "layer { name: 'f' type: 'InnerProduct' bottom: 'flat' top: 'f' "
        "  inner_product_param { num_output: 3 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'f' "
        "  bottom: 'label' top: 'l' }"
        "layer { name: 'g' type: 'InnerProduct' bottom: 'a' top: 'g' "
        "  inner_product_param { num_output: 3 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'm' type: 'SoftmaxWithLoss' bottom: 'g' "
        "  bottom: 'label' top: 'm' }");
}

TEST(run, an_empty_batch_that_grows_has_gradients)
{
    struct ct_net *net = net_of(
        "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
        "  input_param { shape { dim: 0 dim: 6 } shape { dim: 0 } } }"
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' "
        "  inner_product_param { num_output: 5 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 't' type: 'TanH' bottom: 'a' top: 't' }"
        "layer { name: 'f' type: 'InnerProduct' bottom: 't' top: 'f' "
        "  inner_product_param { num_output: 3 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'f' "
        "  bottom: 'label' top: 'l' }");

    pass(net);
    ASSERT_OK(ct_reshape(net_blob_named(net, "x"), CT_SHAPE(4, 6)));
    ASSERT_OK(ct_reshape(net_blob_named(net, "label"), CT_SHAPE(4)));
    pass(net);
    ASSERT(ct_diff(ct_net_param(net, 0)->blob)[0] != 0);
}

TEST(run, gradients_match_finite_differences_through_the_whole_net)
{
    struct ct_net *net = net_of(small);
    const struct ct_net_param *p = ct_net_param(net, 0);
    double up, down;
    float kept, g;

    ASSERT_FLOAT(pass(net), pass(net), 0);
    for (int64_t i = 0; i < p->blob->count; i += 7) {
        float *w = &ct_data(p->blob)[i];

        pass(net);
        g    = ct_diff(p->blob)[i];
        kept = *w;
        *w   = kept + 2e-3f;
        up   = pass(net);
        *w   = kept - 2e-3f;
        down = pass(net);
        *w   = kept;
        /* A step this small still crosses a kink of ReLU or MAX at times. */
        ASSERT_FLOAT((up - down) / 4e-3, g, 2e-2);
    }
}

/* Everything that has a blocked form, and plain layers between. */
static const char *const layered =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
    "  input_param { shape { dim: 3 dim: 2 dim: 9 dim: 9 } "
    "                shape { dim: 3 } } }"
    "layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1' "
    "  convolution_param { num_output: 24 kernel_size: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'c1' top: 'bn' }"
    "layer { name: 'sc' type: 'Scale' bottom: 'bn' top: 'bn' "
    "  scale_param { bias_term: true } }"
    "layer { name: 'r1' type: 'ReLU' bottom: 'bn' top: 'bn' }"
    "layer { name: 'lrn' type: 'LRN' bottom: 'bn' top: 'lrn' }"
    "layer { name: 'c2' type: 'Convolution' bottom: 'lrn' top: 'c2' "
    "  convolution_param { num_output: 16 kernel_size: 1 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'c3' type: 'Convolution' bottom: 'lrn' top: 'c3' "
    "  convolution_param { num_output: 16 kernel_size: 3 pad: 1 group: 2 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'cat' type: 'Concat' bottom: 'c2' bottom: 'c3' "
    "  top: 'cat' }"
    "layer { name: 'sum' type: 'Eltwise' bottom: 'c2' bottom: 'c3' "
    "  top: 'sum' eltwise_param { operation: MAX } }"
    "layer { name: 'pm' type: 'Pooling' bottom: 'cat' top: 'pm' "
    "  pooling_param { kernel_size: 3 stride: 2 } }"
    "layer { name: 'pa' type: 'Pooling' bottom: 'sum' top: 'pa' "
    "  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }"
    "layer { name: 'perm' type: 'Permute' bottom: 'pa' top: 'perm' "
    "  permute_param { order: 0 order: 2 order: 3 order: 1 } }"
    "layer { name: 'f1' type: 'InnerProduct' bottom: 'pm' top: 'f1' "
    "  inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'f2' type: 'InnerProduct' bottom: 'perm' top: 'f2' "
    "  inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'f' type: 'Eltwise' bottom: 'f1' bottom: 'f2' top: 'f' }"
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'f' bottom: 'label' "
    "  top: 'l' }";

TEST(run, blocked_layouts_change_the_numbers_by_rounding_only)
{
    struct ct_net *blocked = net_of(layered), *plain;
    double most = 0;

    setenv("CORTADO_IMPL", "layout:plain", 1);
    plain = net_of(layered);
    unsetenv("CORTADO_IMPL");
    ASSERT_INT(CT_PLAIN, net_blob_named(plain, "lrn")->data.layout);
    ASSERT_INT(CT_PLAIN, net_blob_named(blocked, "f1")->data.layout);
    ASSERT_FLOAT(pass(plain), pass(blocked), 1e-5);
    for (size_t i = 0; i < ct_net_arena_count(plain); i++) {
        ASSERT_FLOAT(ct_net_arena_diff(plain)[i],
                     ct_net_arena_diff(blocked)[i], 1e-4);
        most = fmax(most, fabs((double)ct_net_arena_diff(plain)[i]));
    }
    ASSERT(most > 0.1);
#ifdef CT_HAVE_ONEDNN
    ASSERT(net_blob_named(blocked, "lrn")->data.layout != CT_PLAIN);
    ASSERT(net_blob_named(blocked, "pm")->data.layout != CT_PLAIN);
#endif
}

TEST(run, blocked_nets_reshape_too)
{
    struct ct_net *net = net_of(layered), *other;

    pass(net);
    ASSERT_OK(ct_reshape(net_blob_named(net, "x"), CT_SHAPE(5, 2, 9, 9)));
    ASSERT_OK(ct_reshape(net_blob_named(net, "label"), CT_SHAPE(5)));
    pass(net);
    other = net_with(layered, CAFFE__PHASE__TRAIN,
                     (struct ct_net_options){ .keep_blobs = true });
    ASSERT_OK(ct_reshape(net_blob_named(other, "x"), CT_SHAPE(5, 2, 9, 9)));
    ASSERT_OK(ct_reshape(net_blob_named(other, "label"), CT_SHAPE(5)));
    ASSERT_FLOAT(pass(other), pass(net), 1e-5);
    for (size_t i = 0; i < ct_net_arena_count(net); i++)
        ASSERT_FLOAT(ct_net_arena_diff(other)[i], ct_net_arena_diff(net)[i],
                     1e-4);
}

TEST(run, a_step_allocates_nothing_after_the_first)
{
    struct ct_net *net = net_of(small);
    uint64_t n_calls;

    pass(net);
    n_calls = ct_mem_stats().n_calls;
    pass(net);
    ASSERT_INT(n_calls, ct_mem_stats().n_calls);
}

TEST(run, an_input_that_changes_shape_reshapes_the_net)
{
    struct ct_net *net = net_of(small), *big;

    pass(net);
    ASSERT_OK(ct_reshape(net_blob_named(net, "x"), CT_SHAPE(6, 2, 8, 8)));
    ASSERT_OK(ct_reshape(net_blob_named(net, "label"), CT_SHAPE(6)));
    pass(net);
    ASSERT_INT(6, net_blob_named(net, "fc")->shape.dim[0]);
    /* The same numbers as after an explicit reshape. */
    big = net_of(small);
    ASSERT_OK(ct_reshape(net_blob_named(big, "x"), CT_SHAPE(6, 2, 8, 8)));
    ASSERT_OK(ct_reshape(net_blob_named(big, "label"), CT_SHAPE(6)));
    ASSERT_OK(ct_net_reshape(big));
    ASSERT_FLOAT(pass(big), pass(net), 1e-6);
    for (size_t i = 0; i < ct_net_arena_count(big); i++)
        ASSERT_FLOAT(ct_net_arena_diff(big)[i], ct_net_arena_diff(net)[i],
                     1e-6);
    /* And back to the smaller shape. */
    ASSERT_OK(ct_reshape(net_blob_named(net, "x"), CT_SHAPE(4, 2, 8, 8)));
    ASSERT_OK(ct_reshape(net_blob_named(net, "label"), CT_SHAPE(4)));
    ASSERT_FLOAT(pass(net_of(small)), pass(net), 1e-6);
}

TEST(run, a_shape_that_a_layer_cannot_take_is_refused_by_name)
{
    struct ct_net *net = net_of(small);

    ASSERT_OK(ct_reshape(net_blob_named(net, "x"), CT_SHAPE(4, 2, 6, 6)));
    ASSERT_STATUS(CT_ESHAPE, ct_net_forward(net, NULL));
    ASSERT_HAS("layer fc", ct_last_error());
}

static void save_and_load(const char *file, bool hdf5)
{
    struct ct_net *from = net_of(small), *to = net_of(small);
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", test_folder(), file);
    for (size_t i = 0; i < ct_net_arena_count(from); i++)
        ct_net_arena_data(from)[i] = (float)i * 0.001f;
    ASSERT_OK(hdf5 ? ct_net_save_hdf5(from, path, false)
                   : ct_net_save(from, path, false));
    ASSERT_OK(ct_net_load(to, path));
    for (int p = 0; p < ct_net_n_params(from); p++) {
        const struct ct_blob *a = ct_net_param(from, p)->blob;
        const struct ct_blob *b = ct_net_param(to, p)->blob;

        for (int64_t i = 0; i < a->count; i++)
            ASSERT_FLOAT(ct_data(a)[i], ct_data(b)[i], 0);
    }
}

TEST(run, weights_survive_a_caffemodel)
{
    save_and_load("w.caffemodel", false);
}

TEST(run, weights_survive_an_hdf5_file)
{
    save_and_load("w.caffemodel.h5", true);
}

TEST(run, layers_of_any_name_survive_an_hdf5_file)
{
    char text[4096], path[512];
    struct ct_net *from, *to;

    /* 1500 letters, and a slash, as GoogLeNet's layers have. */
    snprintf(text, sizeof(text), "layer { name: 'in' type: 'Input' top: 'x' "
             "  input_param { shape { dim: 1 dim: 2 } } }"
             "layer { name: 'a/%01500d' type: 'InnerProduct' bottom: 'x' "
             "  top: 'y' inner_product_param { num_output: 1 "
             "  weight_filler { type: 'gaussian' } } }", 0);
    from = net_of(text);
    to   = net_of(text);
    ct_data(ct_net_param(from, 0)->blob)[1] = 7;
    snprintf(path, sizeof(path), "%s/long.h5", test_folder());
    ASSERT_OK(ct_net_save_hdf5(from, path, false));
    ASSERT_OK(ct_net_load(to, path));
    ASSERT_FLOAT(7, ct_data(ct_net_param(to, 0)->blob)[1], 0);
}

TEST(run, weights_of_another_shape_are_refused_with_both_shapes)
{
    const char *other = "layer { name: 'in' type: 'Input' top: 'x' "
        "input_param { shape { dim: 1 dim: 2 dim: 8 dim: 8 } } }"
        "layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1' "
        "convolution_param { num_output: 16 kernel_size: 5 } }";
    struct ct_net *from = net_of(small), *to = net_of(other);
    char path[512];

    snprintf(path, sizeof(path), "%s/w", test_folder());
    ASSERT_OK(ct_net_save(from, path, false));
    ASSERT_STATUS(CT_ESHAPE, ct_net_load(to, path));
    ASSERT_HAS("16 2 3 3", ct_last_error());
    ASSERT_HAS("16 2 5 5", ct_last_error());
}

TEST(run, shared_weights_are_the_same_memory)
{
    struct ct_net *train = net_of(small);
    struct ct_net *test = net_with(small, CAFFE__PHASE__TEST,
                                   (struct ct_net_options){
                                       .forward_only = true });

    ASSERT_OK(ct_net_share_weights(test, train));
    ASSERT(ct_net_arena_data(test) == ct_net_arena_data(train));
    net_draw(test, 0, 3);
    ASSERT_OK(ct_net_forward(test, NULL));
    ASSERT_FLOAT(pass(train), ct_data(net_blob_named(test, "l"))[0], 1e-6);
    ASSERT_STATUS(CT_EINVAL, ct_net_backward(test));
}

TEST(run, the_layer_that_first_gives_nan_is_found)
{
    struct ct_net *net = net_of(small);
    int layer;

    pass(net);
    ASSERT_OK(ct_net_find_nan(net, &layer));
    ASSERT_INT(-1, layer);
    ct_data(net_layer_named(net, "c2")->blob[1])[0] = NAN;
    ASSERT_OK(ct_net_find_nan(net, &layer));
    ASSERT_STR("c2", ct_net_layer(net, layer)->name);
}

TEST(run, the_plan_names_blocked_blobs_and_conversions)
{
    char *text;

    ASSERT_OK(ct_net_plan_text(net_of(small), &text));
    test_defer(ct_free, text);
    ASSERT_HAS("4 16 8 8 (4096)      blocked", text);
    ASSERT_HAS("layer fc (InnerProduct) reads p as plain: 0.00 MB forward, "
               "as much backward", text);
    ASSERT_HAS("layer c1 (Convolution) goes from plain to blocked", text);
    ASSERT(!strstr(text, "layer p (Pooling)"));
}

TEST(run, the_summary_counts_parameters_and_multiply_adds)
{
    char *table = NULL;

    ASSERT_OK(ct_net_summary(net_of(small), &table));
    /* c1: 16 x 18 + 16; fc: 3 x 256 + 3; c1: 4 x 64 x 16 x 18 products */
    ASSERT_HAS("304", table);
    ASSERT_HAS("771", table);
    ASSERT_HAS("73.7 k", table);
    ct_free(table);
}

static void keep_lines(enum ct_log_level level, const char *line, void *arg)
{
    char *text = arg;

    (void)level;
    strncat(text, line, 8191 - strlen(text));
}

TEST(run, debug_info_prints_caffes_sentences)
{
    struct ct_net *net = net_of(small);
    static char text[8192];

    text[0] = '\0';
    ct_net_set_debug_info(net, true);
    ct_log_set_level(CT_LOG_INFO);
    ct_log_set_sink(keep_lines, text);
    pass(net);
    ct_log_set_sink(NULL, NULL);
    ct_log_set_level(CT_LOG_NONE);
    ASSERT_HAS("[Forward] Layer c1, top blob c1 data: ", text);
    ASSERT_HAS("[Forward] Layer c1, param blob 0 data: ", text);
    ASSERT_HAS("[Backward] Layer fc, bottom blob p diff: ", text);
    ASSERT_HAS("[Backward] Layer fc, param blob 1 diff: ", text);
    ASSERT_HAS("[Backward] All net params (data, diff): L1 norm = (", text);
}

/* Keeps what is said, without the numbers. */
static void keep_words(enum ct_log_level level, const char *line, void *arg)
{
    const char *from = strstr(line, "Layer "), *end = strstr(line, ": ");
    char *text       = arg;
    size_t n         = strlen(text);

    (void)level;
    if (from && end && end > from)
        snprintf(text + n, 4096 - n, "%.*s\n", (int)(end - from), from);
}

/* The line behind a name is Caffe's: every top, every parameter by its name
 * where it has one, then every gradient that is made, by number. */
TEST(run, debug_info_tells_of_every_blob_by_the_prototxts_names)
{
    struct ct_net *net = net_of(
        "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "
        "  input_param { shape { dim: 2 dim: 4 } shape { dim: 2 } } }"
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' "
        "  param { name: 'w' } param { lr_mult: 0 } inner_product_param { "
        "  num_output: 4 } }"
        "layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'a' }"
        "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }"
        "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' "
        "  param { name: 'w' } inner_product_param { num_output: 4 "
        "  bias_term: false } }"
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'b' "
        "  bottom: 'label' }");
    static char text[4096];

    text[0] = '\0';
    ct_net_set_debug_info(net, true);
    ct_log_set_level(CT_LOG_INFO);
    ct_log_set_sink(keep_words, text);
    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_OK(ct_net_backward(net));
    ct_log_set_sink(NULL, NULL);
    ct_log_set_level(CT_LOG_NONE);
    ASSERT_STR("Layer in, top blob x data\n"
               "Layer in, top blob label data\n"
               "Layer a, top blob a data\n"
               "Layer a, param blob w data\n"
               "Layer a, param blob 1 data\n"
               "Layer n, top blob a data\n"
               "Layer n, param blob 0 data\n"
               "Layer n, param blob 1 data\n"
               "Layer n, param blob 2 data\n"
               "Layer r, top blob a data\n"
               "Layer b, top blob b data\n"
               "Layer b, param blob w data\n"
               "Layer l, top blob (automatic) data\n"
               "Layer l, bottom blob b diff\n"
               "Layer b, bottom blob a diff\n"
               "Layer b, param blob 0 diff\n"
               "Layer r, bottom blob a diff\n"
               "Layer n, bottom blob a diff\n"
               "Layer a, param blob 0 diff\n", text);
}
