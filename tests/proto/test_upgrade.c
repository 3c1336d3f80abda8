/* test_upgrade.c - nets and solvers of every age in today's form. */
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cortado/log.h"
#include "cortado/proto.h"
#include "testing/test.h"

#define NET    &caffe__net_parameter__descriptor
#define SOLVER &caffe__solver_parameter__descriptor

static void *parse(const ProtobufCMessageDescriptor *type, const char *text)
{
    void *m = NULL;

    ASSERT_OK(ct_text_parse(type, text, strlen(text), "t", &m));
    return m;
}

/* The net `old` prints as `want` once it is upgraded. */
static void upgrades(const char *old, const char *want)
{
    Caffe__NetParameter *net = parse(NET, old);
    char *got                = NULL;

    ASSERT_OK(ct_upgrade_net(net, "old.prototxt"));
    ASSERT_OK(ct_text_print(net, &got));
    ASSERT_STR(want, got);
    ct_free(got);
    ct_message_free(net);
}

static void refuses(const char *old, const char *error)
{
    Caffe__NetParameter *net = parse(NET, old);

    ASSERT_STATUS(CT_EINVAL, ct_upgrade_net(net, "old.prototxt"));
    ASSERT_HAS(error, ct_last_error());
    ASSERT_HAS("old.prototxt", ct_last_error());
    ct_message_free(net);
}

TEST(upgrade, a_net_of_today_is_left_alone)
{
    upgrades("name: 'n' layer { name: 'a' type: 'ReLU' param { lr_mult: 3 } }",
             "name: \"n\"\nlayer {\n  name: \"a\"\n  type: \"ReLU\"\n"
             "  param {\n    lr_mult: 3\n  }\n}\n");
}

/* The 39 types and NONE, as BVLC Caffe names them. */
static const struct {
    const char *v1, *name;
} types[] = {
    { "NONE", "" },
    { "ABSVAL", "AbsVal" },
    { "ACCURACY", "Accuracy" },
    { "ARGMAX", "ArgMax" },
    { "BNLL", "BNLL" },
    { "CONCAT", "Concat" },
    { "CONTRASTIVE_LOSS", "ContrastiveLoss" },
    { "CONVOLUTION", "Convolution" },
    { "DATA", "Data" },
    { "DECONVOLUTION", "Deconvolution" },
    { "DROPOUT", "Dropout" },
    { "DUMMY_DATA", "DummyData" },
    { "EUCLIDEAN_LOSS", "EuclideanLoss" },
    { "ELTWISE", "Eltwise" },
    { "EXP", "Exp" },
    { "FLATTEN", "Flatten" },
    { "HDF5_DATA", "HDF5Data" },
    { "HDF5_OUTPUT", "HDF5Output" },
    { "HINGE_LOSS", "HingeLoss" },
    { "IM2COL", "Im2col" },
    { "IMAGE_DATA", "ImageData" },
    { "INFOGAIN_LOSS", "InfogainLoss" },
    { "INNER_PRODUCT", "InnerProduct" },
    { "LRN", "LRN" },
    { "MEMORY_DATA", "MemoryData" },
    { "MULTINOMIAL_LOGISTIC_LOSS", "MultinomialLogisticLoss" },
    { "MVN", "MVN" },
    { "POOLING", "Pooling" },
    { "POWER", "Power" },
    { "RELU", "ReLU" },
    { "SIGMOID", "Sigmoid" },
    { "SIGMOID_CROSS_ENTROPY_LOSS", "SigmoidCrossEntropyLoss" },
    { "SILENCE", "Silence" },
    { "SOFTMAX", "Softmax" },
    { "SOFTMAX_LOSS", "SoftmaxWithLoss" },
    { "SPLIT", "Split" },
    { "SLICE", "Slice" },
    { "TANH", "TanH" },
    { "WINDOW_DATA", "WindowData" },
    { "THRESHOLD", "Threshold" },
};

TEST(upgrade, every_v1_type_has_its_name)
{
    const ProtobufCEnumDescriptor *e =
        &caffe__v1_layer_parameter__layer_type__descriptor;

    ASSERT_INT(e->n_values, sizeof(types) / sizeof(types[0]));
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        char old[128], want[128];

        snprintf(old, sizeof(old), "layers { name: 'l' type: %s }",
                 types[i].v1);
        snprintf(want, sizeof(want),
                 "layer {\n  name: \"l\"\n  type: \"%s\"\n}\n", types[i].name);
        upgrades(old, want);
    }
}

