/* test_digits.c - the made-up digits: the same every time, balanced, drawn
 * within the page, and neither trivial nor hopeless to tell apart. */
#include "base/file.h"
#include "base/mem.h"
#include "data/datum.h"
#include "data/db.h"
#include "data/digit_sets.h"
#include "data/digits.h"
#include "data/images.h"
#include "testing/test.h"

enum { BYTES = CT_DIGIT_BYTES, SIDE = CT_DIGIT_SIDE };

static int64_t ink_sum(const uint8_t *image)
{
    int64_t sum = 0;

    for (int i = 0; i < BYTES; i++)
        sum += image[i];
    return sum;
}

TEST(digits, an_image_is_a_function_of_seed_and_index)
{
    uint8_t a[BYTES], b[BYTES];

    ct_digit_draw(1, 12345, 7, a);
    ct_digit_draw(1, 12346, 7, b); /* draws in between change nothing */
    ASSERT(memcmp(a, b, BYTES) != 0);
    ct_digit_draw(2, 12345, 7, b);
    ASSERT(memcmp(a, b, BYTES) != 0);
    ct_digit_draw(1, 12345, 3, b);
    ASSERT(memcmp(a, b, BYTES) != 0);
    ct_digit_draw(1, 12345, 7, b);
    ASSERT(memcmp(a, b, BYTES) == 0);
}

TEST(digits, every_ten_images_have_each_label_once)
{
    int first_order = 0;

    for (uint64_t ten = 0; ten < 200; ten++) {
        unsigned seen = 0;

        for (uint64_t i = 0; i < 10; i++) {
            int label = ct_digit_label(1, ten * 10 + i);

            ASSERT(label >= 0 && label <= 9);
            seen |= 1u << label;
        }
        ASSERT_INT(0x3ff, seen);
        first_order += ct_digit_label(1, ten * 10) == 0;
    }
    /* 200 shuffled orders begin with a zero 20 times; never, or always, is
     * no shuffle. */
    ASSERT(first_order > 5 && first_order < 45);
}

TEST(digits, the_ink_is_a_stroke_inside_the_page)
{
    uint8_t image[BYTES];
    int64_t sum = 0, edge = 0, full = 0;

    for (uint64_t i = 0; i < 1000; i++) {
        int64_t own;

        ct_digit_draw(3, i, ct_digit_label(3, i), image);
        own = ink_sum(image);
        sum += own;
        /* A thin 1 at the least, a third of the page at the most. */
        ASSERT(own > 255 * 10 && own < 255 * BYTES / 3);
        for (int k = 0; k < SIDE; k++)
            edge += image[k] + image[(SIDE - 1) * SIDE + k] +
                    image[k * SIDE] + image[k * SIDE + SIDE - 1];
        for (int k = 0; k < BYTES; k++)
            full += image[k] > 200;
    }
    ASSERT_FLOAT(.1, (double)sum / (1000.0 * 255 * BYTES), .04);
    ASSERT((double)edge / (double)sum < .001);
    ASSERT(full > 1000 * 20); /* the middle of a stroke is bright */
}

struct means {
    double at[10][BYTES];
    int    n[10];
};

static int nearest(const struct means *m, const uint8_t *image)
{
    double best = INFINITY;
    int found   = 0;

    for (int c = 0; c < 10; c++) {
        double sum = 0;

        for (int k = 0; k < BYTES; k++) {
            double d = image[k] - m->at[c][k] / m->n[c];

            sum += d * d;
        }
        if (sum < best) {
            best  = sum;
            found = c;
        }
    }
    return found;
}

/* The mean image of a class tells most digits apart and not all of them; on
 * MNIST it finds 82 %. */
TEST(digits, the_nearest_mean_finds_most_digits_but_not_all)
{
    struct means *m = ct_calloc(1, sizeof(*m), "mean digits");
    uint8_t image[BYTES];
    int right = 0;

    ASSERT(m);
    test_defer(ct_free, m);
    for (uint64_t i = 0; i < 3000; i++) {
        int label = ct_digit_label(1, i);

        ct_digit_draw(1, i, label, image);
        for (int k = 0; k < BYTES; k++)
            m->at[label][k] += image[k];
        m->n[label]++;
    }
    for (uint64_t i = 3000; i < 4000; i++) {
        int label = ct_digit_label(1, i);

        ct_digit_draw(1, i, label, image);
        right += nearest(m, image) == label;
    }
    if (right < 600 || right > 900)
        FAIL("%d of 1000 are found, wanted 600 to 900", right);
}

