/* test_plugin.c - layer types from shared objects, and those refused. */
#include "cortado/plugin.h"

#include "cortado/net.h"
#include "testing/files.h"
#include "testing/test.h"

static const char *plugin(const char *name)
{
    return test_format("%s/tests/plugins/%s.so", CT_TEST_BUILD, name);
}

/* A plug-in with this fault is refused with these words, and adds nothing. */
static void refuse(enum ct_status want, const char *fault, const char *words)
{
    const int before = ct_layer_n_types();

    ASSERT_STATUS(want, ct_plugin_load(plugin(fault)));
    ASSERT_HAS(words, ct_last_error());
    ASSERT_HAS(fault, ct_last_error());
    ASSERT(ct_layer_n_types() == before);
}

TEST(plugin, a_shared_object_that_is_none_is_refused)
{
    refuse(CT_ENOTFOUND, "nowhere", "cannot load plug-in");
    refuse(CT_EINVAL, "no_entry", "has no function cortado_plugin()");
}

TEST(plugin, one_of_another_version_is_refused)
{
    refuse(CT_ENOTSUP, "version", "version 2 of the plug-in interface");
    refuse(CT_ENOTSUP, "size", "headers of another Cortado");
}

TEST(plugin, types_that_cannot_work_are_refused)
{
    refuse(CT_EINVAL, "empty", "has no layer types");
    refuse(CT_EINVAL, "nameless", "a layer type has no name");
    refuse(CT_EINVAL, "half", "Faulty lacks reshape or forward");
}

TEST(plugin, a_name_that_is_taken_is_refused)
{
    refuse(CT_EEXIST, "taken", "there is a layer type ReLU already");
}

static enum ct_status own_reshape(struct ct_layer *l, const struct ct_io *io)
{
    (void)l;
    return ct_reshape(io->top[0], io->bottom[0]->shape);
}

static enum ct_status own_forward(struct ct_layer *l, const struct ct_io *io)
{
    const double more = ct_layer_number(l, "more", 10);

    for (int64_t i = 0; i < io->top[0]->count; i++)
        ct_data(io->top[0])[i] = ct_data(io->bottom[0])[i] + (float)more;
    return CT_OK;
}

static const struct ct_layer_type own = {
    .name    = "OwnPlus",
    .bottoms = CT_EXACTLY(1),
    .tops    = CT_EXACTLY(1),
    .flags   = CT_LAYER_NO_GRAD,
    .reshape = own_reshape,
    .forward = { [CT_CPU] = own_forward },
};

static const char net_text[] =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 } "
    "} } layer { name: 'a' type: 'OwnPlus' bottom: 'x' top: 'a' } "
    "layer { name: 'b' type: 'OwnPlus' bottom: 'a' top: 'b' "
    "plugin_param { name: 'more' number: 0.5 } }";

TEST(plugin, a_program_adds_types_of_its_own_once)
{
    struct ct_net_options o    = { .phase = CAFFE__PHASE__TEST };
    Caffe__NetParameter *param = NULL;
    struct ct_net *net         = NULL;
    const float x[] = { 1, 2 };
    float y[2];

    ASSERT_OK(ct_layer_register(&own));
    ASSERT_STATUS(CT_EEXIST, ct_layer_register(&own));
    ASSERT(ct_layer_find("OwnPlus") == &own);
    ASSERT(ct_layer_at(ct_layer_n_types() - 1) == &own);
    ASSERT_OK(ct_text_parse(&caffe__net_parameter__descriptor, net_text,
                            sizeof(net_text) - 1, "net", &param));
    ASSERT_OK(ct_net_create(param, &o, &net));
    ASSERT_OK(ct_blob_put(ct_net_blob(net, ct_net_input_id(net, 0)), false,
                          x));
    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_OK(ct_blob_get(ct_net_blob(net, ct_net_output_id(net, 0)), false,
                          y));
    ASSERT_FLOAT(11.5, y[0], 1e-6);
    ASSERT_FLOAT(12.5, y[1], 1e-6);
    ct_net_destroy(net);
    ct_message_free(param);
}

TEST(plugin, a_net_that_names_a_plugin_that_is_not_there_is_refused)
{
    static const char text[] = "name: 'n' plugin: 'no/such.so' "
                               "layer { name: 'x' type: 'Input' top: 'x' }";
    struct ct_net_options o    = { .phase = CAFFE__PHASE__TEST };
    Caffe__NetParameter *param = NULL;
    struct ct_net *net         = NULL;

    ASSERT_OK(ct_text_parse(&caffe__net_parameter__descriptor, text,
                            sizeof(text) - 1, "net", &param));
    ASSERT_STATUS(CT_ENOTFOUND, ct_net_create(param, &o, &net));
    ASSERT_HAS("no/such.so", ct_last_error());
    ct_message_free(param);
}
