/* test_part.c - a layer in place takes from others nothing that they need: nets
 * have the gradients that they have when every top has a name of its own. */
#include <stdlib.h>

#include "base/rng.h"
#include "net_test.h"

/* A layer of this type, from %s to %s. */
static const char *const kinds[] = {
    "type: 'ReLU' bottom: '%s' top: '%s'",
    "type: 'ReLU' bottom: '%s' top: '%s' relu_param { negative_slope: 0.3 }",
    "type: 'ReLU' bottom: '%s' top: '%s' relu_param { negative_slope: -0.5 }",
    "type: 'ReLU6' bottom: '%s' top: '%s'",
    "type: 'ELU' bottom: '%s' top: '%s'",
    "type: 'Sigmoid' bottom: '%s' top: '%s'",
    "type: 'TanH' bottom: '%s' top: '%s'",
    "type: 'BNLL' bottom: '%s' top: '%s'",
    "type: 'Swish' bottom: '%s' top: '%s'",
    "type: 'Exp' bottom: '%s' top: '%s' exp_param { scale: 0.3 }",
    "type: 'Log' bottom: '%s' top: '%s' log_param { shift: 60 }",
    "type: 'Clip' bottom: '%s' top: '%s' clip_param { min: -1 max: 1 }",
    "type: 'Power' bottom: '%s' top: '%s' power_param { scale: -2 shift: 1 }",
    "type: 'Power' bottom: '%s' top: '%s' power_param { power: 2 shift: 1 }",
    "type: 'PReLU' bottom: '%s' top: '%s'",
    "type: 'Scale' bottom: '%s' top: '%s' scale_param { filler { value: -2 } }",
    "type: 'Bias' bottom: '%s' top: '%s' bias_param { filler { value: 1 } }",
    "type: 'BatchNorm' bottom: '%s' top: '%s'",
    "type: 'MVN' bottom: '%s' top: '%s'",
    "type: 'Softmax' bottom: '%s' top: '%s'",
    "type: 'Dropout' bottom: '%s' top: '%s'",
};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]), ROOM = 8192 };

#define HEAD                                                                 \
    "layer { name: 'in' type: 'Input' top: 'x' top: 't' "                    \
    "  input_param { shape { dim: 3 dim: 4 dim: 3 dim: 2 } "                 \
    "                shape { dim: 3 dim: 2 } } }"                            \
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "            \
    "  convolution_param { num_output: 4 kernel_size: 1 "                    \
    "  weight_filler { type: 'gaussian' std: 0.5 } } }"
/* A loss of this blob. */
#define LOSS(name, bottom)                                                   \
    "layer { name: 'f" name "' type: 'InnerProduct' bottom: '" bottom "' "   \
    "  top: 'f" name "' inner_product_param { num_output: 2 "                \
    "  weight_filler { type: 'gaussian' std: 1 } } }"                        \
    "layer { name: 'l" name "' type: 'EuclideanLoss' bottom: 'f" name "' "   \
    "  bottom: 't' top: 'l" name "' }"
#define FLAT(bottom)                                                         \
    "layer { name: 'flat' type: 'Flatten' bottom: '" bottom "' "             \
    "  top: 'flat' }"

static void add(char *text, const char *name, const char *kind,
                const char *bottom, const char *top)
{
    size_t n = strlen(text);

    n += (size_t)snprintf(text + n, ROOM - n, "layer { name: '%s' ", name);
    n += (size_t)snprintf(text + n, ROOM - n, kind, bottom, top);
    snprintf(text + n, ROOM - n, " }");
}

static void pass(struct ct_net *net)
{
    for (int k = 0; k < ct_net_n_inputs(net); k++) {
        struct ct_blob *x = ct_net_blob(net, ct_net_input_id(net, k));

        for (int64_t i = 0; i < x->count; i++)
            ct_data(x)[i] = ct_normal(5, (uint64_t)k, (uint64_t)i);
    }
    ASSERT_OK(ct_net_clear_diffs(net));
    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_OK(ct_net_backward(net));
}

