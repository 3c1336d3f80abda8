/* pool_onednn.c - pooling by oneDNN.
 *
 * Maxima: oneDNN writes a maximum's place within its window, one byte each or,
 * for large windows, four.  Ours is the place in the image, so a pass over
 * them follows the forward pass and another precedes the backward pass:
 *
 *     at = (i stride_h - pad_h + k / kernel_w) w
 *          + j stride_w - pad_w + k mod kernel_w
 *
 * Averages: oneDNN divides by the whole window, or by its part inside the
 * image.  Caffe's divisor, the part inside the padded image, is the first
 * where no window overhangs the padding and the second where there is none.
 * Where windows overhang a padding, a pass of ours corrects the quotients.
 *
 * Windows that lie outside the image go to the next implementation. */
#ifdef CT_HAVE_ONEDNN
#include <float.h>

#include "base/mem.h"
#include "device/cpu/loop.h"
#include "device/cpu/onednn.h"
#include "device/cpu/pool_impl.h"
#include "device/cpu/simd.h"

struct onednn_pool {
    struct ct_prim prim;
    void          *within;    /* places within windows */
    size_t         each;      /* bytes of one: 1 or 4 */
    float         *corrected; /* dy, where windows overhang a padding */
    int32_t       *offset;    /* of place k, from the window's corner */
    bool          *none;      /* a row: one of its windows has no place */
};

static void onednn_destroy(void *state)
{
    struct onednn_pool *s = state;

    ct_prim_fini(&s->prim);
    ct_free(s->corrected);
    ct_free(s->offset);
    ct_free(s->none);
    ct_free(s);
}

static bool onednn_slow(const void *state)
{
    return ct_prim_slow(&((const struct onednn_pool *)state)->prim);
}

static bool onednn_takes(const void *op)
{
    const struct ct_pool *p = op;

    if (p->n == 0 || p->c == 0 || p->out_h < 1 || p->out_w < 1)
        return false;
    return p->pad_h < p->kernel_h && p->pad_w < p->kernel_w &&
           (p->out_h - 1) * p->stride_h - p->pad_h < p->h &&
           (p->out_w - 1) * p->stride_w - p->pad_w < p->w;
}

static dnnl_alg_kind_t algorithm(const struct ct_pool *p)
{
    if (!p->average)
        return dnnl_pooling_max;
    return p->pad_h > 0 || p->pad_w > 0 ? dnnl_pooling_avg_include_padding
                                        : dnnl_pooling_avg_exclude_padding;
}

static struct ct_pd_window window_of(const struct ct_pool *p)
{
    const int64_t h = pool_beyond(p->h, p->out_h, p->kernel_h, p->stride_h,
                                  p->pad_h);
    const int64_t w = pool_beyond(p->w, p->out_w, p->kernel_w, p->stride_w,
                                  p->pad_w);

    return (struct ct_pd_window){
        .stride    = { p->stride_h, p->stride_w },
        .kernel    = { p->kernel_h, p->kernel_w },
        .pad_left  = { p->pad_h, p->pad_w },
        .pad_right = { h > 0 ? h : 0, w > 0 ? w : 0 },
    };
}

/* The primitive of one pass; a backward one follows from its forward one. */
static enum ct_status pool_pd(const struct ct_pool *p, enum ct_pass pass,
                              dnnl_primitive_desc_t *out)
{
    const struct ct_pd_window w = window_of(p);
    const dnnl_alg_kind_t alg = algorithm(p);
    dnnl_primitive_desc_t hint = NULL;
    struct ct_md x = { 0 }, y = { 0 };
    enum ct_status st;

    CT_TRY_GOTO(ct_md_layout(&x, 4,
                             (const int64_t[]){ p->n, p->c, p->h, p->w },
                             p->layout), st, out);
    CT_TRY_GOTO(ct_md_layout(&y, 4,
                             (const int64_t[]){ p->n, p->c, p->out_h,
                                                p->out_w },
                             p->layout), st, out);
    CT_TRY_GOTO(ct_pd_pool_forward(&hint, dnnl_forward_training, alg, &x, &y,
                                   &w), st, out);
    if (pass == CT_BACKWARD) {
        st = ct_pd_pool_backward(out, alg, &x, &y, &w, hint);
    } else {
        *out = hint;
        hint = NULL;
    }
out:
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    ct_md_fini(&x);
    ct_md_fini(&y);
    return st;
}

static int64_t outputs(const struct ct_pool *p)
{
    return pool_planes(p) * p->out_h * p->out_w *
           ct_layout_block(p->layout, p->c);
}

static enum ct_status places_init(const struct ct_pool *p,
                                  struct onednn_pool *s)
{
    size_t n = (size_t)outputs(p), bytes = 0;

