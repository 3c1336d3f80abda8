/* powersgd.c - each gradient matrix as a product of two thin ones.
 *
 *     A = g + e               N x M, on each rank
 *     P = sum(A Q)            N x r; its columns are made orthonormal
 *     Q = sum(A^T P)          M x r; kept for the next iteration
 *     sum of gradients = P Q^T;   e = A - P (A^T P)^T
 *
 * P and Q are summed as floats: r (N + M) instead of N M.  A matrix is encoded
 * if that is at most half.  P and Q are stored transposed, a column of the
 * formula in a row.  The first iterations send complete gradients, because
 * these change their direction fast.
 * Vogels et al., "PowerSGD", 2019.  The residual here is that of the rank's own
 * projection; it has the same sum and is smaller. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/device.h"
#include "device/cpu/simd.h"
#include "dist/codec/coded_bucket.h"
#include "dist/engine.h"

enum { MOST_RANK = 256 };

/* powersgd:RANK[:WARMUP] */
static enum ct_status powersgd_parse(const char *arg, struct dist_codec *out)
{
    char *end = NULL;

    out->rank = arg ? strtoll(arg, &end, 10) : 0;
    if (!end || end == arg || out->rank < 1 || out->rank > MOST_RANK ||
        !dist_codec_parse_warmup(end, out))
        return ct_fail(CT_EINVAL, "powersgd takes a rank from 1 to %d and, if "
                       "you like, iterations of warm-up: powersgd:4 or "
                       "powersgd:4:100", MOST_RANK);
    return CT_OK;
}

static bool powersgd_takes(const struct dist_codec *codec, int64_t rows,
                           int64_t cols)
{
    return rows > 1 && 2 * codec->rank * (rows + cols) <= rows * cols;
}

static int64_t rank_of(const struct dist_wire *w, const struct dist_piece *p)
{
    int64_t r = w->codec->rank;

    r = r < p->rows ? r : p->rows;
    return r < p->cols ? r : p->cols;
}

/* Floats of all P and of all Q. */
static void lengths(const struct dist_wire *w, int64_t *n_p, int64_t *n_q)
{
    *n_p = *n_q = 0;
    for (int i = 0; i < w->n_pieces; i++) {
        const struct dist_piece *p = &w->piece[i];

        if (!p->is_coded)
            continue;
        *n_p += rank_of(w, p) * p->rows;
        *n_q += rank_of(w, p) * p->cols;
    }
}

/* Draws the first Q: equal on all ranks, all columns different. */
static void first_basis(const struct dist_wire *w, float *q, int64_t n)
{
    uint64_t key = ct_key(w->dist->trainer.seed, "powersgd");

    for (int64_t i = 0; i < n; i++)
        q[i] = ct_normal(key, w->first, (uint64_t)i);
}

static enum ct_status powersgd_reserve(struct dist_wire *w)
{
    int64_t n_p;

    lengths(w, &n_p, &w->n_basis);
    CT_TRY(ct_alloc((size_t)w->n_coded, sizeof(float), "powersgd",
                    &w->residual));
    CT_TRY(ct_alloc((size_t)w->n_basis + 1, sizeof(float), "powersgd",
                    &w->basis));
    CT_TRY(ct_alloc((size_t)n_p + 1, sizeof(float), "powersgd", &w->work));
    first_basis(w, w->basis, w->n_basis);
    return CT_OK;
}

CT_SIMD static double dot(int64_t n, const float *x, const float *y)
{
    double sum = 0;

    CT_SIMD_SUM (i, n, sum)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

CT_SIMD static void subtract(int64_t n, float a, const float *restrict x,
                             float *restrict y)
{
    CT_SIMD_EACH (i, n)
        y[i] -= a * x[i];
}

CT_SIMD static void scale_row(int64_t n, float a, float *x)
{
    CT_SIMD_EACH (i, n)
        x[i] *= a;
}

/* Subtracts from row k its projections on the rows before it.  It does so
 * twice, because rounding errors of the first time are too large.  False: the
 * row is zero then. */
static bool project(int64_t k, int64_t n, const float *rows, float *x)
{
    double before = dot(n, x, x), after;

    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < k; j++)
            subtract(n, (float)dot(n, rows + j * n, x), rows + j * n, x);
    after = dot(n, x, x);
    if (isfinite(after) && !(after > 1e-10 * before && after > 1e-60))
        return false;
    scale_row(n, (float)(1 / sqrt(after)), x);
    return true;
}

/* Makes r rows of n orthonormal.  A row that depends on those before it, or is
 * zero, is replaced by a random one, so that the basis keeps its rank. */