TEST(digits, pairs_say_whether_both_show_the_same_digit)
{
    struct ct_digit_set set = { CT_DIGITS_PAIRS, 5, 0, 1000 };
    struct ct_digit_record r;
    uint8_t image[BYTES];
    int alike = 0;

    for (int64_t i = 0; i < 200; i++) {
        int first = ct_digit_label(5, 2 * (uint64_t)i);

        ct_digit_record(&set, i, &r);
        ASSERT_INT(2, r.channels);
        ASSERT_INT(SIDE, r.side);
        ct_digit_draw(5, 2 * (uint64_t)i, first, image);
        ASSERT(memcmp(image, r.pixels, BYTES) == 0);
        ct_digit_draw(5, 2 * (uint64_t)i + 1, first, image);
        ASSERT_INT(r.label, memcmp(image, r.pixels + BYTES, BYTES) == 0);
        alike += r.label;
    }
    ASSERT(alike > 70 && alike < 130);
}

TEST(digits, coloured_ink_stands_out_from_its_paper)
{
    struct ct_digit_set set = { CT_DIGITS_COLOR, 5, 0, 1000 };
    struct ct_digit_record r;
    uint8_t image[BYTES];

    for (int64_t i = 0; i < 200; i++) {
        int brightest = 0, apart = 0;

        ct_digit_record(&set, i, &r);
        ASSERT_INT(3, r.channels);
        ASSERT_INT(32, r.side);
        ASSERT_INT(ct_digit_label(5, (uint64_t)i), r.label);
        ct_digit_draw(5, (uint64_t)i, r.label, image);
        for (int k = 0; k < BYTES; k++)
            if (image[k] > image[brightest])
                brightest = k;
        for (int c = 0; c < 3; c++) {
            const uint8_t *plane = r.pixels + c * 32 * 32;
            int at = (brightest / SIDE + 2) * 32 + brightest % SIDE + 2;
            int d  = plane[at] - plane[0];

            apart = d > apart ? d : -d > apart ? -d : apart;
        }
        ASSERT(apart > 25);
    }
}

TEST(digits, a_database_holds_the_records_under_their_numbers)
{
    struct ct_digit_set set = { CT_DIGITS_GRAY, 1, 100, 1234 };
    struct ct_cursor *c     = NULL;
    struct ct_db *db        = NULL;
    struct ct_datum d;
    uint8_t image[BYTES];
    int64_t n;
    char path[512];

    snprintf(path, sizeof(path), "%s/digits_lmdb", test_folder());
    ASSERT_OK(ct_digit_set_write(&set, "lmdb", path, NULL, NULL));
    ASSERT_STATUS(CT_EEXIST,
                  ct_digit_set_write(&set, "lmdb", path, NULL, NULL));
    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_READ, &db));
    ASSERT_OK(ct_db_count(db, &n));
    ASSERT_INT(1234, n);
    ASSERT_OK(ct_cursor_create(db, &c));
    ASSERT_OK(ct_cursor_seek(c, 1200));
    ASSERT_INT(8, ct_cursor_key(c).n);
    ASSERT(memcmp(ct_cursor_key(c).ptr, "00001200", 8) == 0);
    ASSERT_OK(ct_datum_read(ct_cursor_value(c), &d));
    ASSERT_INT(1, d.channels);
    ASSERT_INT(28, d.height);
    ASSERT_INT(28, d.width);
    ASSERT_INT(ct_digit_label(1, 1300), d.label);
    ct_digit_draw(1, 1300, d.label, image);
    ASSERT_INT(BYTES, d.data.n);
    ASSERT(memcmp(image, d.data.ptr, BYTES) == 0);
    ct_cursor_destroy(c);
    ct_db_close(db);
}

TEST(digits, image_files_hold_the_records_and_a_list_names_them)
{
    struct ct_digit_set set = { CT_DIGITS_COLOR, 1, 0, 3 };
    struct ct_digit_record r;
    struct ct_image im    = { 0 };
    struct ct_codec codec = { 0 };
    char path[512], file[600], want[128], *text = NULL;
    size_t n;

    snprintf(path, sizeof(path), "%s/images", test_folder());
    ASSERT_OK(ct_digit_set_write_images(&set, path, NULL, NULL));
    snprintf(file, sizeof(file), "%s.txt", path);
    ASSERT_OK(ct_file_read(file, &text, &n));
    snprintf(want, sizeof(want),
             "00000000.png %d\n00000001.png %d\n00000002.png %d\n",
             ct_digit_label(1, 0), ct_digit_label(1, 1),
             ct_digit_label(1, 2));
    ASSERT_STR(want, text);
    ct_free(text);
    snprintf(file, sizeof(file), "%s/00000002.png", path);
    ASSERT_OK(ct_file_read(file, &text, &n));
    ASSERT_OK(ct_image_decode(&codec, (struct ct_bytes){ text, n },
                              CT_IMAGE_NATIVE, &im));
    ct_digit_record(&set, 2, &r);
    ASSERT_INT(3, im.channels);
    ASSERT_INT(32, im.width);
    ASSERT_INT(r.pixels[2 * 32 * 32 + 40], im.pixels[40 * 3]); /* blue */
    ASSERT_INT(r.pixels[40], im.pixels[40 * 3 + 2]);           /* red */
    ct_free(text);
    ct_image_fini(&im);
    ct_codec_fini(&codec);
}
