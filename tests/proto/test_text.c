/* test_text.c - reading and printing prototxt. */
#include <locale.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cortado/proto.h"
#include "node.h"
#include "proto/field.h"
#include "proto/nearest.h"
#include "proto/params.h"
#include "testing/test.h"

#define NET    &caffe__net_parameter__descriptor
#define LAYER  &caffe__layer_parameter__descriptor
#define SOLVER &caffe__solver_parameter__descriptor
#define DATUM  &caffe__datum__descriptor
#define BLOB   &caffe__blob_proto__descriptor

static void *parse(const ProtobufCMessageDescriptor *type, const char *text)
{
    void *m = NULL;

    ASSERT_OK(ct_text_parse(type, text, strlen(text), "net.prototxt", &m));
    return m;
}

/* The whole message that refusing `text` gives. */
static void refuse(const ProtobufCMessageDescriptor *type, const char *text,
                   const char *error)
{
    void *m = NULL;

    ASSERT_STATUS(CT_EPARSE,
                  ct_text_parse(type, text, strlen(text), "net.prototxt", &m));
    ASSERT(!m);
    ASSERT_STR(error, ct_last_error());
}

static void prints(const ProtobufCMessageDescriptor *type, const char *text,
                   const char *want)
{
    void *m   = parse(type, text);
    char *got = NULL;

    ASSERT_OK(ct_text_print(m, &got));
    ASSERT_STR(want, got);
    ct_free(got);
    ct_message_free(m);
}

TEST(text, a_net_is_read_with_comments_and_either_bracket)
{
    Caffe__NetParameter *net = parse(
        NET,
        "# LeNet, the first lines\n"
        "name: \"LeNet\"  # a name\n"
        "layer {\n"
        "  name: 'conv1' type: \"Convolution\"\n"
        "  bottom: \"data\", top: \"conv1\";\n"
        "  param { lr_mult: 1 } param: < lr_mult: 2 >\n"
        "  convolution_param: { num_output: 20 kernel_size: 5 stride: 1 }\n"
        "}\n"
        "layer { name: 'pool1' pooling_param { pool: AVE kernel_size: 2 } }");
    const Caffe__LayerParameter *l;

    ASSERT_STR("LeNet", net->name);
    ASSERT_INT(2, net->n_layer);
    l = net->layer[0];
    ASSERT_STR("conv1", l->name);
    ASSERT_STR("Convolution", l->type);
    ASSERT_INT(1, l->n_bottom);
    ASSERT_STR("data", l->bottom[0]);
    ASSERT_INT(2, l->n_param);
    ASSERT_FLOAT(2, l->param[1]->lr_mult, 0);
    ASSERT_FLOAT(1, l->param[1]->decay_mult, 0);
    ASSERT(!l->param[1]->has_decay_mult);
    ASSERT_INT(20, l->convolution_param->num_output);
    ASSERT_INT(5, l->convolution_param->kernel_size[0]);
    ASSERT(l->convolution_param->bias_term);
    ASSERT_INT(CAFFE__POOLING_PARAMETER__POOL_METHOD__AVE,
               net->layer[1]->pooling_param->pool);
    ct_message_free(net);
}

TEST(text, an_empty_text_is_an_empty_message)
{
    Caffe__NetParameter *net = parse(NET, "  # nothing\n");

    ASSERT_INT(0, net->n_layer);
    ASSERT(!net->name);
    ct_message_free(net);
}

TEST(text, strings_side_by_side_join_and_escapes_are_resolved)
{
    Caffe__LayerParameter *l =
        parse(LAYER, "name: \"a\" 'b' # between\n \"c\"\n"
                     "bottom: '\\n\\t\\r\\\\\\\"\\'\\a\\b\\f\\v\\?'\n"
                     "bottom: '\\101\\x42\\X43\\7x\\x9g'\n"
                     "bottom: '\\u00e9\\U0001F600 \xc3\xa9'\n"
                     "bottom: \"it's\" bottom: '\"'");

    ASSERT_STR("abc", l->name);
    ASSERT_STR("\n\t\r\\\"'\a\b\f\v?", l->bottom[0]);
    ASSERT_STR("ABC\ax\tg", l->bottom[1]);
    ASSERT_STR("\xc3\xa9\xf0\x9f\x98\x80 \xc3\xa9", l->bottom[2]);
    ASSERT_STR("it's", l->bottom[3]);
    ASSERT_STR("\"", l->bottom[4]);
    ct_message_free(l);
}

