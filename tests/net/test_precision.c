/* test_precision.c - NVIDIA's words for precision in a prototxt, and what no
 * precision changes.  With CORTADO_TEST_DEVICE that is looked at on a GPU. */
#include "base/mem.h"
#include "base/rng.h"
#include "cortado/log.h"
#include "net_test.h"

static enum ct_precision precision_of(const char *words)
{
    Caffe__NetParameter *p = NULL;
    enum ct_precision out;

    ASSERT_OK(ct_text_parse(&caffe__net_parameter__descriptor, words,
                            strlen(words), "test", &p));
    out = ct_net_precision(p);
    ct_message_free(p);
    return out;
}

TEST(precision, the_nets_words_choose_it)
{
    ASSERT_INT(CT_FP32, precision_of(""));
    ASSERT_INT(CT_FP32, precision_of("default_forward_type: FLOAT"));
    ASSERT_INT(CT_FP32, precision_of("default_forward_type: DOUBLE "
                                     "default_backward_type: DOUBLE"));
    ASSERT_INT(CT_FP16_MIXED, precision_of("default_forward_type: FLOAT16"));
    ASSERT_INT(CT_FP16_MIXED, precision_of("default_backward_type: FLOAT16 "
                                           "default_forward_math: FLOAT "
                                           "global_grad_scale: 1000 "
                                           "global_grad_scale_adaptive: true"));
    ASSERT_INT(CT_BF16_MIXED, precision_of("default_forward_type: BFLOAT16"));
}

static char lines[8192];

static void keep_lines(enum ct_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    strncat(lines, line, sizeof(lines) - 1 - strlen(lines));
}

#define HALF_NET                                                             \
    "default_forward_type: FLOAT16 default_backward_type: FLOAT16 "          \
    "layer { name: 'd' type: 'Input' top: 'x' forward_type: FLOAT "          \
    "  backward_type: FLOAT input_param { shape { dim: 2 } } }"              \
    "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' "                   \
    "  forward_type: FLOAT16 forward_math: FLOAT backward_math: FLOAT }"     \
    "layer { name: 's' type: 'Silence' bottom: 'x' backward_type: DOUBLE }"

/* On the CPU, in float32: the net's words and two layers' say otherwise. */
TEST(precision, words_that_are_not_followed_are_named_once)
{
    lines[0] = '\0';
    ct_log_set_level(CT_LOG_INFO);
    ct_log_set_sink(keep_lines, NULL);
    (void)net_of(HALF_NET);
    ct_log_set_sink(NULL, NULL);
    ct_log_set_level(CT_LOG_NONE);
    ASSERT_HAS("it computes in float32", lines);
    ASSERT_HAS("2 layer(s), layer r the first", lines);
    ASSERT(!strstr(strstr(lines, "of their own") + 1, "of their own"));
}

TEST(precision, a_net_without_such_words_says_nothing)
{
    lines[0] = '\0';
    ct_log_set_level(CT_LOG_INFO);
    ct_log_set_sink(keep_lines, NULL);
    (void)net_of("layer { name: 'd' type: 'Input' top: 'x' "
                 "  input_param { shape { dim: 2 } } }");
    ct_log_set_sink(NULL, NULL);
    ct_log_set_level(CT_LOG_NONE);
    ASSERT(!strstr(lines, "types"));
}

/* Values in (0, 1] through a convolution that copies them, and a Dropout whose
 * zeros are counted: the CPU's blobs lie in blocks, those of a GPU in NHWC, or
 * plain. */
#define DRAWING_NET                                                          \
    "layer { name: 'in' type: 'Input' top: 'x' "                             \
    "  input_param { shape { dim: 3 dim: 16 dim: 5 dim: 7 } } }"             \
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "            \
    "  convolution_param { num_output: 16 kernel_size: 1 group: 1 "          \
    "  bias_term: false weight_filler { value: 1 } } }"                      \
    "layer { name: 'drop' type: 'Dropout' bottom: 'c' top: 'd' }"            \
    "layer { name: 'p' type: 'Power' bottom: 'd' top: 'p' }"

static const float *drawn_on(const struct ct_device *d, float *to)
{
    struct ct_net *net = net_with(DRAWING_NET, CAFFE__PHASE__TRAIN,
                                  (struct ct_net_options){ .device = d,
                                                           .seed = 5 });
    struct ct_blob *x = net_blob_named(net, "x");
    float *values     = ct_calloc((size_t)x->count, sizeof(*values), "values");

    test_defer(ct_free, values);
    for (int64_t i = 0; i < x->count; i++)
        values[i] = 0.5f + 0.5f * ct_uniform(2, 0, (uint64_t)i);
    ASSERT_OK(ct_blob_put(x, false, values));
    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_OK(ct_blob_get(net_blob_named(net, "p"), false, to));
    return to;
}

TEST(precision, devices_and_layouts_leave_out_the_same)
{
    enum { COUNT = 3 * 16 * 5 * 7 };
    static float here[COUNT], there[COUNT];
    int n_kept = 0;

    drawn_on(ct_device_cpu(), here);
    drawn_on(test_device(), there);
    for (int i = 0; i < COUNT; i++) {
        ASSERT_INT(here[i] != 0, there[i] != 0);
        n_kept += here[i] != 0;
    }
    ASSERT(n_kept > COUNT / 3 && n_kept < COUNT * 2 / 3);
}
