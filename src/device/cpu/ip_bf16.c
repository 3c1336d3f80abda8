/* ip_bf16.c - the inner product with factors of bfloat16, for nets in that
 * precision.
 *
 * Matrices stay floats; what a product needs is rounded on its way, W a few
 * rows or columns at a time, so that its bfloat16 never leaves the cache:
 *
 *     forward            8 rows of W, all of x turned:      y^T = W x^T
 *     backward           32 columns of W in pairs of rows:  dx = dy W
 *     backward weights   32 columns of x in pairs of rows:  dW = dy^T x
 *
 * A CPU with AMX has faster ways than the products of wino_bf16.h. */
#include "device/cpu/bf16.h"
#include "device/ip_impl.h"

#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
#include <string.h>

#include "base/mem.h"
#include "device/cpu/loop.h"
#include "device/cpu/short.h"
#include "device/cpu/wino_bf16.h"
#include "device/kernels.h"

enum {
    ROWS = CT_SHORT_ROWS, COLUMNS = CT_SHORT_COLUMNS, LANES = 16,
    LEAST_ROWS = 16, LEAST_COLUMNS = 32
};

static int64_t up_to(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

static bool bf16_takes(const void *op)
{
    const struct ct_ip *p = op;

    return p->dev == ct_device_cpu_bf16() && !p->packed && !p->transpose &&
           p->m >= LEAST_ROWS && p->n >= LEAST_COLUMNS &&
           p->k >= LEAST_COLUMNS && ct_short_runs() && !ct_cpu_has_amx();
}

/* Sizes of the factor that all workers share and of what each has: values. */
struct sizes {
    int64_t shared, own;
};

static struct sizes sizes_of(const struct ct_ip *p, enum ct_pass pass)
{
    const int64_t k2 = up_to(p->k, 2), n2 = up_to(p->n, 2);
    const int64_t m2 = up_to(p->m, 2);

    if (pass == CT_FORWARD)
        return (struct sizes){ up_to(p->m, COLUMNS) * k2, ROWS * k2 };
    if (pass == CT_BACKWARD)
        return (struct sizes){ up_to(p->m, ROWS) * n2, COLUMNS * n2 };
    return (struct sizes){ up_to(p->n, ROWS) * m2, COLUMNS * m2 };
}

/* State: as many workers as there were threads when it was made. */
struct room {
    int64_t  workers;
    uint16_t values[] __attribute__((aligned(CT_ALIGN)));
};

static enum ct_status bf16_create(const void *op, enum ct_pass pass,
                                  void **state)
{
    const struct sizes s  = sizes_of(op, pass);
    const int64_t workers = ct_device_cpu_threads();
    const size_t values   = (size_t)(s.shared + workers * s.own);
    struct room *room;

    CT_TRY(ct_alloc(1, sizeof(*room) + values * sizeof(uint16_t),
                    "inner product in bfloat16", &room));
    room->workers = workers;
    *state        = room;
    return CT_OK;
}

/* n values and, where they are odd, a zero. */
CT_SHORT static void round_row(int64_t n, const float *x, uint16_t *y)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        ct_short_narrow(_mm512_loadu_ps(x + i), y + i);
    if (i < up_to(n, 2)) {
        const int left        = (int)(n - i);
        const __mmask16 some  = (__mmask16)((1 << left) - 1);
        const __mmask16 wider = (__mmask16)((1 << (left + left % 2)) - 1);

        ct_short_narrow_some(wider, _mm512_maskz_loadu_ps(some, x + i), y + i);
    }
}

/* Which of sixteen values from `first` on there are. */
CT_SHORT_PART __mmask16 there(int64_t n, int64_t first)
{
    const int64_t left = n - first;

    return (__mmask16)(left >= LANES ? 0xffff
                       : left <= 0   ? 0
                                     : (1 << left) - 1);
}

/* Rows of `width` floats, `step` apart, in pairs: rows / 2 x `room` x 2, of
 * which those behind `width` are zeros. */
CT_SHORT static void weave_rows(int64_t rows, int64_t width, const float *x,
                                int64_t step, int64_t room, uint16_t *y)
{
    for (int64_t i = 0; i < rows; i += 2, y += 2 * room)
        for (int64_t j = 0; j < room; j += LANES) {
            const __mmask16 some  = there(width, j);
            const __mmask16 other = i + 1 < rows ? some : 0;
            const float *from     = x + i * step + j;
            const __m512i pairs   = ct_short_weave(
                (__m256i)_mm512_cvtneps_pbh(
                    _mm512_maskz_loadu_ps(some, from)),
                (__m256i)_mm512_cvtneps_pbh(
                    _mm512_maskz_loadu_ps(other, from + step)));

            _mm512_mask_storeu_epi32(y + 2 * j, there(room, j), pairs);
        }
}

/* x turned: 32 rows together, as k / 2 x 32 x 2. */
static void turn_x(const struct ct_ip *p, const float *x, uint16_t *to)
{
    const int64_t k2 = up_to(p->k, 2);

    memset(to, 0, (size_t)(up_to(p->m, COLUMNS) * k2) * sizeof(*to));
    CT_FOR_ROWS (c, (p->m + COLUMNS - 1) / COLUMNS, COLUMNS * k2)
        for (int64_t i = 0; i < p->k; i++) {
            uint16_t *at = to + c * COLUMNS * k2 + i / 2 * COLUMNS * 2 + i % 2;

            for (int64_t j = 0; j < COLUMNS && c * COLUMNS + j < p->m; j++)
                at[2 * j] = ct_narrow(x[(c * COLUMNS + j) * p->k + i]);
        }
}