TEST(text, bytes_hold_zeros_and_strings_do_not)
{
    Caffe__Datum *d = parse(DATUM, "data: 'a\\0b' '\\377' label: -3");

    ASSERT_INT(4, d->data.len);
    ASSERT_INT(0, memcmp("a\0b\xff", d->data.data, 4));
    ASSERT_INT(-3, d->label);
    ct_message_free(d);
    refuse(LAYER, "name: 'a\\0b'",
           "net.prototxt:1:7: a string cannot hold a zero byte");
}

TEST(text, integers_are_decimal_hexadecimal_or_octal)
{
    Caffe__BlobShape *s =
        parse(&caffe__blob_shape__descriptor,
              "dim: [1, -2, 0x1F, 017, - 5, 9223372036854775807] dim: "
              "-9223372036854775808 dim: 0 dim: [] dim: [7]");
    static const int64_t want[] = { 1,         -2,        31, 15, -5,
                                    INT64_MAX, INT64_MIN, 0,  7 };

    ASSERT_INT(9, s->n_dim);
    for (int i = 0; i < 9; i++)
        ASSERT_INT(want[i], s->dim[i]);
    ct_message_free(s);
}

TEST(text, floats_have_every_form)
{
    Caffe__BlobProto *b = parse(
        BLOB,
        "data: [1, -1.5, .5, 5., 1e3, 1E-2, 2f, 1.5F, inf, -inf, Infinity, "
        "1e400, 123456789012345678901234567890] data: nan data: - 3");
    static const float want[] = {
        1,    -1.5f,    .5f,       5,        1000,     0.01f,         2,
        1.5f, INFINITY, -INFINITY, INFINITY, INFINITY, 1.23456789e29f
    };

    ASSERT_INT(15, b->n_data);
    for (int i = 0; i < 13; i++)
        ASSERT(want[i] == b->data[i]);
    ASSERT(isnan(b->data[13]));
    ASSERT_FLOAT(-3, b->data[14], 0);
    ct_message_free(b);
}

TEST(text, booleans_have_every_form)
{
    Caffe__LayerParameter *l =
        parse(LAYER, "propagate_down: [true, false, True, False, t, f, 1, 0]");

    ASSERT_INT(8, l->n_propagate_down);
    for (int i = 0; i < 8; i++)
        ASSERT_INT(i % 2 == 0, l->propagate_down[i]);
    ct_message_free(l);
}

TEST(text, enums_are_names_or_numbers)
{
    Caffe__SolverParameter *s =
        parse(SOLVER, "solver_mode: 0 snapshot_format: HDF5");

    ASSERT_INT(CAFFE__SOLVER_PARAMETER__SOLVER_MODE__CPU, s->solver_mode);
    ASSERT_INT(CAFFE__SOLVER_PARAMETER__SNAPSHOT_FORMAT__HDF5,
               s->snapshot_format);
    ct_message_free(s);
}

TEST(text, messages_may_stand_in_a_list)
{
    Caffe__LayerParameter *l =
        parse(LAYER, "param [ { lr_mult: 1 }, < lr_mult: 2 > ] param: [ {} ]");

    ASSERT_INT(3, l->n_param);
    ASSERT_FLOAT(2, l->param[1]->lr_mult, 0);
    ct_message_free(l);
}

TEST(text, a_mark_of_utf8_and_dos_lines_are_skipped)
{
    Caffe__NetParameter *net = parse(NET, "\xEF\xBB\xBFname: 'x'\r\n"
                                          "debug_info: true\r\n");

    ASSERT_STR("x", net->name);
    ASSERT(net->debug_info);
    ct_message_free(net);
}

