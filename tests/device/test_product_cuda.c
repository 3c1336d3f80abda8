/* test_product_cuda.c - our own matrix product on a GPU gives what sums in
 * double do.
 *
 * Runs where CORTADO_TEST_DEVICE names a GPU. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/device.h"
#include "testing/test.h"

static void close_device(void *d)
{
    ct_device_close(d);
}

static void forget(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
    unsetenv("CORTADO_CUDA_MEMORY");
}

/* `impl`: the products that are forced. */
static const struct ct_device *open_gpu(const char *impl)
{
    const char *name          = getenv("CORTADO_TEST_DEVICE");
    const struct ct_device *d = NULL;

    if (!name || strncmp(name, "cuda", 4) != 0)
        test_skip("CORTADO_TEST_DEVICE names no GPU");
    test_defer(forget, NULL);
    ASSERT(setenv("CORTADO_CUDA_MEMORY", "host", 1) == 0);
    ASSERT(setenv("CORTADO_IMPL", impl, 1) == 0);
    ASSERT_OK(ct_device_cuda_open(0, CT_FP32, &d));
    test_defer(close_device, (void *)(uintptr_t)d);
    return d;
}

static float *values(const struct ct_device *d, int64_t n, uint64_t stream,
                     float **there)
{
    const size_t bytes = (size_t)n * sizeof(float);
    float *v           = ct_malloc(bytes, "test values");
    void *room         = NULL;

    ASSERT(v != NULL);
    for (int64_t i = 0; i < n; i++)
        v[i] = 2 * ct_uniform(5, stream, (uint64_t)i) - 1;
    ASSERT_OK(d->ops->alloc(d, bytes, "test", &room));
    ASSERT_OK(d->ops->from_host(d, bytes, v, room));
    *there = room;
    return v;
}

struct shape {
    int64_t m, n, k;
};

/* Rows of all three are longer than what is used of them. */
static void check(const struct ct_device *d, const struct shape *s,
                  enum ct_transpose ta, enum ct_transpose tb, float beta)
{
    enum { MORE = 3 };
    const int64_t a_rows = ta == CT_T ? s->k : s->m;
    const int64_t b_rows = tb == CT_T ? s->n : s->k;
    const int64_t lda    = (ta == CT_T ? s->m : s->k) + MORE;
    const int64_t ldb    = (tb == CT_T ? s->k : s->n) + MORE;
    const int64_t ldc    = s->n + MORE, n_c = s->m * ldc;
    float *there[3];
    float *a   = values(d, a_rows * lda, 1, &there[0]);
    float *b   = values(d, b_rows * ldb, 2, &there[1]);
    float *old = values(d, n_c, 3, &there[2]);
    float *c   = ct_malloc((size_t)n_c * sizeof(float), "test values");

    ASSERT(c != NULL);
    ASSERT_OK(d->ops->gemm(d, ta, tb, s->m, s->n, s->k, 0.5f, there[0], lda,
                           there[1], ldb, beta, there[2], ldc));
    ASSERT_OK(d->ops->to_host(d, (size_t)n_c * sizeof(float), there[2], c));
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < ldc; j++) {
            double sum = 0;

            for (int64_t k = 0; k < s->k && j < s->n; k++)
                sum += (double)a[ta == CT_T ? k * lda + i : i * lda + k] *
                       b[tb == CT_T ? j * ldb + k : k * ldb + j];
            sum = j < s->n ? 0.5 * sum + (double)(beta * old[i * ldc + j])
                           : (double)old[i * ldc + j];
            ASSERT_FLOAT(sum, c[i * ldc + j], 1e-3);
        }
    for (int i = 0; i < 3; i++)
        d->ops->free(d, there[i]);
    ct_free(a);
    ct_free(b);
    ct_free(old);
    ct_free(c);
}

TEST(product_cuda, small_products_agree_with_sums_in_double)
{
    static const struct shape shapes[] = {
        { 1, 1, 1 },    { 64, 10, 500 }, { 64, 500, 80 }, { 10, 500, 64 },
        { 17, 33, 129 }, { 16, 32, 16 },  { 100, 64, 7 },  { 3, 70, 1024 },
    };
    const struct ct_device *d = open_gpu("product:small");

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++)
        for (int how = 0; how < 8; how++)
            check(d, &shapes[i], how & 1 ? CT_T : CT_N, how & 2 ? CT_T : CT_N,
                  how & 4 ? 1.0f : 0.0f);
}

/* As many blocks have a tile as k is long enough for; ends of k, of rows and of
 * tiles that fall anywhere. */
TEST(product_cuda, so_do_those_of_blocks_that_share_a_tile)
{
    static const struct shape shapes[] = {
        { 1, 1, 64 },    { 64, 500, 800 }, { 64, 10, 500 }, { 100, 64, 1024 },
        { 17, 33, 129 }, { 64, 80, 500 },  { 5, 31, 255 },  { 16, 32, 256 },
        { 33, 7, 257 },  { 3, 70, 2049 },  { 40, 90, 130 }, { 12, 12, 63 },
    };
    const struct ct_device *d = open_gpu("product:small+shared");

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++)
        for (int how = 0; how < 8; how++)
            check(d, &shapes[i], how & 1 ? CT_T : CT_N, how & 2 ? CT_T : CT_N,
                  how & 4 ? 1.0f : 0.0f);
}