TEST(upgrade, v1_lists_become_param_messages)
{
    upgrades(
        "layers { name: 'ip' type: INNER_PRODUCT bottom: 'a' top: 'b'\n"
        " param: 'w' blob_share_mode: PERMISSIVE\n"
        " blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0\n"
        " loss_weight: 0.5 include { phase: TEST } exclude { stage: 's' }\n"
        " blobs { num: 1 data: 3 }\n"
        " inner_product_param { num_output: 10 } }",
        "layer {\n"
        "  name: \"ip\"\n"
        "  type: \"InnerProduct\"\n"
        "  bottom: \"a\"\n"
        "  top: \"b\"\n"
        "  loss_weight: 0.5\n"
        "  param {\n"
        "    name: \"w\"\n"
        "    share_mode: PERMISSIVE\n"
        "    lr_mult: 1\n"
        "    decay_mult: 1\n"
        "  }\n"
        "  param {\n"
        "    lr_mult: 2\n"
        "    decay_mult: 0\n"
        "  }\n"
        "  blobs {\n    num: 1\n    data: 3\n  }\n"
        "  include {\n    phase: TEST\n  }\n"
        "  exclude {\n    stage: \"s\"\n  }\n"
        "  inner_product_param {\n    num_output: 10\n  }\n"
        "}\n");
}

/* All 30 sub-messages of a V1 layer exist under the same name today. */
TEST(upgrade, every_v1_parameter_message_survives)
{
    const ProtobufCMessageDescriptor *v1 =
        &caffe__v1_layer_parameter__descriptor;
    int n = 0;

    for (unsigned i = 0; i < v1->n_fields; i++) {
        const char *name = v1->fields[i].name;
        char old[128], want[128];

        if (v1->fields[i].type != PROTOBUF_C_TYPE_MESSAGE ||
            !strstr(name, "_param"))
            continue;
        n++;
        snprintf(old, sizeof(old), "layers { %s {} }", name);
        snprintf(want, sizeof(want), "layer {\n  %s {\n  }\n}\n", name);
        upgrades(old, want);
    }
    ASSERT_INT(30, n);
}

TEST(upgrade, the_data_transformation_moves_to_its_own_message)
{
    static const char *const type[][2] = {
        { "DATA", "data_param" },
        { "IMAGE_DATA", "image_data_param" },
        { "WINDOW_DATA", "window_data_param" },
    };
    static const char *const name[] = { "Data", "ImageData", "WindowData" };

    for (int i = 0; i < 3; i++) {
        struct ct_text old = { 0 }, want = { 0 };

        ct_text_addf(&old,
                     "layers { type: %s %s { source: 's' scale: 0.5 "
                     "mean_file: 'm' crop_size: 227 mirror: true } }",
                     type[i][0], type[i][1]);
        ct_text_addf(&want,
                     "layer {\n  type: \"%s\"\n  transform_param {\n"
                     "    scale: 0.5\n    mirror: true\n    crop_size: 227\n"
                     "    mean_file: \"m\"\n  }\n  %s {\n    source: \"s\"\n"
                     "  }\n}\n",
                     name[i], type[i][1]);
        upgrades(old.s, want.s);
        ct_text_fini(&old);
        ct_text_fini(&want);
    }
}

/* As in BVLC Caffe, which looks for them in V1 layers alone. */
TEST(upgrade, deprecated_data_fields_of_today_stay)
{
    upgrades("layer { type: 'Data' data_param { scale: 0.5 } }",
             "layer {\n  type: \"Data\"\n  data_param {\n    scale: 0.5\n"
             "  }\n}\n");
}

TEST(upgrade, layer_beside_layers_is_refused)
{
    refuses("layer { name: 'a' } layers { name: 'b' }",
            "Refusing to upgrade inconsistent NetParameter input");
    refuses("layer { name: 'a' } layers { layer { name: 'b' } }",
            "Refusing to upgrade inconsistent NetParameter input");
}