TEST(text, the_base_of_exp_and_log_keeps_its_name)
{
    prints(LAYER, "exp_param { base: 2 } log_param { base: 10 }",
           "exp_param {\n  base: 2\n}\nlog_param {\n  base: 10\n}\n");
    refuse(LAYER, "exp_param { base_: 2 }",
           "net.prototxt:1:13: caffe.ExpParameter has no field \"base_\", did "
           "you mean \"base\"?");
}

TEST(text, an_unknown_field_is_named_with_the_nearest)
{
    refuse(NET, "layer {\n  botom: 'data'\n}",
           "net.prototxt:2:3: caffe.LayerParameter has no field \"botom\", "
           "did you mean \"bottom\"?");
    refuse(NET, "layer { convolution_param { kernelsize: 3 } }",
           "net.prototxt:1:29: caffe.ConvolutionParameter has no field "
           "\"kernelsize\", did you mean \"kernel_size\"?");
    refuse(NET, "xyzzy: 3",
           "net.prototxt:1:1: caffe.NetParameter has no field \"xyzzy\"");
}

TEST(text, the_nearest_word_counts_typing_errors)
{
    struct ct_nearest n = ct_nearest("tpo", 3);

    ct_nearest_try(&n, "type", 4);
    ct_nearest_try(&n, "top", 3); /* one swap */
    ct_nearest_try(&n, "pool", 4);
    ASSERT_STR("top", n.best);
    ASSERT_INT(1, n.distance);
    n = ct_nearest("ab", 2);
    ct_nearest_try(&n, "xyz", 3);
    ct_nearest_try(&n, "", 0);
    ASSERT(!n.best);
    n = ct_nearest("Max", 3);
    ct_nearest_try(&n, "MAX", 3);
    ASSERT_INT(0, n.distance);
}

TEST(text, an_unknown_enum_value_lists_the_known_ones)
{
    refuse(LAYER, "pooling_param { pool: AVG }",
           "net.prototxt:1:23: field \"pool\" has no value AVG (did you mean "
           "AVE?); it takes MAX, AVE, STOCHASTIC");
    refuse(LAYER, "pooling_param { pool: 3 }",
           "net.prototxt:1:23: field \"pool\" has no value 3; it takes MAX, "
           "AVE, STOCHASTIC");
    refuse(LAYER, "pooling_param { pool: 'MAX' }",
           "net.prototxt:1:23: field \"pool\" has no value 'MAX' (did you "
           "mean MAX?); it takes MAX, AVE, STOCHASTIC");
}

TEST(text, a_field_given_twice_names_both_lines)
{
    refuse(NET, "name: 'a'\n\nname: 'b'",
           "net.prototxt:3:1: field \"name\" is not repeated and stands on "
           "line 1 already");
    refuse(LAYER, "lrn_param {}\nlrn_param {}",
           "net.prototxt:2:1: field \"lrn_param\" is not repeated and stands "
           "on line 1 already");
    refuse(LAYER, "name: ['a', 'b']",
           "net.prototxt:1:7: field \"name\" takes a string in quotes, got [");
}

TEST(text, an_open_block_says_where_it_opens)
{
    refuse(NET, "name: 'x'\nlayer {\n  lrn_param {\n  }\n",
           "net.prototxt:5:1: \"}\" is missing: \"layer\" opens at 2:1");
    refuse(NET, "layer { lrn_param { >",
           "net.prototxt:1:21: expected \"}\", got \">\": \"lrn_param\" opens "
           "at 1:9");
    refuse(NET, "name: 'x' }", "net.prototxt:1:11: \"}\" closes nothing");
    refuse(LAYER, "bottom: ['a' 'b'; 'c']",
           "net.prototxt:1:17: expected \",\" or \"]\" in the list that opens "
           "at line 1, got ;");
}

