/* test_export.c - what an exported model is made of, and what is refused.
 *
 * Numbers are compared with other runtimes by tests/onnx/run. */
#include "cortado/onnx.h"

#include "base/rng.h"
#include "net/net_test.h"
#include "onnx/onnx.pb-c.h"
#include "testing/files.h"

#define INPUT(dims)                                                          \
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { "  \
    dims " } } } "
#define IMAGE INPUT("dim: 2 dim: 3 dim: 8 dim: 8")
#define CONV                                                                 \
    "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' " \
    "convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "\
    "'constant' value: 2 } } } "
#define NORM                                                                 \
    "layer { name: 'bn1' type: 'BatchNorm' bottom: 'conv1' top: 'conv1' } "  \
    "layer { name: 'scale1' type: 'Scale' bottom: 'conv1' top: 'conv1' "     \
    "scale_param { bias_term: true bias_filler { value: 5 } } } "
#define RELU                                                                 \
    "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' } "

static void free_model(void *m)
{
    ct_message_free(m);
}

static enum ct_status export(const char *text, struct ct_onnx_options o)
{
    struct ct_net *net = net_with(text, CAFFE__PHASE__TEST,
                                  (struct ct_net_options){ 0 });

    for (int i = 0; i < ct_net_n_layers(net); i++) {
        const struct ct_layer *l = ct_net_layer(net, i);

        /* Mean 1, variance 4 of a sum over 2: blobs hold 2 and 8. */
        if (strcmp(l->type->name, "BatchNorm") == 0)
            for (int k = 0; k < 2; k++) {
                ct_data(l->blob[0])[k] = 2;
                ct_data(l->blob[1])[k] = 8;
                ct_data(l->blob[2])[0] = 2;
            }
    }
    return ct_onnx_export(net, &o, test_path("net.onnx"));
}

static Onnx__GraphProto *graph_of(const char *text, struct ct_onnx_options o)
{
    Onnx__ModelProto *m = NULL;

    ASSERT_OK(export(text, o));
    ASSERT_OK(ct_binary_read(&onnx__model_proto__descriptor,
                             test_path("net.onnx"), &m));
    test_defer(free_model, m);
    if (m->opset_import[0]->version != (o.opset ? o.opset : 13))
        FAIL("opset %d", (int)m->opset_import[0]->version);
    return m->graph;
}

static const float *constant(const Onnx__GraphProto *g, const char *name)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        if (strcmp(g->initializer[i]->name, name) == 0)
            return (const float *)(const void *)
                g->initializer[i]->raw_data.data;
    FAIL("no constant %s", name);
}

TEST(export, names_are_those_of_layers_and_blobs)
{
    const Onnx__GraphProto *g =
        graph_of(IMAGE CONV RELU, (struct ct_onnx_options){ 0 });

    ASSERT_INT(2, (int)g->n_node);
    ASSERT_STR("conv1", g->node[0]->name);
    ASSERT_STR("conv1/conv1", g->node[0]->output[0]);
    ASSERT_STR("relu1", g->node[1]->name);
    ASSERT_STR("conv1", g->node[1]->output[0]);
    ASSERT_STR("data", g->input[0]->name);
    ASSERT_STR("conv1", g->output[0]->name);
}

/* w' = 2 / sqrt(4 + 1e-5) and b' = (0 - 1) / 2 + 5 */
TEST(export, norm_and_scale_go_into_the_weights_before_them)
{
    const Onnx__GraphProto *g =
        graph_of(IMAGE CONV NORM RELU, (struct ct_onnx_options){ 0 });

    ASSERT_INT(2, (int)g->n_node);
    ASSERT_FLOAT(1, constant(g, "conv1.weight")[0], 1e-4f);
    ASSERT_FLOAT(4.5f, constant(g, "conv1.bias")[1], 1e-4f);
}

static enum ct_status forward(struct ct_net *net)
{
    struct ct_blob *x = net_blob_named(net, "data");

    for (int64_t i = 0; i < x->count; i++)
        ct_data(x)[i] = ct_normal(3, 1, (uint64_t)i);
    return ct_net_forward(net, NULL);
}

/* Odd numbers, so that a factor which is rounded before it is multiplied
 * gives other bits. */
