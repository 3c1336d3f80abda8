/* test_transform.c - crop, mirror, mean, scale; then the augmentation. */
#include "base/mem.h"
#include "data/augment.h"
#include "data/transform.h"
#include "testing/files.h"

static void transform_gone(void *arg)
{
    ct_transform_destroy(arg);
}

static struct ct_transform *made(const char *text, Caffe__Phase phase)
{
    Caffe__TransformationParameter *p;
    struct ct_transform *t;

    ASSERT_OK(ct_text_parse(&caffe__transformation_parameter__descriptor, text,
                            strlen(text), "test", &p));
    test_defer(ct_message_free, p);
    ASSERT_OK(ct_transform_create(p, phase, 99, "d", &t));
    test_defer(transform_gone, t);
    return t;
}

/* 2 channels, 3 rows, 4 columns: 100 c + 10 y + x, in both layouts. */
static unsigned char planar[24], interleaved[24];
static float planar_float[24];

static struct ct_pixels pixels(int kind)
{
    for (int c = 0; c < 2; c++)
        for (int y = 0; y < 3; y++)
            for (int x = 0; x < 4; x++) {
                unsigned char v = (unsigned char)(100 * c + 10 * y + x);

                planar[(c * 3 + y) * 4 + x]      = v;
                interleaved[(y * 4 + x) * 2 + c] = v;
                planar_float[(c * 3 + y) * 4 + x] = v;
            }
    return (struct ct_pixels){ kind == 0   ? (const void *)planar
                               : kind == 1 ? (const void *)interleaved
                                           : (const void *)planar_float,
                               kind == 2, kind != 1, 2, 3, 4 };
}

static void run(const struct ct_transform *t, const struct ct_pixels *in,
                int64_t epoch, int64_t sample, float *out)
{
    struct ct_room room = { 0 };

    ASSERT_OK(ct_transform_run(t, in, epoch, sample, &room, out));
    ct_room_fini(&room);
}

TEST(transform, every_layout_comes_out_as_planes)
{
    const struct ct_transform *t = made("", CAFFE__PHASE__TRAIN);
    float out[24];

    for (int kind = 0; kind < 3; kind++) {
        struct ct_pixels in = pixels(kind);

        run(t, &in, 0, 0, out);
        for (int i = 0; i < 24; i++)
            ASSERT_FLOAT(planar[i], out[i], 0);
    }
}

TEST(transform, test_crop_is_in_the_centre)
{
    const struct ct_transform *t =
        made("crop_size: 2 scale: 0.5 mean_value: 1 mean_value: 100",
             CAFFE__PHASE__TEST);
    static const float want[] = { 0, 0.5f, 5, 5.5f, 0.5f, 1, 5.5f, 6 };
    float out[8];

    for (int kind = 0; kind < 3; kind++) {
        struct ct_pixels in = pixels(kind);

        run(t, &in, 0, 5, out); /* row 0 of (3 - 2) / 2, column 1 */
        for (int i = 0; i < 8; i++)
            ASSERT_FLOAT(want[i], out[i], 0);
    }
}

TEST(transform, train_crop_and_mirror_reach_every_case_evenly)
{
    const struct ct_transform *t = made("crop_size: 2 mirror: true",
                                        CAFFE__PHASE__TRAIN);
    struct ct_pixels in = pixels(1);
    int count[12]       = { 0 };
    float out[8];

    for (int64_t s = 0; s < 1200; s++) {
        bool mirrored;
        int corner, row, column;

        run(t, &in, 3, s, out);
        mirrored = out[0] > out[1];
        corner   = (int)(mirrored ? out[1] : out[0]);
        row      = corner / 10;
        column   = corner % 10;
        ASSERT(row < 2 && column < 3);
        ASSERT_FLOAT(corner + 1, mirrored ? out[0] : out[1], 0);
        ASSERT_FLOAT(corner + 110, mirrored ? out[7] : out[6], 0);
        count[(row * 3 + column) * 2 + mirrored]++;
    }
    for (int i = 0; i < 12; i++) /* 100 each; 5 standard deviations are 48 */
        ASSERT(count[i] > 52 && count[i] < 148);
}

/* 3 channels of `side` rows and columns, in one layout, against the formula:
 * rows are long enough for whole vectors and their rests. */