TEST(text, numbers_keep_to_their_range)
{
    refuse(SOLVER, "max_iter: 2147483648",
           "net.prototxt:1:11: 2147483648 is out of range for field "
           "\"max_iter\", whose limit is 2147483647");
    refuse(SOLVER, "max_iter: 99999999999999999999999999999999999999999",
           "net.prototxt:1:11: 99999999999999999999999999999999999999999 is "
           "out of range for field \"max_iter\", whose limit is 2147483647");
    refuse(SOLVER, "max_iter: 1e3",
           "net.prototxt:1:11: field \"max_iter\" takes an integer, got 1e3");
    refuse(LAYER, "inner_product_param { num_output: -1 }",
           "net.prototxt:1:35: field \"num_output\" takes no negative "
           "numbers, got -");
    refuse(LAYER, "propagate_down: 2",
           "net.prototxt:1:17: 2 is out of range for field "
           "\"propagate_down\", whose limit is 1");
    refuse(SOLVER, "base_lr: 0x10",
           "net.prototxt:1:10: field \"base_lr\" takes a decimal number, got "
           "0x10");
    refuse(SOLVER, "base_lr: fast",
           "net.prototxt:1:10: field \"base_lr\" takes a number, got fast");
    refuse(SOLVER, "debug_info: yes",
           "net.prototxt:1:13: field \"debug_info\" takes true or false, got "
           "yes");
}

TEST(text, malformed_tokens_are_refused_where_they_stand)
{
    refuse(NET, "name 'x'",
           "net.prototxt:1:6: expected \":\" after \"name\", got 'x'");
    refuse(NET, "name: 'x\n'",
           "net.prototxt:1:7: the string has no closing ' on its line");
    refuse(NET, "name: 'x\\",
           "net.prototxt:1:7: the string has no closing ' on its line");
    refuse(NET, "name: 'ab\\q'", "net.prototxt:1:10: \"\\q\" starts no escape");
    refuse(NET, "name: '\\400'", "net.prototxt:1:8: \"\\4\" starts no escape");
    refuse(NET, "name:",
           "net.prototxt:1:6: field \"name\" takes a string in quotes, got "
           "the end of the text");
    refuse(SOLVER, "max_iter: 08",
           "net.prototxt:1:11: a number that starts with 0 is octal and has "
           "no digit 8");
    refuse(SOLVER, "max_iter: 0xg",
           "net.prototxt:1:11: hexadecimal digits must follow \"0x\"");
    refuse(SOLVER, "base_lr: 1e",
           "net.prototxt:1:10: digits must follow the exponent in \"1e\"");
    refuse(SOLVER, "base_lr: 1.2.3",
           "net.prototxt:1:10: \".\" cannot follow the number \"1.2\"");
    refuse(SOLVER, "max_iter: 12abc",
           "net.prototxt:1:11: \"a\" cannot follow the number \"12\"");
    refuse(NET, "\n \x01",
           "net.prototxt:2:2: byte 0x01 stands outside a string: is this a "
           "binary file?");
    refuse(NET, "layer { name: 'x' } \x01",
           "net.prototxt:1:21: byte 0x01 stands outside a string: is this a "
           "binary file?");
    refuse(NET, "layer: 5",
           "net.prototxt:1:8: field \"layer\" is a message: expected \"{\", "
           "got 5");
    refuse(NET, "[ext]: 5",
           "net.prototxt:1:1: expected a field of caffe.NetParameter, got [");
}

TEST(text, required_fields_are_required)
{
    Caffe__LayerParameter *l = parse(LAYER, "clip_param { min: -1 max: 2 }");

    ASSERT_FLOAT(-1, l->clip_param->min, 0);
    ASSERT_FLOAT(2, l->clip_param->max, 0);
    ct_message_free(l);
    refuse(LAYER, "name: 'x'\n  clip_param { min: 1 }",
           "net.prototxt:2:3: caffe.ClipParameter needs the field \"max\"");
    refuse(LAYER, "clip_param {}",
           "net.prototxt:1:1: caffe.ClipParameter needs the field \"min\", "
           "\"max\"");
}

