/* test_ip.c - the inner product against sums in double. */
#include "device/ip_impl.h"
#include "layouts.h"

static const struct ct_impl *const impls[] = {
    &ct_ip_gemm.head,
#ifdef CT_HAVE_ONEDNN
    &ct_ip_onednn.head,
#endif
};
enum { N_IMPLS = sizeof(impls) / sizeof(impls[0]) };

static struct ct_ip ip_of(int64_t m, int64_t n, int64_t k, bool has_bias,
                          bool transpose, const struct ct_impl *impl)
{
    struct ct_ip p = { .dev = ct_device_cpu(), .m = m, .n = n, .k = k,
                       .has_bias = has_bias, .transpose = transpose };

    for (int i = 0; i < CT_WEIGHTED_PASSES; i++)
        ASSERT_OK(ct_impl_try(impl, &p, (enum ct_pass)i, &p.pass[i]));
    return p;
}

/* Where W(j, i) stands. */
static int64_t at(const struct ct_ip *p, int64_t j, int64_t i)
{
    return p->transpose ? i * p->n + j : j * p->k + i;
}

static void check_forward(const struct ct_ip *p, const float *x,
                          const float *w, const float *b)
{
    float *y = test_values(p->m * p->n, 4, 0);

    ASSERT_OK(ct_ip_forward(p, x, w, b, y));
    for (int64_t r = 0; r < p->m; r++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = b ? b[j] : 0;

            for (int64_t i = 0; i < p->k; i++)
                sum += (double)x[r * p->k + i] * w[at(p, j, i)];
            if (p->relu && sum < 0)
                sum = 0;
            ASSERT_FLOAT(sum, y[r * p->n + j], 1e-4);
        }
}

static void check_backward(const struct ct_ip *p, const float *x,
                           const float *w, const float *dy)
{
    float *dx = test_values(p->m * p->k, 5, 0);
    float *dw = test_values(p->n * p->k, 6, 0), *db = test_values(p->n, 7, 0);
    float *dw0 = test_values(p->n * p->k, 6, 0), *db0 = test_values(p->n, 7, 0);

    ASSERT_OK(ct_ip_backward_data(p, w, dy, dx));
    for (int64_t r = 0; r < p->m; r++)
        for (int64_t i = 0; i < p->k; i++) {
            double sum = 0;

            for (int64_t j = 0; j < p->n; j++)
                sum += (double)dy[r * p->n + j] * w[at(p, j, i)];
            ASSERT_FLOAT(sum, dx[r * p->k + i], 1e-4);
        }
    ASSERT_OK(ct_ip_backward_weights(p, x, dy, dw, db));
    for (int64_t j = 0; j < p->n; j++) {
        double bias = db0[j];

        for (int64_t r = 0; r < p->m; r++)
            bias += dy[r * p->n + j];
        ASSERT_FLOAT(bias, db[j], 1e-4);
        for (int64_t i = 0; i < p->k; i++) {
            double sum = dw0[at(p, j, i)];

            for (int64_t r = 0; r < p->m; r++)
                sum += (double)dy[r * p->n + j] * x[r * p->k + i];
            ASSERT_FLOAT(sum, dw[at(p, j, i)], 1e-4);
        }
    }
}

/* The last shape is one whose weights come first. */
TEST(ip, implementations_agree_with_the_definition)
{
    static const int64_t shapes[][3] = { { 2, 3, 4 },   { 17, 33, 65 },
                                         { 1, 10, 50 }, { 5, 1, 7 },
                                         { 64, 10, 1 }, { 130, 70, 3 },
                                         { 18, 1027, 1025 } };

    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (int k = 0; k < 4 * N_IMPLS; k++) {
            struct ct_ip p = ip_of(shapes[s][0], shapes[s][1], shapes[s][2],
                                   k % 2, k / 2 % 2, impls[k / 4]);
            float *x = test_values(p.m * p.k, 1, 0);
            float *w = test_values(p.n * p.k, 2, 0);
            float *b = test_values(p.n, 3, 0);

            check_forward(&p, x, w, p.has_bias ? b : NULL);
            p.relu = true;
            check_forward(&p, x, w, p.has_bias ? b : NULL);
            if (p.n * p.k < 1 << 16)
                check_backward(&p, x, w, test_values(p.m * p.n, 8, 0));
            ct_ip_fini(&p);
        }
}

/* The second shape is one whose weights come first. */
TEST(ip, a_relu_hides_no_nan)
{
    static const int64_t shapes[][3] = { { 3, 20, 4 }, { 16, 1024, 768 } };

    for (int i = 0; i < 2; i++)
        for (int k = 0; k < N_IMPLS; k++) {
            struct ct_ip p = ip_of(shapes[i][0], shapes[i][1], shapes[i][2],
                                   false, false, impls[k]);
            float *x = test_values(p.m * p.k, 1, 0);
            float *w = test_values(p.n * p.k, 2, 0);
            float *y = test_values(p.m * p.n, 3, 0);

            x[p.k] = NAN; /* row 1 */
            p.relu = true;
            ASSERT_OK(ct_ip_forward(&p, x, w, NULL, y));
            for (int64_t j = 0; j < p.n; j++)
                ASSERT(isnan(y[p.n + j]) && y[j] >= 0);
            ct_ip_fini(&p);
        }
}

TEST(ip, packed_weights_serve_many_passes_that_add)
{
    for (int k = 0; k < N_IMPLS; k++)
        for (int64_t m = 1; m <= 33; m += 16) {
            struct ct_ip p = { .dev = ct_device_cpu(), .m = m, .n = 70,
                               .k = 50, .add = true, .packed = true };
            float *x = test_values(m * 50, 1, 0), *w = test_values(3500, 2, 0);
            float *y = test_values(m * 70, 3, 0);
            float *y0 = test_values(m * 70, 3, 0);

            ASSERT_OK(ct_impl_try(impls[k], &p, CT_FORWARD,
                                  &p.pass[CT_FORWARD]));
            ASSERT_OK(ct_ip_pack(&p, CT_FORWARD, w));
            ASSERT_OK(ct_ip_forward(&p, x, w, NULL, y));
            ASSERT_OK(ct_ip_forward(&p, x, w, NULL, y));
            for (int64_t i = 0; i < m * 70; i++) {
                double sum = y0[i];

                for (int64_t j = 0; j < 50; j++)
                    sum += 2 * (double)x[i / 70 * 50 + j] *
                           w[i % 70 * 50 + j];
                ASSERT_FLOAT(sum, y[i], 1e-4);
            }
            ct_ip_fini(&p);
        }
}

TEST(ip, an_empty_batch_adds_nothing)
{
    struct ct_ip p = { .dev = ct_device_cpu(), .n = 2, .k = 3,
                       .has_bias = true };
    float w[6] = { 1 }, b[2] = { 1, 2 }, dw[6] = { 5 }, db[2] = { 6 };

    ASSERT_OK(ct_ip_choose(&p));
    ASSERT_OK(ct_ip_forward(&p, w, w, b, NULL));
    ASSERT_OK(ct_ip_backward_weights(&p, w, w, dw, db));
    ASSERT_OK(ct_ip_backward_weights(&p, w, w, NULL, NULL));
    ASSERT_FLOAT(5, dw[0], 0);
    ASSERT_FLOAT(6, db[0], 0);
    ct_ip_fini(&p);
}
