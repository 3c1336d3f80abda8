/* test_pooling.c - windows over this image:
 *
 *      1  2  3  4
 *      8  7  6  5
 *      9 10 12 11                                                        */
#include <stdlib.h>

#include "layout_case.h"

static const float x[] = { 1, 2, 3, 4, 8, 7, 6, 5, 9, 10, 12, 11 };

static struct layer_case *image(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = layer_case(dev, prototxt);

    case_bottom(c, 0, CT_SHAPE(1, 1, 3, 4), x);
    return c;
}

TEST_EACH_DEVICE(pooling, max_rounds_up_and_says_where)
{
    struct layer_case *c = image(dev, "type: 'Pooling' pooling_param { "
                                      "kernel_size: 2 stride: 2 }");

    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 2);
    case_top_diff(c, 0, (const float[]){ 1, 2, 3, 4 });
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 8, 6, 10, 12);
    ASSERT_NEAR(c, "top[1].data", 0, 4, 6, 9, 10);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 3, 4, 0);
}

TEST_EACH_DEVICE(pooling, overlapping_windows_add_up_in_the_gradient)
{
    struct layer_case *c = image(dev, "type: 'Pooling' pooling_param { "
                                      "kernel_size: 2 }");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 3);
    case_top_diff(c, 0, (const float[]){ 1, 2, 3, 4, 5, 6 });
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 8, 7, 6, 10, 12, 12);
    ASSERT_NEAR(c, "bottom[0].diff", 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 4, 11, 0);
}

TEST_EACH_DEVICE(pooling, average_counts_the_padding_but_not_what_overhangs)
{
    struct layer_case *c = image(dev, "type: 'Pooling' pooling_param { "
        "pool: AVE kernel_h: 1 kernel_w: 3 stride_h: 1 stride_w: 2 "
        "pad_h: 0 pad_w: 1 }");

    ASSERT_OK(case_setup(c));
    /* Columns | 0 1 2 | 2 3 4 | 4 0, the last one cut off at the padding. */
    ASSERT_SHAPE(c, "top[0]", 1, 1, 3, 3);
    case_top_diff(c, 0, (const float[]){ 3, 6, 2, 0, 0, 0, 0, 0, 0 });
    ASSERT_OK(case_backward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 1, 3, 2, 5, 6, 2.5f, 19 / 3.f, 11,
                5.5f);
    ASSERT_NEAR(c, "bottom[0].diff", 1e-6f, 1, 3, 2, 3, 0, 0, 0, 0, 0, 0, 0,
                0);
}

TEST_EACH_DEVICE(pooling, floor_drops_the_overhanging_windows)
{
    static const char *const ways[] = {
        "type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 "
        "round_mode: FLOOR }",
        "type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 "
        "ceil_mode: false }"
    };

    for (int i = 0; i < 2; i++) {
        struct layer_case *c = image(dev, ways[i]);

        ASSERT_OK(case_setup(c));
        ASSERT_SHAPE(c, "top[0]", 1, 1, 1, 2);
        ASSERT_OK(case_forward(c));
        ASSERT_NEAR(c, "top[0].data", 0, 8, 6);
    }
}

TEST_EACH_DEVICE(pooling, global_pooling_follows_the_image)
{
    struct layer_case *c = image(dev, "type: 'Pooling' pooling_param { "
                                      "pool: AVE global_pooling: true }");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 6.5f);
    case_bottom(c, 0, CT_SHAPE(1, 2, 2, 3), x);
    ASSERT_OK(case_reshape(c));
    ASSERT_SHAPE(c, "top[0]", 1, 2, 1, 1);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-6f, 25 / 6.f, 53 / 6.f);
}