TEST(export, folded_weights_are_those_that_our_own_nets_fold)
{
    const char *const text =
        IMAGE "layer { name: 'conv1' type: 'Convolution' bottom: 'data' "
              "top: 'conv1' convolution_param { num_output: 6 kernel_size: 3 "
              "weight_filler { type: 'xavier' } "
              "bias_filler { type: 'uniform' min: -1 } } } "
        "layer { name: 'bn1' type: 'BatchNorm' bottom: 'conv1' top: 'conv1' "
        "batch_norm_param { use_global_stats: true } } "
        "layer { name: 'scale1' type: 'Scale' bottom: 'conv1' top: 'conv1' "
        "scale_param { bias_term: true filler { type: 'uniform' min: -1 } "
        "bias_filler { value: 0.3 } } } ";
    const struct ct_net_options folds = { .phase        = CAFFE__PHASE__TEST,
                                          .forward_only = true,
                                          .fixed_params = true };
    Caffe__NetParameter *param = NULL;
    struct ct_net *net = net_with(text, CAFFE__PHASE__TEST, folds);
    struct ct_net *back = NULL;
    struct ct_layer *norm;

    norm = ct_net_layer(net, ct_net_find_layer(net, "bn1"));
    for (int64_t k = 0; k < 6; k++) {
        ct_data(norm->blob[0])[k] = ct_normal(5, 1, (uint64_t)k);
        ct_data(norm->blob[1])[k] = ct_uniform(5, 2, (uint64_t)k) + 0.5f;
    }
    ct_data(norm->blob[2])[0] = 3;
    ct_net_params_changed(net);
    ASSERT_OK(ct_onnx_export(net, NULL, test_path("net.onnx")));
    ASSERT_OK(ct_onnx_import(test_path("net.onnx"), NULL, &param));
    test_defer(free_model, param);
    ASSERT_OK(ct_net_create(param, &folds, &back));
    test_defer(net_test_free, back);
    ASSERT_OK(ct_net_copy_weights(back, param, "test"));
    ASSERT_INT(2, ct_net_n_layers(back));
    ASSERT_OK(forward(net));
    ASSERT_OK(forward(back));
    for (int64_t i = 0; i < net_blob_named(net, "conv1")->count; i++)
        ASSERT_FLOAT(ct_data(net_blob_named(net, "conv1"))[i],
                     ct_data(net_blob_named(back, "conv1"))[i], 0);
}

TEST(export, without_folding_they_are_one_node)
{
    const Onnx__GraphProto *g = graph_of(
        IMAGE CONV NORM, (struct ct_onnx_options){ .no_fold = true,
                                                   .opset   = 17 });

    ASSERT_INT(4, (int)g->n_node);
    ASSERT_STR("BatchNormalization", g->node[1]->op_type);
    ASSERT_FLOAT(2, constant(g, "conv1.weight")[0], 0);
    ASSERT_FLOAT(4, constant(g, "bn1.var")[0], 0);
}

TEST(export, an_open_batch_size_has_a_name)
{
    const Onnx__GraphProto *g = graph_of(
        IMAGE CONV, (struct ct_onnx_options){ .batch = CT_ONNX_DYNAMIC });

    ASSERT_STR("N",
               g->input[0]->type->tensor_type->shape->dim[0]->dim_param);
    ASSERT_STR("N",
               g->output[0]->type->tensor_type->shape->dim[0]->dim_param);
    ASSERT_INT(3, (int)g->input[0]->type->tensor_type->shape->dim[1]
                      ->dim_value);
}

TEST(export, a_batch_size_can_be_given)
{
    const Onnx__GraphProto *g =
        graph_of(IMAGE CONV, (struct ct_onnx_options){ .batch = 7 });

    ASSERT_INT(7, (int)g->output[0]->type->tensor_type->shape->dim[0]
                      ->dim_value);
}

TEST(export, what_only_a_loss_reads_is_an_output)
{
    const Onnx__GraphProto *g = graph_of(
        INPUT("dim: 2 dim: 4")
        "layer { name: 'label' type: 'Input' top: 'label' input_param { "
        "shape { dim: 2 } } } "
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
        "inner_product_param { num_output: 3 } } "
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' "
        "bottom: 'label' top: 'loss' } "
        "layer { name: 'score' type: 'Accuracy' bottom: 'ip' "
        "bottom: 'label' top: 'score' }",
        (struct ct_onnx_options){ 0 });

    ASSERT_INT(1, (int)g->n_output);
    ASSERT_STR("ip", g->output[0]->name);
    ASSERT_INT(1, (int)g->n_input);
}

