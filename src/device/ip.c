/* ip.c - which implementation of the inner product runs; the bias's gradient.
 */
#include "device/ip.h"

#include "device/conv.h"
#include "device/ip_impl.h"

/* Fastest first, as bench/impls measures them: oneDNN's inner product of plain
 * matrices is the product that ip_gemm.c calls, which knows which factor to
 * put first.  The latter takes everything. */
static const struct ct_impl_choice order[] = {
    { &ct_ip_gemm.head, NULL },
#ifdef CT_HAVE_ONEDNN
    { &ct_ip_onednn.head, NULL },
#endif
    { NULL, NULL },
};

void ct_ip_fini(struct ct_ip *p)
{
    for (int i = 0; i < CT_WEIGHTED_PASSES; i++)
        ct_impl_fini(&p->pass[i]);
    if (p->ones)
        p->dev->ops->free(p->dev, p->ones);
    p->ones = NULL;
}

enum ct_status ct_ip_choose(struct ct_ip *p)
{
    void *ones = NULL;

    ct_ip_fini(p);
    for (int i = 0; i < CT_WEIGHTED_PASSES; i++)
        CT_TRY(ct_impl_choose("ip", order, p, (enum ct_pass)i, &p->pass[i]));
    if (p->dev->kind == CT_CPU || !p->has_bias)
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

enum ct_status ct_ip_backward_weights(const struct ct_ip *p, const float *x,
                                      const float *dy, float *dw, float *db)
{
    const struct ct_bias_desc rows = { p->m, p->n, 1, CT_NHWC,
                                       CT_F32 };

    if (dw)
        CT_TRY(impl(p, CT_BACKWARD_WEIGHTS)->backward_weights(p, x, dy, dw));
    if (!db)
        return CT_OK;
    if (p->dev->kind == CT_CPU)
        return ct_bias_backward(p->dev, &rows, dy, db);
    return ct_gemm(p->dev, CT_T, CT_N, p->n, 1, p->m, 1, dy, p->ones, 1, db);
}
