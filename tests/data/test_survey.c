/* test_survey.c - what is in a database. */
#include "data/db_records.h"
#include "data/survey.h"
#include "testing/files.h"

static void put(const char *path, const char *key, const char *value)
{
    struct ct_db *db;

    ASSERT_OK(ct_db_open(ct_survey_backend(path), path, CT_DB_APPEND, &db));
    ASSERT_OK(ct_db_put(db, (struct ct_bytes){ key, strlen(key) },
                        (struct ct_bytes){ value, strlen(value) }));
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
}

TEST(survey, records_keys_shapes_and_labels_are_counted)
{
    static const char *const backends[] = { "lmdb", "leveldb" };

    for (int b = 0; b < 2; b++) {
        const char *path = records_made(backends[b], backends[b], 5, 6, 0);
        struct ct_survey s;

        ASSERT_OK(ct_survey_db(path, false, NULL, &s));
        ASSERT_STR(backends[b], s.backend);
        ASSERT_INT(5, s.n_records);
        ASSERT_INT(5, s.n_raw);
        ASSERT_INT(0, s.n_float + s.n_encoded + s.n_damaged);
        ASSERT_INT(5 * (6 + 2 + 6 + 2), s.n_bytes);
        ASSERT_STR("0000", s.first_key[0]);
        ASSERT_STR("0002", s.first_key[2]);
        ASSERT_STR("0004", s.last_key);
        ASSERT_INT(6, s.width.min);
        ASSERT_INT(6, s.width.max);
        ASSERT_INT(5, s.n_labels);
        ASSERT_INT(3, s.label[3].label);
        ASSERT_INT(1, s.label[3].n);
        ASSERT(ct_survey_whole(&s));
        ct_survey_fini(&s);
    }
}

/* A record as bytes of the wire, without zeros: 1 x 2 x 1 of "ab". */
TEST(survey, labels_are_sorted_and_sizes_a_range)
{
    const char *path = records_made("lmdb", "db", 1, 3, 0);
    struct ct_survey s;

    put(path, "b", "\x08\x01\x10\x02\x18\x01\x22\x02" "ab\x28\x09");
    put(path, "c", "\x08\x01\x10\x02\x18\x01\x22\x02" "ab\x28\x05");
    put(path, "d", "\x08\x01\x10\x02\x18\x01\x22\x02" "ab\x28\x09");
    ASSERT_OK(ct_survey_db(path, false, NULL, &s));
    ASSERT_INT(3, s.n_labels);
    ASSERT_INT(0, s.label[0].label);
    ASSERT_INT(5, s.label[1].label);
    ASSERT_INT(9, s.label[2].label);
    ASSERT_INT(2, s.label[2].n);
    ASSERT_INT(1, s.height.min);
    ASSERT_INT(2, s.height.max);
    ASSERT_INT(1, s.width.min);
    ASSERT_INT(3, s.width.max);
    ct_survey_fini(&s);
}

TEST(survey, damaged_records_are_counted_and_the_first_is_named)
{
    const char *path = records_made("lmdb", "db", 3, 6, 0);
    struct ct_survey s;

    put(path, "0001", "zz");
    put(path, "0002", "zz");
    ASSERT_OK(ct_survey_db(path, false, NULL, &s));
    ASSERT_INT(3, s.n_records);
    ASSERT_INT(2, s.n_damaged);
    ASSERT_HAS("0001: ", s.first_damage);
    ASSERT(!ct_survey_whole(&s));
    ct_survey_fini(&s);
}

TEST(survey, folder_that_is_no_database_is_refused)
{
    struct ct_survey s;

    ASSERT(!ct_survey_backend(test_folder()));
    ASSERT_STATUS(CT_ENOTFOUND, ct_survey_db(test_folder(), false, NULL, &s));
}

/* A part of an image has its head, so only decoding finds out. */
TEST(survey, part_of_an_image_is_found_by_decoding)
{
    struct ct_bytes file;
    struct ct_text t  = { 0 };
    const char *path  = records_made("lmdb", "db", 0, 1, 0);
    struct ct_datum d = { .encoded = true };
    struct ct_survey s;
    struct ct_db *db;

    file   = test_read(test_copy("caffe_files/images/airplane_0000.jpg"));
    d.data = (struct ct_bytes){ file.ptr, file.n * 9 / 10 };
    ASSERT_OK(ct_datum_write(&d, CT_DATUM_ENCODED, NULL, &t));
    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_APPEND, &db));
    ASSERT_OK(ct_db_put(db, (struct ct_bytes){ "part", 4 },
                        (struct ct_bytes){ t.s, t.n_bytes }));
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
    ct_text_fini(&t);
    ASSERT_OK(ct_survey_db(path, false, NULL, &s));
    ASSERT_INT(0, s.n_damaged);
    ASSERT_INT(1, s.n_encoded);
    ct_survey_fini(&s);
    ASSERT_OK(ct_survey_db(path, true, NULL, &s));
    ASSERT_INT(1, s.n_damaged);
    ct_survey_fini(&s);
}