static void check_wide(int side, int crop, bool is_planar, bool with_mean)
{
    struct ct_transform *t =
        made(test_format("crop_size: %d mirror: true scale: 0.25", crop),
             CAFFE__PHASE__TEST);
    const int at = (side - crop) / 2, n = 3 * side * side;
    unsigned char *x = ct_malloc((size_t)n, "pixels");
    float *out = ct_malloc((size_t)(3 * crop * crop) * sizeof(*out), "out");
    struct ct_pixels in = { x, false, is_planar, 3, side, side };
    int n_mirrored = 0;

    test_defer(ct_free, x);
    test_defer(ct_free, out);
    for (int i = 0; i < n; i++)
        x[i] = (unsigned char)(i * 37 % 251);
    if (with_mean) {
        ASSERT_OK(ct_alloc((size_t)n, sizeof(float), "mean", &t->mean));
        for (int i = 0; i < n; i++)
            t->mean[i] = (float)(i % 89);
        t->mean_channels = 3;
        t->mean_height = t->mean_width = side;
    }
    for (int64_t sample = 0; sample < 12; sample++) {
        bool mirror = ct_draw_below(t->key, 0, sample, 0, 2);

        n_mirrored += mirror;
        run(t, &in, 0, sample, out);
        for (int i = 0; i < 3 * crop * crop; i++) {
            int c = i / crop / crop, y = i / crop % crop + at;
            int w = at + (mirror ? crop - 1 - i % crop : i % crop);
            int p = (c * side + y) * side + w;
            float m = with_mean ? t->mean[p] : 0;

            ASSERT_FLOAT(((float)x[is_planar ? p : (y * side + w) * 3 + c] -
                          m) * 0.25f, out[i], 0);
        }
    }
    ASSERT(n_mirrored > 0 && n_mirrored < 12);
}

TEST(transform, wide_rows_follow_the_formula_to_the_bit)
{
    static const int size[][2] = {
        { 8, 8 }, { 17, 17 }, { 23, 16 }, { 40, 31 }, { 128, 120 },
    };

    for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++)
        for (int form = 0; form < 4; form++)
            check_wide(size[i][0], size[i][1], form & 1, form & 2);
}

TEST(transform, test_phase_mirrors_too)
{
    const struct ct_transform *t = made("mirror: true", CAFFE__PHASE__TEST);
    struct ct_pixels in          = pixels(0);
    int n_mirrored               = 0;
    float out[24];

    for (int64_t s = 0; s < 100; s++) {
        run(t, &in, 0, s, out);
        n_mirrored += out[0] == 3;
    }
    ASSERT(n_mirrored > 20 && n_mirrored < 80);
}

TEST(transform, draws_depend_on_epoch_and_sample_only)
{
    const struct ct_transform *t = made("crop_size: 1 mirror: true",
                                        CAFFE__PHASE__TRAIN);
    struct ct_pixels in = pixels(0);
    int differ          = 0;
    float a[2], b[2], c[2];

    for (int64_t s = 0; s < 50; s++) {
        run(t, &in, 0, s, a);
        run(t, &in, 0, s, b);
        run(t, &in, 1, s, c);
        ASSERT_FLOAT(a[0], b[0], 0);
        differ += a[0] != c[0];
    }
    ASSERT(differ > 25);
}

static const char *mean_file(int channels, int height, int width)
{
    Caffe__BlobProto b = CAFFE__BLOB_PROTO__INIT;
    const char *path   = test_path("mean.binaryproto");
    float data[64];

    for (int i = 0; i < 64; i++)
        data[i] = (float)i;
    b.data         = data;
    b.n_data       = (size_t)(channels * height * width);
    b.has_num      = b.has_channels = b.has_height = b.has_width = true;
    b.num          = 1;
    b.channels     = channels;
    b.height       = height;
    b.width        = width;
    ASSERT_OK(ct_binary_write(&b, path));
    return path;
}

TEST(transform, mean_image_is_subtracted_where_the_crop_lies)
{
    const struct ct_transform *t = made(
        test_format("crop_size: 2 mean_file: '%s'", mean_file(2, 3, 4)),
        CAFFE__PHASE__TEST);
    struct ct_pixels in = pixels(1);
    float out[8];

    run(t, &in, 0, 0, out);
    ASSERT_FLOAT(1 - 1, out[0], 0);     /* row 0, column 1 */
    ASSERT_FLOAT(11 - 5, out[2], 0);    /* row 1, column 1 */
    ASSERT_FLOAT(112 - 18, out[7], 0);  /* channel 1, row 1, column 2 */
}

