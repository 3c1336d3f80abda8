/* test_datum.c - the wire format of Datum, byte by byte. */
#include "base/mem.h"
#include "cortado/proto.h"
#include "data/datum.h"
#include "data/sample.h"
#include "testing/files.h"

/* channels 1, height 2, width 3, data "abcdef", label -1, encoded false */
static const unsigned char raw[] = {
    0x08, 1, 0x10, 2, 0x18, 3, 0x22, 6, 'a', 'b', 'c', 'd', 'e', 'f',
    0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x38, 0
};

static enum ct_status parse(const void *p, size_t n, struct ct_datum *d)
{
    return ct_datum_read((struct ct_bytes){ p, n }, d);
}

TEST(datum, fields_are_read_in_place)
{
    struct ct_datum d;

    ASSERT_OK(parse(raw, sizeof(raw), &d));
    ASSERT_INT(1, d.channels);
    ASSERT_INT(2, d.height);
    ASSERT_INT(3, d.width);
    ASSERT_INT(-1, d.label);
    ASSERT(!d.encoded);
    ASSERT(d.data.ptr == raw + 8 && d.data.n == 6);
}

TEST(datum, writing_gives_the_bytes_that_were_read)
{
    struct ct_text t = { 0 };
    struct ct_datum d;

    ASSERT_OK(parse(raw, sizeof(raw), &d));
    ASSERT_OK(ct_datum_write(&d, CT_DATUM_SHAPE | CT_DATUM_LABEL |
                                     CT_DATUM_ENCODED, NULL, &t));
    ASSERT_INT(sizeof(raw), t.n_bytes);
    ASSERT(memcmp(t.s, raw, sizeof(raw)) == 0);
    ct_text_fini(&t);
}

TEST(datum, record_that_is_cut_short_anywhere_is_refused)
{
    for (size_t n = 0; n < sizeof(raw) - 13; n++) {
        unsigned char *copy = ct_malloc(n, "cut record"); /* for ASan */
        struct ct_datum d;

        memcpy(copy, raw, n);
        ASSERT_STATUS(CT_EPARSE, parse(copy, n, &d));
        ct_free(copy);
    }
}

TEST(datum, lengths_and_types_that_lie_are_refused)
{
    static const struct {
        unsigned char bytes[16];
        size_t        n;
    } bad[] = {
        { { 0x22, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 },
          11 },
        { { 0x22, 5, 'a' }, 3 },
        { { 0x0a, 1, 'a' }, 3 },               /* channels as bytes */
        { { 0x00, 1 }, 2 },                    /* field number 0 */
        { { 0x0b, 1 }, 2 },                    /* a group */
        { { 0x32, 3, 0, 0, 0 }, 5 },           /* 3 bytes of packed floats */
        { { 0x35, 0, 0 }, 3 },                 /* half a float */
        { { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1 },
          11 },
        { { 0x38, 1 }, 2 },                    /* encoded, no image */
        { { 0x08, 1, 0x10, 2, 0x18, 3, 0x22, 1, 'a' }, 9 }, /* 1 of 6 */
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct ct_datum d;

        ASSERT_STATUS(CT_EPARSE, parse(bad[i].bytes, bad[i].n, &d));
    }
}

TEST(datum, floats_come_packed_or_one_by_one)
{
    static const float values[] = { 1.5f, -2, 3e10f };
    struct ct_datum d = { .channels = 3, .height = 1, .width = 1,
                          .n_floats = 3 }, got;
    struct ct_text t = { 0 };
    float out[3];

    ASSERT_OK(ct_datum_write(&d, CT_DATUM_SHAPE, values, &t));
    ASSERT_INT(6 + 15, t.n_bytes);
    ASSERT_OK(parse(t.s, t.n_bytes, &got));
    ASSERT_INT(3, got.n_floats);
    ct_datum_floats(&got, out);
    ASSERT(memcmp(out, values, sizeof(out)) == 0);
    t.n_bytes = 6; /* the shape, then one loose and two packed, then one more
                    * field that nobody knows */
    ct_text_add_bytes(&t, "\x35", 1);
    ct_text_add_bytes(&t, values, 4);
    ct_text_add_bytes(&t, "\x32\x08", 2);
    ct_text_add_bytes(&t, values + 1, 8);
    ct_text_add_bytes(&t, "\xfa\x7f\x01x", 4);
    ASSERT_OK(parse(t.s, t.n_bytes, &got));
    ct_datum_floats(&got, out);
    ASSERT(memcmp(out, values, sizeof(out)) == 0);
    ct_text_fini(&t);
}

/* The generated code is the other opinion. */
TEST(datum, agrees_with_the_general_parser_on_caffes_records)
{
    static const char *const sources[] = { "lmdb_raw", "lmdb_jpeg",
                                           "lmdb_png" };

    for (int s = 0; s < 3; s++) {
        const char *path = test_copy(test_format("caffe_files/%s", sources[s]));
        struct ct_text t = { 0 };
        struct ct_cursor *c;
        struct ct_db *db;

        ASSERT_OK(ct_db_open("lmdb", path, CT_DB_READ, &db));
        ASSERT_OK(ct_cursor_create(db, &c));
        for (; ct_cursor_valid(c);) {
            struct ct_bytes v = ct_cursor_value(c);
            Caffe__Datum *m;
            struct ct_datum d;
            unsigned fields;

            ASSERT_OK(ct_datum_read(v, &d));
            ASSERT_OK(ct_binary_parse(&caffe__datum__descriptor, v.ptr, v.n,
                                      "record", &m));
            ASSERT_INT(m->channels, d.channels);
            ASSERT_INT(m->label, d.label);
            ASSERT_INT(m->encoded, d.encoded);
            ASSERT_INT(m->data.len, d.data.n);
            ASSERT(memcmp(m->data.data, d.data.ptr, d.data.n) == 0);
            fields = (m->has_channels ? CT_DATUM_SHAPE : 0u) |
                     (m->has_label ? CT_DATUM_LABEL : 0u) |
                     (m->has_encoded ? CT_DATUM_ENCODED : 0u);
            ASSERT_OK(ct_datum_write(&d, fields, NULL, &t));
            ASSERT(t.n_bytes == v.n && memcmp(t.s, v.ptr, v.n) == 0);
            ct_message_free(m);
            ASSERT_OK(ct_cursor_next(c));
        }
        ct_text_fini(&t);
        ct_cursor_destroy(c);
        ct_db_close(db);
    }
}
