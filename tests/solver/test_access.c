/* test_access.c - what bindings call. */
#include "cortado/access.h"

#include <stdio.h>

#include "base/file.h"
#include "solver_test.h"

/* In the stage `wide` x has two readers, so there is a Split. */
static const char pair[] =
    "name: 'pair' input: 'x' input_shape { dim: 2 dim: 3 } "
    "layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'a' } "
    "layer { name: 'b' type: 'InnerProduct' bottom: 'x' top: 'b' "
    "  inner_product_param { num_output: 4 weight_filler { value: 1 } } "
    "  include { stage: 'wide' } }";

static const char *file(const char *text, const char *name)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    ASSERT_OK(ct_file_write(path, text, strlen(text)));
    return path;
}

static void net_free(void *net)
{
    ct_net_destroy(net);
}

static struct ct_net *open_pair(const char *const *stage, int n_stage)
{
    struct ct_net *net = NULL;

    ASSERT_OK(ct_net_open(file(pair, "net.prototxt"), NULL, 1, 0, stage,
                          n_stage, 1, 0, 1, &net));
    return net;
}

TEST(access, a_net_opens_with_its_stages)
{
    const char *const stage[] = { "wide" };
    struct ct_net *net        = open_pair(stage, 1);
    struct ct_layer *l;

    test_defer(net_free, net);
    ASSERT_INT(CAFFE__PHASE__TEST, ct_net_phase(net));
    ASSERT_INT(4, ct_net_n_layers(net)); /* with its Split */
    l = ct_net_layer(net, 3);
    ASSERT_STR("b", ct_layer_name(l));
    ASSERT_STR("InnerProduct", ct_layer_type_name(l));
    ASSERT_INT(2, ct_layer_n_blobs(l));
    ASSERT_INT(2, ct_blob_n_axes(ct_layer_blob(l, 0)));
    ASSERT_INT(3, ct_blob_dim(ct_layer_blob(l, 0), 1));
    ASSERT_INT(1, ct_net_n_bottoms(net, 3));
    ASSERT_INT(2, ct_net_n_tops(net, 1));
}

TEST(access, a_net_opens_without_them)
{
    struct ct_net *net = open_pair(NULL, 0);

    test_defer(net_free, net);
    ASSERT_INT(2, ct_net_n_layers(net));
}

TEST(access, held_values_outlive_the_net)
{
    struct ct_net *net     = open_pair(NULL, 0);
    struct ct_blob *x      = ct_net_blob(net, 0);
    struct ct_buffer *hold = NULL;
    float *values          = NULL;

    ASSERT_OK(ct_blob_hold(x, false, &values, &hold));
    ASSERT(values == ct_blob_address(x, false));
    values[5] = 42;
    ct_net_destroy(net);
    ASSERT_FLOAT(42, values[5], 0);
    ct_blob_release(hold);
}

TEST(access, held_values_outlive_a_reshape)
{
    static const int64_t wider[] = { 200, 300 };
    struct ct_net *net           = open_pair(NULL, 0);
    struct ct_blob *x            = ct_net_blob(net, 0);
    struct ct_buffer *hold       = NULL;
    float *values                = NULL;
    uint32_t version             = ct_blob_version(x);

    test_defer(net_free, net);
    ASSERT_OK(ct_blob_hold(x, false, &values, &hold));
    values[0] = 7;
    ASSERT_OK(ct_blob_reshape(x, 2, wider));
    ASSERT(ct_blob_version(x) != version);
    ASSERT_INT(60000, ct_blob_count(x));
    ASSERT(ct_blob_address(x, false) != values);
    ASSERT_FLOAT(7, values[0], 0);
    ct_blob_release(hold);
}

