/* test_hdf5.c - what is written to an HDF5 file is read back, and what is
 * not there is refused with the names of file and dataset. */
#include "base/mem.h"
#include "data/hdf5.h"
#include "testing/test.h"

#ifdef CT_HAVE_HDF5
#include <hdf5.h>
#include <pthread.h>

static const char *in_folder(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    return path;
}

/* "data" 3 x 2, "group/deep/x" a scalar, "n" an int, "s" a string. */
static const char *sample(void)
{
    static const float six[] = { 1, 2, 3, 4, 5, 6 }, one[] = { 7 };
    const char *path = in_folder("sample.h5");
    struct ct_hdf5 *h;

    ASSERT_OK(ct_hdf5_create(path, &h));
    ASSERT_OK(ct_hdf5_write(h, "data", CT_SHAPE(3, 2), six));
    ASSERT_OK(ct_hdf5_write(h, "group/deep/x", CT_SCALAR, one));
    ASSERT_OK(ct_hdf5_write_int(h, "n", 42));
    ASSERT_OK(ct_hdf5_write_string(h, "s", "a model"));
    ASSERT_OK(ct_hdf5_add_group(h, "empty"));
    ASSERT_OK(ct_hdf5_set_number(h, "/", "rtol", 0.25));
    ASSERT_OK(ct_hdf5_set_string(h, "data", "phase", "TRAIN"));
    ASSERT_OK(ct_hdf5_close(h));
    return path;
}

TEST(hdf5, arrays_come_back_with_shape_and_values)
{
    struct ct_hdf5 *h;
    struct ct_shape shape;
    float got[6], rows[4];

    ASSERT_OK(ct_hdf5_open(sample(), &h));
    ASSERT_OK(ct_hdf5_shape(h, "data", &shape));
    ASSERT(ct_shape_equal(&shape, &CT_SHAPE(3, 2)));
    ASSERT_OK(ct_hdf5_read(h, "/data", 6, got));
    for (int i = 0; i < 6; i++)
        ASSERT_FLOAT(i + 1, got[i], 0);
    ASSERT_OK(ct_hdf5_read_rows(h, "data", 1, 2, rows));
    for (int i = 0; i < 4; i++)
        ASSERT_FLOAT(i + 3, rows[i], 0);
    ASSERT_OK(ct_hdf5_shape(h, "group/deep/x", &shape));
    ASSERT_INT(0, shape.n_axes);
    ASSERT_OK(ct_hdf5_read(h, "group/deep/x", 1, got));
    ASSERT_FLOAT(7, got[0], 0);
    ASSERT_OK(ct_hdf5_close(h));
}

TEST(hdf5, a_blob_takes_the_shape_of_the_dataset)
{
    struct ct_blob *b;
    struct ct_hdf5 *h;

    ASSERT_OK(ct_blob_create(ct_device_cpu(), &b));
    ASSERT_OK(ct_hdf5_open(sample(), &h));
    ASSERT_OK(ct_hdf5_read_blob(h, "data", b));
    ASSERT(ct_shape_equal(&b->shape, &CT_SHAPE(3, 2)));
    ASSERT_FLOAT(6, ct_data(b)[5], 0);
    ASSERT_OK(ct_hdf5_close(h));
    ct_blob_destroy(b);
}

TEST(hdf5, single_values_and_attributes_come_back)
{
    struct ct_hdf5 *h;
    int64_t n;
    double rtol;
    char *s;

    ASSERT_OK(ct_hdf5_open(sample(), &h));
    ASSERT_OK(ct_hdf5_read_int(h, "n", &n));
    ASSERT_INT(42, n);
    ASSERT_OK(ct_hdf5_read_string(h, "s", &s));
    ASSERT_STR("a model", s);
    ct_free(s);
    ASSERT_OK(ct_hdf5_get_number(h, "/", "rtol", &rtol));
    ASSERT_FLOAT(0.25, rtol, 0);
    ASSERT_OK(ct_hdf5_get_string(h, "data", "phase", &s));
    ASSERT_STR("TRAIN", s);
    ct_free(s);
    ASSERT_OK(ct_hdf5_close(h));
}