static void same(const struct ct_net *a, const struct ct_net *b,
                 const char *text)
{
    ASSERT_INT(ct_net_n_params(a), ct_net_n_params(b));
    for (int p = 0; p < ct_net_n_params(a); p++) {
        const struct ct_blob *x = ct_net_param(a, p)->blob;
        const struct ct_blob *y = ct_net_param(b, p)->blob;
        double most             = 0.3;

        for (int64_t i = 0; i < x->count; i++)
            most = fmax(most, fabs((double)ct_diff(x)[i]));
        for (int64_t i = 0; i < x->count; i++)
            if (!(fabs((double)(ct_diff(x)[i] - ct_diff(y)[i])) <=
                  1e-4 * most))
                FAIL("parameter %d, value %d is %g, not %g, in\n%s", p, (int)i,
                     (double)ct_diff(y)[i], (double)ct_diff(x)[i], text);
    }
}

static struct ct_net *run(const char *text, const char *impl, bool keep)
{
    struct ct_net_options o = { .keep_blobs = keep };
    struct ct_net *net      = NULL;

    setenv("CORTADO_IMPL", impl, 1);
    ASSERT_OK(net_try(text, CAFFE__PHASE__TRAIN, o, &net));
    unsetenv("CORTADO_IMPL");
    pass(net);
    return net;
}

/* `apart` names every top, `text` works in place: in one way after the other,
 * since there are many. */
static void check(const char *apart, const char *text)
{
    static const char *const impls[] = { "", "fuse:none", "", "" };
    static int way;
    struct ct_net *want = run(apart, "fuse:none", false);
    struct ct_net *net  = run(text, impls[way % 4], way % 4 == 3);

    way++;
    same(want, net, text);
    ct_net_destroy(net);
    ct_net_destroy(want);
}

TEST(part, two_layers_in_place_have_the_gradients_of_two_that_are_not)
{
    for (int a = 0; a < N_KINDS; a++)
        for (int b = 0; b < N_KINDS; b++) {
            char apart[ROOM] = HEAD, text[ROOM] = HEAD, half[ROOM] = HEAD;

            add(apart, "a", kinds[a], "c", "a");
            add(apart, "b", kinds[b], "a", "b");
            strcat(apart, LOSS("", "b"));
            add(text, "a", kinds[a], "c", "c");
            add(text, "b", kinds[b], "c", "c");
            strcat(text, LOSS("", "c"));
            check(apart, text);
            add(half, "a", kinds[a], "c", "a");
            add(half, "b", kinds[b], "a", "a");
            strcat(half, LOSS("", "a"));
            check(apart, half);
        }
}

/* What is flat is a view of what lies before it: for layers that read that in
 * the backward pass, and for those that read it later in the forward pass. */
TEST(part, a_layer_in_place_on_a_view_leaves_others_what_it_looks_into)
{
    for (int a = 0; a < N_KINDS; a += 5)
        for (int b = 12; b < 17; b += 4) {
            char apart[ROOM] = HEAD, text[ROOM] = HEAD, two[ROOM];

            add(apart, "a", kinds[a], "c", "a");
            strcpy(text, apart);
            strcat(apart, FLAT("a"));
            strcat(text, FLAT("a"));
            add(apart, "b", kinds[b], "flat", "b");
            add(text, "b", kinds[b], "flat", "flat");
            strcat(apart, LOSS("", "b"));
            strcat(text, LOSS("", "flat"));
            check(apart, text);
            strcpy(two, text);
            strcat(apart, LOSS("2", "a"));
            strcat(two, LOSS("2", "a"));
            check(apart, two);
        }
}

TEST(part, the_net_shows_the_blobs_of_the_prototxt)
{
    char text[ROOM] = HEAD;
    struct ct_net_options keep = { .keep_blobs = true };
    struct ct_net *net;
    int c;

    add(text, "a", kinds[5], "c", "c");
    add(text, "b", kinds[12], "c", "c");
    strcat(text, LOSS("", "c"));
    net = net_with(text, CAFFE__PHASE__TRAIN, keep);
    pass(net);
    c = ct_net_find_blob(net, "c");
    ASSERT_INT(5, ct_net_n_blobs(net)); /* x, t, c, f, l */
    ASSERT_INT(c, ct_net_top_id(net, 1, 0));
    ASSERT_INT(c, ct_net_bottom_id(net, 2, 0));
    ASSERT_INT(c, ct_net_bottom_id(net, 3, 0));
    /* 1 - 2 s, s in (0, 1): what the last layer left there */
    for (int64_t i = 0; i < ct_net_blob(net, c)->count; i++)
        ASSERT(fabsf(ct_data(ct_net_blob(net, c))[i]) < 1);
}