TEST_EACH_DEVICE(pooling, stochastic_training_gives_one_of_the_values)
{
    struct layer_case *c = image(dev, "type: 'Pooling' pooling_param { "
                                      "pool: STOCHASTIC kernel_h: 1 "
                                      "kernel_w: 2 stride: 2 }");
    int seen[2] = { 0 };

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 1, 1, 2, 2);
    case_top_diff(c, 0, (const float[]){ 1, 0, 0, 0 });
    for (int i = 0; i < 30; i++) {
        const float *dx, *y;

        case_run(c)->pass = (uint64_t)i;
        ASSERT_OK(case_backward(c));
        y  = ct_data(case_find(c, "top[0]"));
        dx = ct_diff(case_find(c, "bottom[0]"));
        ASSERT(y[0] == 1 || y[0] == 2);
        ASSERT(dx[0] == (y[0] == 1) && dx[1] == (y[0] == 2));
        seen[(int)y[0] - 1]++;
    }
    ASSERT(seen[0] > 0 && seen[1] > seen[0]);
}

TEST_EACH_DEVICE(pooling, stochastic_testing_gives_the_weighted_mean)
{
    struct layer_case *c = image(dev, "type: 'Pooling' pooling_param { "
                                      "pool: STOCHASTIC kernel_h: 1 "
                                      "kernel_w: 4 }");

    case_phase(c, CAFFE__PHASE__TEST);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 3, 174 / 26.f, 446 / 42.f);
    ASSERT_GRADIENT(c, 1e-2f, 1e-2f);
}

TEST_EACH_DEVICE(pooling, gradient_matches_finite_differences)
{
    static const char *const kinds[] = {
        "type: 'Pooling' pooling_param { kernel_size: 3 stride: 2 pad: 1 }",
        "type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 "
        "pad: 1 }",
        "type: 'Pooling' pooling_param { kernel_size: 3 stride: 2 }",
        "type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 pad: 1 }",
        "type: 'Pooling' pooling_param { pool: AVE kernel_size: 2 stride: 2 }",
        "type: 'Pooling' pooling_param { pool: AVE kernel_h: 2 kernel_w: 3 }",
        "type: 'Pooling' pooling_param { global_pooling: true }"
    };
    const struct ct_shape shapes[] = { CT_SHAPE(2, 3, 4, 5),
                                       CT_SHAPE(2, 2, 5, 8) };

    for (int i = 0; i < 13; i++) {
        struct layer_case *c = layer_case(dev, kinds[i / 2]);

        case_bottom(c, 0, shapes[i % 2], NULL);
        ASSERT_OK(case_setup(c));
        ASSERT_GRADIENT(c, 1e-3f, 1e-2f);
    }
}

TEST(pooling, all_layouts_give_the_same)
{
    check_layouts("type: 'Pooling' pooling_param { kernel_size: 3 stride: 2 "
                  "pad: 1 }", CT_SHAPE(2, 19, 7, 6), false);
    check_layouts("type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 "
                  "stride: 2 pad: 1 }", CT_SHAPE(2, 19, 7, 6), false);
    check_layouts("type: 'Pooling' pooling_param { pool: AVE "
                  "global_pooling: true }", CT_SHAPE(2, 19, 7, 6), false);
    check_layouts("type: 'Pooling' pooling_param { pool: STOCHASTIC "
                  "kernel_size: 2 }", CT_SHAPE(2, 19, 7, 6), false);
}

static void same_values(const char *what, const char *kind, enum ct_dtype type,
                        int64_t n, const float *want, const float *got)
{
    for (int64_t i = 0; i < n; i++)
        if (want[i] != got[i])
            FAIL("%s, type %d: %s %lld is %g, on the CPU it is %g", kind,
                 (int)type, what, (long long)i, (double)got[i],
                 (double)want[i]);
}

/* Small whole numbers, which 16 bits hold as they hold their sums, and of
 * which many are equal: the first one in a window gets its gradient. */