TEST(text, printing_escapes_and_indents_in_the_order_of_the_numbers)
{
    prints(NET,
           "layer { top: 't' name: 'a\\n\"\\\\\xc3\xa9' } name: 'net' "
           "force_backward: true input_dim: [1, 2]",
           "name: \"net\"\n"
           "input_dim: 1\n"
           "input_dim: 2\n"
           "force_backward: true\n"
           "layer {\n"
           "  name: \"a\\n\\\"\\\\\xc3\xa9\"\n"
           "  top: \"t\"\n"
           "}\n");
    prints(DATUM, "data: '\\001\\377a'", "data: \"\\001\\377a\"\n");
    prints(NET, "", "");
}

TEST(text, printed_floats_have_the_fewest_digits_that_read_back)
{
    prints(BLOB,
           "data: [0.1, 1, 1e-8, 0.00033333333, 16777216, 3.4028235e38, "
           "1e-45, -0.0, inf, -inf, nan, 1.17549435e-38] "
           "double_data: [0.1, 1e-300, 0.333333333333333315, 5e-324]",
           "data: 0.1\ndata: 1\ndata: 1e-08\ndata: 0.00033333333\n"
           "data: 16777216\ndata: 3.4028235e+38\ndata: 1e-45\ndata: -0\n"
           "data: inf\ndata: -inf\ndata: nan\ndata: 1.1754944e-38\n"
           "double_data: 0.1\ndouble_data: 1e-300\n"
           "double_data: 0.3333333333333333\ndouble_data: 5e-324\n");
}

/* A value for element `i` of a field, different from its default and from
 * its neighbours'. */
static void add_value(struct ct_text *t, const ProtobufCFieldDescriptor *f,
                      int i)
{
    const ProtobufCEnumDescriptor *e = f->descriptor;

    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        ct_text_addf(t, "\"%s %d\"\n", f->name, i);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        ct_text_add(t, i % 2 ? "true\n" : "false\n");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        ct_text_addf(t, "%s\n", e->values[(unsigned)i % e->n_values].name);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        ct_text_addf(t, "%u.%d5\n", f->id, i);
        break;
    default:
        ct_text_addf(t, "%u\n", f->id * 10 + (unsigned)i);
    }
}

/* Every field of `type` and all below, repeated ones three times, in the
 * printer's form. */
static void add_fields(struct ct_text *t,
                       const ProtobufCMessageDescriptor *type, int level)
{
    for (unsigned k = 0; k < type->n_fields; k++) {
        const ProtobufCFieldDescriptor *f = &type->fields[k];
        int n = f->label == PROTOBUF_C_LABEL_REPEATED ? 3 : 1;

        for (int i = 0; i < n; i++) {
            ct_text_addf(t, "%*s%.*s", 2 * level, "", ct_field_name_bytes(f),
                         f->name);
            if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
                ct_text_add(t, " {\n");
                add_fields(t, f->descriptor, level + 1);
                ct_text_addf(t, "%*s}\n", 2 * level, "");
            } else {
                ct_text_add(t, ": ");
                add_value(t, f, i);
            }
        }
    }
}

/* These hold all others. */
TEST(text, every_field_of_every_message_reads_back_as_printed)
{
    static const ProtobufCMessageDescriptor *const all[] = {
        SOLVER,
        DATUM,
        &caffe__solver_state__descriptor,
        &caffe__blob_proto_vector__descriptor,
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct ct_text t = { 0 };

        add_fields(&t, all[i], 0);
        ASSERT(!t.failed && t.n_bytes > 20);
        prints(all[i], t.s, t.s);
        ct_text_fini(&t);
    }
}

TEST(text, numbers_do_not_follow_the_locale)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8",
                                         "fr_FR.UTF-8" };
    bool found                       = false;

    for (int i = 0; i < 3 && !found; i++)
        found = setlocale(LC_ALL, names[i]) != NULL;
    if (!found)
        test_skip("no locale with a decimal comma is installed");
    prints(SOLVER, "base_lr: 0.25", "base_lr: 0.25\n");
    setlocale(LC_ALL, "C");
}