static void refused(enum ct_status want, const char *why, const char *text)
{
    Caffe__TransformationParameter *p;
    struct ct_transform *t;

    ASSERT_OK(ct_text_parse(&caffe__transformation_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_STATUS(want,
                  ct_transform_create(p, CAFFE__PHASE__TRAIN, 0, "d", &t));
    ASSERT_HAS("layer d", ct_last_error());
    ASSERT_HAS(why, ct_last_error());
    ct_message_free(p);
}

TEST(transform, contradictions_are_refused)
{
    refused(CT_EINVAL, "mean_file or mean_value",
            "mean_file: 'x' mean_value: 1");
    refused(CT_EINVAL, "force_color", "force_color: true force_gray: true");
    refused(CT_ENOTFOUND, "nowhere", "mean_file: 'nowhere'");
    refused(CT_EINVAL, "min_area", "augment { min_area: 0 }");
    refused(CT_EINVAL, "aspect", "augment { min_aspect: 2 }");
    refused(CT_EINVAL, "rotation", "augment { rotation: 200 }");
    refused(CT_EINVAL, "vignette", "augment { vignette: 1.5 }");
    refused(CT_EINVAL, "lens", "augment { lens: 0.6 }");
}

TEST(transform, samples_that_do_not_fit_are_refused)
{
    const struct ct_transform *crop = made("crop_size: 4", CAFFE__PHASE__TEST);
    const struct ct_transform *three =
        made("mean_value: 1 mean_value: 2 mean_value: 3", CAFFE__PHASE__TEST);
    const struct ct_transform *mean =
        made(test_format("mean_file: '%s'", mean_file(2, 3, 3)),
             CAFFE__PHASE__TEST);
    int h, w;

    ASSERT_STATUS(CT_ESHAPE, ct_transform_size(crop, 1, 3, 9, &h, &w));
    ASSERT_HAS("crop_size 4", ct_last_error());
    ASSERT_STATUS(CT_ESHAPE, ct_transform_size(three, 2, 3, 4, &h, &w));
    ASSERT_STATUS(CT_ESHAPE, ct_transform_size(mean, 2, 3, 4, &h, &w));
    ASSERT_STATUS(CT_ESHAPE, ct_transform_size(mean, 1, 3, 3, &h, &w));
    ASSERT_OK(ct_transform_size(mean, 2, 3, 3, &h, &w));
}

/* A picture whose pixel is 2 x, 2 y and 50 at column x and row y. */
static struct ct_pixels large(void)
{
    static unsigned char p[100 * 80 * 3];

    for (int i = 0; i < 100 * 80; i++) {
        p[3 * i]     = (unsigned char)(2 * (i % 100));
        p[3 * i + 1] = (unsigned char)(2 * (i / 100));
        p[3 * i + 2] = 50;
    }
    return (struct ct_pixels){ p, false, false, 3, 80, 100 };
}

static float planes[3 * 100 * 80];

TEST(transform, augment_that_asks_for_nothing_changes_nothing)
{
    const struct ct_transform *t = made("augment { }", CAFFE__PHASE__TRAIN);
    struct ct_pixels in          = large();

    run(t, &in, 0, 0, planes);
    for (int i = 0; i < 8000; i++) {
        ASSERT_FLOAT(2 * (i % 100), planes[i], 1e-3);
        ASSERT_FLOAT(2 * (i / 100), planes[8000 + i], 1e-3);
        ASSERT_FLOAT(50, planes[16000 + i], 1e-3);
    }
}

TEST(transform, augmentation_is_for_training_only)
{
    const struct ct_transform *t = made("augment { rotation: 90 vignette: 1 }",
                                        CAFFE__PHASE__TEST);
    struct ct_pixels in          = large();

    run(t, &in, 0, 0, planes);
    ASSERT_FLOAT(2 * 99, planes[99], 0);
    ASSERT_FLOAT(50, planes[16000], 0);
}

/* The part taken shows in the slope of the ramps: 2 W / 20 along a row. */
TEST(transform, random_part_has_the_area_and_aspect_asked_for)
{
    const struct ct_transform *t = made("crop_size: 20 augment { min_area: 0.2 "
        "max_area: 0.5 min_aspect: 0.75 max_aspect: 1.3333 }",
        CAFFE__PHASE__TRAIN);
    struct ct_pixels in = large();
    float least = 9, most = 0;

    for (int64_t s = 0; s < 200; s++) {
        float w, h;

        run(t, &in, 0, s, planes);
        w = (planes[11] - planes[9]) / 4 * 20;
        h = (planes[400 + 220] - planes[400 + 180]) / 4 * 20;
        ASSERT(w * h > 0.19f * 8000 && w * h < 0.51f * 8000);
        ASSERT(w / h > 0.74f && w / h < 1.35f);
        ASSERT(planes[0] >= 0 && planes[19] <= 198);
        least = fminf(least, w * h / 8000);
        most  = fmaxf(most, w * h / 8000);
    }
    ASSERT(least < 0.25f && most > 0.45f);
}

/* The gradient of the first channel turns by the angle. */
TEST(transform, rotation_turns_up_to_the_angle_either_way)
{
    const struct ct_transform *t =
        made("crop_size: 20 augment { rotation: 30 }", CAFFE__PHASE__TRAIN);
    struct ct_pixels in = large();
    double least = 90, most = -90;

    for (int64_t s = 0; s < 100; s++) {
        double dx, dy, angle;

        run(t, &in, 0, s, planes);
        dx    = planes[10 * 20 + 11] - planes[10 * 20 + 9];
        dy    = planes[11 * 20 + 10] - planes[9 * 20 + 10];
        angle = atan2(dy, dx) * 57.29578;
        ASSERT_FLOAT(4, sqrt(dx * dx + dy * dy), 0.01);
        least = fmin(least, angle);
        most  = fmax(most, angle);
    }
    ASSERT(least > -30.01 && least < -20 && most < 30.01 && most > 20);
}

TEST(transform, vignette_darkens_the_corners_not_the_centre)
{
    const struct ct_transform *t =
        made("crop_size: 21 augment { vignette: 0.5 }", CAFFE__PHASE__TRAIN);
    struct ct_pixels in = large();
    const float *flat   = planes + 2 * 441;

    for (int64_t s = 0; s < 20; s++) {
        run(t, &in, 0, s, planes);
        ASSERT_FLOAT(50, flat[220], 1e-3);
        ASSERT(flat[0] <= 50 && flat[0] >= 25);
        ASSERT_FLOAT(flat[0], flat[440], 1e-3);
    }
}

TEST(transform, colour_changes_stay_within_their_limits)
{
    const struct ct_transform *bright =
        made("augment { brightness: 0.2 }", CAFFE__PHASE__TRAIN);
    const struct ct_transform *cast =
        made("augment { color_cast: 20 }", CAFFE__PHASE__TRAIN);
    const struct ct_transform *gray =
        made("augment { saturation: 1 }", CAFFE__PHASE__TRAIN);
    struct ct_pixels in = large();
    int n_cast = 0;

    for (int64_t s = 0; s < 40; s++) {
        float k;

        run(bright, &in, 0, s, planes);
        k = planes[16000] / 50;
        ASSERT(k >= 0.8f && k <= 1.2f);
        ASSERT_FLOAT(fminf(100 * k, 255), planes[50], 1e-2);
        run(cast, &in, 0, s, planes);
        ASSERT(fabsf(planes[16000] - 50) <= 20.001f);
        ASSERT_FLOAT(planes[16000], planes[16000 + 7999], 1e-3);
        n_cast += planes[16000] != 50;
        run(gray, &in, 0, s, planes); /* luma is kept: row 40, column 50 */
        ASSERT_FLOAT(0.114f * 100 + 0.587f * 80 + 0.299f * 50,
                     0.114f * planes[4050] + 0.587f * planes[12050] +
                         0.299f * planes[20050], 0.01);
    }
    ASSERT(n_cast > 8 && n_cast < 32);
}

/* Barrel and pincushion move the border, not the centre. */
TEST(transform, lens_bends_the_border)
{
    const struct ct_transform *t = made("augment { lens: 0.2 }",
                                        CAFFE__PHASE__TRAIN);
    struct ct_pixels in = large();
    int inwards = 0, outwards = 0;

    for (int64_t s = 0; s < 40; s++) {
        const float *row = planes + 40 * 100;

        run(t, &in, 0, s, planes);
        ASSERT_FLOAT(2 * 50, row[50], 0.5);
        inwards += row[90] > 181;
        outwards += row[90] < 179;
    }
    ASSERT(inwards > 5 && outwards > 5);
}