static void orthonormalise(int64_t r, int64_t n, float *rows)
{
    for (int64_t k = 0; k < r; k++)
        for (uint64_t draw = 0; !project(k, n, rows, rows + k * n) &&
                                draw < 8; draw++)
            for (int64_t i = 0; i < n; i++)
                rows[k * n + i] = ct_normal((uint64_t)k, draw, (uint64_t)i);
}

/* The two products, and the result. */
enum product { MAKE_P, MAKE_Q, LEAVE, MAKE_SUM };

static enum ct_status multiply(struct dist_wire *w, enum product what)
{
    const struct ct_device *cpu = ct_device_cpu();
    float *P = w->work, *Q = w->basis;

    for (int i = 0; i < w->n_pieces; i++) {
        const struct dist_piece *p = &w->piece[i];
        int64_t r = p->is_coded ? rank_of(w, p) : 0;
        float *A  = w->coded + p->at, *e = w->residual + p->at;
        enum ct_status st = CT_OK;

        if (!p->is_coded)
            continue;
        if (what == MAKE_P)
            st = ct_gemm(cpu, CT_N, CT_T, r, p->rows, p->cols, 1, Q, A, 0, P);
        else if (what == MAKE_Q)
            st = ct_gemm(cpu, CT_N, CT_N, r, p->cols, p->rows, 1, P, A, 0, Q);
        else if (what == LEAVE)
            st = ct_gemm(cpu, CT_T, CT_N, p->rows, p->cols, r, -1, P, Q, 1, e);
        else
            st = ct_gemm(cpu, CT_T, CT_N, p->rows, p->cols, r, 1, P, Q, 0, A);
        CT_TRY(st);
        P += r * p->rows;
        Q += r * p->cols;
    }
    return CT_OK;
}

static void orthonormalise_all(const struct dist_wire *w)
{
    float *P = w->work;

    for (int i = 0; i < w->n_pieces; i++) {
        const struct dist_piece *p = &w->piece[i];

        if (!p->is_coded)
            continue;
        orthonormalise(rank_of(w, p), p->rows, P);
        P += rank_of(w, p) * p->rows;
    }
}

static enum ct_status powersgd_sum(struct ct_comm *c, struct dist_wire *w)
{
    size_t bytes = (size_t)w->n_coded * sizeof(float);
    int64_t n_p, n_q;

    lengths(w, &n_p, &n_q);
    ct_comm_add(w->n_coded, w->residual, w->coded);
    if (dist_codec_rests(w->codec, w->dist->trainer.iter)) {
        memset(w->residual, 0, bytes);
        return dist_dense_sum(w->dist, c, w->coded, w->n_coded);
    }
    memcpy(w->residual, w->coded, bytes);
    CT_TRY(multiply(w, MAKE_P));
    CT_TRY(dist_dense_sum(w->dist, c, w->work, n_p));
    orthonormalise_all(w);
    CT_TRY(multiply(w, MAKE_Q));
    CT_TRY(multiply(w, LEAVE));
    CT_TRY(dist_dense_sum(w->dist, c, w->basis, n_q));
    CT_TRY(multiply(w, MAKE_SUM));
    if (!isfinite(dot(n_q, w->basis, w->basis))) {
        memset(w->residual, 0, bytes);
        first_basis(w, w->basis, n_q);
    }
    return CT_OK;
}

static double powersgd_sends(const struct ct_comm *c,
                             const struct dist_wire *w)
{
    int64_t n_p, n_q;

    lengths(w, &n_p, &n_q);
    if (dist_codec_rests(w->codec, w->dist->trainer.iter))
        return dist_dense_sends(w->dist, c, w->n_coded);
    return dist_dense_sends(w->dist, c, n_p) +
           dist_dense_sends(w->dist, c, n_q);
}

static double powersgd_predict(const struct dist_codec *codec, int size,
                               int64_t rows, int64_t cols, double dense)
{
    const double share = 2.0 * (size - 1) / size; /* of an allreduce */

    (void)dense;
    return 4 * share * (double)(codec->rank * (rows + cols));
}

const struct dist_codec_type dist_codec_powersgd = {
    .name         = "powersgd",
    .usage        = "powersgd:RANK",
    .parse        = powersgd_parse,
    .takes        = powersgd_takes,
    .reserve      = powersgd_reserve,
    .sum          = powersgd_sum,
    .sends        = powersgd_sends,
    .predict      = powersgd_predict,
    .ns_per_float = 2,
};