TEST(pooling, channels_in_packs_give_what_the_cpu_gives)
{
    static const char *const kinds[] = {
        "kernel_size: 2 stride: 2",        "kernel_size: 2 stride: 2 pad: 1",
        "kernel_size: 3 stride: 2",        "kernel_size: 3 stride: 2 pad: 1",
        "kernel_size: 3 stride: 1",        "kernel_size: 3 stride: 1 pad: 1",
        "kernel_size: 3 stride: 1 pad: 2", "kernel_size: 3 stride: 3",
        "kernel_size: 2 stride: 1",        "kernel_size: 5 stride: 3",
    };
    static const enum ct_dtype types[] = { CT_F32, CT_BF16, CT_F16 };
    const struct ct_shape shapes[] = { CT_SHAPE(2, 24, 8, 6),
                                       CT_SHAPE(3, 16, 7, 9),
                                       CT_SHAPE(1, 8, 5, 5) };
    const struct ct_run run = { .seed = 1701, .size = 1 };

    if (test_device()->kind == CT_CPU)
        test_skip("CORTADO_TEST_DEVICE names no GPU");
    for (int i = 0; i < 90; i++) {
        const char *kind          = kinds[i % 10];
        const struct ct_shape at  = shapes[i / 10 % 3];
        const enum ct_dtype type  = types[i / 30];
        const bool want           = true;
        const struct ct_device *g = test_device();
        struct layout_run r;
        struct ct_io io = { &r.x, &r.y, 1, 1, &want };
        Caffe__LayerParameter *param;
        char text[128];
        void *y, *dx;

        snprintf(text, sizeof(text), "type: 'Pooling' pooling_param { %s }",
                 kind);
        ASSERT_OK(ct_text_parse(&caffe__layer_parameter__descriptor, text,
                                strlen(text), "test", &param));
        test_defer(ct_message_free, param);
        layout_run(param, &run, at, CT_PLAIN, false, &r);
        for (int64_t k = 0; k < r.x->count; k++)
            ct_data(r.x)[k] = floorf(4 * ct_data(r.x)[k]);
        for (int64_t k = 0; k < r.y->count; k++)
            ct_diff(r.y)[k] = floorf(4 * ct_diff(r.y)[k]);
        ASSERT_OK(ct_layer_forward(r.layer, &io));
        ASSERT_OK(ct_layer_backward(r.layer, &io));
        ASSERT_OK(g->ops->alloc(g, (size_t)r.y->count * sizeof(float), "y",
                                &y));
        ASSERT_OK(g->ops->alloc(g, (size_t)r.x->count * sizeof(float), "dx",
                                &dx));
        layout_packed(param, type, false, at, &r, y, dx, NULL);
        same_values("y", kind, type, r.y->count, ct_data(r.y), y);
        same_values("dx", kind, type, r.x->count, ct_diff(r.x), dx);
        g->ops->free(g, dx);
        g->ops->free(g, y);
        layout_run_free(&r, false);
    }
}

static void unforce(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
}

enum { PLAIN = 2 * 3 * 32 * 32 };

/* y and dx of one layer, behind each other. */
static void run_plain(enum ct_device_kind dev, const char *prototxt,
                      struct ct_shape shape, float *out)
{
    static float dy[PLAIN];
    struct layer_case *c = layer_case(dev, prototxt);
    const struct ct_blob *b;

    for (int i = 0; i < PLAIN; i++)
        dy[i] = 2 * ct_uniform(5, 1, (uint64_t)i) - 1;
    case_bottom(c, 0, shape, NULL);
    ASSERT_OK(case_setup(c));
    case_top_diff(c, 0, dy);
    ASSERT_OK(case_backward(c));
    b = case_find(c, "bottom[0].diff");
    memcpy(out, ct_diff(b), (size_t)b->count * sizeof(float));
    b = case_find(c, "top[0].data");
    memcpy(out + PLAIN, ct_data(b), (size_t)b->count * sizeof(float));
}

/* Rows that fall into fours, outputs that do and that do not, windows that
 * overhang and rows that none holds. */
