/* test_image_set.c - image files into databases: records byte by byte. */
#include <stdlib.h>
#include <sys/stat.h>

#include "data/db_records.h"
#include "data/images.h"
#include "data/image_set.h"
#include "testing/files.h"

/* A PNG or JPEG of one colour but for its first pixel. */
static struct ct_bytes make_image(const char *name, int width, int height,
                                  int value)
{
    struct ct_image im = { 0 };
    struct ct_text t   = { 0 };
    size_t n           = 3 * (size_t)width * (size_t)height;

    ASSERT_OK(ct_image_size(&im, width, height, 3));
    memset(im.pixels, value, n);
    im.pixels[0] = 1; /* blue */
    im.pixels[1] = 2; /* green */
    im.pixels[2] = 3; /* red */
    ASSERT_OK(ct_image_encode(&im, strrchr(name, '.'), &t));
    test_write(test_path(name), t.s, t.n_bytes);
    ct_image_fini(&im);
    ct_text_fini(&t);
    return test_read(test_path(name));
}

static const char *make_list(const char *text)
{
    const char *path = test_path("list.txt");

    test_write(path, text, strlen(text));
    return path;
}

static struct ct_image_set in_folder(void)
{
    return (struct ct_image_set){ .root = test_format("%s/", test_folder()),
                                  .backend = "lmdb" };
}

static enum ct_status write_set(const struct ct_image_set *set,
                                const char *list, const char *name,
                                struct ct_image_set_counts *count)
{
    struct ct_image_list l;
    enum ct_status st;

    ASSERT_OK(ct_image_list_read(list, &l));
    st = ct_image_set_write(set, &l, test_path(name), NULL, count);
    ct_image_list_fini(&l);
    return st;
}

static const struct records *written(const struct ct_image_set *set,
                                     const char *list)
{
    struct ct_image_set_counts count;

    ASSERT_OK(write_set(set, list, "db", &count));
    return records_of(set->backend, test_path("db"));
}

TEST(image_set, list_has_names_with_spaces_and_labels)
{
    struct ct_image_list l;

    ASSERT_OK(ct_image_list_read(make_list("a b.png 3\r\n\nc.png -1 \nd.png 7"),
                                 &l));
    ASSERT_INT(3, l.n);
    ASSERT_STR("a b.png", ct_image_list_name(&l, 0));
    ASSERT_INT(3, l.line[0].label);
    ASSERT_STR("c.png", ct_image_list_name(&l, 1));
    ASSERT_INT(-1, l.line[1].label);
    ASSERT_STR("d.png", ct_image_list_name(&l, 2));
    ASSERT_INT(7, l.line[2].label);
    ct_image_list_fini(&l);
}

TEST(image_set, wrong_line_is_named_by_file_and_line)
{
    static const char *const wrong[] = { "a.png 1\nb.png\n",
                                         "a.png 1\nb.png two\n",
                                         "a.png 1\nb.png 2.5\n",
                                         "a.png 1\n 3\n",
                                         "a.png 1\nb.png 99999999999\n" };
    struct ct_image_list l;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ASSERT_STATUS(CT_EPARSE, ct_image_list_read(make_list(wrong[i]), &l));
        ASSERT_HAS("list.txt:2: ", ct_last_error());
    }
    ASSERT_STATUS(CT_EINVAL, ct_image_list_read(make_list("\n\n"), &l));
    ASSERT_STATUS(CT_ENOTFOUND, ct_image_list_read(test_path("none"), &l));
}

/* 2 x 1 pixels, (1 2 3) and (9 9 9) as B G R: planes of blue, green, red. */
TEST(image_set, raw_record_is_caffes_to_the_byte)
{
    static const unsigned char want[] = { 0x08, 3, 0x10, 1, 0x18, 2,
                                          0x22, 6, 1, 9, 2, 9, 3, 9,
                                          0x28, 5, 0x38, 0 };
    struct ct_image_set set = in_folder();
    const struct records *r;

    make_image("x.png", 2, 1, 9);
    r = written(&set, make_list("x.png 5\n"));
    ASSERT_INT(1, r->n);
    ASSERT_STR("00000000_x.png", r->key[0].ptr);
    ASSERT(records_same((struct ct_bytes){ want, sizeof(want) }, r->value[0]));
}