TEST(hdf5, lists_are_by_kind_and_in_order)
{
    struct ct_hdf5 *h;
    char **names;
    int n;

    ASSERT_OK(ct_hdf5_open(sample(), &h));
    ASSERT_OK(ct_hdf5_list(h, "/", CT_HDF5_DATASETS, &names, &n));
    ASSERT_INT(3, n);
    ASSERT_STR("data", names[0]);
    ASSERT_STR("n", names[1]);
    ASSERT_STR("s", names[2]);
    ct_hdf5_list_free(names, n);
    ASSERT_OK(ct_hdf5_list(h, "/", CT_HDF5_GROUPS, &names, &n));
    ASSERT_INT(2, n);
    ASSERT_STR("empty", names[0]);
    ASSERT_STR("group", names[1]);
    ct_hdf5_list_free(names, n);
    ASSERT_OK(ct_hdf5_list(h, "empty", CT_HDF5_DATASETS, &names, &n));
    ASSERT_INT(0, n);
    ct_hdf5_list_free(names, n);
    ASSERT(ct_hdf5_has(h, "group/deep/x"));
    ASSERT(!ct_hdf5_has(h, "group/deeper/x"));
    ASSERT_OK(ct_hdf5_close(h));
}

TEST(hdf5, appended_rows_stand_behind_each_other)
{
    static const float a[] = { 1, 2, 3, 4 }, b[] = { 5, 6 };
    const char *path = in_folder("rows.h5");
    struct ct_hdf5 *h;
    struct ct_shape shape;
    float got[6];

    ASSERT_OK(ct_hdf5_create(path, &h));
    ASSERT_OK(ct_hdf5_append(h, "data", CT_SHAPE(2, 2), a));
    ASSERT_OK(ct_hdf5_append(h, "data", CT_SHAPE(1, 2), b));
    ASSERT_STATUS(CT_ESHAPE, ct_hdf5_append(h, "data", CT_SHAPE(1, 1), b));
    ASSERT_STATUS(CT_ESHAPE, ct_hdf5_append(h, "x", CT_SCALAR, b));
    ASSERT_OK(ct_hdf5_close(h));
    ASSERT_OK(ct_hdf5_open(path, &h));
    ASSERT_OK(ct_hdf5_shape(h, "data", &shape));
    ASSERT(ct_shape_equal(&shape, &CT_SHAPE(3, 2)));
    ASSERT_OK(ct_hdf5_read(h, "data", 6, got));
    for (int i = 0; i < 6; i++)
        ASSERT_FLOAT(i + 1, got[i], 0);
    ASSERT_OK(ct_hdf5_close(h));
}

TEST(hdf5, what_is_not_there_is_refused_by_name)
{
    struct ct_hdf5 *h;
    struct ct_shape shape;
    double number;
    float got[5];
    char *s;

    ASSERT_STATUS(CT_ENOTFOUND, ct_hdf5_open(in_folder("none.h5"), &h));
    ASSERT_HAS("none.h5", ct_last_error());
    ASSERT_OK(ct_hdf5_open(sample(), &h));
    ASSERT_STATUS(CT_ENOTFOUND, ct_hdf5_shape(h, "label", &shape));
    ASSERT_HAS("sample.h5", ct_last_error());
    ASSERT_HAS("label", ct_last_error());
    ASSERT_STATUS(CT_ESHAPE, ct_hdf5_read(h, "data", 5, got));
    ASSERT_STATUS(CT_ESHAPE, ct_hdf5_read_rows(h, "data", 2, 2, got));
    ASSERT_STATUS(CT_EINVAL, ct_hdf5_shape(h, "s", &shape));
    ASSERT_HAS("does not hold numbers", ct_last_error());
    ASSERT_STATUS(CT_EINVAL, ct_hdf5_read_string(h, "data", &s));
    ASSERT_STATUS(CT_ENOTFOUND, ct_hdf5_get_number(h, "/", "atol", &number));
    ASSERT_HAS("atol", ct_last_error());
    ASSERT_OK(ct_hdf5_close(h));
}

TEST(hdf5, a_handle_opens_one_file_after_the_other)
{
    struct ct_hdf5 *h;
    char first[512];
    int64_t n;

    snprintf(first, sizeof(first), "%s", sample());
    ASSERT_OK(ct_hdf5_create(in_folder("other.h5"), &h));
    ASSERT_OK(ct_hdf5_write_int(h, "n", 5000000000));
    ASSERT_OK(ct_hdf5_reopen(h, first));
    ASSERT_OK(ct_hdf5_read_int(h, "n", &n));
    ASSERT_INT(42, n);
    ASSERT_OK(ct_hdf5_reopen(h, NULL));
    ASSERT_STATUS(CT_ENOTFOUND, ct_hdf5_reopen(h, in_folder("none.h5")));
    ASSERT_OK(ct_hdf5_reopen(h, in_folder("other.h5")));
    ASSERT_OK(ct_hdf5_read_int(h, "n", &n));
    ASSERT_INT(5000000000, n);
    ASSERT_OK(ct_hdf5_close(h));
}

