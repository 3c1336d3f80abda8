/* test_annotated_data.c - boxes beside images, wherever these are moved to.
 *
 * Record i is a dark image with one white rectangle, which is its object; so
 * a box can be checked against the pixels that come out. */
#include "base/mem.h"
#include "data/annotation.h"
#include "layers/batches.h"
#include "testing/files.h"
#include "testing/layer_test.h"

enum { W = 48, H = 40, DARK = 20, WHITE = 250 };

/* The rectangle of record i, in pixels. */
static struct ct_bbox rectangle(int i)
{
    float x = (float)(3 + 5 * (i % 5)), y = (float)(2 + 4 * (i % 6));

    return (struct ct_bbox){ x, y, x + 10 + (float)(i % 3) * 4,
                             y + 8 + (float)(i % 2) * 6 };
}

static void draw(int i, unsigned char *pixel)
{
    const struct ct_bbox r = rectangle(i);

    for (int p = 0; p < 3; p++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                pixel[(p * H + y) * W + x] =
                    (float)x >= r.xmin && (float)x < r.xmax &&
                    (float)y >= r.ymin && (float)y < r.ymax ? WHITE : DARK;
}

/* n records; record `bad` has a box that is turned inside out; `empty` has
 * no object, and `twice` its object two times. */
static const char *db(int n, int bad, int empty, int twice)
{
    const char *path = test_path("boxes");
    struct ct_text datum = { 0 }, record = { 0 };
    unsigned char *pixel = ct_malloc((size_t)3 * H * W, "test image");
    struct ct_db *d;

    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_NEW, &d));
    for (int i = 0; i < n; i++) {
        const struct ct_datum one = { .channels = 3, .height = H, .width = W,
                                      .data = { pixel, (size_t)3 * H * W } };
        const struct ct_bbox r = rectangle(i);
        struct ct_object o = { { r.xmin / W, r.ymin / H, r.xmax / W,
                                 r.ymax / H }, 1 + i % 3, 0, i % 2 };
        struct ct_objects list = { 0 };

        draw(i, pixel);
        if (i == bad)
            o.box.xmax = -1;
        for (; i != empty && o.instance < (i == twice ? 2 : 1); o.instance++)
            ASSERT_OK(ct_objects_add(&list, &o));
        ASSERT_OK(ct_datum_write(&one, CT_DATUM_SHAPE, NULL, &datum));
        ASSERT_OK(ct_annotated_write((struct ct_bytes){ datum.s,
                                                        datum.n_bytes },
                                     &list, &record));
        ASSERT_OK(ct_db_put(d, (struct ct_bytes){ test_format("%08d", i), 8 },
                            (struct ct_bytes){ record.s, record.n_bytes }));
        ct_objects_fini(&list);
    }
    ASSERT_OK(ct_db_commit(d));
    ct_db_close(d);
    ct_free(pixel);
    ct_text_fini(&datum);
    ct_text_fini(&record);
    return path;
}

static struct layer_case *reader(const char *path, int batch,
                                 const char *transform, const char *more)
{
    return layer_case(CT_CPU, test_format(
        "name: 'd' type: 'AnnotatedData' top: 'data' top: 'label' "
        "data_param { source: '%s' batch_size: %d backend: LMDB %s } "
        "transform_param { %s }", path, batch, more, transform));
}

/* The next pass.  Memory grows with the largest image and list so far, which
 * case_reshape() allows. */
static enum ct_status pass(struct layer_case *c)
{
    enum ct_status st = case_reshape(c);

    return st == CT_OK ? case_forward(c) : st;
}

TEST(annotated_data, every_object_has_a_row)
{
    struct layer_case *c = reader(db(3, -1, 1, 2), 3, "", "");
    const struct ct_bbox a = rectangle(0), b = rectangle(2);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(pass(c));
    ASSERT_SHAPE(c, "top[0]", 3, 3, H, W);
    ASSERT_SHAPE(c, "top[1]", 1, 1, 3, 8);
    ASSERT_NEAR(c, "top[1].data", 1e-6f,
                0, 1, 0, a.xmin / W, a.ymin / H, a.xmax / W, a.ymax / H, 0,
                2, 3, 0, b.xmin / W, b.ymin / H, b.xmax / W, b.ymax / H, 0,
                2, 3, 1, b.xmin / W, b.ymin / H, b.xmax / W, b.ymax / H, 0);
}