/* y of eight outputs from `o` on. */
static void outputs(const struct ct_ip *p, int64_t o, const uint16_t *x,
                    const uint16_t *w, const float *b, float *y)
{
    const int64_t k2 = up_to(p->k, 2);
    const int64_t n  = p->n - o < ROWS ? p->n - o : ROWS;
    float c[ROWS * COLUMNS] __attribute__((aligned(64)));

    for (int64_t m = 0; m < p->m; m += COLUMNS) {
        ct_short_product(k2 / 2, w, k2 / 2, 1, x + m * k2, false, c);
        for (int64_t j = 0; j < COLUMNS && m + j < p->m; j++) {
            float *to = y + (m + j) * p->n + o;

            for (int64_t i = 0; i < n; i++) {
                float v = c[i * COLUMNS + j] + (b ? b[o + i] : 0);

                v += p->add ? to[i] : 0;
                to[i] = p->relu && v < 0 ? 0 : v;
            }
        }
    }
}

static enum ct_status bf16_forward(const struct ct_ip *p, const float *x,
                                   const float *w, const float *b, float *y)
{
    const struct sizes s  = sizes_of(p, CT_FORWARD);
    struct room *room     = p->pass[CT_FORWARD].state;
    const int64_t workers = room->workers, k2 = up_to(p->k, 2);
    uint16_t *turned      = room->values;

    turn_x(p, x, turned);
    CT_FOR_ROWS (i, workers, CT_GRAIN) {
        uint16_t *rows = turned + s.shared + i * s.own;

        for (int64_t o = i * ROWS; o < p->n; o += workers * ROWS) {
            for (int64_t r = 0; r < ROWS && o + r < p->n; r++)
                round_row(p->k, w + (o + r) * p->k, rows + r * k2);
            outputs(p, o, turned, rows, b, y);
        }
    }
    return CT_OK;
}

/* c (8 x 32) where rows and columns of the result end. */
CT_SHORT static void put(int64_t rows, int64_t columns, const float *c,
                         bool add, float *to, int64_t step)
{
    for (int64_t i = 0; i < rows && i < ROWS; i++, to += step)
        for (int64_t j = 0; j < COLUMNS; j += LANES) {
            const __mmask16 some = there(columns, j);
            __m512 v             = _mm512_loadu_ps(c + i * COLUMNS + j);

            if (add)
                v += _mm512_maskz_loadu_ps(some, to + j);
            _mm512_mask_storeu_ps(to + j, some, v);
        }
}

static enum ct_status bf16_backward_data(const struct ct_ip *p,
                                         const float *w, const float *dy,
                                         float *dx)
{
    const struct sizes s  = sizes_of(p, CT_BACKWARD);
    struct room *room     = p->pass[CT_BACKWARD].state;
    const int64_t workers = room->workers, n2 = up_to(p->n, 2);
    uint16_t *rows        = room->values;

    for (int64_t i = 0; i < p->m; i++)
        round_row(p->n, dy + i * p->n, rows + i * n2);
    CT_FOR_ROWS (i, workers, CT_GRAIN) {
        uint16_t *pairs = rows + s.shared + i * s.own;
        float c[ROWS * COLUMNS] __attribute__((aligned(64)));

        for (int64_t k = i * COLUMNS; k < p->k; k += workers * COLUMNS) {
            weave_rows(p->n, p->k - k, w + k, p->k, COLUMNS, pairs);
            for (int64_t m = 0; m < p->m; m += ROWS) {
                ct_short_product(n2 / 2, rows + m * n2, n2 / 2, 1, pairs,
                                 false, c);
                put(p->m - m, p->k - k, c, false, dx + m * p->k + k, p->k);
            }
        }
    }
    return CT_OK;
}

static enum ct_status bf16_backward_weights(const struct ct_ip *p,
                                            const float *x, const float *dy,
                                            float *dw)
{
    const struct sizes s  = sizes_of(p, CT_BACKWARD_WEIGHTS);
    struct room *room     = p->pass[CT_BACKWARD_WEIGHTS].state;
    const int64_t workers = room->workers, m2 = up_to(p->m, 2);
    const int64_t width   = up_to(p->n, ROWS);
    uint16_t *turned      = room->values;

    weave_rows(p->m, p->n, dy, p->n, width, turned);
    CT_FOR_ROWS (i, workers, CT_GRAIN) {
        uint16_t *pairs = turned + s.shared + i * s.own;
        float c[ROWS * COLUMNS] __attribute__((aligned(64)));

        for (int64_t k = i * COLUMNS; k < p->k; k += workers * COLUMNS) {
            weave_rows(p->m, p->k - k, x + k, p->k, COLUMNS, pairs);
            for (int64_t o = 0; o < p->n; o += ROWS) {
                ct_short_product(m2 / 2, turned + 2 * o, 1, width, pairs,
                                 false, c);
                put(p->n - o, p->k - k, c, !p->overwrite, dw + o * p->k + k,
                    p->k);
            }
        }
    }
    return CT_OK;
}

const struct ct_ip_impl ct_ip_bf16 = {
    .head             = { .name = "bf16", .takes = bf16_takes,
                          .create = bf16_create, .destroy = ct_free },
    .forward          = bf16_forward,
    .backward_data    = bf16_backward_data,
    .backward_weights = bf16_backward_weights,
};

#endif