/* The priors of a map of one value and one size: 1 x 2 x 4. */
TEST(export, priors_are_constants)
{
    const Onnx__GraphProto *g = graph_of(
        INPUT("dim: 1 dim: 4 dim: 1 dim: 1")
        "layer { name: 'loc' type: 'Flatten' bottom: 'data' top: 'loc' } "
        "layer { name: 'prior' type: 'PriorBox' bottom: 'data' "
        "bottom: 'data' top: 'prior' prior_box_param { min_size: 1 step: 1 } "
        "} layer { name: 'add' type: 'Flatten' bottom: 'prior' top: 'flat' "
        "flatten_param { axis: 1 end_axis: 2 } } "
        "layer { name: 'cat' type: 'Concat' bottom: 'loc' bottom: 'flat' "
        "top: 'cat' }", (struct ct_onnx_options){ 0 });

    ASSERT_INT(2, (int)g->n_node);
    ASSERT_FLOAT(1, constant(g, "flat")[2] - constant(g, "flat")[0], 1e-6f);
}

static void refused(const char *text, struct ct_onnx_options o,
                    const char *name, const char *why)
{
    ASSERT_STATUS(CT_ENOTSUP, export(text, o));
    ASSERT_HAS(name, ct_last_error());
    ASSERT_HAS(why, ct_last_error());
}

TEST(export, what_onnx_cannot_say_is_refused_by_name)
{
    const struct ct_onnx_options fixed = { 0 },
                                 open  = { .batch = CT_ONNX_DYNAMIC };

    refused(IMAGE "layer { name: 'p' type: 'Pooling' bottom: 'data' "
            "top: 'p' pooling_param { pool: STOCHASTIC kernel_size: 2 } }",
            fixed, "layer p ", "stochastic");
    refused(IMAGE "layer { name: 'n' type: 'BatchNorm' bottom: 'data' "
            "top: 'n' batch_norm_param { use_global_stats: false } }",
            fixed, "layer n ", "batch's own statistics");
    refused(IMAGE "layer { name: 'n' type: 'BN' bottom: 'data' top: 'n' "
            "bn_param { bn_mode: LEARN } }",
            fixed, "layer n ", "batch's own statistics");
    refused(IMAGE "layer { name: 'n' type: 'BN' bottom: 'data' top: 'n' "
            "bn_param { axis: 2 moving_average: true } }",
            fixed, "layer n ", "axis 2");
    refused(IMAGE "layer { name: 'rois' type: 'Input' top: 'rois' "
            "input_param { shape { dim: 4 dim: 5 } } } "
            "layer { name: 'r' type: 'ROIAlign' bottom: 'data' bottom: 'rois' "
            "top: 'r' roi_pooling_param { pooled_h: 2 pooled_w: 2 } }",
            fixed, "layer r ", "corners of bins");
    refused(IMAGE "layer { name: 'i' type: 'Im2col' bottom: 'data' top: 'i' "
            "convolution_param { kernel_size: 2 } }",
            fixed, "layer i:", "Im2col");
    refused(IMAGE "layer { name: 's' type: 'Slice' bottom: 'data' top: 'a' "
            "top: 'b' slice_param { axis: 0 } }",
            open, "layer s ", "batch");
    refused(IMAGE "layer { name: 'p' type: 'Pooling' bottom: 'data' "
            "top: 'p' pooling_param { kernel_size: 1 stride: 9 } }",
            fixed, "layer p ", "outside the image");
}

/* Half pixels are an attribute that the older operator does not have. */
TEST(export, regions_are_sampled_alike_in_both_opsets)
{
    static const char *const net = IMAGE
        "layer { name: 'rois' type: 'Input' top: 'rois' "
        "input_param { shape { dim: 4 dim: 5 } } } "
        "layer { name: 'r' type: 'ROIAlign' bottom: 'data' bottom: 'rois' "
        "top: 'r' roi_align_param { pooled_h: 2 pooled_w: 2 } }";

    for (int opset = 13; opset <= 17; opset += 4) {
        Onnx__GraphProto *g =
            graph_of(net, (struct ct_onnx_options){ .opset = opset });
        const Onnx__NodeProto *n = g->node[g->n_node - 1];
        bool mode = false;

        ASSERT_HAS("RoiAlign", n->op_type);
        for (size_t i = 0; i < n->n_attribute; i++)
            mode |= strcmp(n->attribute[i]->name,
                           "coordinate_transformation_mode") == 0;
        ASSERT_INT(opset == 17, mode);
    }
}

TEST(export, opsets_are_13_and_17)
{
    ASSERT_STATUS(CT_EINVAL,
                  export(IMAGE CONV, (struct ct_onnx_options){ .opset = 9 }));
}