TEST(upgrade, v0_fields_find_their_messages)
{
    upgrades("name: 'old' input: 'x' force_backward: true\n"
             "layers { layer { name: 'd' type: 'data' source: 'db' "
             "batchsize: 8 meanfile: 'm' cropsize: 3 mirror: true scale: 2 "
             "rand_skip: 5 } top: 'data' }\n"
             "layers { layer { name: 'c' type: 'conv' num_output: 4 "
             "kernelsize: 3 stride: 2 pad: 1 group: 2 biasterm: false "
             "weight_filler { type: 'xavier' } bias_filler { value: 1 } "
             "blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0 } "
             "bottom: 'data' top: 'c' }\n"
             "layers { layer { name: 'l' type: 'lrn' local_size: 3 alpha: 2 "
             "beta: 0.5 k: 4 } bottom: 'c' top: 'l' }\n",
             "name: \"old\"\n"
             "force_backward: true\n"
             "layer {\n"
             "  name: \"d\"\n"
             "  type: \"Data\"\n"
             "  top: \"data\"\n"
             "  transform_param {\n    scale: 2\n    mirror: true\n"
             "    crop_size: 3\n    mean_file: \"m\"\n  }\n"
             "  data_param {\n    source: \"db\"\n    batch_size: 8\n"
             "    rand_skip: 5\n  }\n"
             "}\n"
             "layer {\n"
             "  name: \"c\"\n"
             "  type: \"Convolution\"\n"
             "  bottom: \"data\"\n"
             "  top: \"c\"\n"
             "  param {\n    lr_mult: 1\n    decay_mult: 1\n  }\n"
             "  param {\n    lr_mult: 2\n    decay_mult: 0\n  }\n"
             "  convolution_param {\n    num_output: 4\n"
             "    bias_term: false\n    pad: 1\n    kernel_size: 3\n"
             "    group: 2\n    stride: 2\n"
             "    weight_filler {\n      type: \"xavier\"\n    }\n"
             "    bias_filler {\n      value: 1\n    }\n  }\n"
             "}\n"
             "layer {\n"
             "  name: \"l\"\n"
             "  type: \"LRN\"\n"
             "  bottom: \"c\"\n"
             "  top: \"l\"\n"
             "  lrn_param {\n    local_size: 3\n    alpha: 2\n    beta: 0.5\n"
             "    k: 4\n  }\n"
             "}\n");
}

TEST(upgrade, v0_fields_of_the_rarer_types_find_their_messages)
{
    static const char *const row[][3] = {
        { "type: 'pool' pool: AVE kernelsize: 2 stride: 3 pad: 1", "Pooling",
          "pooling_param {\n    pool: AVE\n    kernel_size: 2\n"
          "    stride: 3\n    pad: 1\n  }" },
        { "type: 'innerproduct' num_output: 5 biasterm: false", "InnerProduct",
          "inner_product_param {\n    num_output: 5\n    bias_term: false\n"
          "  }" },
        { "type: 'dropout' dropout_ratio: 0.25", "Dropout",
          "dropout_param {\n    dropout_ratio: 0.25\n  }" },
        { "type: 'images' source: 's' batchsize: 1 rand_skip: 2 "
          "shuffle_images: true new_height: 3 new_width: 4",
          "ImageData",
          "image_data_param {\n    source: \"s\"\n    batch_size: 1\n"
          "    rand_skip: 2\n    shuffle: true\n    new_height: 3\n"
          "    new_width: 4\n  }" },
        { "type: 'window_data' source: 's' batchsize: 1 det_fg_threshold: "
          "0.125 det_bg_threshold: 0.25 det_fg_fraction: 0.75 "
          "det_context_pad: 6 det_crop_mode: 'square'",
          "WindowData",
          "window_data_param {\n    source: \"s\"\n    batch_size: 1\n"
          "    fg_threshold: 0.125\n    bg_threshold: 0.25\n"
          "    fg_fraction: 0.75\n    context_pad: 6\n"
          "    crop_mode: \"square\"\n  }" },
        { "type: 'hdf5_data' source: 's' batchsize: 9", "HDF5Data",
          "hdf5_data_param {\n    source: \"s\"\n    batch_size: 9\n  }" },
        { "type: 'hdf5_output' hdf5_output_param { file_name: 'f' }",
          "HDF5Output", "hdf5_output_param {\n    file_name: \"f\"\n  }" },
        { "type: 'infogain_loss' source: 'H'", "InfogainLoss",
          "infogain_loss_param {\n    source: \"H\"\n  }" },
        { "type: 'concat' concat_dim: 0", "Concat",
          "concat_param {\n    concat_dim: 0\n  }" },
    };

    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct ct_text old = { 0 }, want = { 0 };

        ct_text_addf(&old, "layers { layer { name: 'l' %s } }", row[i][0]);
        ct_text_addf(&want, "layer {\n  name: \"l\"\n  type: \"%s\"\n  %s\n}\n",
                     row[i][1], row[i][2]);
        upgrades(old.s, want.s);
        ct_text_fini(&old);
        ct_text_fini(&want);
    }
}