#define SOURCE                                                               \
    "force_backward: true "                                                  \
    "layer { name: 'in' type: 'Input' top: 'x' top: 't' "                    \
    "  input_param { shape { dim: 3 dim: 4 dim: 3 dim: 2 } "                 \
    "                shape { dim: 3 dim: 2 } } }"

/* A Scale learns from what the layers behind it leave of the source's top. */
TEST(part, layers_in_place_on_a_source_have_the_gradients_of_others)
{
    for (int a = 0; a < N_KINDS; a++) {
        char apart[ROOM] = SOURCE, text[ROOM] = SOURCE;
        const char *scale = kinds[15], *b = kinds[(a + 5) % N_KINDS];
        struct ct_net *want, *net;
        const struct ct_blob *x, *y;

        add(apart, "s", scale, "x", "s");
        add(apart, "a", kinds[a], "s", "a");
        add(apart, "b", b, "a", "b");
        strcat(apart, LOSS("", "b"));
        add(text, "s", scale, "x", "x");
        add(text, "a", kinds[a], "x", "x");
        add(text, "b", b, "x", "x");
        strcat(text, LOSS("", "x"));
        check(apart, text);
        want = run(apart, "fuse:none", true);
        net  = run(text, "", true);
        x    = net_blob_named(want, "x");
        y    = net_blob_named(net, "x");
        for (int64_t i = 0; i < x->count; i++)
            ASSERT_FLOAT(ct_diff(x)[i], ct_diff(y)[i],
                         1e-5f + 1e-4f * fabsf(ct_diff(x)[i]));
        ct_net_destroy(net);
        ct_net_destroy(want);
    }
}

/* The caller fills x, whatever its shape, and finds there what layers left. */
TEST(part, the_top_of_a_source_is_filled_and_read_by_its_name)
{
    struct ct_net_options keep = { .keep_blobs = true };
    struct ct_net *net = net_with(
        "layer { name: 'in' type: 'Input' top: 'x' "
        "  input_param { shape { dim: 1 dim: 2 } } }"
        "layer { name: 's' type: 'Scale' bottom: 'x' top: 'x' "
        "  scale_param { filler { value: 3 } } }"
        "layer { name: 'p' type: 'Power' bottom: 'x' top: 'x' "
        "  power_param { power: 2 } }"
        "layer { name: 'l' type: 'Reduction' bottom: 'x' top: 'l' "
        "  loss_weight: 1 }", CAFFE__PHASE__TRAIN, keep);
    struct ct_blob *x = net_blob_named(net, "x");
    const float *g    = ct_diff(ct_net_param(net, 0)->blob);

    for (int n = 1; n < 4; n++) {
        ASSERT_OK(ct_reshape(x, CT_SHAPE(n, 2)));
        if (n == 3) /* asked for, or found out in the pass */
            ASSERT_OK(ct_net_reshape(net));
        for (int i = 0; i < 2 * n; i++)
            ct_data(x)[i] = (float)(i % 2 + 1);
        ASSERT_OK(ct_net_clear_diffs(net));
        ASSERT_OK(ct_net_forward(net, NULL));
        ASSERT_OK(ct_net_backward(net));
        ASSERT_FLOAT(9, ct_data(x)[2 * n - 2], 0);
        ASSERT_FLOAT(36, ct_data(x)[2 * n - 1], 0);
        /* 2 * 3 x^2, for each row */
        ASSERT_FLOAT((float)(6 * n), g[0], 0);
        ASSERT_FLOAT((float)(24 * n), g[1], 0);
    }
}

