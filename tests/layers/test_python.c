/* test_python.c - the layer passes its steps on to a host; here the host is
 * C: it multiplies by ten.  python/tests run the same layer with Python. */
#include "cortado/python.h"

#include <stdlib.h>

#include "testing/layer_test.h"

static const float x[] = { 1, -2, 3 };

/* What the host has seen, and how it behaves. */
struct host_log {
    int      n_setup, n_reshape, n_forward, n_backward, n_forget;
    uint64_t passes;
    bool     wanted, refuses;
};

static enum ct_status times_ten(const struct ct_blob *from, bool diff,
                                struct ct_blob *to)
{
    for (int64_t i = 0; i < from->count; i++)
        (diff ? ct_diff(to) : ct_data(to))[i] =
            10 * (diff ? ct_diff(from) : ct_data(from))[i];
    return CT_OK;
}

static enum ct_status host_run(struct ct_layer *l, enum ct_python_step step,
                               struct ct_blob *const *bottom, int n_bottom,
                               struct ct_blob *const *top, int n_top,
                               const bool *want_grad, void *arg)
{
    struct host_log *log = arg;

    ASSERT(n_bottom <= 1 && n_top == 1);
    if (log->refuses)
        return ct_fail(CT_EINVAL, "%s says no", ct_python_class(l));
    switch (step) {
    case CT_PYTHON_SETUP:
        log->n_setup++;
        return CT_OK;
    case CT_PYTHON_RESHAPE:
        log->n_reshape++;
        return n_bottom ? ct_reshape(top[0], bottom[0]->shape) : CT_OK;
    case CT_PYTHON_FORWARD:
        log->n_forward++;
        return n_bottom ? times_ten(bottom[0], false, top[0]) : CT_OK;
    case CT_PYTHON_BACKWARD:
        log->n_backward++;
        log->wanted = want_grad[0];
        return times_ten(top[0], true, bottom[0]);
    }
    return CT_EINTERNAL;
}

static enum ct_status host_seek(struct ct_layer *l, uint64_t n_passes,
                                void *arg)
{
    (void)l;
    ((struct host_log *)arg)->passes = n_passes;
    return CT_OK;
}

static void host_forget(struct ct_layer *l, void *arg)
{
    (void)l;
    ((struct host_log *)arg)->n_forget++;
}

static void host_leaves(void *arg)
{
    (void)arg;
    ct_python_set_host(NULL);
}

/* The host goes last, because layers that are torn down ask for it. */
static struct host_log *host(void)
{
    static struct host_log log;
    static const struct ct_python_host table = { host_run, host_seek,
                                                 host_forget, &log, NULL };

    log = (struct host_log){ 0 };
    ct_python_set_host(&table);
    test_defer(host_leaves, NULL);
    return &log;
}

static struct layer_case *ten(void)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'ten' type: 'Python' "
        "python_param { module: 'layers' layer: 'Ten' param_str: '{}' }");

    case_tops(c, 1);
    case_bottom(c, 0, CT_SHAPE(3), x);
    return c;
}

TEST(python, steps_reach_the_host)
{
    struct host_log *log = host();
    struct layer_case *c = ten();
    static const float dy[] = { 1, 2, 3 };

    ASSERT_OK(case_setup(c));
    ASSERT_INT(1, log->n_setup);
    ASSERT_INT(1, log->n_reshape);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 10, -20, 30);
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "bottom[0].diff", 0, 10, 20, 30);
    ASSERT(log->wanted);
    ASSERT_GRADIENT(c, 1e-1f, 1e-3f);
}

TEST(python, reshape_runs_before_every_forward_pass)
{
    struct host_log *log = host();
    struct layer_case *c = ten();

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_OK(case_forward(c));
    ASSERT_INT(2, log->n_forward);
    ASSERT_INT(3, log->n_reshape);
}

TEST(python, the_prototxt_names_module_class_and_text)
{
    struct layer_case *c;

    host();
    c = ten();
    ASSERT_OK(case_setup(c));
    ASSERT_STR("layers", ct_python_module(case_layer(c)));
    ASSERT_STR("Ten", ct_python_class(case_layer(c)));
    ASSERT_STR("{}", ct_python_param_str(case_layer(c)));
}

TEST(python, seek_reaches_the_host)
{
    struct host_log *log = host();
    struct layer_case *c = ten();
    struct ct_layer *l;

    ASSERT_OK(case_setup(c));
    l = case_layer(c);
    ASSERT_OK(l->type->seek(l, 77));
    ASSERT_INT(77, log->passes);
}

TEST(python, a_top_without_a_shape_is_a_scalar)
{
    struct layer_case *c;

    host();
    c = layer_case(CT_CPU, "type: 'Python' "
                   "python_param { module: 'm' layer: 'Source' }");
    case_tops(c, 1);
    ASSERT_OK(case_setup(c));
    ASSERT_INT(0, case_find(c, "top[0]")->shape.n_axes);
    ASSERT_INT(1, case_find(c, "top[0]")->count);
    ASSERT_OK(case_forward(c));
}

TEST(python, the_host_forgets_a_layer_that_goes)
{
    static const char text[] = "type: 'Python' name: 'p' "
                               "python_param { module: 'm' layer: 'Source' }";
    const struct ct_run alone = { .size = 1 };
    struct host_log *log      = host();
    struct ct_blob *top       = NULL;
    struct ct_layer *l        = NULL;
    Caffe__LayerParameter *p  = NULL;
    struct ct_io io           = { .top = &top, .n_top = 1 };

    ASSERT_OK(ct_text_parse(&caffe__layer_parameter__descriptor, text,
                            strlen(text), "text", &p));
    ASSERT_OK(ct_blob_create(ct_device_cpu(), &top));
    ASSERT_OK(ct_layer_create(p, ct_device_cpu(), &alone, CAFFE__PHASE__TEST,
                              &l));
    ASSERT_OK(ct_layer_setup(l, &io));
    ASSERT_INT(0, log->n_forget);
    ct_layer_destroy(l);
    ASSERT_INT(1, log->n_forget);
    ct_blob_destroy(top);
    ct_message_free(p);
}

TEST(python, the_hosts_refusal_is_the_layers)
{
    struct host_log *log = host();
    struct layer_case *c = ten();

    log->refuses = true;
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("Ten says no", ct_last_error());
}

TEST(python, a_layer_without_a_class_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'p' type: 'Python' "
                                      "python_param { module: 'm' }");

    host();
    case_tops(c, 1);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer p: python_param needs `module` and `layer`",
               ct_last_error());
}

TEST(python, without_a_host_or_plug_in_it_is_refused)
{
    struct layer_case *c = ten();

    ct_python_set_host(NULL);
    ASSERT_INT(0, setenv("CORTADO_PYTHON_PLUGIN", "/nowhere/plugin.so", 1));
    ASSERT_STATUS(CT_ENOTSUP, case_setup(c));
    ASSERT_INT(0, unsetenv("CORTADO_PYTHON_PLUGIN"));
    ASSERT_HAS("layer ten", ct_last_error());
    ASSERT_HAS("CORTADO_PYTHON_PLUGIN", ct_last_error());
}
