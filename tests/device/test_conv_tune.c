/* test_conv_tune.c - which implementation of a convolution was measured to be
 * the fastest is kept and looked up, by the rule of tuning.h. */
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "device/conv.h"
#include "device/cpu/amx.h"
#include "device/cpu/bf16.h"
#include "device/tuning.h"
#include "testing/test.h"

/* Several implementations take it: gemm, and oneDNN's where it is there. */
static const struct ct_conv_desc wide = {
    .n_spatial = 2, .batch = 2, .in_channels = 16, .out_channels = 16,
    .group = 1, .in = { 8, 8 }, .kernel = { 3, 3 }, .stride = { 1, 1 },
    .pad = { 1, 1 }, .dilation = { 1, 1 }, .has_bias = true,
};

static const char *folder;

static void forget(void *unused)
{
    (void)unused;
    unsetenv("XDG_CACHE_HOME");
}

static void start(void)
{
    folder = test_folder();
    test_defer(forget, NULL);
    ASSERT(setenv("XDG_CACHE_HOME", folder, 1) == 0);
}

static const char *path(void)
{
    static char text[512];

    snprintf(text, sizeof(text), "%s/cortado/conv-cpu", folder);
    return text;
}

/* What runs `d` in a net of which the rule knows `c`, and why; `spent` seconds
 * of its time for measuring are over. */
static const char *chosen_after(const struct ct_conv_desc *d,
                                const struct ct_tuning_case *c, double spent,
                                char why[128])
{
    static char name[32];
    struct ct_tuning tuning  = { 0 };
    struct ct_workspace work = { .tuning = &tuning };
    struct ct_conv *conv     = NULL;

    ASSERT_OK(ct_tuning_init(&tuning, c, "conv-cpu"));
    tuning.left -= spent;
    ASSERT_OK(ct_conv_create(ct_device_cpu(), d, &work, &conv));
    ct_tuning_begin(&tuning);
    ASSERT_OK(ct_conv_tune(conv));
    ct_tuning_end(&tuning, NULL);
    snprintf(name, sizeof(name), "%s", ct_conv_impl_name(conv));
    snprintf(why, 128, "%s", ct_conv_why(conv));
    ct_conv_destroy(conv);
    ct_workspace_fini(&work);
    ct_tuning_fini(&tuning);
    return name;
}

static const char *chosen(const struct ct_conv_desc *d,
                          const struct ct_tuning_case *c, char why[128])
{
    return chosen_after(d, c, 0, why);
}

static const struct ct_tuning_case alone  = { 0 };
static const struct ct_tuning_case ranks  = { .n_ranks = 2 };
static const struct ct_tuning_case off    = { .word = "off" };
static const struct ct_tuning_case always = { .word = "measure" };

TEST(conv_tune, a_net_that_runs_alone_measures)
{
    struct ct_tuning_case c = { .n_ranks = 1 };

    ASSERT_INT(CT_TUNING_MEASURE, ct_tuning_rule(&alone));
    ASSERT_INT(CT_TUNING_MEASURE, ct_tuning_rule(&c));
    ASSERT_INT(CT_TUNING_KNOWN, ct_tuning_rule(&ranks));
    c.looked_at = true;
    ASSERT_INT(CT_TUNING_KNOWN, ct_tuning_rule(&c));
    c.word = "measure";
    ASSERT_INT(CT_TUNING_MEASURE, ct_tuning_rule(&c));
    c = (struct ct_tuning_case){ .compared = true };
    ASSERT_INT(CT_TUNING_KNOWN, ct_tuning_rule(&c));
}

TEST(conv_tune, bits_that_must_be_the_same_anywhere_depend_on_no_measurement)
{
    struct ct_tuning_case c = { .word = "measure", .canonical = true };

    ASSERT_INT(CT_TUNING_OFF, ct_tuning_rule(&c));
    c = (struct ct_tuning_case){ .word = "measure", .forced = true };
    ASSERT_INT(CT_TUNING_OFF, ct_tuning_rule(&c));
    ASSERT_INT(CT_TUNING_OFF, ct_tuning_rule(&off));
}

TEST(conv_tune, large_operations_are_left_out_unless_someone_asks)
{
    struct ct_tuning t = { 0 };

    start();
    ASSERT_OK(ct_tuning_init(&t, &alone, "conv-cpu"));
    ASSERT(!ct_tuning_may(&t, 1e6)); /* not begun */
    ct_tuning_begin(&t);
    ASSERT(ct_tuning_may(&t, 1e6));
    ASSERT(!ct_tuning_may(&t, 1e15));
    ct_tuning_fini(&t);
    ASSERT_OK(ct_tuning_init(&t, &always, "conv-cpu"));
    ct_tuning_begin(&t);
    ASSERT(ct_tuning_may(&t, 1e15));
    ct_tuning_fini(&t);
}

