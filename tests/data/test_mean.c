/* test_mean.c - mean images, worked out by hand and against Caffe's. */
#include "base/mem.h"
#include "data/db_records.h"
#include "data/images.h"
#include "data/mean.h"
#include "testing/files.h"

static Caffe__BlobProto *mean_of(const char *backend, const char *path)
{
    Caffe__BlobProto *mean = NULL;

    ASSERT_OK(ct_mean_of_db(backend, path, NULL, &mean));
    test_defer(ct_message_free, mean);
    return mean;
}

static void put(struct ct_db *db, const char *key, const struct ct_datum *d,
                unsigned fields, const float *floats)
{
    struct ct_text t = { 0 };

    ASSERT_OK(ct_datum_write(d, fields, floats, &t));
    ASSERT_OK(ct_db_put(db, (struct ct_bytes){ key, strlen(key) },
                        (struct ct_bytes){ t.s, t.n_bytes }));
    ct_text_fini(&t);
}

/* Bytes 10, 11, 12, 13 in four records. */
TEST(mean, mean_of_bytes_is_their_sum_by_their_number)
{
    static const char *const backends[] = { "lmdb", "leveldb" };

    for (int i = 0; i < 2; i++) {
        Caffe__BlobProto *mean =
            mean_of(backends[i],
                    records_made(backends[i], backends[i], 4, 6, 10));

        ASSERT_INT(6, mean->n_data);
        for (int k = 0; k < 6; k++)
            ASSERT_FLOAT(11.5, (double)mean->data[k], 0);
    }
}

TEST(mean, file_has_the_old_form_which_every_caffe_reads)
{
    Caffe__BlobProto *mean = mean_of("lmdb",
                                     records_made("lmdb", "db", 1, 6, 0));

    ASSERT(mean->has_num && mean->has_channels && mean->has_height &&
           mean->has_width && !mean->shape);
    ASSERT_INT(1, mean->num);
    ASSERT_INT(1, mean->channels);
    ASSERT_INT(1, mean->height);
    ASSERT_INT(6, mean->width);
}

/* 255 added 70,000 times is beyond what a float counts exactly. */
TEST(mean, many_records_lose_no_precision)
{
    const char *path = test_path("many");
    unsigned char byte = 255;
    struct ct_datum d = { .channels = 1, .height = 1, .width = 1,
                          .data = { &byte, 1 } };
    struct ct_db *db;
    char key[16];

    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_NEW, &db));
    for (int i = 0; i < 70001; i++) {
        byte = i % 2 ? 255 : 254;
        snprintf(key, sizeof(key), "%08d", i);
        put(db, key, &d, CT_DATUM_SHAPE, NULL);
        if (i % 10000 == 0)
            ASSERT_OK(ct_db_commit(db));
    }
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
    ASSERT_FLOAT(254 + 35000.0 / 70001, (double)mean_of("lmdb", path)->data[0],
                 1e-5);
}

/* (1 2 3) (9 9 9) as a PNG of B G R, and the same size in floats. */
TEST(mean, images_and_floats_count_plane_by_plane)
{
    static const float floats[] = { 3, 1, 4, 1, 5, 1 };
    static const float want[]   = { 2, 5, 3, 5, 4, 5 };
    static const unsigned char pixels[] = { 1, 2, 3, 9, 9, 9 };
    const char *path   = test_path("db");
    struct ct_image im = { 0 };
    struct ct_text png = { 0 };
    struct ct_datum d  = { .channels = 3, .height = 1, .width = 2,
                           .n_floats = 6 };
    Caffe__BlobProto *mean;
    double channel[3];
    struct ct_db *db;

    ASSERT_OK(ct_image_size(&im, 2, 1, 3));
    memcpy(im.pixels, pixels, sizeof(pixels));
    ASSERT_OK(ct_image_encode(&im, "png", &png));
    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_NEW, &db));
    put(db, "a", &d, CT_DATUM_SHAPE, floats);
    d = (struct ct_datum){ .encoded = true, .data = { png.s, png.n_bytes } };
    put(db, "b", &d, CT_DATUM_ENCODED, NULL);
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
    mean = mean_of("lmdb", path);
    for (int i = 0; i < 6; i++)
        ASSERT_FLOAT((double)want[i], (double)mean->data[i], 0);
    ct_mean_channels(mean, channel);
    ASSERT_FLOAT(3.5, channel[0], 0);
    ASSERT_FLOAT(4.5, channel[2], 0);
    ct_image_fini(&im);
    ct_text_fini(&png);
}

TEST(mean, record_of_another_size_or_no_datum_is_named)
{
    const char *path       = records_made("lmdb", "db", 2, 6, 0);
    unsigned char bytes[7] = { 0 };
    struct ct_datum d      = { .channels = 1, .height = 1, .width = 7,
                               .data = { bytes, 7 } };
    Caffe__BlobProto *mean = NULL;
    struct ct_db *db;

    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_APPEND, &db));
    put(db, "wide", &d, CT_DATUM_SHAPE, NULL);
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
    ASSERT_STATUS(CT_ESHAPE, ct_mean_of_db("lmdb", path, NULL, &mean));
    ASSERT_HAS("wide", ct_last_error());
    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_APPEND, &db));
    ASSERT_OK(ct_db_put(db, (struct ct_bytes){ "bad", 3 },
                        (struct ct_bytes){ "zz", 2 }));
    ASSERT_OK(ct_db_put(db, (struct ct_bytes){ "wide", 4 },
                        (struct ct_bytes){ "zz", 2 }));
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
    ASSERT_STATUS(CT_EPARSE, ct_mean_of_db("lmdb", path, NULL, &mean));
    ASSERT_HAS("record bad", ct_last_error());
}

TEST(mean, empty_database_has_no_mean)
{
    Caffe__BlobProto *mean = NULL;

    ASSERT_STATUS(CT_EINVAL,
                  ct_mean_of_db("lmdb", records_made("lmdb", "db", 0, 1, 0),
                                NULL, &mean));
    ASSERT_HAS("empty", ct_last_error());
}

TEST(mean, file_is_that_of_caffes_tool)
{
    Caffe__BlobProto *mean = mean_of("lmdb",
                                     test_copy("caffe_files/lmdb_raw"));
    const char *theirs = test_copy("caffe_files/mean.binaryproto");
    const char *ours   = test_path("ours.binaryproto");

    ASSERT_OK(ct_binary_write(mean, ours));
    ASSERT(records_same(test_read(theirs), test_read(ours)));
}
