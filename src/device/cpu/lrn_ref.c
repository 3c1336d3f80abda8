/* lrn_ref.c - local response normalization written as its definition; takes
 * everything, and is slow: the backward pass sums each neighbour's window. */
#include "device/cpu/loop.h"
#include "device/cpu/lrn_impl.h"

/* A box of neighbours: channels, rows, columns, all ends excluded. */
struct box {
    int64_t c0, c1, h0, h1, w0, w1;
};

static struct box box_of(const struct ct_lrn *p, int64_t c, int64_t h,
                         int64_t w)
{
    const int64_t half = p->size / 2;
    struct box b = { c, c + 1, h, h + 1, w, w + 1 };

    if (!p->within) {
        b.c0 = c > half ? c - half : 0;
        b.c1 = c + half + 1 < p->c ? c + half + 1 : p->c;
        return b;
    }
    b.h0 = h > half ? h - half : 0;
    b.h1 = h + half + 1 < p->h ? h + half + 1 : p->h;
    b.w0 = w > half ? w - half : 0;
    b.w1 = w + half + 1 < p->w ? w + half + 1 : p->w;
    return b;
}

static int64_t at(const struct ct_lrn *p, int64_t n, int64_t c, int64_t h,
                  int64_t w)
{
    return ct_layout_at(ct_layout_blocks(p->layout, p->c), p->h * p->w,
                        ct_layout_block(p->layout, p->c), n, c,
                        h * p->w + w);
}

#define EACH_NEIGHBOUR(q, c, h, w)                                           \
    for (int64_t c = (q).c0; c < (q).c1; c++)                                \
        for (int64_t h = (q).h0; h < (q).h1; h++)                            \
            for (int64_t w = (q).w0; w < (q).w1; w++)

static float scale_at(const struct ct_lrn *p, const float *x, int64_t n,
                      int64_t c, int64_t h, int64_t w)
{
    const struct box q = box_of(p, c, h, w);
    float sum = 0;

    EACH_NEIGHBOUR (q, i, j, l) {
        float v = x[at(p, n, i, j, l)];

        sum += v * v;
    }
    return p->k + lrn_a(p) * sum;
}

/* The loops below leave padding alone; this clears it with the rest. */
static void clear(const struct ct_lrn *p, float *y)
{
    int64_t b = ct_layout_block(p->layout, p->c);
    int64_t n = p->n * ct_layout_blocks(p->layout, p->c) * b * p->h * p->w;

    CT_FOR_EACH (i, n)
        y[i] = 0;
}

static enum ct_status ref_forward(const struct ct_lrn *p, const float *x,
                                  float *y)
{
    clear(p, y);
    CT_FOR_ROWS (i, p->n * p->c * p->h, p->w) {
        int64_t h = i % p->h, c = i / p->h % p->c, n = i / p->h / p->c;

        for (int64_t w = 0; w < p->w; w++) {
            int64_t o = at(p, n, c, h, w);

            y[o] = x[o] * powf(scale_at(p, x, n, c, h, w), -p->beta);
        }
    }
    return CT_OK;
}

static enum ct_status ref_backward(const struct ct_lrn *p, const float *x,
                                   const float *dy, float *scratch, float *dx)
{
    (void)scratch;
    clear(p, dx);
    CT_FOR_ROWS (i, p->n * p->c * p->h, p->w) {
        int64_t h = i % p->h, c = i / p->h % p->c, n = i / p->h / p->c;

        for (int64_t w = 0; w < p->w; w++) {
            const struct box q = box_of(p, c, h, w);
            int64_t o = at(p, n, c, h, w);
            float sum = 0;

            EACH_NEIGHBOUR (q, j, k, l) {
                int64_t v = at(p, n, j, k, l);

                sum += dy[v] * x[v] *
                       powf(scale_at(p, x, n, j, k, l), -p->beta - 1);
            }
            dx[o] = dy[o] * powf(scale_at(p, x, n, c, h, w), -p->beta) -
                    2 * lrn_a(p) * p->beta * x[o] * sum;
        }
    }
    return CT_OK;
}

const struct ct_lrn_impl ct_lrn_ref = {
    .head     = { .name = "ref" },
    .forward  = ref_forward,
    .backward = ref_backward,
};
