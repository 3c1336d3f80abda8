/* test_precision.c - NVIDIA's words for precision in a prototxt. */
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
