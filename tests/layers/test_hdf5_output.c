/* test_hdf5_output.c - what is written is read back. */
#include <unistd.h>

#include "data/hdf5.h"
#include "testing/layer_test.h"

#ifdef CT_HAVE_HDF5
static const float a[] = { 1, 2, 3, 4 }, b[] = { 5, 6, 7, 8 };
static const float t[] = { 0, 1 };

static char path[512];

/* The harness frees a case after the test body, so layers are made here. */
static struct ct_layer *made(const struct ct_run *run, const char *file,
                             const struct ct_io *io)
{
    static Caffe__HDF5OutputParameter p;
    static Caffe__LayerParameter param;
    struct ct_layer *l;

    snprintf(path, sizeof(path), "%s/%s", test_folder(), file);
    caffe__hdf5_output_parameter__init(&p);
    caffe__layer_parameter__init(&param);
    p.file_name             = path;
    param.name              = (char *)(uintptr_t) "out";
    param.type              = (char *)(uintptr_t) "HDF5Output";
    param.hdf5_output_param = &p;
    ASSERT_OK(ct_layer_create(&param, ct_device_cpu(), run,
                              CAFFE__PHASE__TEST, &l));
    ASSERT_OK(ct_layer_setup(l, io));
    return l;
}

static struct ct_blob *blob(struct ct_shape shape)
{
    struct ct_blob *x;

    ASSERT_OK(ct_blob_create(ct_device_cpu(), &x));
    ASSERT_OK(ct_reshape(x, shape));
    return x;
}

TEST(hdf5_output, passes_are_appended_and_the_file_appears_at_the_end)
{
    const struct ct_run run = { .size = 1 };
    struct ct_blob *bottom[] = { blob(CT_SHAPE(2, 2)), blob(CT_SHAPE(2)) };
    const struct ct_io io = { bottom, NULL, 2, 0, NULL };
    struct ct_layer *l = made(&run, "out.h5", &io);
    struct ct_hdf5 *h;
    struct ct_shape shape;
    float got[8];

    memcpy(ct_data(bottom[1]), t, sizeof(t));
    memcpy(ct_data(bottom[0]), a, sizeof(a));
    ASSERT_OK(ct_layer_forward(l, &io));
    memcpy(ct_data(bottom[0]), b, sizeof(b));
    ASSERT_OK(ct_layer_forward(l, &io));
    ASSERT(access(path, F_OK) != 0);
    ct_layer_destroy(l);
    ASSERT_OK(ct_hdf5_open(path, &h));
    ASSERT_OK(ct_hdf5_shape(h, "data", &shape));
    ASSERT(ct_shape_equal(&shape, &CT_SHAPE(4, 2, 1, 1)));
    ASSERT_OK(ct_hdf5_read(h, "data", 8, got));
    for (int i = 0; i < 8; i++)
        ASSERT_FLOAT(i + 1, got[i], 0);
    ASSERT_OK(ct_hdf5_shape(h, "label", &shape));
    ASSERT(ct_shape_equal(&shape, &CT_SHAPE(4, 1, 1, 1)));
    ASSERT_OK(ct_hdf5_read(h, "label", 4, got));
    ASSERT_FLOAT(1, got[3], 0);
    ASSERT_OK(ct_hdf5_close(h));
    ct_blob_destroy(bottom[0]);
    ct_blob_destroy(bottom[1]);
}

TEST(hdf5_output, other_ranks_write_their_own_file)
{
    const struct ct_run run = { .size = 3, .rank = 2 };
    struct ct_blob *bottom[] = { blob(CT_SHAPE(2, 2)), blob(CT_SHAPE(2)) };
    const struct ct_io io = { bottom, NULL, 2, 0, NULL };
    struct ct_layer *l = made(&run, "out.h5", &io);
    char own[600];

    ASSERT_OK(ct_layer_forward(l, &io));
    ct_layer_destroy(l);
    snprintf(own, sizeof(own), "%s.2", path);
    ASSERT(ct_hdf5_is(own));
    ASSERT(access(path, F_OK) != 0);
    ct_blob_destroy(bottom[0]);
    ct_blob_destroy(bottom[1]);
}

TEST(hdf5_output, bottoms_that_do_not_fit_are_refused)
{
    char text[1024];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'out' type: 'HDF5Output' "
             "hdf5_output_param { file_name: '%s/x.h5' }", test_folder());
    c = layer_case(CT_CPU, text);
    case_bottom(c, 0, CT_SHAPE(2, 2), NULL);
    case_bottom(c, 1, CT_SHAPE(3), NULL);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer out", ct_last_error());
}

TEST(hdf5_output, a_folder_that_is_not_there_is_refused)
{
    struct layer_case *c = layer_case(CT_CPU, "name: 'out' type: "
        "'HDF5Output' hdf5_output_param { file_name: '/none/x.h5' }");

    case_bottom(c, 0, CT_SHAPE(2, 2), NULL);
    case_bottom(c, 1, CT_SHAPE(2), NULL);
    ASSERT_STATUS(CT_EIO, case_setup(c));
    ASSERT_HAS("layer out: /none/x.h5", ct_last_error());
}
#endif

TEST(hdf5_output, a_missing_name_is_refused)
{
    struct layer_case *c =
        layer_case(CT_CPU, "name: 'out' type: 'HDF5Output'");

    case_bottom(c, 0, CT_SHAPE(2, 2), NULL);
    case_bottom(c, 1, CT_SHAPE(2), NULL);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    ASSERT_HAS("layer out", ct_last_error());
}