TEST(annotated_data, a_batch_without_objects_has_a_row_of_minus_one)
{
    struct layer_case *c = reader(db(2, -1, 0, -1), 1, "", "");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(pass(c));
    ASSERT_SHAPE(c, "top[1]", 1, 1, 1, 8);
    ASSERT_NEAR(c, "top[1].data", 0, -1, -1, -1, -1, -1, -1, -1, -1);
    ASSERT_OK(pass(c));
    ASSERT_FLOAT(0, ct_data(case_find(c, "top[1]"))[0], 0);
    ASSERT_FLOAT(2, ct_data(case_find(c, "top[1]"))[1], 0);
}

/* Bounds of what is white in image i, in parts. */
static struct ct_bbox white(struct layer_case *c, int i)
{
    const struct ct_blob *b = case_find(c, "top[0]");
    const int h = (int)b->shape.dim[2], w = (int)b->shape.dim[3];
    const float *x = ct_data(b) + i * 3 * h * w;
    struct ct_bbox out = { 2, 2, -1, -1 };

    for (int y = 0; y < h; y++)
        for (int k = 0; k < w; k++) {
            if (x[y * w + k] < (WHITE + DARK) / 2)
                continue;
            out.xmin = fminf(out.xmin, (float)k / (float)w);
            out.xmax = fmaxf(out.xmax, (float)(k + 1) / (float)w);
            out.ymin = fminf(out.ymin, (float)y / (float)h);
            out.ymax = fmaxf(out.ymax, (float)(y + 1) / (float)h);
        }
    return out;
}

/* Runs batches of 8 and compares each box with its image; returns how many
 * there were.  `tol` is for the edges of scaled pixels. */
static int boxes_are_right(struct layer_case *c, int passes, float tol)
{
    int n_boxes = 0;

    ASSERT_OK(case_setup(c));
    for (int k = 0; k < passes; k++) {
        const struct ct_blob *label;

        ASSERT_OK(pass(c));
        label = case_find(c, "top[1]");
        for (int64_t r = 0; r < label->shape.dim[2]; r++) {
            const float *row = ct_data(label) + 8 * r;
            struct ct_bbox seen;

            if (row[0] < 0)
                continue;
            seen = white(c, (int)row[0]);
            ASSERT_FLOAT(seen.xmin, row[3], tol);
            ASSERT_FLOAT(seen.ymin, row[4], tol);
            ASSERT_FLOAT(seen.xmax, row[5], tol);
            ASSERT_FLOAT(seen.ymax, row[6], tol);
            n_boxes++;
        }
    }
    return n_boxes;
}

TEST(annotated_data, boxes_follow_the_mirror)
{
    struct layer_case *c = reader(db(8, -1, -1, -1), 8, "mirror: true", "");

    ASSERT_INT(32, boxes_are_right(c, 4, 1e-6f));
}

TEST(annotated_data, boxes_follow_a_crop)
{
    struct layer_case *c = reader(db(8, -1, -1, -1), 8, "crop_size: 30", "");

    ASSERT(boxes_are_right(c, 4, 1e-5f) > 20);
}

TEST(annotated_data, boxes_follow_every_way_of_resizing)
{
    static const char *const way[] = {
        "resize_mode: WARP interp_mode: LINEAR",
        "resize_mode: WARP interp_mode: AREA",
        "resize_mode: WARP interp_mode: NEAREST",
        "resize_mode: WARP interp_mode: CUBIC",
        "resize_mode: WARP interp_mode: LANCZOS4",
        "resize_mode: FIT_LARGE_SIZE_AND_PAD pad_value: 33",
        "resize_mode: FIT_LARGE_SIZE_AND_PAD pad_mode: CONSTANT "
        "interp_mode: CUBIC interp_mode: AREA",
    };
    const char *path = db(8, -1, -1, -1);

    for (int i = 0; i < 7; i++) {
        struct layer_case *c = reader(path, 8, test_format(
            "mirror: true resize_param { height: 64 width: 60 %s }", way[i]),
            "");

        ASSERT_INT(16, boxes_are_right(c, 2, 0.02f));
        ASSERT_SHAPE(c, "top[0]", 8, 3, 64, 60);
    }
}