TEST(upgrade, every_v0_type_has_its_name)
{
    static const char *const v0[][2] = {
        { "accuracy", "Accuracy" },
        { "bnll", "BNLL" },
        { "concat", "Concat" },
        { "conv", "Convolution" },
        { "data", "Data" },
        { "dropout", "Dropout" },
        { "euclidean_loss", "EuclideanLoss" },
        { "flatten", "Flatten" },
        { "hdf5_data", "HDF5Data" },
        { "hdf5_output", "HDF5Output" },
        { "im2col", "Im2col" },
        { "images", "ImageData" },
        { "infogain_loss", "InfogainLoss" },
        { "innerproduct", "InnerProduct" },
        { "lrn", "LRN" },
        { "multinomial_logistic_loss", "MultinomialLogisticLoss" },
        { "pool", "Pooling" },
        { "relu", "ReLU" },
        { "sigmoid", "Sigmoid" },
        { "softmax", "Softmax" },
        { "softmax_loss", "SoftmaxWithLoss" },
        { "split", "Split" },
        { "tanh", "TanH" },
        { "window_data", "WindowData" },
    };

    ASSERT_INT(24, sizeof(v0) / sizeof(v0[0]));
    for (int i = 0; i < 24; i++) {
        char old[128], want[128];

        snprintf(old, sizeof(old), "layers { layer { type: '%s' } }", v0[i][0]);
        snprintf(want, sizeof(want), "layer {\n  type: \"%s\"\n}\n", v0[i][1]);
        upgrades(old, want);
    }
    refuses("layers { layer { name: 'q' type: 'convolve' } }",
            "layer q: unknown V0 layer type \"convolve\"");
}

TEST(upgrade, v0_padding_folds_into_the_convolution_after_it)
{
    upgrades("input: 'data'\n"
             "layers { layer { name: 'pad1' type: 'padding' pad: 2 } "
             "bottom: 'data' top: 'padded' }\n"
             "layers { layer { name: 'c' type: 'conv' kernelsize: 5 } "
             "bottom: 'padded' top: 'c' }\n"
             "layers { layer { name: 'pad2' type: 'padding' pad: 1 } "
             "bottom: 'c' top: 'padded' }\n"
             "layers { layer { name: 'p' type: 'pool' kernelsize: 3 } "
             "bottom: 'padded' top: 'p' }\n",
             "layer {\n  name: \"c\"\n  type: \"Convolution\"\n"
             "  bottom: \"data\"\n  top: \"c\"\n  convolution_param {\n"
             "    pad: 2\n    kernel_size: 5\n  }\n}\n"
             "layer {\n  name: \"p\"\n  type: \"Pooling\"\n"
             "  bottom: \"c\"\n  top: \"p\"\n  pooling_param {\n"
             "    kernel_size: 3\n    pad: 1\n  }\n}\n");
    refuses("input: 'x' layers { layer { name: 'q' type: 'padding' pad: 2 } "
            "bottom: 'x' top: 'y' } layers { layer { name: 'r' type: 'relu' } "
            "bottom: 'y' top: 'z' }",
            "layer r: only conv and pool can follow the padding layer q");
    refuses("input: 'x' layers { layer { name: 'q' type: 'padding' pad: 2 } "
            "bottom: 'x' top: 'y' } layers { layer { name: 'c' type: 'conv' } "
            "bottom: 'y' bottom: 'x' top: 'z' }",
            "layer c: takes one bottom after a padding layer, has 2");
    refuses("layers { layer { name: 'c' type: 'conv' } bottom: 'y' }",
            "layer c: no layer before it makes its bottom \"y\"");
}