TEST(image_set, encoded_record_holds_the_file_as_it_is)
{
    struct ct_image_set set = in_folder();
    struct ct_bytes file = make_image("x.JPEG", 16, 16, 90);
    const struct records *r;
    struct ct_datum d;

    set.encoded     = true;
    set.encode_type = "jpg";
    r = written(&set, make_list("x.JPEG 300\n"));
    ASSERT_OK(ct_datum_read(r->value[0], &d));
    ASSERT(d.encoded);
    ASSERT_INT(300, d.label);
    ASSERT_INT(0, d.channels); /* Caffe leaves the shape out */
    ASSERT(records_same(file, d.data));
}

TEST(image_set, encode_type_changes_the_format_and_no_pixel)
{
    struct ct_image_set set = in_folder();
    struct ct_image a = { 0 }, b = { 0 };
    struct ct_codec c = { 0 };
    struct ct_bytes file = make_image("x.jpg", 16, 8, 90);
    const struct records *r;
    struct ct_datum d;

    set.encoded     = true;
    set.encode_type = "png";
    r = written(&set, make_list("x.jpg 0\n"));
    ASSERT_OK(ct_datum_read(r->value[0], &d));
    ASSERT(memcmp(d.data.ptr, "\211PNG", 4) == 0);
    ASSERT_OK(ct_image_decode(&c, d.data, CT_IMAGE_NATIVE, &a));
    ASSERT_OK(ct_image_decode(&c, file, CT_IMAGE_NATIVE, &b));
    ASSERT_INT(16, a.width);
    ASSERT_INT(8, a.height);
    ASSERT(memcmp(a.pixels, b.pixels, 16 * 8 * 3) == 0);
    ct_image_fini(&a);
    ct_image_fini(&b);
    ct_codec_fini(&c);
}

TEST(image_set, gray_and_size_are_as_asked_for)
{
    struct ct_image_set set = in_folder();
    const struct records *r;
    struct ct_datum d;

    make_image("x.png", 8, 8, 200);
    set.gray   = true;
    set.width  = 3;
    set.height = 5;
    r = written(&set, make_list("x.png 0\n"));
    ASSERT_OK(ct_datum_read(r->value[0], &d));
    ASSERT_INT(1, d.channels);
    ASSERT_INT(5, d.height);
    ASSERT_INT(3, d.width);
    ASSERT_INT(200, ((const unsigned char *)d.data.ptr)[14]);
}

static const char *ten_lines(void)
{
    struct ct_text t = { 0 };
    const char *path;

    for (int i = 0; i < 10; i++) {
        make_image(test_format("%c.png", 'a' + i), 1, 1, 0);
        ct_text_addf(&t, "%c.png %d\n", 'a' + i, i);
    }
    path = make_list(t.s);
    ct_text_fini(&t);
    return path;
}

/* The letters of the names, in the order of the keys. */
static const char *order(const char *list, uint64_t seed, const char *db)
{
    struct ct_image_set set = in_folder();
    struct ct_image_set_counts count;
    const struct records *r;
    char letters[11] = "";

    set.shuffle = true;
    set.seed    = seed;
    ASSERT_OK(write_set(&set, list, db, &count));
    r = records_of("lmdb", test_path(db));
    ASSERT_INT(10, r->n);
    for (int i = 0; i < 10; i++) {
        const char *key = r->key[i].ptr;

        ASSERT_INT(i, strtol(key, NULL, 10));
        letters[i] = key[9];
    }
    return test_format("%s", letters);
}