TEST(hdf5, a_dataset_is_never_overwritten)
{
    const char *path = in_folder("twice.h5");
    struct ct_hdf5 *h;

    ASSERT_OK(ct_hdf5_create(path, &h));
    ASSERT_OK(ct_hdf5_write_int(h, "n", 1));
    ASSERT_STATUS(CT_EEXIST, ct_hdf5_write_int(h, "n", 2));
    ASSERT_HAS("twice.h5", ct_last_error());
    ASSERT_OK(ct_hdf5_close(h));
}

TEST(hdf5, other_files_are_told_apart)
{
    const char *path = in_folder("text.h5");
    struct ct_hdf5 *h;
    FILE *f = fopen(path, "w");

    ASSERT(f && fputs("not HDF5", f) >= 0 && fclose(f) == 0);
    ASSERT(!ct_hdf5_is(path));
    ASSERT_STATUS(CT_EPARSE, ct_hdf5_open(path, &h));
    ASSERT_HAS("text.h5", ct_last_error());
    ASSERT(ct_hdf5_is(sample()));
}

/* Integers and doubles written by the library itself. */
TEST(hdf5, integers_and_doubles_are_read_as_float)
{
    static const int64_t whole[] = { -1, 300 };
    static const double real[]   = { 0.5, 2 };
    const hsize_t two            = 2;
    const char *path             = in_folder("types.h5");
    struct ct_hdf5 *h;
    float got[2];
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, &two, NULL);
    hid_t i = H5Dcreate2(file, "i", H5T_STD_I64BE, space, H5P_DEFAULT,
                         H5P_DEFAULT, H5P_DEFAULT);
    hid_t d = H5Dcreate2(file, "d", H5T_IEEE_F64LE, space, H5P_DEFAULT,
                         H5P_DEFAULT, H5P_DEFAULT);

    H5Dwrite(i, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, whole);
    H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, real);
    H5Dclose(i);
    H5Dclose(d);
    H5Sclose(space);
    H5Fclose(file);
    ASSERT_OK(ct_hdf5_open(path, &h));
    ASSERT_OK(ct_hdf5_read(h, "i", 2, got));
    ASSERT_FLOAT(-1, got[0], 0);
    ASSERT_FLOAT(300, got[1], 0);
    ASSERT_OK(ct_hdf5_read(h, "d", 2, got));
    ASSERT_FLOAT(0.5, got[0], 0);
    ASSERT_OK(ct_hdf5_close(h));
}

static void make_unwritten(hid_t file, const char *name, hsize_t n)
{
    hid_t space = H5Screate_simple(1, &n, NULL);
    hid_t set   = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT,
                             H5P_DEFAULT, H5P_DEFAULT);

    ASSERT(set >= 0);
    H5Dclose(set);
    H5Sclose(space);
}

/* Nobody makes room for a terabyte that a file of 2 KB speaks of. */
TEST(hdf5, a_dataset_that_was_never_written_asks_for_little)
{
    const char *path = in_folder("unwritten.h5");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    struct ct_shape shape;
    struct ct_hdf5 *h;

    make_unwritten(file, "small", 1000);
    make_unwritten(file, "large", (hsize_t)1 << 38);
    H5Fclose(file);
    ASSERT_OK(ct_hdf5_open(path, &h));
    ASSERT_OK(ct_hdf5_shape(h, "small", &shape));
    ASSERT_INT(1000, shape.dim[0]);
    ASSERT_STATUS(CT_EPARSE, ct_hdf5_shape(h, "large", &shape));
    ASSERT_HAS("dataset large has 274877906944 values", ct_last_error());
    ASSERT_OK(ct_hdf5_close(h));
}

static void *read_often(void *path)
{
    float got[6];

    for (int i = 0; i < 50; i++) {
        struct ct_hdf5 *h;

        if (ct_hdf5_open(path, &h) != CT_OK)
            return path;
        if (ct_hdf5_read(h, "data", 6, got) != CT_OK || got[5] != 6 ||
            ct_hdf5_close(h) != CT_OK)
            return path;
    }
    return NULL;
}

TEST(hdf5, threads_may_read_at_the_same_time)
{
    char path[512];
    pthread_t thread[3];
    void *failed;

    snprintf(path, sizeof(path), "%s", sample());
    for (int i = 0; i < 3; i++)
        ASSERT_INT(0, pthread_create(&thread[i], NULL, read_often, path));
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], &failed);
        ASSERT(!failed);
    }
}
#else
TEST(hdf5, a_build_without_hdf5_says_what_to_install)
{
    struct ct_hdf5 *h;

    ASSERT_STATUS(CT_ENOTSUP, ct_hdf5_open("x.h5", &h));
    ASSERT_HAS("libhdf5-dev", ct_last_error());
}
#endif
