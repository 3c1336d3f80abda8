/* test_hdf5_data.c - rows in order, across files, epochs and ranks.
 *
 * Files a.h5 and b.h5 hold rows 0 1 2 and 3 4; a row of `data` is (10 r,
 * 10 r + 1), its `label` is r. */
#include "data/hdf5.h"
#include "testing/layer_test.h"

#ifdef CT_HAVE_HDF5
static void write_rows(const char *name, int first, int n, int width)
{
    float data[32], label[16];
    char path[512];
    struct ct_hdf5 *h;

    for (int i = 0; i < n; i++) {
        label[i] = (float)(first + i);
        for (int j = 0; j < width; j++)
            data[i * width + j] = (float)(10 * (first + i) + j);
    }
    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    ASSERT_OK(ct_hdf5_create(path, &h));
    ASSERT_OK(ct_hdf5_write(h, "data", CT_SHAPE(n, width), data));
    ASSERT_OK(ct_hdf5_write(h, "label", CT_SHAPE(n), label));
    ASSERT_OK(ct_hdf5_close(h));
}

/* A case over the named files; `more` goes into hdf5_data_param. */
static struct layer_case *listed(const char *a, const char *b,
                                 const char *more)
{
    char text[2048], path[512];
    struct layer_case *c;
    FILE *f;

    snprintf(path, sizeof(path), "%s/list.txt", test_folder());
    f = fopen(path, "w");
    ASSERT(f);
    if (a)
        fprintf(f, "%s/%s\n", test_folder(), a);
    if (b)
        fprintf(f, "\n  %s/%s  ", test_folder(), b);
    fclose(f);
    snprintf(text, sizeof(text), "name: 'd' type: 'HDF5Data' top: 'data' "
             "top: 'label' hdf5_data_param { source: '%s' %s }", path, more);
    c = layer_case(CT_CPU, text);
    return c;
}

static struct layer_case *two_files(const char *more)
{
    write_rows("a.h5", 0, 3, 2);
    write_rows("b.h5", 3, 2, 2);
    return listed("a.h5", "b.h5", more);
}

TEST(hdf5_data, batches_cross_files_and_start_over)
{
    struct layer_case *c = two_files("batch_size: 4");

    ASSERT_OK(case_setup(c));
    ASSERT_SHAPE(c, "top[0]", 4, 2);
    ASSERT_SHAPE(c, "top[1]", 4);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 1, 10, 11, 20, 21, 30, 31);
    ASSERT_NEAR(c, "top[1].data", 0, 0, 1, 2, 3);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 4, 0, 1, 2);
    ASSERT_NEAR(c, "top[0].data", 0, 40, 41, 0, 1, 10, 11, 20, 21);
}

TEST(hdf5_data, seek_continues_as_if_passes_were_made)
{
    struct layer_case *c = two_files("batch_size: 2");
    struct ct_layer *l;

    ASSERT_OK(case_setup(c));
    l = case_layer(c);
    ASSERT_OK(l->type->seek(l, 3));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 1, 2);
}

/* Rank 1 of 2 has batches 1, 3, ... */
TEST(hdf5_data, ranks_deal_batches_among_them_in_training)
{
    struct layer_case *c = two_files("batch_size: 2");

    ASSERT_OK(case_setup(c));
    case_run(c)->size = 2;
    case_run(c)->rank = 1;
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 2, 3);
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 1, 2);
    case_layer(c)->phase = CAFFE__PHASE__TEST;
    ASSERT_OK(case_layer(c)->type->seek(case_layer(c), 0));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 0, 1);
    case_run(c)->deal_tests = true;
    ASSERT_OK(case_layer(c)->type->seek(case_layer(c), 0));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[1].data", 0, 2, 3);
}

TEST(hdf5_data, a_shuffled_epoch_has_every_row_once_in_an_own_order)
{
    struct layer_case *c = two_files("batch_size: 5 shuffle: true");
    float epoch[8][5];
    int n_same = 0;

    ASSERT_OK(case_setup(c));
    for (int e = 0; e < 8; e++) {
        const float *label, *data;
        int seen = 0;

        ASSERT_OK(case_forward(c));
        label = ct_data(case_find(c, "top[1]"));
        data  = ct_data(case_find(c, "top[0]"));
        for (int i = 0; i < 5; i++) {
            seen |= 1 << (int)label[i];
            ASSERT_FLOAT(10 * label[i], data[2 * i], 0);
        }
        ASSERT_INT(31, seen);
        memcpy(epoch[e], label, sizeof(epoch[e]));
        n_same += e > 0 && memcmp(epoch[e], epoch[0], sizeof(epoch[e])) == 0;
    }
    ASSERT(n_same < 7);
    ASSERT_OK(case_layer(c)->type->seek(case_layer(c), 3));
    ASSERT_OK(case_forward(c));
    for (int i = 0; i < 5; i++)
        ASSERT_FLOAT(epoch[3][i], ct_data(case_find(c, "top[1]"))[i], 0);
}

static void refused(struct layer_case *c, enum ct_status st, const char *text)
{
    ASSERT_STATUS(st, case_setup(c));
    ASSERT_HAS("layer d", ct_last_error());
    ASSERT_HAS(text, ct_last_error());
}

TEST(hdf5_data, files_that_do_not_fit_together_are_refused)
{
    write_rows("a.h5", 0, 3, 2);
    write_rows("wide.h5", 3, 2, 3);
    refused(listed("a.h5", "wide.h5", "batch_size: 1"), CT_ESHAPE, "wide.h5");
}

TEST(hdf5_data, a_file_that_is_missing_is_refused)
{
    write_rows("a.h5", 0, 3, 2);
    refused(listed("a.h5", "none.h5", "batch_size: 1"), CT_ENOTFOUND,
            "none.h5");
}

TEST(hdf5_data, an_empty_list_is_refused)
{
    refused(listed(NULL, NULL, "batch_size: 1"), CT_EINVAL, "lists no files");
}

TEST(hdf5_data, a_missing_batch_size_is_refused)
{
    refused(two_files(""), CT_EINVAL, "batch_size");
}

TEST(hdf5_data, a_missing_dataset_is_refused_by_file_and_name)
{
    struct layer_case *c;
    char text[1024];

    two_files("batch_size: 1");
    snprintf(text, sizeof(text), "name: 'd' type: 'HDF5Data' top: 'other' "
             "hdf5_data_param { source: '%s/list.txt' batch_size: 1 }",
             test_folder());
    c = layer_case(CT_CPU, text);
    refused(c, CT_ENOTFOUND, "other");
}
#endif

TEST(hdf5_data, a_missing_source_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'd' type: 'HDF5Data' "
        "top: 'data' hdf5_data_param { batch_size: 1 source: '/none.txt' }");

    ASSERT_STATUS(CT_EIO, case_setup(c));
    ASSERT_HAS("layer d", ct_last_error());
}

TEST(hdf5_data, transformations_are_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'd' type: 'HDF5Data' "
        "top: 'data' hdf5_data_param { batch_size: 1 source: 'x' } "
        "transform_param { scale: 2 }");

    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("does not transform", ct_last_error());
}