TEST(image_set, shuffled_order_depends_on_the_seed_alone)
{
    const char *list = ten_lines(), *one = order(list, 1, "db1");

    ASSERT_STR(one, order(list, 1, "again"));
    ASSERT(strcmp(one, order(list, 2, "db2")) != 0);
    ASSERT(strcmp(one, "abcdefghij") != 0);
    for (char c = 'a'; c <= 'j'; c++)
        ASSERT(strchr(one, c));
}

TEST(image_set, unreadable_image_is_counted_and_keeps_its_number)
{
    struct ct_image_set set = in_folder();
    struct ct_image_set_counts count;
    const struct records *r;

    make_image("a.png", 1, 1, 0);
    make_image("c.png", 1, 1, 0);
    test_write(test_path("bad.png"), "no image", 8);
    ASSERT_OK(write_set(&set, make_list("a.png 0\nbad.png 1\nnone.png 1\n"
                                        "c.png 2\n"), "db", &count));
    ASSERT_INT(2, count.n_written);
    ASSERT_INT(2, count.n_unreadable);
    r = records_of("lmdb", test_path("db"));
    ASSERT_INT(2, r->n);
    ASSERT_STR("00000003_c.png", r->key[1].ptr);
}

TEST(image_set, no_readable_image_leaves_no_database)
{
    struct ct_image_set set = in_folder();
    struct ct_image_set_counts count;

    ASSERT_STATUS(CT_EINVAL, write_set(&set, make_list("none.png 1\n"), "db",
                                       &count));
    ASSERT_HAS("none of the 1 images", ct_last_error());
    ASSERT_INT(1, records_n_files()); /* the list */
}

TEST(image_set, check_size_names_the_file_and_leaves_nothing)
{
    struct ct_image_set set = in_folder();
    struct ct_image_set_counts count;
    const char *list;

    make_image("a.png", 4, 4, 0);
    make_image("b.png", 4, 4, 0);
    make_image("c.png", 5, 4, 0);
    list = make_list("a.png 0\nb.png 0\nc.png 0\n");
    for (int encoded = 0; encoded < 2; encoded++) {
        set.check_size = true;
        set.encoded    = encoded;
        ASSERT_STATUS(CT_ESHAPE, write_set(&set, list, "db", &count));
        ASSERT_HAS("c.png is 3 x 4 x 5", ct_last_error());
        ASSERT_INT(4, records_n_files());
    }
    set.check_size = false;
    ASSERT_OK(write_set(&set, list, "db", &count));
}

TEST(image_set, existing_database_is_refused_and_untouched)
{
    static const char *const backends[] = { "lmdb", "leveldb" };

    make_image("a.png", 1, 1, 0);
    for (int i = 0; i < 2; i++) {
        const char *path = records_made(backends[i], backends[i], 3, 4, 0);
        struct ct_image_set set = in_folder();
        struct ct_image_set_counts count;

        set.backend = backends[i];
        ASSERT_STATUS(CT_EEXIST, write_set(&set, make_list("a.png 0\n"),
                                           backends[i], &count));
        ASSERT_HAS(path, ct_last_error());
        ASSERT_INT(3, records_of(backends[i], path)->n);
        ASSERT_STATUS(CT_EEXIST, write_set(&set, make_list("a.png 0\n"),
                                           test_format("%s///", backends[i]),
                                           &count));
    }
}

static enum ct_status stop_at_three(void *arg, int64_t done, int64_t total)
{
    (void)arg;
    ASSERT_INT(10, total);
    return done == 3 ? ct_fail(CT_ESTOP, "enough") : CT_OK;
}

TEST(image_set, stopped_work_leaves_nothing_behind)
{
    const struct ct_watch watch = { stop_at_three, NULL };
    struct ct_image_set set     = in_folder();
    struct ct_image_set_counts count;
    struct ct_image_list l;
    int before;

    ASSERT_OK(ct_image_list_read(ten_lines(), &l));
    before = records_n_files();
    ASSERT_STATUS(CT_ESTOP, ct_image_set_write(&set, &l, test_path("db"),
                                               &watch, &count));
    ct_image_list_fini(&l);
    ASSERT_INT(before, records_n_files());
}

