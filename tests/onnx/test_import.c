/* test_import.c - models written with graph.h, read back as nets.
 *
 * Numbers of whole nets are compared by tests/onnx/run and foreign. */
#include "cortado/onnx.h"

#include "base/mem.h"
#include "net/net_test.h"
#include "onnx/graph.h"
#include "testing/files.h"

static void free_graph(void *g)
{
    onnx_graph_fini(g);
    ct_free(g);
}

static void free_message(void *m)
{
    ct_message_free(m);
}

/* A model with the input x of the shape. */
static struct onnx_graph *model(struct ct_shape shape)
{
    struct onnx_graph *g;

    ASSERT_OK(ct_alloc(1, sizeof(*g), "model", &g));
    ASSERT_OK(onnx_graph_init(g, "net", 13));
    test_defer(free_graph, g);
    onnx_add_value(g, true, "x", &shape);
    return g;
}

static enum ct_status import(struct onnx_graph *g, int64_t batch,
                             Caffe__NetParameter **out)
{
    const struct ct_onnx_options o = { .batch = batch };
    enum ct_status st;

    ASSERT_OK(g->status);
    ASSERT_OK(ct_binary_write(g->model, test_path("net.onnx")));
    st = ct_onnx_import(test_path("net.onnx"), &o, out);
    if (st == CT_OK)
        test_defer(free_message, *out);
    return st;
}

/* The net of the model, whose output is y, run on 1, 2, 3, ... */
static struct ct_blob *run(struct onnx_graph *g)
{
    const struct ct_net_options o = { .phase        = CAFFE__PHASE__TEST,
                                      .forward_only = true,
                                      .keep_blobs   = true,
                                      .quiet        = true };
    Caffe__NetParameter *param = NULL;
    struct ct_net *net         = NULL;
    struct ct_blob *x;

    onnx_add_value(g, false, "y", &CT_SHAPE(1));
    ASSERT_OK(import(g, 0, &param));
    ASSERT_OK(ct_net_create(param, &o, &net));
    test_defer(net_test_free, net);
    ASSERT_OK(ct_net_copy_weights(net, param, "test"));
    x = net_blob_named(net, "x");
    for (int64_t i = 0; i < x->count; i++)
        ct_data(x)[i] = (float)(i + 1);
    ASSERT_OK(ct_net_forward(net, NULL));
    return net_blob_named(net, "y");
}

static void is(const struct ct_blob *b, const float *want, int64_t n)
{
    if (b->count != n)
        FAIL("%d values, not %d", (int)b->count, (int)n);
    for (int64_t i = 0; i < n; i++)
        ASSERT_FLOAT(want[i], ct_data(b)[i], 1e-5f);
}
#define IS(b, ...)                                                           \
    is(b, (const float[]){ __VA_ARGS__ },                                    \
       sizeof((const float[]){ __VA_ARGS__ }) / sizeof(float))

/* x is 1 .. 4: x W^T, with W given as k x n and scaled by alpha. */
TEST(import, gemm_is_an_inner_product)
{
    struct onnx_graph *g = model(CT_SHAPE(2, 2));
    const float w[] = { 1, 2, 3, 4, 5, 6 }, c[] = { 10, 20, 30 };

    onnx_floats(g, "w", &CT_SHAPE(2, 3), w);
    onnx_floats(g, "c", &CT_SHAPE(3), c);
    onnx_set_float(g, onnx_add(g, "fc", "Gemm", ONNX_IN("x", "w", "c"), "y"),
                   "alpha", 2);
    IS(run(g), 28, 44, 60, 48, 72, 96);
}

/* 1 / (2 x - 1) of 1 .. 3, by constants on either side. */
TEST(import, constants_stand_on_either_side)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 3));

    onnx_float(g, "two", 2);
    onnx_float(g, "one", 1);
    onnx_add(g, "a", "Mul", ONNX_IN("two", "x"), "a");
    onnx_add(g, "b", "Sub", ONNX_IN("a", "one"), "b");
    onnx_add(g, "c", "Div", ONNX_IN("one", "b"), "y");
    IS(run(g), 1, 1.f / 3, .2f);
}

/* x: 1 x 2 x 1 x 2 is 1 2 | 3 4; channels 10 and 20; then over their mean. */
TEST(import, smaller_blobs_are_repeated)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 2, 1, 2));
    const float c[] = { 10, 20 };

    onnx_floats(g, "c", &CT_SHAPE(2, 1, 1), c);
    onnx_add(g, "add", "Add", ONNX_IN("x", "c"), "a");
    onnx_add(g, "mean", "GlobalAveragePool", ONNX_IN("x"), "m");
    onnx_add(g, "div", "Div", ONNX_IN("a", "m"), "y");
    IS(run(g), 11 / 1.5f, 12 / 1.5f, 23 / 3.5f, 24 / 3.5f);
}