TEST(text, nesting_is_limited)
{
    char text[7 * 100 + 1] = "";
    void *m                = NULL;

    for (int i = 0; i < 99; i++)
        memcpy(text + 6 * i, "child{", 6);
    memset(text + 6 * 99, '}', 99);
    ASSERT_OK(ct_text_parse(&node_type, text, 7 * 99, "deep", &m));
    ct_message_free(m);
    m = NULL;
    for (int i = 0; i < 100; i++)
        memcpy(text + 6 * i, "child{", 6);
    ASSERT_STATUS(CT_EPARSE, ct_text_parse(&node_type, text, 600, "deep", &m));
    ASSERT_STR("deep:1:595: more than 100 blocks inside each other",
               ct_last_error());
}

TEST(text, files_are_written_and_read_and_named_in_errors)
{
    Caffe__NetParameter *net  = parse(NET, "name: 'x' layer { top: 'a' }");
    Caffe__NetParameter *back = NULL;
    char path[512], want[600];

    snprintf(path, sizeof(path), "%s/net.prototxt", test_folder());
    ASSERT_OK(ct_text_write(net, path));
    ct_message_free(net);
    ASSERT_OK(ct_net_param_read(path, &back));
    ASSERT_STR("a", back->layer[0]->top[0]);
    ct_message_free(back);
    ASSERT_OK(ct_file_write(path, "layer {\n nam: 'x' }", 18));
    ASSERT_STATUS(CT_EPARSE, ct_net_param_read(path, &back));
    snprintf(want, sizeof(want),
             "%s:2:2: caffe.LayerParameter has no field "
             "\"nam\", did you mean \"name\"?",
             path);
    ASSERT_STR(want, ct_last_error());
    ASSERT_STATUS(CT_ENOTFOUND, ct_net_param_read("no/such.prototxt", &back));
    ASSERT_HAS("no/such.prototxt", ct_last_error());
}

TEST(text, a_layer_without_parameters_has_the_defaults)
{
    Caffe__LayerParameter *l = parse(LAYER, "relu_param { negative_slope: 2 }");

    ASSERT_FLOAT(2, ct_relu_param(l)->negative_slope, 0);
    ASSERT_FLOAT(0.75, ct_lrn_param(l)->beta, 0);
    ASSERT_INT(1, ct_softmax_param(l)->axis);
    ASSERT_STR("warp", ct_window_data_param(l)->crop_mode);
    ASSERT(!ct_loss_param(l)->has_ignore_label);
    ct_message_free(l);
}

/* Doubling, so that a long list takes time in proportion to its length. */
TEST(text, a_long_list_is_read_whole)
{
    enum { N = 200000 };
    char *text = ct_malloc(N * 9 + 1, "long list");
    Caffe__BlobProto *b;

    for (int i = 0; i < N; i++)
        memcpy(text + 9 * i, "data: .5\n", 10);
    b = parse(BLOB, text);
    ASSERT_INT(N, b->n_data);
    for (int i = 0; i < N; i++)
        ASSERT_FLOAT(0.5, b->data[i], 0);
    ct_message_free(b);
    ct_free(text);
}

/* Every net and solver that BVLC Caffe read when it wrote the reference
 * results. */
TEST(text, the_reference_prototxts_read_and_read_back)
{
    static const char *const files[] = {
        "caffe_files/data_raw.prototxt",
        "caffe_files/image_data.prototxt",
        "caffe_files/data_scale_mean.prototxt",
    };

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        Caffe__NetParameter *net = NULL, *back = NULL;
        char *once = NULL, *twice = NULL;

        ASSERT_OK(ct_net_param_read(test_recorded(files[i]), &net));
        ASSERT(net->n_layer > 0);
        ASSERT_OK(ct_text_print(net, &once));
        back = parse(NET, once);
        ASSERT_OK(ct_text_print(back, &twice));
        ASSERT_STR(once, twice);
        ct_free(once);
        ct_free(twice);
        ct_message_free(net);
        ct_message_free(back);
    }
}