    CT_TRY(ct_prim_arg(&s->prim, DNNL_ARG_WORKSPACE, dnnl_query_workspace_md,
                       0));
    CT_TRY(ct_prim_own(&s->prim, DNNL_ARG_WORKSPACE, &s->within, &bytes));
    s->each = bytes / n;
    if (bytes % n || (s->each != 1 && s->each != sizeof(int32_t)))
        return CT_ENOTSUP;
    CT_TRY(ct_alloc((size_t)(p->kernel_h * p->kernel_w), sizeof(*s->offset),
                    "places in a window", &s->offset));
    CT_TRY(ct_alloc((size_t)(pool_planes(p) * p->out_h), sizeof(*s->none),
                    "windows without places", &s->none));
    for (int64_t k = 0; k < p->kernel_h * p->kernel_w; k++)
        s->offset[k] =
            (int32_t)(k / p->kernel_w * p->w + k % p->kernel_w);
    return CT_OK;
}

static enum ct_status onednn_build(const struct ct_pool *p,
                                   enum ct_pass pass, struct onednn_pool *s)
{
    const bool back = pass == CT_BACKWARD;
    dnnl_primitive_desc_t pd;
    void *scratch;

    CT_TRY(ct_dnnl_start());
    CT_TRY(pool_pd(p, pass, &pd));
    CT_TRY(ct_prim_init(&s->prim, pd));
    CT_TRY(ct_prim_arg(&s->prim, back ? DNNL_ARG_DIFF_DST : DNNL_ARG_SRC,
                       back ? dnnl_query_diff_dst_md : dnnl_query_src_md, 0));
    CT_TRY(ct_prim_arg(&s->prim, back ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST,
                       back ? dnnl_query_diff_src_md : dnnl_query_dst_md, 0));
    CT_TRY(ct_prim_own(&s->prim, DNNL_ARG_SCRATCHPAD, &scratch, NULL));
    if (!p->average)
        return places_init(p, s);
    if (!back || !pool_overhangs(p))
        return CT_OK;
    return ct_alloc((size_t)outputs(p), sizeof(*s->corrected),
                    "corrected gradient", &s->corrected);
}

static enum ct_status onednn_create(const void *op, enum ct_pass pass,
                                    void **state)
{
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(struct onednn_pool), "pooling by oneDNN",
                    state));
    st = onednn_build(op, pass, *state);
    /* A size that oneDNN finds invalid is for the next in line, too. */
    return st == CT_EDEVICE ? CT_ENOTSUP : st;
}

/* One row of windows whose first place is `from`: the places in the image of
 * b channels of each; -1 where nothing compared. */
#define PLACES_OUT(name, type)                                               \
    CT_SIMD static void name(int64_t n, int64_t b, int32_t from,             \
                             int32_t stride, const int32_t *offset,          \
                             const float *y, const type *k, int32_t *at)     \
    {                                                                        \
        if (b == 1)                                                          \
            CT_SIMD_EACH (j, n)                                              \
                at[j] = y[j] > -FLT_MAX                                      \
                            ? from + (int32_t)j * stride + offset[k[j]]      \
                            : -1;                                            \
        else                                                                 \
            for (int64_t j = 0; j < n; j++)                                  \
                CT_SIMD_FROM (l, j * b, (j + 1) * b)                         \
                    at[l] = y[l] > -FLT_MAX                                  \
                                ? from + (int32_t)j * stride + offset[k[l]]  \
                                : -1;                                        \
    }
PLACES_OUT(row_out_1, uint8_t)
PLACES_OUT(row_out_4, int32_t)

static void places_out(const struct ct_pool *p, const struct onednn_pool *s,
                       const float *y, int32_t *at)
{
    const int64_t b = ct_layout_block(p->layout, p->c), row = p->out_w * b;

    CT_FOR_ROWS (r, pool_planes(p) * p->out_h, row) {
        int64_t top  = r % p->out_h * p->stride_h - p->pad_h;
        int32_t from = (int32_t)(top * p->w - p->pad_w);

        if (s->each == 1)
            row_out_1(p->out_w, b, from, (int32_t)p->stride_w, s->offset,
                      y + r * row, (const uint8_t *)s->within + r * row,
                      at + r * row);
        else
            row_out_4(p->out_w, b, from, (int32_t)p->stride_w, s->offset,
                      y + r * row, (const int32_t *)s->within + r * row,
                      at + r * row);
    }
}

/* The way back.  `top` is the place where the window's first row begins, so
 * that (at - top) / w is the row within the window; a float holds it well
 * enough, as it is small.  Returns whether a place was -1. */