/* Windows of 2 with one zero before: (0 1) (2 3) of 1 2 3, where the padding
 * does not count. */
TEST(import, averages_divide_as_onnx_does)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 1, 1, 3));
    const int64_t kernel[] = { 1, 2 }, pads[] = { 0, 1, 0, 0 };
    Onnx__NodeProto *n = onnx_add(g, "p", "AveragePool", ONNX_IN("x"), "y");

    onnx_set_ints(g, n, "kernel_shape", 2, kernel);
    onnx_set_ints(g, n, "strides", 2, kernel);
    onnx_set_ints(g, n, "pads", 4, pads);
    IS(run(g), 1, 2.5f);
}

/* Shape, Gather, Mul and Concat end in the shape of a Reshape. */
TEST(import, shapes_are_computed)
{
    struct onnx_graph *g = model(CT_SHAPE(2, 3, 2));
    const int64_t one[] = { 1 }, two[] = { 2 };

    onnx_longs(g, "one", 1, one);
    onnx_longs(g, "two", 1, two);
    onnx_add(g, "s", "Shape", ONNX_IN("x"), "s");
    onnx_add(g, "g", "Gather", ONNX_IN("s", "one"), "g");
    onnx_add(g, "m", "Mul", ONNX_IN("g", "two"), "m");
    onnx_set_int(g, onnx_add(g, "c", "Concat", ONNX_IN("two", "m"), "c"),
                 "axis", 0);
    onnx_add(g, "r", "Reshape", ONNX_IN("x", "c"), "y");
    ASSERT_INT(6, (int)run(g)->shape.dim[1]);
}

/* 1 2 3 with a border of 2. */
TEST(import, borders_repeat_and_reflect)
{
    static const char *const modes[] = { "edge", "reflect" };
    const int64_t pads[] = { 0, 0, 0, 2, 0, 0, 0, 2 };
    const float want[2][7] = { { 1, 1, 1, 2, 3, 3, 3 },
                               { 3, 2, 1, 2, 3, 2, 1 } };

    for (int i = 0; i < 2; i++) {
        struct onnx_graph *g = model(CT_SHAPE(1, 1, 1, 3));

        onnx_longs(g, "pads", 8, pads);
        onnx_set_string(g, onnx_add(g, "p", "Pad", ONNX_IN("x", "pads"), "y"),
                        "mode", modes[i]);
        is(run(g), want[i], 7);
    }
}

/* Scale and ReLU take the place of what they alone read, and get its name from
 * the last; what two nodes read stays, as does an output. */
TEST(import, layers_work_in_place_where_nobody_else_reads)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 2, 1, 1));
    const float w[] = { 1, 0, 0, -1 }, s[] = { 2, 3 };
    Caffe__NetParameter *net = NULL;

    onnx_floats(g, "w", &CT_SHAPE(2, 2, 1, 1), w);
    onnx_floats(g, "s", &CT_SHAPE(2, 1, 1), s);
    onnx_add(g, "conv", "Conv", ONNX_IN("x", "w"), "a");
    onnx_add(g, "scale", "Mul", ONNX_IN("a", "s"), "b");
    onnx_add(g, "relu", "Relu", ONNX_IN("b"), "c");
    onnx_add(g, "relu2", "Relu", ONNX_IN("c"), "d");
    onnx_add(g, "sum", "Add", ONNX_IN("c", "d"), "y");
    onnx_add_value(g, false, "y", &CT_SHAPE(1, 2, 1, 1));
    ASSERT_OK(import(g, 1, &net));
    ASSERT_INT(6, (int)net->n_layer); /* with the input */
    ASSERT_HAS("x", net->layer[1]->bottom[0]);
    for (int i = 1; i < 4; i++)
        ASSERT_HAS("c", net->layer[i]->top[0]);
    ASSERT_HAS("c", net->layer[2]->bottom[0]);
    ASSERT_HAS("c", net->layer[3]->bottom[0]);
    ASSERT_HAS("d", net->layer[4]->top[0]);
    IS(run(g), 4, 0); /* 1 * 2 twice; -2 * 3 is cut off */
}

/* Columns 1 and 2 of rows 1 2 3 4 | 5 6 7 8. */
TEST(import, a_slice_leaves_the_rest_silent)
{
    struct onnx_graph *g = model(CT_SHAPE(2, 4));
    const int64_t from[] = { 1 }, to[] = { -1 }, axes[] = { 1 };

    onnx_longs(g, "from", 1, from);
    onnx_longs(g, "to", 1, to);
    onnx_longs(g, "axes", 1, axes);
    onnx_add(g, "s", "Slice", ONNX_IN("x", "from", "to", "axes"), "y");
    IS(run(g), 2, 3, 6, 7);
}