TEST(image_set, unwritable_place_is_named)
{
    struct ct_image_set set = in_folder();
    struct ct_image_set_counts count;

    make_image("a.png", 1, 1, 0);
    ASSERT_STATUS(CT_EIO, write_set(&set, make_list("a.png 0\n"), "no/db",
                                    &count));
    ASSERT_HAS("no/db", ct_last_error());
}

/* Ours against BVLC Caffe's, record by record. */
static void as_caffe(struct ct_image_set set, const char *theirs, int tol)
{
    const char *name = test_format("ours_%s", theirs);
    struct ct_image_set_counts count;
    const struct records *a, *b;

    set.root = test_format("%s/", test_recorded("caffe_files/images"));
    ASSERT_OK(write_set(&set, test_format("%s",
                        test_recorded("caffe_files/list.txt")), name, &count));
    a = records_of(set.backend, test_path(name));
    b = records_of(set.backend,
                   test_copy(test_format("caffe_files/%s", theirs)));
    ASSERT_INT(100, a->n);
    ASSERT_INT(b->n, a->n);
    for (int i = 0; i < a->n; i++) {
        const unsigned char *x = a->value[i].ptr, *y = b->value[i].ptr;

        if (!records_same(a->key[i], b->key[i]))
            FAIL("%s: key %d is %s, wanted %s", theirs, i,
                 (const char *)a->key[i].ptr, (const char *)b->key[i].ptr);
        ASSERT_INT(b->value[i].n, a->value[i].n);
        for (size_t k = 0; k < a->value[i].n; k++)
            if (abs(x[k] - y[k]) > tol)
                FAIL("%s: record %d, byte %zu is %d, wanted %d", theirs, i, k,
                     x[k], y[k]);
    }
}

TEST(image_set, databases_are_those_of_caffes_tool)
{
    struct ct_image_set raw = { .backend = "lmdb" }, level = raw, jpeg = raw,
                        gray = raw;

    as_caffe(raw, "lmdb_raw", 0);
    level.backend = "leveldb";
    as_caffe(level, "leveldb_raw", 0);
    jpeg.encoded = true;
    as_caffe(jpeg, "lmdb_jpeg", 0);
    gray.gray   = true;
    gray.width  = 20;
    gray.height = 24;
    as_caffe(gray, "lmdb_gray_resized", 1);
}

/* PNG may be packed differently by another libpng: the pixels count. */
TEST(image_set, png_database_decodes_to_that_of_caffes_tool)
{
    struct ct_image_set set = { .backend = "lmdb", .encoded = true,
                                .encode_type = "png" };
    struct ct_image a = { 0 }, b = { 0 };
    struct ct_image_set_counts count;
    const struct records *x, *y;
    struct ct_codec c = { 0 };

    set.root = test_format("%s/", test_recorded("caffe_files/images"));
    ASSERT_OK(write_set(&set, test_format("%s",
                        test_recorded("caffe_files/list.txt")), "png", &count));
    x = records_of("lmdb", test_path("png"));
    y = records_of("lmdb", test_copy("caffe_files/lmdb_png"));
    ASSERT_INT(y->n, x->n);
    for (int i = 0; i < x->n; i++) {
        struct ct_datum d, e;

        ASSERT(records_same(x->key[i], y->key[i]));
        ASSERT_OK(ct_datum_read(x->value[i], &d));
        ASSERT_OK(ct_datum_read(y->value[i], &e));
        ASSERT_INT(e.label, d.label);
        ASSERT_OK(ct_image_decode(&c, d.data, CT_IMAGE_NATIVE, &a));
        ASSERT_OK(ct_image_decode(&c, e.data, CT_IMAGE_NATIVE, &b));
        ASSERT(memcmp(a.pixels, b.pixels, 3 * 32 * 32) == 0);
    }
    ct_image_fini(&a);
    ct_image_fini(&b);
    ct_codec_fini(&c);
}