TEST(part, the_top_of_a_source_keeps_its_loss_weight)
{
    struct ct_net *net = net_of(
        "layer { name: 'in' type: 'Input' top: 'x' "
        "  input_param { shape { dim: 1 dim: 1 } } }"
        "layer { name: 's' type: 'Scale' bottom: 'x' top: 'x' "
        "  scale_param { filler { value: 3 } } }"
        "layer { name: 'p' type: 'Power' bottom: 'x' top: 'x' "
        "  power_param { power: 2 } loss_weight: 0.5 }");
    double loss;

    for (int turn = 0; turn < 2; turn++) {
        ct_data(net_blob_named(net, "x"))[0] = 2;
        ASSERT_OK(ct_net_clear_diffs(net));
        ASSERT_OK(ct_net_forward(net, &loss));
        ASSERT_OK(ct_net_backward(net));
        ASSERT_FLOAT(18, loss, 0);
        ASSERT_FLOAT(12, ct_diff(ct_net_param(net, 0)->blob)[0], 0);
    }
}

/* The gradient of a view lies where its bottom's does, unless a loss weight
 * rests there: a ReLU in place would leave its mask to the next pass. */
TEST(part, a_view_keeps_its_loss_weight)
{
    static const char *const view[] = {
        "type: 'Flatten'",
        "type: 'Reshape' reshape_param { shape { dim: 0 dim: -1 } }",
    };
    static const char *const impls[] = { "", "fuse:none",
                                         "layout:plain,chain:none" };
    char text[ROOM];

    for (int i = 0; i < 12; i++) {
        struct ct_net_options o = { .keep_blobs = i >= 6 };
        struct ct_net *net;

        snprintf(text, sizeof(text),
                 "layer { name: 'in' type: 'Input' top: 'x' "
                 "  input_param { shape { dim: 1 dim: 1 dim: 1 dim: 1 } } }"
                 "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "
                 "  convolution_param { num_output: 16 kernel_size: 1 "
                 "  weight_filler { value: 3 } } }"
                 "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
                 "layer { name: 'v' %s bottom: 'c' top: 'v' "
                 "  loss_weight: 0.5 }", view[i % 2]);
        setenv("CORTADO_IMPL", impls[i / 2 % 3], 1);
        net = net_with(text, CAFFE__PHASE__TRAIN, o);
        unsetenv("CORTADO_IMPL");
        for (int turn = 0; turn < 3; turn++) {
            const bool on = turn != 1; /* it is off in between */
            double loss;

            ct_data(net_blob_named(net, "x"))[0] = on ? 2 : -2;
            ASSERT_OK(ct_net_clear_diffs(net));
            ASSERT_OK(ct_net_forward(net, &loss));
            ASSERT_OK(ct_net_backward(net));
            ASSERT_FLOAT(on ? 48 : 0, loss, 1e-5);
            ASSERT_FLOAT(on ? 1 : 0, ct_diff(ct_net_param(net, 0)->blob)[15],
                         0);
        }
    }
}

/* Memory is only spent where it must be. */
TEST(part, dropout_stays_in_place_on_what_a_relu_left)
{
    char text[ROOM] = HEAD, *plan;
    struct ct_net *net;

    add(text, "a", kinds[0], "c", "c");
    add(text, "b", kinds[20], "c", "c");
    strcat(text, LOSS("", "c"));
    net = net_of(text);
    ASSERT_OK(ct_net_plan_text(net, &plan));
    test_defer(ct_free, plan);
    ASSERT(!strstr(plan, "before"));
}

TEST(part, a_view_changed_in_place_leaves_the_others_alone_in_forward_too)
{
    static const char *const text =
        "layer { name: 'in' type: 'Input' top: 'x' "
        "  input_param { shape { dim: 1 dim: 2 } } }"
        "layer { name: 's' type: 'Split' bottom: 'x' top: 'a' top: 'b' }"
        "layer { name: 'r' type: 'ReLU' bottom: 'b' top: 'b' }"
        "layer { name: 'y' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'y' "
        "  eltwise_param { coeff: 10 coeff: 1 } }";
    struct ct_net *net =
        net_with(text, CAFFE__PHASE__TEST,
                 (struct ct_net_options){ .forward_only = true });
    const float *y;

    ct_data(net_blob_named(net, "x"))[0] = -1;
    ct_data(net_blob_named(net, "x"))[1] = 2;
    ASSERT_OK(ct_net_forward(net, NULL));
    y = ct_data(net_blob_named(net, "y"));
    ASSERT_FLOAT(-10, y[0], 0);
    ASSERT_FLOAT(22, y[1], 0);
}