TEST(conv_tune, nothing_is_measured_by_ranks_or_with_off)
{
    char why[128];

    start();
    (void)chosen(&wide, &ranks, why);
    ASSERT_STR("first that takes it", why);
    (void)chosen(&wide, &off, why);
    ASSERT_STR("first that takes it", why);
    ASSERT(!ct_file_exists(path()));
}

#ifdef CT_HAVE_ONEDNN
/* The file says `name` for the only convolution that it knows, on its first
 * line, and then nonsense. */
static void rewrite(const char *name)
{
    char *text = NULL, *end;
    char line[2048];
    size_t n = 0;

    ASSERT_OK(ct_file_read(path(), &text, &n));
    end = strstr(text, " = ");
    ASSERT(end != NULL && end < strchr(text, '\n'));
    snprintf(line, sizeof(line), "%.*s = %s\nbroken\n = \n",
             (int)(end - text), text, name);
    ct_free(text);
    ASSERT_OK(ct_file_write(path(), line, strlen(line)));
}

TEST(conv_tune, what_was_measured_is_used_from_then_on)
{
    char why[128], first[32];

    start();
    snprintf(first, sizeof(first), "%s", chosen(&wide, &alone, why));
    ASSERT_HAS("measured: ", why);
    ASSERT_HAS("onednn ", why);
    ASSERT_HAS("gemm ", why);
    ASSERT_STR(first, chosen(&wide, &ranks, why));
    ASSERT_STR("measured before", why);
    ASSERT_STR(first, chosen(&wide, &alone, why));
    ASSERT_STR("measured before", why);
}

static void emulate_no_more(void *unused)
{
    (void)unused;
    ct_amx_emulate(false);
}

TEST(conv_tune, what_was_measured_without_amx_says_nothing_about_it)
{
    struct ct_conv_desc d = wide;
    char why[128];

    if (ct_amx_runs())
        test_skip("this CPU has AMX");
    d.src_type = d.dst_type = CT_BF16;
    d.src_layout = d.dst_layout = CT_NHWC;
    start();
    (void)chosen(&d, &alone, why);
    if (!strstr(why, "measured: "))
        test_skip("one implementation alone takes bfloat16 here");
    test_defer(emulate_no_more, NULL);
    ct_amx_emulate(true);
    ASSERT_STR("amx", chosen(&d, &ranks, why));
    ASSERT_STR("first that takes it", why);
}

/* Else the next run would measure it, and differ in its last bits. */
TEST(conv_tune, what_there_was_no_time_for_is_settled)
{
    char why[128], usual[32];

    start();
    snprintf(usual, sizeof(usual), "%s", chosen_after(&wide, &alone, 60, why));
    ASSERT_STR("first that takes it", why);
    ASSERT_STR(usual, chosen(&wide, &alone, why));
    ASSERT_STR("measured before", why);
}

TEST(conv_tune, the_file_decides_for_its_shape_alone)
{
    struct ct_conv_desc other = wide;
    char why[128];

    start();
    (void)chosen(&wide, &alone, why);
    rewrite("gemm");
    ASSERT_STR("gemm", chosen(&wide, &ranks, why));
    other.batch = 3;
    (void)chosen(&other, &ranks, why);
    ASSERT_STR("first that takes it", why);
    other              = wide;
    other.forward_only = true;
    (void)chosen(&other, &ranks, why);
    ASSERT_STR("first that takes it", why);
    rewrite("onednn");
    ASSERT_STR("onednn", chosen(&wide, &ranks, why));
}

TEST(conv_tune, what_the_file_says_is_no_order)
{
    struct ct_conv_desc d = wide;
    char why[128], usual[32];

    start();
    snprintf(usual, sizeof(usual), "%s", chosen(&wide, &off, why));
    (void)chosen(&wide, &alone, why);
    rewrite("gemm");
    ASSERT_STR(usual, chosen(&wide, &off, why));
    d.untuned = true; /* canonical training */
    ASSERT_STR(usual, chosen(&d, &always, why));
    rewrite("tiles"); /* which does not take plain arrays */
    ASSERT_STR(usual, chosen(&wide, &ranks, why));
    rewrite("the fastest");
    ASSERT_STR(usual, chosen(&wide, &ranks, why));
}

TEST(conv_tune, a_file_of_noise_is_no_reason_to_fail)
{
    static const char noise[] = "\xff\xfe = \0 = tiles\n\n===\n = = =\nconv";
    char why[128], usual[32];

    start();
    snprintf(usual, sizeof(usual), "%s", chosen(&wide, &off, why));
    (void)chosen(&wide, &alone, why);
    ASSERT_OK(ct_file_write(path(), noise, sizeof(noise)));
    ASSERT_STR(usual, chosen(&wide, &ranks, why));
    ASSERT_STR("first that takes it", why);
    (void)chosen(&wide, &alone, why);
    ASSERT_HAS("measured: ", why);
    (void)chosen(&wide, &ranks, why);
    ASSERT_STR("measured before", why);
}

