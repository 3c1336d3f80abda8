/* ip_gemm.c - the inner product by matrix products; takes everything, on every
 * device.
 *
 * On the CPU the bias costs no pass of its own: rows of y hold b before the
 * product is added to them.  A W that no cache holds is read at the speed of
 * memory only as the first factor: then y^T = W x^T is formed, and turned
 * round while b is added and values below 0 become 0 for a ReLU. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "device/ip_impl.h"

enum { TILE = 16 }; /* rows of y^T that are turned together */

/* Few rows are gathered at no cost, and a small W stays in a cache. */
static bool w_first(const struct ct_ip *p)
{
    return p->dev->kind == CT_CPU && !p->transpose && !p->add && p->m >= 16 &&
           p->n * p->k >= 3 << 18;
}

/* State is y^T, n x m, where it is needed. */
static enum ct_status gemm_create(const void *op, enum ct_pass pass,
                                  void **state)
{
    const struct ct_ip *p = op;

    if (pass != CT_FORWARD || !w_first(p))
        return CT_OK;
    return ct_alloc((size_t)(p->n * p->m), sizeof(float),
                    "inner product, turned", state);
}

/* Where they come from and go to, and what values may not be below. */
struct turning {
    const float *turned, *b;
    float       *y, least;
};

static inline float turned_value(const struct turning *t, int64_t m, int64_t i,
                                 int64_t j)
{
    const float v = t->turned[j * m + i] + (t->b ? t->b[j] : 0);

    return v < t->least ? t->least : v; /* NaN stays */
}

/* rows x m of y^T, at most TILE rows, into as many columns of y. */
CT_SIMD static void turn_tile(int64_t rows, int64_t m, int64_t n,
                              const struct turning *t)
{
    if (rows == TILE)
        for (int64_t i = 0; i < m; i++)
            CT_SIMD_EACH (j, TILE)
                t->y[i * n + j] = turned_value(t, m, i, j);
    else
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < rows; j++)
                t->y[i * n + j] = turned_value(t, m, i, j);
}

static void turn(const struct ct_ip *p, const float *turned, const float *b,
                 float *y)
{
    CT_FOR_ROWS (t, (p->n + TILE - 1) / TILE, TILE * p->m) {
        const int64_t j       = t * TILE;
        const struct turning at = { turned + j * p->m, b ? b + j : NULL, y + j,
                                    p->relu ? 0 : -INFINITY };

        turn_tile(p->n - j < TILE ? p->n - j : TILE, p->m, p->n, &at);
    }
}

static enum ct_status gemm_bias(const struct ct_ip *p, const float *b,
                                float *y)
{
    if (p->dev->kind != CT_CPU)
        return ct_gemm(p->dev, CT_N, CT_N, p->m, p->n, 1, 1, p->ones, b, 0, y);
    CT_FOR_ROWS (i, p->m, p->n)
        memcpy(y + i * p->n, b, (size_t)p->n * sizeof(*y));
    return CT_OK;
}

static enum ct_status gemm_forward(const struct ct_ip *p, const float *x,
                                   const float *w, const float *b, float *y)
{
    float *turned = p->pass[CT_FORWARD].state;

    if (turned) {
        CT_TRY(ct_gemm(p->dev, CT_N, CT_T, p->n, p->m, p->k, 1, w, x, 0,
                       turned));
        turn(p, turned, b, y);
        return CT_OK;
    }
    if (b)
        CT_TRY(gemm_bias(p, b, y));
    CT_TRY(ct_gemm(p->dev, CT_N, p->transpose ? CT_N : CT_T, p->m, p->n, p->k,
                   1, x, w, b || p->add ? 1 : 0, y));
    ct_ip_relu(p, y);
    return CT_OK;
}

static enum ct_status gemm_backward_data(const struct ct_ip *p, const float *w,
                                         const float *dy, float *dx)
{
    return ct_gemm(p->dev, CT_N, p->transpose ? CT_T : CT_N, p->m, p->k, p->n,
                   1, dy, w, 0, dx);
}

static enum ct_status gemm_backward_weights(const struct ct_ip *p,
                                            const float *x, const float *dy,
                                            float *dw)
{
    const float beta = p->overwrite ? 0 : 1;

    if (p->transpose)
        return ct_gemm(p->dev, CT_T, CT_N, p->k, p->n, p->m, 1, x, dy, beta,
                       dw);
    return ct_gemm(p->dev, CT_T, CT_N, p->n, p->k, p->m, 1, dy, x, beta, dw);
}

const struct ct_ip_impl ct_ip_gemm = {
    .head             = { .name = "gemm", .create = gemm_create,
                          .destroy = ct_free },
    .forward          = gemm_forward,
    .backward_data    = gemm_backward_data,
    .backward_weights = gemm_backward_weights,
};
