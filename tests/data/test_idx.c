/* test_idx.c - MNIST's and CIFAR-10's files, and the databases from them. */
#include "data/cifar.h"
#include "data/datum.h"
#include "data/db_records.h"
#include "data/idx.h"
#include "testing/files.h"

/* Two images of 2 x 3, and their labels. */
static const unsigned char images[] = {
    0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3,
    1, 2, 3, 4, 5, 6, 250, 251, 252, 253, 254, 255
};
static const unsigned char labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 7, 9 };

static const char *file(const char *name, const void *data, size_t n)
{
    test_write(test_path(name), data, n);
    return test_path(name);
}

TEST(idx, records_are_those_of_caffes_tool)
{
    static const unsigned char want[] = { 0x08, 1, 0x10, 2, 0x18, 3, 0x22, 6,
                                          250, 251, 252, 253, 254, 255,
                                          0x28, 9 };
    static const char *const backends[] = { "lmdb", "leveldb" };
    struct ct_idx x, y;

    ASSERT_OK(ct_idx_read(file("images", images, sizeof(images)), 3, &x));
    ASSERT_OK(ct_idx_read(file("labels", labels, sizeof(labels)), 1, &y));
    for (int i = 0; i < 2; i++) {
        const struct records *r;

        ASSERT_OK(ct_idx_to_db(&x, &y, backends[i], test_path(backends[i]),
                               NULL));
        r = records_of(backends[i], test_path(backends[i]));
        ASSERT_INT(2, r->n);
        ASSERT_STR("00000000", r->key[0].ptr);
        ASSERT_STR("00000001", r->key[1].ptr);
        ASSERT(records_same((struct ct_bytes){ want, sizeof(want) },
                            r->value[1]));
        ASSERT_STATUS(CT_EEXIST, ct_idx_to_db(&x, &y, backends[i],
                                              test_path(backends[i]), NULL));
    }
    ct_idx_fini(&x);
    ct_idx_fini(&y);
}

TEST(idx, pairs_are_labelled_by_whether_they_show_the_same)
{
    enum { N = 40 };
    unsigned char image[16 + N] = { 0, 0, 8, 3, [7] = N, [11] = 1, [15] = 1 };
    unsigned char label[8 + N]  = { 0, 0, 8, 1, [7] = N };
    int n_same                  = 0;
    const struct records *r;
    struct ct_idx x, y;

    for (int i = 0; i < N; i++) {
        image[16 + i] = (unsigned char)i;
        label[8 + i]  = (unsigned char)(i % 3);
    }
    ASSERT_OK(ct_idx_read(file("images", image, sizeof(image)), 3, &x));
    ASSERT_OK(ct_idx_read(file("labels", label, sizeof(label)), 1, &y));
    ASSERT_OK(ct_idx_pairs_to_db(&x, &y, 5, "leveldb", test_path("db"), NULL));
    r = records_of("leveldb", test_path("db"));
    ASSERT_INT(N, r->n);
    for (int i = 0; i < N; i++) {
        struct ct_datum d;
        int a, b;

        ASSERT_OK(ct_datum_read(r->value[i], &d));
        ASSERT_INT(2, d.channels);
        a = ((const unsigned char *)d.data.ptr)[0];
        b = ((const unsigned char *)d.data.ptr)[1];
        ASSERT(a < N && b < N);
        ASSERT_INT(a % 3 == b % 3, d.label);
        n_same += d.label;
    }
    ASSERT(n_same > 0 && n_same < N);
    ct_idx_fini(&x);
    ct_idx_fini(&y);
}

TEST(idx, damaged_packed_and_swapped_files_are_refused)
{
    static const unsigned char packed[] = { 0x1f, 0x8b, 8, 0 };
    struct ct_idx x;

    for (size_t n = 0; n < sizeof(images); n++)
        ASSERT_STATUS(CT_EPARSE, ct_idx_read(file("cut", images, n), 3, &x));
    ASSERT_HAS("not whole", ct_last_error());
    ASSERT_STATUS(CT_EPARSE, ct_idx_read(file("gz", packed, 4), 3, &x));
    ASSERT_HAS("gunzip", ct_last_error());
    ASSERT_STATUS(CT_EPARSE,
                  ct_idx_read(file("labels", labels, sizeof(labels)), 3, &x));
    ASSERT_HAS("swapped", ct_last_error());
    ASSERT_STATUS(CT_ENOTFOUND, ct_idx_read(test_path("none"), 3, &x));
}

TEST(idx, as_many_labels_as_images_are_needed)
{
    static const unsigned char three[] = { 0, 0, 8, 1, 0, 0, 0, 3, 7, 9, 1 };
    struct ct_idx x, y;

    ASSERT_OK(ct_idx_read(file("images", images, sizeof(images)), 3, &x));
    ASSERT_OK(ct_idx_read(file("labels", three, sizeof(three)), 1, &y));
    ASSERT_STATUS(CT_ESHAPE, ct_idx_to_db(&x, &y, "lmdb", test_path("db"),
                                          NULL));
    ASSERT_HAS("2 images have 3 labels", ct_last_error());
    ct_idx_fini(&x);
    ct_idx_fini(&y);
    ASSERT_INT(2, records_n_files());
}

enum { CIFAR_RECORD = 3073 };

/* n records: label first + i, every pixel 10 (first + i) but the last. */
static const char *batch(const char *name, int first, int n)
{
    static unsigned char bytes[4 * CIFAR_RECORD];

    for (int i = 0; i < n; i++) {
        unsigned char *r = bytes + i * CIFAR_RECORD;

        memset(r, 10 * (first + i), CIFAR_RECORD);
        r[0]    = (unsigned char)(first + i);
        r[3072] = 77;
    }
    return file(name, bytes, (size_t)n * CIFAR_RECORD);
}

TEST(idx, cifar_batches_follow_one_another)
{
    const char *files[] = { batch("1", 0, 2), batch("2", 5, 3) };
    const struct records *r;
    struct ct_datum d;

    ASSERT_OK(ct_cifar_to_db(files, 2, "lmdb", test_path("db"), NULL));
    r = records_of("lmdb", test_path("db"));
    ASSERT_INT(5, r->n);
    ASSERT_STR("00000", r->key[0].ptr);
    ASSERT_STR("00004", r->key[4].ptr);
    ASSERT_OK(ct_datum_read(r->value[4], &d));
    ASSERT_INT(3, d.channels);
    ASSERT_INT(32, d.height);
    ASSERT_INT(32, d.width);
    ASSERT_INT(7, d.label);
    ASSERT_INT(3072, d.data.n);
    ASSERT_INT(70, ((const unsigned char *)d.data.ptr)[0]);
    ASSERT_INT(77, ((const unsigned char *)d.data.ptr)[3071]);
    /* channels, height, width, data, label: Caffe sets nothing else. */
    ASSERT_INT(6 + 3 + 3072 + 2, r->value[4].n);
}

TEST(idx, damaged_cifar_batch_is_named_and_leaves_nothing)
{
    const char *bad_label[] = { batch("label", 10, 1) };
    const char *cut[] = { batch("1", 0, 2), file("cut", images, 28) };

    ASSERT_STATUS(CT_EPARSE, ct_cifar_to_db(cut, 2, "lmdb", test_path("db"),
                                            NULL));
    ASSERT_HAS(cut[1], ct_last_error());
    ASSERT_STATUS(CT_EPARSE, ct_cifar_to_db(bad_label, 1, "lmdb",
                                            test_path("db"), NULL));
    ASSERT_HAS("label 10", ct_last_error());
    ASSERT_INT(3, records_n_files());
}