#define PLACES_IN(name, type)                                                \
    CT_SIMD static bool name(const struct ct_pool *p, int64_t b,             \
                             int32_t top, const int32_t *at, type *k)        \
    {                                                                        \
        const int32_t w = (int32_t)p->w, kernel = (int32_t)p->kernel_w;      \
        const float part = 1 / (float)w;                                     \
        int32_t none = 0;                                                    \
                                                                             \
        for (int64_t j = 0; j < p->out_w; j++) {                             \
            const int32_t left = (int32_t)(j * p->stride_w - p->pad_w);      \
                                                                             \
            for (int64_t l = j * b; l < (j + 1) * b; l++) {                  \
                int32_t d = at[l] - top;                                     \
                int32_t r = (int32_t)(((float)d + 0.5f) * part);             \
                                                                             \
                none |= at[l];                                               \
                k[l] = (type)(r * kernel + d - r * w - left);                \
            }                                                                \
        }                                                                    \
        return none < 0;                                                     \
    }
PLACES_IN(row_in_1, uint8_t)
PLACES_IN(row_in_4, int32_t)

/* False where a window has no place: then its gradient goes nowhere, which
 * oneDNN cannot be told. */
static bool places_in(const struct ct_pool *p, const struct onednn_pool *s,
                      const int32_t *at)
{
    const int64_t b = ct_layout_block(p->layout, p->c), row = p->out_w * b;

    CT_FOR_ROWS (r, pool_planes(p) * p->out_h, row) {
        int64_t top = (r % p->out_h * p->stride_h - p->pad_h) * p->w;

        s->none[r] = s->each == 1
                         ? row_in_1(p, b, (int32_t)top, at + r * row,
                                    (uint8_t *)s->within + r * row)
                         : row_in_4(p, b, (int32_t)top, at + r * row,
                                    (int32_t *)s->within + r * row);
    }
    for (int64_t r = 0; r < pool_planes(p) * p->out_h; r++)
        if (s->none[r])
            return false;
    return true;
}

static enum ct_status run(struct onednn_pool *s, int in, const float *from,
                          int out, float *to)
{
    CT_TRY(ct_prim_set(&s->prim, in, from));
    CT_TRY(ct_prim_set(&s->prim, out, to));
    return ct_prim_run(&s->prim);
}

static enum ct_status onednn_max(const struct ct_pool *p, const float *x,
                                 float *y, int32_t *at)
{
    struct onednn_pool *s = p->pass[CT_FORWARD].state;

    CT_TRY(run(s, DNNL_ARG_SRC, x, DNNL_ARG_DST, y));
    places_out(p, s, y, at);
    return CT_OK;
}

static enum ct_status onednn_max_backward(const struct ct_pool *p,
                                          const float *dy, const int32_t *at,
                                          float *dx)
{
    struct onednn_pool *s = p->pass[CT_BACKWARD].state;

    if (!places_in(p, s, at))
        return ct_pool_ref.max_backward(p, dy, at, dx);
    return run(s, DNNL_ARG_DIFF_DST, dy, DNNL_ARG_DIFF_SRC, dx);
}

/* to = from times the whole window over its part inside the padded image. */
static void correct(const struct ct_pool *p, const float *from, float *to)
{
    const int64_t b = ct_layout_block(p->layout, p->c);
    const float whole = (float)(p->kernel_h * p->kernel_w);

    CT_FOR_ROWS (r, pool_planes(p) * p->out_h, p->out_w * b)
        for (int64_t j = 0; j < p->out_w; j++) {
            const int64_t at = (r * p->out_w + j) * b;
            float f = whole / (float)pool_size_of(p, r % p->out_h, j);

            for (int64_t l = at; l < at + b; l++)
                to[l] = f * from[l];
        }
}

static enum ct_status onednn_average(const struct ct_pool *p, const float *x,
                                     float *y)
{
    CT_TRY(run(p->pass[CT_FORWARD].state, DNNL_ARG_SRC, x, DNNL_ARG_DST, y));
    if (pool_overhangs(p))
        correct(p, y, y);
    return CT_OK;
}

static enum ct_status onednn_average_backward(const struct ct_pool *p,
                                              const float *dy, float *dx)
{
    struct onednn_pool *s = p->pass[CT_BACKWARD].state;

    if (s->corrected)
        correct(p, dy, s->corrected);
    return run(s, DNNL_ARG_DIFF_DST, s->corrected ? s->corrected : dy,
               DNNL_ARG_DIFF_SRC, dx);
}

const struct ct_pool_impl ct_pool_onednn = {
    .head             = { "onednn", onednn_takes, onednn_create,
                          onednn_destroy, onednn_slow },
    .max              = onednn_max,
    .max_backward     = onednn_max_backward,
    .average          = onednn_average,
    .average_backward = onednn_average_backward,
};

#endif