TEST_EACH_DEVICE(pooling, plain_images_every_way_give_what_the_definition_does)
{
    static const char *const kinds[] = {
        "type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 }",
        "type: 'Pooling' pooling_param { kernel_size: 3 stride: 2 }",
        "type: 'Pooling' pooling_param { pool: AVE kernel_size: 2 stride: 2 }",
        "type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 }",
        "type: 'Pooling' pooling_param { kernel_size: 3 stride: 2 "
        "round_mode: FLOOR }"
    };
    static const int64_t shapes[][4] = { { 2, 3, 32, 32 }, { 1, 2, 7, 8 },
                                         { 2, 1, 16, 8 },  { 3, 2, 9, 12 },
                                         { 1, 5, 4, 16 },  { 2, 2, 6, 7 } };
    static float want[2 * PLAIN], got[2 * PLAIN];

    test_defer(unforce, NULL);
    for (int i = 0; i < 30; i++) {
        const int64_t *d        = shapes[i / 5];
        const struct ct_shape s = CT_SHAPE(d[0], d[1], d[2], d[3]);

        run_plain(dev, kinds[i % 5], s, got);
        ASSERT(setenv("CORTADO_IMPL",
                      dev == CT_CUDA ? "plain:places" : "pool:ref", 1) == 0);
        run_plain(dev, kinds[i % 5], s, want);
        unforce(NULL);
        for (int j = 0; j < 2 * PLAIN; j++)
            ASSERT_FLOAT(want[j], got[j], 1e-6f);
    }
}

TEST(pooling, an_empty_batch_is_no_trouble)
{
    struct layer_case *c = layer_case(CT_CPU, "type: 'Pooling' "
                                      "pooling_param { kernel_size: 2 }");

    case_bottom(c, 0, CT_SHAPE(0, 3, 4, 4), x);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_backward(c));
}

TEST(pooling, descriptions_that_caffe_refuses_are_refused)
{
    static const struct {
        const char *param, *says;
    } table[] = {
        { "kernel_size: 2 kernel_h: 2 kernel_w: 2", "not both" },
        { "stride: 2", "kernel_size" },
        { "kernel_h: 2", "both kernel_h and kernel_w" },
        { "kernel_size: 0", "at least 1" },
        { "kernel_size: 2 pad: 2", "smaller than the kernel" },
        { "kernel_h: 3 kernel_w: 1 pad: 1", "smaller than the kernel" },
        { "kernel_size: 2 pad: 1 pad_h: 1 pad_w: 1", "pad_h and pad_w" },
        { "kernel_size: 2 pad_h: 1", "pad_h and pad_w" },
        { "kernel_size: 2 stride_w: 1", "stride_h and stride_w" },
        { "kernel_size: 2 stride: 0", "stride" },
        { "global_pooling: true kernel_size: 2", "global_pooling" },
        { "global_pooling: true stride: 2", "global_pooling" },
        { "global_pooling: true pad: 1", "global_pooling" },
        { "kernel_size: 2 round_mode: FLOOR ceil_mode: true", "contradict" },
        { "pool: STOCHASTIC kernel_size: 2 pad: 1", "MAX and AVE" },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char text[256];
        struct layer_case *c;

        snprintf(text, sizeof(text),
                 "name: 'pool5' type: 'Pooling' pooling_param { %s }",
                 table[i].param);
        c = image(CT_CPU, text);
        ASSERT_STATUS(CT_EINVAL, case_setup(c));
        ASSERT_HAS("layer pool5: ", ct_last_error());
        ASSERT_HAS(table[i].says, ct_last_error());
    }
}

TEST(pooling, bottoms_and_tops_that_do_not_fit_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'p' type: 'Pooling' "
                                      "pooling_param { kernel_size: 2 }");

    case_bottom(c, 0, CT_SHAPE(3, 4), x);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer p: the bottom must have 4 axes", ct_last_error());
    c = image(CT_CPU, "name: 'p' type: 'Pooling' pooling_param { "
                      "kernel_size: 9 }");
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("3 x 4 image", ct_last_error());
    c = image(CT_CPU, "name: 'p' type: 'Pooling' pooling_param { pool: AVE "
                      "kernel_size: 2 }");
    case_tops(c, 2);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("second top", ct_last_error());
}