/* What SSD300 does to VOC, on a smaller canvas. */
#define ALL                                                                  \
    "mirror: true mean_value: 60 mean_value: 60 mean_value: 60 "             \
    "resize_param { height: 96 width: 96 interp_mode: LINEAR "               \
    "interp_mode: AREA interp_mode: NEAREST interp_mode: CUBIC "             \
    "interp_mode: LANCZOS4 } emit_constraint { emit_type: CENTER } "         \
    "distort_param { brightness_prob: 0.5 brightness_delta: 8 "              \
    "contrast_prob: 0.5 contrast_lower: 0.9 contrast_upper: 1.1 "            \
    "hue_prob: 0.5 hue_delta: 18 saturation_prob: 0.5 "                      \
    "saturation_lower: 0.5 saturation_upper: 1.5 random_order_prob: 0.5 } "  \
    "expand_param { prob: 0.5 max_expand_ratio: 3 }"

static struct layer_case *ssd(const char *path, const char *more)
{
    return layer_case(CT_CPU, test_format(
        "name: 'd' type: 'AnnotatedData' top: 'data' top: 'label' "
        "data_param { source: '%s' batch_size: 8 backend: LMDB %s } "
        "transform_param { " ALL " } annotated_data_param { "
        "batch_sampler { max_sample: 1 max_trials: 1 } "
        "batch_sampler { sampler { min_scale: 0.3 min_aspect_ratio: 0.5 "
        "max_aspect_ratio: 2 } sample_constraint { min_jaccard_overlap: 0.1 } "
        "max_sample: 1 max_trials: 50 } "
        "batch_sampler { sampler { min_scale: 0.3 min_aspect_ratio: 0.5 "
        "max_aspect_ratio: 2 } sample_constraint { min_object_coverage: 1 } "
        "max_sample: 1 max_trials: 50 } }", path, more));
}

/* The mean is subtracted, so white is 190 and the canvas 0; pixels of a part
 * are cut at whole numbers while boxes are not. */
TEST(annotated_data, boxes_follow_all_that_ssd_does)
{
    ASSERT(boxes_are_right(ssd(db(8, -1, -1, -1), ""), 12, 0.09f) > 60);
}

static void same_values(struct layer_case *a, struct layer_case *b)
{
    for (int i = 0; i < 2; i++) {
        const char *top         = i ? "top[1]" : "top[0]";
        const struct ct_blob *x = case_find(a, top), *y = case_find(b, top);

        ASSERT_INT(x->count, y->count);
        ASSERT(memcmp(ct_data(x), ct_data(y), (size_t)x->count *
                                                  sizeof(float)) == 0);
    }
}

TEST(annotated_data, a_resumed_run_draws_the_same)
{
    const char *path = db(21, -1, -1, -1);
    struct layer_case *whole = ssd(path, "shuffle: true threads: 3");
    struct layer_case *late  = ssd(path, "shuffle: true threads: 1");

    ASSERT_OK(case_setup(whole));
    ASSERT_OK(case_setup(late));
    for (int i = 0; i < 5; i++)
        ASSERT_OK(pass(whole));
    ASSERT_OK(case_layer(late)->type->seek(case_layer(late), 4));
    ASSERT_OK(pass(late));
    same_values(whole, late);
}

