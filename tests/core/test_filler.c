/* test_filler.c - the moments, ranges and patterns of the seven fillers. */
#include "core/filler.h"
#include "testing/test.h"

static void free_blob(void *b)
{
    ct_blob_destroy(b);
}

static enum ct_status try_fill(const char *text, struct ct_shape shape,
                               struct ct_blob **out)
{
    Caffe__FillerParameter *f = NULL;
    enum ct_status st;

    ASSERT_OK(ct_text_parse(&caffe__filler_parameter__descriptor, text,
                            strlen(text), "test", &f));
    ASSERT_OK(ct_blob_create(ct_device_cpu(), out));
    test_defer(free_blob, *out);
    ASSERT_OK(ct_reshape(*out, shape));
    st = ct_filler_run(f, 17, 1, *out);
    ct_message_free(f);
    return st;
}

static struct ct_blob *fill(const char *text, struct ct_shape shape)
{
    struct ct_blob *b;

    ASSERT_OK(try_fill(text, shape, &b));
    return b;
}

/* Mean, standard deviation and the largest magnitude. */
static void moments(const struct ct_blob *b, double *mean, double *std,
                    double *most)
{
    double sum = 0, squares = 0;

    *most = 0;
    for (int64_t i = 0; i < b->count; i++) {
        double x = (double)ct_data(b)[i];

        sum += x;
        squares += x * x;
        *most = fmax(*most, fabs(x));
    }
    *mean = sum / (double)b->count;
    *std  = sqrt(squares / (double)b->count - *mean * *mean);
}

TEST(filler, constant_is_constant)
{
    struct ct_blob *b = fill("type: 'constant' value: 2.5", CT_SHAPE(3));

    ASSERT_FLOAT(2.5, ct_data(b)[0], 0);
    ASSERT_FLOAT(2.5, ct_data(b)[2], 0);
}

TEST(filler, uniform_covers_its_range)
{
    double mean, std, most;

    moments(fill("type: 'uniform' min: 2 max: 4", CT_SHAPE(100, 200)), &mean,
            &std, &most);
    ASSERT_FLOAT(3, mean, 0.02);
    ASSERT_FLOAT(2 / sqrt(12), std, 0.02);
    ASSERT(most < 4 && most > 3.99);
}

TEST(filler, gaussian_has_its_mean_and_deviation)
{
    double mean, std, most;

    moments(fill("type: 'gaussian' mean: 1 std: 0.1", CT_SHAPE(100, 200)),
            &mean, &std, &most);
    ASSERT_FLOAT(1, mean, 0.01);
    ASSERT_FLOAT(0.1, std, 0.005);
}

TEST(filler, sparse_gaussian_keeps_so_many_a_column)
{
    struct ct_blob *b = fill("type: 'gaussian' sparse: 5", CT_SHAPE(50, 400));
    int64_t n = 0;

    for (int64_t i = 0; i < b->count; i++)
        n += ct_data(b)[i] != 0;
    ASSERT_FLOAT(0.1, (double)n / (double)b->count, 0.01);
}

TEST(filler, unitball_rows_sum_to_one)
{
    struct ct_blob *b = fill("type: 'positive_unitball'", CT_SHAPE(4, 3, 5));

    for (int r = 0; r < 4; r++) {
        double sum = 0;

        for (int i = 0; i < 15; i++) {
            ASSERT(ct_data(b)[15 * r + i] >= 0);
            sum += (double)ct_data(b)[15 * r + i];
        }
        ASSERT_FLOAT(1, sum, 1e-5);
    }
}

TEST(filler, xavier_and_msra_scale_by_their_fan)
{
    double mean, std, most;
    const struct ct_shape s = CT_SHAPE(50, 20, 5, 5);

    moments(fill("type: 'xavier'", s), &mean, &std, &most);
    ASSERT_FLOAT(sqrt(3.0 / 500), most, 1e-4);
    moments(fill("type: 'xavier' variance_norm: FAN_OUT", s), &mean, &std,
            &most);
    ASSERT_FLOAT(sqrt(3.0 / 1250), most, 1e-4);
    moments(fill("type: 'msra' variance_norm: AVERAGE", s), &mean, &std,
            &most);
    ASSERT_FLOAT(sqrt(2.0 / 875), std, 1e-3);
}

TEST(filler, bilinear_is_the_interpolation_kernel)
{
    struct ct_blob *b = fill("type: 'bilinear'", CT_SHAPE(1, 1, 4, 4));
    static const float row[] = { 0.25f, 0.75f, 0.75f, 0.25f };

    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++)
            ASSERT_FLOAT(row[y] * row[x], ct_data(b)[4 * y + x], 1e-6);
}

TEST(filler, mistakes_are_named)
{
    struct ct_blob *b;

    ASSERT_STATUS(CT_EINVAL, try_fill("type: 'magic'", CT_SHAPE(3), &b));
    ASSERT_HAS("magic", ct_last_error());
    ASSERT_STATUS(CT_EINVAL,
                  try_fill("type: 'bilinear'", CT_SHAPE(3, 4), &b));
}