TEST(part, a_gradient_that_stops_at_a_layer_in_place_goes_no_further)
{
    struct ct_net *net = net_of(
        "layer { name: 'in' type: 'Input' top: 'x' "
        "  input_param { shape { dim: 2 dim: 3 } } }"
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' "
        "  inner_product_param { num_output: 4 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 's' type: 'Slice' bottom: 'a' top: 'b' top: 'c' }"
        "layer { name: 'p' type: 'Power' bottom: 'b' top: 'b' "
        "  propagate_down: false }"
        "layer { name: 'l' type: 'Reduction' bottom: 'b' top: 'l' "
        "  loss_weight: 1 }"
        "layer { name: 'm' type: 'Reduction' bottom: 'c' top: 'm' "
        "  loss_weight: 1 }");
    const float *g = ct_diff(ct_net_param(net, 1)->blob);

    pass(net);
    ASSERT_FLOAT(0, g[0], 0);
    ASSERT_FLOAT(0, g[1], 0);
    ASSERT_FLOAT(2, g[2], 0);
    ASSERT_FLOAT(2, g[3], 0);
}

/* Whether the view is made before the layer in place or after it. */
TEST(part, a_view_that_is_an_output_is_left_alone_too)
{
    struct ct_net *net =
        net_with("layer { name: 'in' type: 'Input' top: 'x' "
                 "  input_param { shape { dim: 1 dim: 1 } } }"
                 "layer { name: 's' type: 'Split' bottom: 'x' top: 'a' "
                 "  top: 'b' }"
                 "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }"
                 "layer { name: 'f' type: 'Flatten' bottom: 'x' top: 'f' }",
                 CAFFE__PHASE__TEST,
                 (struct ct_net_options){ .forward_only = true });

    ct_data(net_blob_named(net, "x"))[0] = -3;
    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_FLOAT(0, ct_data(net_blob_named(net, "a"))[0], 0);
    ASSERT_FLOAT(-3, ct_data(net_blob_named(net, "b"))[0], 0);
    ASSERT_FLOAT(-3, ct_data(net_blob_named(net, "f"))[0], 0);
}

/* The values of the second bottom stay, though the first is a view of them. */
TEST(part, a_layer_in_place_leaves_its_other_bottom_alone)
{
    static const char *const two[] = {
        "type: 'Scale' bottom: 'flat' bottom: 'q' top: '%s' "
        "  scale_param { axis: 0 }",
        "type: 'Bias' bottom: 'flat' bottom: 'q' top: '%s' "
        "  bias_param { axis: 0 }",
    };

    for (int i = 0; i < 8; i++) {
        /* q is what flat looks into, or a view of it itself. */
        const char *seen = i & 2 ? "bottom: 'm'" : "bottom: 'c'";
        char text[2][ROOM], layer[256];

        for (int apart = 0; apart < 2; apart++) {
            const char *top = apart ? "y" : "flat";

            snprintf(text[apart], ROOM,
                     HEAD "%s layer { name: 'v' type: 'Flatten' %s top: 'q' }"
                     "layer { name: 'f' type: 'Flatten' %s top: 'flat' }",
                     i & 2 ? "layer { name: 'm' type: 'Reshape' bottom: 'c' "
                             "  top: 'm' reshape_param { shape { dim: 0 } "
                             "  num_axes: 1 } }"
                           : "", seen, seen);
            snprintf(layer, sizeof(layer), two[i & 1], top);
            add(text[apart], "s", "%s%s", layer, "");
            add(text[apart], "p", kinds[5], top, "z");
            strcat(text[apart], LOSS("", "z"));
        }
        check(text[1], text[0]);
    }
}