TEST(access, a_gradient_that_was_not_there_follows_the_shape)
{
    static const int64_t small[] = { 2 }, wide[] = { 1000 };
    struct ct_blob *b            = NULL;
    struct ct_buffer *hold       = NULL;
    float *values                = NULL;

    ASSERT_OK(ct_blob_create(ct_device_cpu(), &b));
    b->no_diff = true;
    ASSERT_OK(ct_blob_reshape(b, 1, small));
    ASSERT(!ct_blob_address(b, true));
    ASSERT_OK(ct_blob_hold(b, true, &values, &hold));
    ASSERT_FLOAT(0, values[1], 0);
    ct_blob_release(hold);
    ASSERT_OK(ct_blob_reshape(b, 1, wide));
    ASSERT(b->diff.room_bytes >= 1000 * sizeof(float));
    ct_blob_destroy(b);
}

TEST(access, values_in_another_layout_are_refused)
{
    static const int64_t shape[] = { 1, 8, 2, 2 };
    struct ct_blob *b            = NULL;
    struct ct_buffer *hold       = NULL;
    float *values                = NULL;

    ASSERT_OK(ct_blob_create(ct_device_cpu(), &b));
    b->data.layout = CT_BLOCKED8;
    ASSERT_OK(ct_blob_reshape(b, 4, shape));
    ASSERT_STATUS(CT_ENOTSUP, ct_blob_hold(b, false, &values, &hold));
    ASSERT_STATUS(CT_ESHAPE, ct_blob_reshape(b, 33, shape));
    ct_blob_destroy(b);
}

static enum ct_solver_action stop(void *arg)
{
    ++*(int *)arg;
    return CT_ACTION_STOP;
}

static uint64_t digest(const char *more, const char *name)
{
    struct ct_solver *s = NULL;
    uint64_t out        = 0;
    char text[2048];

    snprintf(text, sizeof(text), ONE_WEIGHT "base_lr: 0.5 %s", more);
    ASSERT_OK(ct_solver_open(file(text, name), NULL, NULL, 1, 0, 1, NULL, NULL,
                             NULL, &s));
    test_defer(solver_test_free, s);
    ASSERT_OK(ct_solver_digest(s, &out));
    return out;
}

TEST(access, solvers_that_differ_in_more_than_file_names_have_other_digests)
{
    uint64_t plain = digest("lr_policy: 'fixed'", "a.prototxt");

    ASSERT_INT(1, plain == digest("lr_policy: 'fixed' snapshot_prefix: 'x'",
                                  "b.prototxt"));
    ASSERT_INT(1, plain != digest("lr_policy: 'fixed' max_iter: 3",
                                  "c.prototxt"));
}

TEST(access, a_solver_opens_with_another_rule_and_seed)
{
    struct ct_solver *s = NULL;
    int n_asked         = 0;

    ASSERT_OK(ct_solver_open(file(ONE_WEIGHT "base_lr: 0.5 max_iter: 9 "
                                  "lr_policy: 'fixed'", "solver.prototxt"),
                             NULL, "Adam", 77, 0, 1, NULL, stop, &n_asked,
                             &s));
    test_defer(solver_test_free, s);
    ASSERT_STR("Adam", ct_solver_type(s));
    ASSERT_INT(77, ct_solver_param(s)->random_seed);
    ASSERT_INT(9, ct_solver_max_iter(s));
    ASSERT_INT(1, ct_solver_iter_size(s));
    ASSERT_FLOAT(0.5, ct_solver_base_lr(s), 0);
    ct_solver_set_base_lr(s, 0.25f);
    ASSERT_FLOAT(0.25, ct_solver_base_lr(s), 0);
    ASSERT_OK(ct_solver_step(s, 5));
    ASSERT_INT(1, n_asked);
    ASSERT_INT(1, ct_solver_iter(s));
    ct_solver_clear_stop(s);
    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_INT(2, ct_solver_iter(s));
}

TEST(access, text_is_no_format)
{
    ASSERT_STATUS(CT_EPARSE, ct_fail_text(CT_EPARSE, "100%s"));
    ASSERT_STR("100%s", ct_last_error());
    ASSERT_STR("AbsVal", ct_layer_type_at(0));
}