/* Two ranks with batches of 4 have the halves of one rank's batch of 8. */
TEST(annotated_data, ranks_have_their_part_of_each_step)
{
    const char *path = db(21, -1, 3, 7);
    const char *how  = "mirror: true resize_param { height: 32 width: 32 } "
                       "expand_param { max_expand_ratio: 2 }";
    struct layer_case *whole = reader(path, 8, how, "shuffle: true");
    struct layer_case *part[2];

    ASSERT_OK(case_setup(whole));
    for (int r = 0; r < 2; r++) {
        part[r]                 = reader(path, 4, how, "shuffle: true");
        case_run(part[r])->rank = r;
        case_run(part[r])->size = 2;
        ASSERT_OK(case_setup(part[r]));
    }
    for (int k = 0; k < 4; k++) {
        const float *row;

        ASSERT_OK(pass(whole));
        row = ct_data(case_find(whole, "top[1]"));
        for (int r = 0; r < 2; r++) {
            const struct ct_blob *data, *label;

            ASSERT_OK(pass(part[r]));
            data  = case_find(part[r], "top[0]");
            label = case_find(part[r], "top[1]");
            ASSERT(memcmp(ct_data(data),
                          ct_data(case_find(whole, "top[0]")) +
                              r * data->count,
                          (size_t)data->count * sizeof(float)) == 0);
            for (int64_t g = 0; g < label->shape.dim[2]; g++, row += 8) {
                const float *mine = ct_data(label) + 8 * g;

                ASSERT_FLOAT(row[0], mine[0] + 4 * (float)r, 0);
                ASSERT(memcmp(row + 1, mine + 1, 7 * sizeof(float)) == 0);
            }
        }
    }
}

static enum ct_status fails(struct layer_case *c)
{
    enum ct_status st = case_setup(c);

    for (int i = 0; i < 4 && st == CT_OK; i++)
        st = pass(c);
    return st;
}

TEST(annotated_data, a_broken_record_is_named_or_skipped)
{
    const char *path = db(6, 2, -1, -1);
    struct layer_case *c = reader(path, 2, "", "on_error: SKIP");
    int64_t n_skipped    = 0;

    ASSERT_STATUS(CT_EPARSE, fails(reader(path, 2, "", "")));
    ASSERT_HAS("layer d: record 00000002", ct_last_error());
    ASSERT_HAS("in this order", ct_last_error());
    ASSERT_OK(fails(c));
    (void)ct_batches_stats(case_layer(c), &n_skipped);
    ASSERT(n_skipped > 0);
}

static void refused(struct layer_case *c, const char *why)
{
    ASSERT(case_setup(c) != CT_OK);
    ASSERT_HAS("layer d", ct_last_error());
    ASSERT_HAS(why, ct_last_error());
}

TEST(annotated_data, what_contradicts_itself_is_refused)
{
    const char *path = db(4, -1, -1, -1);

    refused(reader(path, 2, "resize_param { height: 9 }", ""), "a width");
    refused(reader(path, 2, "resize_param { height: 9 width: 9 prob: 0.5 }",
                   ""), "prob");
    refused(reader(path, 2, "resize_param { height: 9 width: 9 resize_mode: "
                   "FIT_SMALL_SIZE }", ""), "batch_size to 1");
    refused(reader(path, 2, "expand_param { max_expand_ratio: 0.5 }", ""),
            "max_expand_ratio");
    refused(reader(path, 2, "distort_param { brightness_delta: -1 }", ""),
            "brightness_delta");
    refused(reader(path, 2, "augment { rotation: 3 }", ""), "augment");
    refused(reader(path, 2, "noise_param { saltpepper: true }", ""),
            "saltpepper");
    refused(reader(path, 2, "crop_h: 3 crop_w: 4", ""), "square");
    refused(layer_case(CT_CPU, test_format(
        "name: 'd' type: 'Data' top: 'data' data_param { source: '%s' "
        "batch_size: 1 backend: LMDB } transform_param { resize_param { "
        "height: 3 width: 3 } }", path)), "AnnotatedData");
    refused(layer_case(CT_CPU, test_format(
        "name: 'd' type: 'AnnotatedData' top: 'data' data_param { "
        "source: '%s' batch_size: 1 backend: LMDB } annotated_data_param { "
        "batch_sampler { sampler { min_scale: 2 } } }", path)), "min_scale");
}

TEST(annotated_data, each_image_may_have_its_own_size)
{
    struct layer_case *c = reader(db(2, -1, -1, -1), 1,
        "resize_param { height: 20 width: 20 resize_mode: FIT_SMALL_SIZE }",
        "");

    ASSERT_OK(case_setup(c));
    ASSERT_OK(pass(c));
    ASSERT_SHAPE(c, "top[0]", 1, 3, 20, 24);
}