TEST(import, an_open_batch_takes_the_size_that_is_asked_for)
{
    struct onnx_graph *g = model(CT_SHAPE(-1, 3));
    Caffe__NetParameter *net = NULL;

    onnx_add(g, "relu", "Relu", ONNX_IN("x"), "y");
    onnx_add_value(g, false, "y", &CT_SHAPE(-1, 3));
    ASSERT_OK(import(g, 5, &net));
    ASSERT_INT(5, (int)net->layer[0]->input_param->shape[0]->dim[0]);
}

static void refused(struct onnx_graph *g, enum ct_status code,
                    const char *why)
{
    Caffe__NetParameter *net = NULL;

    onnx_add_value(g, false, "y", &CT_SHAPE(1));
    ASSERT_STATUS(code, import(g, 0, &net));
    ASSERT_HAS("net.onnx", ct_last_error());
    ASSERT_HAS(why, ct_last_error());
}

TEST(import, an_unknown_operator_is_refused_by_name)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 3));

    onnx_add(g, "odd", "Erf", ONNX_IN("x"), "y");
    refused(g, CT_ENOTSUP, "node odd (Erf)");
}

TEST(import, a_border_that_no_layer_makes_is_refused)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 1, 1, 3));
    const int64_t pads[] = { 0, 0, 0, 1, 0, 0, 0, 2 };

    onnx_longs(g, "pads", 8, pads);
    onnx_set_string(g, onnx_add(g, "p", "Pad", ONNX_IN("x", "pads"), "y"),
                    "mode", "edge");
    refused(g, CT_ENOTSUP, "as wide on both sides");
}

/* A few bytes that would take all of the memory. */
TEST(import, tensors_of_any_size_are_refused)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 1, 2, 2));
    const int64_t sizes[] = { 1, 1, 1 << 15, 1 << 15 };
    Onnx__NodeProto *n;

    onnx_longs(g, "sizes", 4, sizes);
    n = onnx_add(g, "big", "Resize", ONNX_IN("x", "", "", "sizes"), "y");
    onnx_set_string(g, n, "mode", "linear");
    onnx_set_string(g, n, "coordinate_transformation_mode", "align_corners");
    refused(g, CT_ENOTSUP, "node big");
    ASSERT_HAS("32768 x 32768 values", ct_last_error());
    g = model(CT_SHAPE(1, 1, 2, 2));
    onnx_longs(g, "times", 4, sizes);
    onnx_add(g, "many", "Tile", ONNX_IN("x", "times"), "y");
    refused(g, CT_ENOTSUP, "makes 4294967296 values");
    g = model(CT_SHAPE(1, 1, 1 << 15, 1 << 15));
    onnx_add(g, "relu", "Relu", ONNX_IN("x"), "y");
    refused(g, CT_ENOTSUP, "input x has 1073741824 values");
}

TEST(import, a_missing_tensor_is_refused)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 3));

    onnx_add(g, "relu", "Relu", ONNX_IN("nobody"), "y");
    refused(g, CT_ENOTSUP, "nobody");
}

TEST(import, weights_that_do_not_fit_are_refused)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 3));
    const float w[] = { 1, 2, 3, 4 };

    onnx_floats(g, "w", &CT_SHAPE(2, 2), w);
    onnx_add(g, "fc", "Gemm", ONNX_IN("x", "w"), "y");
    refused(g, CT_ESHAPE, "fc");
}

TEST(import, constants_are_as_long_as_their_shape_says)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 3));

    onnx_float(g, "c", 1);
    g->model->graph->initializer[0]->raw_data.len = 3;
    onnx_add(g, "a", "Add", ONNX_IN("x", "c"), "y");
    refused(g, CT_EPARSE, "constant c");
}

/* A note names a layer that runs code: it is not taken. */
TEST(import, notes_bring_no_python)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 3));
    Caffe__NetParameter *net = NULL;

    onnx_add(g, "evil", "Relu", ONNX_IN("x"), "y");
    onnx_add_note(g, "cortado.layer.evil",
                  "name: 'evil' type: 'Python' bottom: 'x' top: 'y' "
                  "python_param { module: 'os' layer: 'abort' }");
    onnx_add_value(g, false, "y", &CT_SHAPE(1, 3));
    ASSERT_OK(import(g, 0, &net));
    ASSERT_STR("ReLU", net->layer[1]->type);
}

TEST(import, a_truncated_file_is_refused)
{
    struct onnx_graph *g = model(CT_SHAPE(1, 3));
    Caffe__NetParameter *net = NULL;
    struct ct_bytes all;

    onnx_add(g, "relu", "Relu", ONNX_IN("x"), "y");
    onnx_add_value(g, false, "y", &CT_SHAPE(1, 3));
    ASSERT_OK(import(g, 0, &net));
    all = test_read(test_path("net.onnx"));
    for (size_t n = 0; n < all.n; n++) {
        enum ct_status st =
            ct_onnx_import_bytes(all.ptr, n, "cut", NULL, &net);

        if (st == CT_OK)
            FAIL("%d of %d bytes are a model", (int)n, (int)all.n);
    }
}
