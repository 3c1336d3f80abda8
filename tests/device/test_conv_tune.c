/* test_conv_tune.c - which implementation of a convolution was measured to be
 * the fastest is looked up, and measured only where someone asks. */
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "device/conv.h"
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
    unsetenv("CORTADO_TUNE");
    unsetenv("CORTADO_IMPL");
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

/* What runs `d`, and why. */
static const char *chosen(const struct ct_conv_desc *d, const char *mode,
                          char why[128])
{
    static char name[32];
    struct ct_conv *c = NULL;

    if (mode)
        ASSERT(setenv("CORTADO_TUNE", mode, 1) == 0);
    else
        unsetenv("CORTADO_TUNE");
    ASSERT_OK(ct_conv_create(ct_device_cpu(), d, NULL, &c));
    snprintf(name, sizeof(name), "%s", ct_conv_impl_name(c));
    snprintf(why, 128, "%s", ct_conv_why(c));
    ct_conv_destroy(c);
    return name;
}

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

TEST(conv_tune, nothing_is_measured_unless_someone_asks)
{
    char why[128];

    start();
    (void)chosen(&wide, NULL, why);
    ASSERT_STR("first that takes it", why);
    ASSERT(!ct_file_exists(path()));
}

TEST(conv_tune, what_was_measured_is_used_from_then_on)
{
    char why[128], first[32];

    start();
    snprintf(first, sizeof(first), "%s", chosen(&wide, "measure", why));
#ifdef CT_HAVE_ONEDNN
    ASSERT_HAS("measured: ", why);
    ASSERT_HAS("onednn ", why);
    ASSERT_HAS("gemm ", why);
    ASSERT_STR(first, chosen(&wide, NULL, why));
    ASSERT_STR("measured before", why);
    ASSERT_STR(first, chosen(&wide, "measure", why));
    ASSERT_STR("measured before", why);
#else
    ASSERT_STR("the only one that takes it", why);
#endif
}

#ifdef CT_HAVE_ONEDNN
TEST(conv_tune, the_file_decides_for_its_shape_alone)
{
    struct ct_conv_desc other = wide;
    char why[128];

    start();
    (void)chosen(&wide, "measure", why);
    rewrite("gemm");
    ASSERT_STR("gemm", chosen(&wide, NULL, why));
    other.batch = 3;
    (void)chosen(&other, NULL, why);
    ASSERT_STR("first that takes it", why);
    rewrite("onednn");
    ASSERT_STR("onednn", chosen(&wide, NULL, why));
}

TEST(conv_tune, what_the_file_says_is_no_order)
{
    struct ct_conv_desc d = wide;
    char why[128], usual[32];

    start();
    snprintf(usual, sizeof(usual), "%s", chosen(&wide, NULL, why));
    (void)chosen(&wide, "measure", why);
    rewrite("gemm");
    ASSERT_STR(usual, chosen(&wide, "off", why));
    d.untuned = true; /* canonical training */
    ASSERT_STR(usual, chosen(&d, "measure", why));
    ASSERT(setenv("CORTADO_IMPL", "conv:ref", 1) == 0);
    ASSERT_STR("ref", chosen(&wide, NULL, why));
    unsetenv("CORTADO_IMPL");
    rewrite("tiles"); /* which does not take plain arrays */
    ASSERT_STR(usual, chosen(&wide, NULL, why));
    rewrite("the fastest");
    ASSERT_STR(usual, chosen(&wide, NULL, why));
}
#endif