/* The same values, as floats or bfloat16 alike, for all passes. */
struct passes {
    float y[2 * 16 * 64], dx[2 * 16 * 64], dw[16 * 16 * 9], db[16];
};

static void run_all(struct ct_conv *conv, struct passes *out)
{
    static float x[2 * 16 * 64], w[16 * 16 * 9], b[16];

    for (int i = 0; i < 2 * 16 * 64; i++)
        ct_bf16_out(x)[i] = ct_narrow((float)(i * 7 % 31 - 15) / 8);
    for (int i = 0; i < 16 * 16 * 9; i++)
        w[i] = (float)(i * 5 % 23 - 11) / 64;
    memset(out, 0, sizeof(*out));
    ASSERT_OK(ct_conv_forward(conv, x, w, b, out->y));
    ASSERT_OK(ct_conv_backward_data(conv, w, x, out->dx));
    ASSERT_OK(ct_conv_write_weights(conv, x, x, out->dw, out->db));
}

static void run_known(const struct ct_conv_desc *d, struct passes *out)
{
    struct ct_tuning tuning  = { 0 };
    struct ct_workspace work = { .tuning = &tuning };
    struct ct_conv *conv     = NULL;

    ASSERT_OK(ct_tuning_init(&tuning, &ranks, "conv-cpu"));
    ASSERT_OK(ct_conv_create(ct_device_cpu(), d, &work, &conv));
    run_all(conv, out);
    ct_conv_destroy(conv);
    ct_workspace_fini(&work);
    ct_tuning_fini(&tuning);
}

/* float32 takes bfloat16 on every CPU, and differs from AMX in its bits. */
TEST(conv_tune, passes_of_bfloat16_may_have_different_implementations)
{
    static struct passes amx, other, got;
    struct ct_conv_desc d = wide;
    char why[128];

    d.src_type = d.dst_type = CT_BF16;
    d.src_layout = d.dst_layout = CT_NHWC;
    start();
    test_defer(emulate_no_more, NULL);
    ct_amx_emulate(!ct_amx_runs());
    (void)chosen(&d, &always, why);
    ASSERT_HAS("amx ", why);
    rewrite("amx");
    run_known(&d, &amx);
    rewrite("float32");
    run_known(&d, &other);
    rewrite("amx float32:fw");
    run_known(&d, &got);
    ASSERT(memcmp(got.y, other.y, sizeof(got.y)) == 0);
    ASSERT(memcmp(got.dx, amx.dx, sizeof(got.dx)) == 0);
    ASSERT(memcmp(got.dw, other.dw, sizeof(got.dw)) == 0);
    ASSERT(memcmp(got.dw, amx.dw, sizeof(got.dw)) != 0);
    rewrite("amx float32:d");
    run_known(&d, &got);
    ASSERT(memcmp(got.y, amx.y, sizeof(got.y)) == 0);
    ASSERT(memcmp(got.dw, amx.dw, sizeof(got.dw)) == 0);
    ASSERT(memcmp(got.db, amx.db, sizeof(got.db)) == 0);
    ASSERT_STR("amx", chosen(&d, &ranks, why));
    ASSERT_STR("measured before", why);
    rewrite("amx nobody:f");
    ASSERT_STR("amx", chosen(&d, &ranks, why));
    ASSERT_STR("first that takes it", why);
    rewrite("amx float32");
    (void)chosen(&d, &ranks, why);
    ASSERT_STR("first that takes it", why);
}

/* A file stands where the folder should be, so root cannot write either. */
TEST(conv_tune, without_a_folder_choices_last_as_long_as_the_net)
{
    char why[128], in_the_way[512];

    start();
    snprintf(in_the_way, sizeof(in_the_way), "%s/cortado", folder);
    ASSERT_OK(ct_file_write(in_the_way, "x", 1));
    (void)chosen(&wide, &alone, why);
    ASSERT_HAS("measured: ", why);
    (void)chosen(&wide, &ranks, why);
    ASSERT_STR("first that takes it", why);
}

/* In a lane a product would wake the threads that other lanes run on. */
TEST(conv_tune, a_lane_takes_no_matrix_product)
{
    struct ct_tuning tuning  = { 0 };
    struct ct_workspace work = { .tuning = &tuning, .lane = true };
    struct ct_conv *conv     = NULL;

    start();
    ASSERT_OK(ct_tuning_init(&tuning, &always, "conv-cpu"));
    ASSERT_OK(ct_conv_create(ct_device_cpu(), &wide, &work, &conv));
    ct_tuning_begin(&tuning);
    ASSERT_OK(ct_conv_tune(conv));
    ct_tuning_end(&tuning, NULL);
    ASSERT(strstr(ct_conv_why(conv), "gemm") == NULL);
    ct_conv_destroy(conv);
    ct_workspace_fini(&work);
    ct_tuning_fini(&tuning);
}
#endif