static void count_errors(enum ct_log_level level, const char *line, void *arg)
{
    (void)line;
    *(int *)arg += level == CT_LOG_ERROR;
}

/* As in BVLC Caffe: complained about, and left out. */
TEST(upgrade, a_v0_field_on_the_wrong_type_is_complained_about)
{
    enum ct_log_level before = ct_log_level();
    int n                    = 0;

    ct_log_set_level(CT_LOG_ERROR);
    ct_log_set_sink(count_errors, &n);
    upgrades("layers { layer { name: 'r' type: 'relu' kernelsize: 5 "
             "hdf5_output_param { file_name: 'f' } new_num: 3 } }",
             "layer {\n  name: \"r\"\n  type: \"ReLU\"\n}\n");
    ct_log_set_sink(NULL, NULL);
    ct_log_set_level(before);
    ASSERT_INT(3, n); /* two fields, and that there were problems */
}

TEST(upgrade, v0_nets_keep_only_the_fields_v0_had)
{
    upgrades("name: 'n' debug_info: true state { level: 1 } "
             "layers { layer { name: 'r' type: 'relu' } include { } }",
             "name: \"n\"\nlayer {\n  name: \"r\"\n  type: \"ReLU\"\n}\n");
}

TEST(upgrade, input_fields_become_the_first_layer)
{
    upgrades("input: 'a' input: 'b' input_dim: [1, 3, 4, 5, 6, 7, 8, 9] "
             "layer { name: 'r' }",
             "layer {\n  name: \"input\"\n  type: \"Input\"\n  top: \"a\"\n"
             "  top: \"b\"\n  input_param {\n"
             "    shape {\n      dim: 1\n      dim: 3\n      dim: 4\n"
             "      dim: 5\n    }\n"
             "    shape {\n      dim: 6\n      dim: 7\n      dim: 8\n"
             "      dim: 9\n    }\n  }\n}\n"
             "layer {\n  name: \"r\"\n}\n");
    upgrades("input: 'a' input_shape { dim: 2 dim: 3 } layers { name: 'r' }",
             "layer {\n  name: \"input\"\n  type: \"Input\"\n  top: \"a\"\n"
             "  input_param {\n    shape {\n      dim: 2\n      dim: 3\n"
             "    }\n  }\n}\nlayer {\n  name: \"r\"\n}\n");
    upgrades("input: 'a' layer { name: 'r' }", "layer {\n  name: \"r\"\n}\n");
    refuses("input: 'a' input: 'b' input_dim: [1, 2, 3, 4, 5]",
            "2 inputs have 5 input_dim");
    refuses("input: 'a' input: 'b' input_shape { dim: 1 }",
            "2 inputs have 1 input_shape");
}

TEST(upgrade, three_param_specs_of_batch_norm_are_frozen)
{
    static const char frozen[] = "  param {\n    lr_mult: 0\n"
                                 "    decay_mult: 0\n  }\n";
    struct ct_text want        = { 0 };

    ct_text_addf(&want, "layer {\n  type: \"BatchNorm\"\n%s%s%s}\n", frozen,
                 frozen, frozen);
    upgrades("layer { type: 'BatchNorm' param { lr_mult: 1 } param {} param "
             "{ decay_mult: 2 } }",
             want.s);
    upgrades(want.s, want.s);
    ct_text_fini(&want);
    upgrades("layer { type: 'BatchNorm' param { lr_mult: 1 } param {} }",
             "layer {\n  type: \"BatchNorm\"\n  param {\n    lr_mult: 1\n"
             "  }\n  param {\n  }\n}\n");
    upgrades("layer { type: 'Scale' param { lr_mult: 1 } param {} param {} }",
             "layer {\n  type: \"Scale\"\n  param {\n    lr_mult: 1\n  }\n"
             "  param {\n  }\n  param {\n  }\n}\n");
}

static void solver_upgrades(const char *old, const char *path, const char *want)
{
    Caffe__SolverParameter *s = parse(SOLVER, old);
    char *got                 = NULL;

    ASSERT_OK(ct_upgrade_solver(s, path));
    ASSERT_OK(ct_text_print(s, &got));
    ASSERT_STR(want, got);
    ct_free(got);
    ct_message_free(s);
}

