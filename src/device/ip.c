/* ip.c - which implementation of the inner product runs; the bias's gradient.
 */
#include "device/ip.h"

#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "device/ip_impl.h"

#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
/* To go through columns of W pays where they serve many rows. */
static bool bf16_backward(const void *op)
{
    return ((const struct ct_ip *)op)->m >= 16;
}

#define FORWARD_IN_BF16 { &ct_ip_bf16.head, NULL },
#define BACKWARD_IN_BF16 { &ct_ip_bf16.head, bf16_backward },
#else
#define FORWARD_IN_BF16
#define BACKWARD_IN_BF16
#endif

#ifdef CT_HAVE_ONEDNN
/* A single row goes through packed weights no faster. */
static bool onednn_forward(const void *op)
{
    const struct ct_ip *p = op;

    return p->packed && p->m >= 4;
}
#endif

/* Fastest first, as bench/impls measures them: oneDNN's inner product of plain
 * matrices is the product that ip_gemm.c calls, which knows which factor to
 * put first.  The latter takes everything. */
static const struct ct_impl_choice order[CT_WEIGHTED_PASSES][5] = {
    [CT_FORWARD] = {
        FORWARD_IN_BF16
#ifdef CT_HAVE_ONEDNN
        { &ct_ip_onednn.head, onednn_forward },
#endif
        { &ct_ip_gemm.head, NULL },
#ifdef CT_HAVE_ONEDNN
        { &ct_ip_onednn.head, NULL },
#endif
    },
    [CT_BACKWARD] = {
        BACKWARD_IN_BF16
        { &ct_ip_gemm.head, NULL },
#ifdef CT_HAVE_ONEDNN
        { &ct_ip_onednn.head, NULL },
#endif
    },
    [CT_BACKWARD_WEIGHTS] = {
        BACKWARD_IN_BF16
        { &ct_ip_gemm.head, NULL },
#ifdef CT_HAVE_ONEDNN
        { &ct_ip_onednn.head, NULL },
#endif
    },
};

void ct_ip_fini(struct ct_ip *p)
{
    for (int i = 0; i < CT_WEIGHTED_PASSES; i++)
        ct_impl_fini(&p->pass[i]);
    if (p->ones)
        p->dev->ops->free(p->dev, p->ones);
    p->ones = NULL;
}

enum ct_status ct_ip_choose_pass(struct ct_ip *p, enum ct_pass pass)
{
    CT_ASSERT(!p->add || !p->has_bias);
    return ct_impl_choose("ip", order[pass], p, pass, &p->pass[pass]);
}

enum ct_status ct_ip_choose(struct ct_ip *p)
{
    void *ones = NULL;

    ct_ip_fini(p);
    for (int i = 0; i < CT_WEIGHTED_PASSES; i++)
        CT_TRY(ct_ip_choose_pass(p, (enum ct_pass)i));
    if (p->dev->kind == CT_CPU)
        return CT_OK;
    CT_TRY(p->dev->ops->alloc(p->dev, (size_t)p->m * sizeof(*p->ones),
                              "inner product ones", &ones));
    p->ones = ones;
    return ct_fill(p->dev, p->m, 1, p->ones);
}

static const struct ct_ip_impl *impl(const struct ct_ip *p, enum ct_pass pass)
{
    return (const struct ct_ip_impl *)(const void *)p->pass[pass].impl;
}

CT_SIMD static void relu_row(int64_t n, float *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = y[i] < 0 ? 0 : y[i];
}

void ct_ip_relu(const struct ct_ip *p, float *y)
{
    if (p->relu)
        CT_FOR_ROWS (i, p->m, p->n)
            relu_row(p->n, y + i * p->n);
}

enum ct_status ct_ip_pack(const struct ct_ip *p, enum ct_pass pass,
                          const float *w)
{
    const struct ct_ip_impl *f = impl(p, pass);

    CT_ASSERT(p->packed && pass != CT_BACKWARD_WEIGHTS);
    return f->pack ? f->pack(p, pass, w) : CT_OK;
}

enum ct_status ct_ip_forward(const struct ct_ip *p, const float *x,
                             const float *w, const float *b, float *y)
{
    CT_ASSERT((b != NULL) == p->has_bias);
    return impl(p, CT_FORWARD)->forward(p, x, w, b, y);
}

enum ct_status ct_ip_backward_data(const struct ct_ip *p, const float *w,
                                   const float *dy, float *dx)
{
    return impl(p, CT_BACKWARD)->backward_data(p, w, dy, dx);
}

enum { TILE = 64, ROWS = 64 };

/* db += the sums of `width` columns, at most TILE.  ROWS rows are added in
 * float, their sums in double. */
CT_SIMD static void column_sums(int64_t m, int64_t n, int64_t width,
                                const float *dy, float *db)
{
    double sum[TILE] = { 0 };

    for (int64_t r = 0; r < m; r += ROWS) {
        const int64_t end = r + ROWS < m ? r + ROWS : m;
        float part[TILE] = { 0 };

        for (int64_t i = r; i < end; i++)
            CT_SIMD_EACH (j, width)
                part[j] += dy[i * n + j];
        CT_SIMD_EACH (j, width)
            sum[j] += (double)part[j];
    }
    CT_SIMD_EACH (j, width)
        db[j] += (float)sum[j];
}

enum ct_status ct_ip_backward_weights(const struct ct_ip *p, const float *x,
                                      const float *dy, float *dw, float *db)
{
    if (dw)
        CT_TRY(impl(p, CT_BACKWARD_WEIGHTS)->backward_weights(p, x, dy, dw));
    if (!db)
        return CT_OK;
    if (p->overwrite)
        CT_TRY(ct_fill(p->dev, p->n, 0, db));
    if (p->dev->kind != CT_CPU)
        return ct_gemm(p->dev, CT_T, CT_N, p->n, 1, p->m, 1, dy, p->ones, 1,
                       db);
    CT_FOR_ROWS (t, (p->n + TILE - 1) / TILE, TILE * p->m) {
        const int64_t j = t * TILE;

        column_sums(p->m, p->n, p->n - j < TILE ? p->n - j : TILE, dy + j,
                    db + j);
    }
    return CT_OK;
}