TEST(upgrade, solver_types_have_names)
{
    static const char *const type[][2] = {
        { "SGD", "SGD" },           { "NESTEROV", "Nesterov" },
        { "ADAGRAD", "AdaGrad" },   { "RMSPROP", "RMSProp" },
        { "ADADELTA", "AdaDelta" }, { "ADAM", "Adam" },
    };
    Caffe__SolverParameter *s;

    for (int i = 0; i < 6; i++) {
        char old[64], want[96];

        snprintf(old, sizeof(old), "snapshot_prefix: 'p' solver_type: %s",
                 type[i][0]);
        snprintf(want, sizeof(want), "snapshot_prefix: \"p\"\ntype: \"%s\"\n",
                 type[i][1]);
        solver_upgrades(old, "s.prototxt", want);
    }
    s = parse(SOLVER, "type: 'Adam' solver_type: ADAM");
    ASSERT_STATUS(CT_EINVAL, ct_upgrade_solver(s, "s.prototxt"));
    ASSERT_HAS("s.prototxt", ct_last_error());
    ASSERT_HAS("solver_type", ct_last_error());
    ct_message_free(s);
}

TEST(upgrade, snapshot_prefix_follows_the_solver_file)
{
    char folder[512], old[700], want[800];

    solver_upgrades("", "a.b/lenet.solver.prototxt",
                    "snapshot_prefix: \"a.b/lenet.solver\"\n");
    solver_upgrades("", "a.b/solver", "snapshot_prefix: \"a.b/solver\"\n");
    solver_upgrades("", "x/.solver", "snapshot_prefix: \"x/.solver\"\n");
    solver_upgrades("snapshot_prefix: 'mine'", "a/s.prototxt",
                    "snapshot_prefix: \"mine\"\n");
    snprintf(folder, sizeof(folder), "%s/snapshots", test_folder());
    ASSERT_INT(0, mkdir(folder, 0700));
    snprintf(want, sizeof(want), "snapshot_prefix: \"%s/s\"\n", folder);
    snprintf(old, sizeof(old), "snapshot_prefix: '%s'", folder);
    solver_upgrades(old, "a/s.prototxt", want);
    snprintf(old, sizeof(old), "snapshot_prefix: '%s/'", folder);
    solver_upgrades(old, "s.prototxt", want);
}

TEST(upgrade, nets_inside_a_solver_are_upgraded)
{
    solver_upgrades("snapshot_prefix: 'p' net_param { layers { type: RELU } } "
                    "test_net_param { layers { type: LRN } } "
                    "train_net_param { layers { type: MVN } }",
                    "s",
                    "snapshot_prefix: \"p\"\n"
                    "train_net_param {\n  layer {\n    type: \"MVN\"\n  }\n}\n"
                    "test_net_param {\n  layer {\n    type: \"LRN\"\n  }\n}\n"
                    "net_param {\n  layer {\n    type: \"ReLU\"\n  }\n}\n");
}

TEST(upgrade, reading_files_upgrades_them)
{
    static const char net_text[]    = "layers { type: TANH }";
    static const char solver_text[] = "solver_type: ADAM";
    Caffe__NetParameter *net        = NULL;
    Caffe__SolverParameter *solver  = NULL;
    char path[512];

    snprintf(path, sizeof(path), "%s/old.prototxt", test_folder());
    ASSERT_OK(ct_file_write(path, net_text, strlen(net_text)));
    ASSERT_OK(ct_net_param_read(path, &net));
    ASSERT_STR("TanH", net->layer[0]->type);
    ASSERT_INT(0, net->n_layers);
    ct_message_free(net);
    net = parse(NET, net_text);
    ASSERT_OK(ct_binary_write(net, path));
    ct_message_free(net);
    ASSERT_OK(ct_net_param_read_binary(path, &net));
    ASSERT_STR("TanH", net->layer[0]->type);
    ct_message_free(net);
    ASSERT_OK(ct_file_write(path, solver_text, strlen(solver_text)));
    ASSERT_OK(ct_solver_param_read(path, &solver));
    ASSERT_STR("Adam", solver->type);
    path[strlen(path) - strlen(".prototxt")] = '\0';
    ASSERT_STR(path, solver->snapshot_prefix);
    ct_message_free(solver);
}
