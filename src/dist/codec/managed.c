/* managed.c - partial updates for a limited bandwidth. */
#include "dist/codec/managed.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "device/cpu/simd.h"
#include "dist/codec/code_runs.h"
#include "dist/codec/select.h"
#include "dist/engine.h"

/* Slices are short, so that their values are mostly of similar size.  One of
 * OLD slices is sent because it has waited longest. */
enum { SLICE = 64, LEAST = 1024, OLD = 8 };

/* The least share that is sent, even on a slow link, so that training goes
 * on. */
static const double least_share = 1.0 / 16;

bool dist_managed_suits(const struct dist_codec_type *type)
{
    return !type || (type->bytes && !type->feedback);
}

bool dist_managed_takes(int64_t rows, int64_t cols)
{
    return rows > 1 && rows * cols >= LEAST;
}

static int64_t n_slices(const struct dist_wire *w)
{
    return (w->n_coded + SLICE - 1) / SLICE;
}

static int64_t slice_length(const struct dist_wire *w, int64_t i)
{
    return w->n_coded - i * SLICE < SLICE ? w->n_coded - i * SLICE : SLICE;
}

enum ct_status dist_managed_reserve(struct dist_wire *w)
{
    const struct dist_codec_type *t = w->codec->type;
    size_t n    = (size_t)n_slices(w);
    const int P = w->dist->view.size;

    CT_TRY(ct_alloc((size_t)w->n_coded + 1, sizeof(float), "residuals",
                    &w->residual));
    CT_TRY(ct_alloc((size_t)w->n_coded + 1, sizeof(float), "slices",
                    &w->work));
    CT_TRY(ct_alloc(3 * n + 1, sizeof(*w->index), "slices", &w->index));
    CT_TRY(ct_alloc(n + 1, sizeof(*w->waited), "slices", &w->waited));
    if (!t)
        return CT_OK;
    CT_TRY(ct_alloc(dist_run_code_bytes(t, w->n_coded, P) + 1, 1, "codes",
                    &w->code));
    return ct_alloc(dist_run_taken_bytes(t, w->n_coded, P) + 1, 1, "codes",
                    &w->taken);
}

CT_SIMD static float squares(int64_t n, const float *x)
{
    float sum = 0;

    CT_SIMD_SUM (i, n, sum)
        sum += x[i] * x[i];
    return sum;
}

static int64_t count_of(const struct dist_wire *w, double share)
{
    double k = ceil(share * (double)n_slices(w));

    return k < 1 ? 1 : k > (double)n_slices(w) ? n_slices(w) : (int64_t)k;
}

static double sends(const struct ct_comm *c, const struct dist_wire *w,
                    int64_t n)
{
    const struct dist_codec_type *t = w->codec->type;

    return dist_dense_sends(w->dist, c, w->n_dense + n_slices(w) + 1) +
           (t ? dist_run_sends(t, n, c->rank, c->size)
              : dist_dense_sends(w->dist, c, n));
}

double dist_managed_sends(const struct ct_comm *c, const struct dist_wire *w,
                          double share)
{
    int64_t n = count_of(w, share) * SLICE;

    return sends(c, w, n < w->n_coded ? n : w->n_coded);
}

/* The part of a step's bytes for which rank 0 has tokens. */
static double share_now(const struct ct_comm *c, const struct dist_wires *all)
{
    double bytes = 0, share;

    for (int i = 0; i < all->n; i++)
        bytes += dist_managed_sends(c, &all->wire[i], 1);
    share = bytes > 0 ? all->tokens(all->tokens_arg) / bytes : 1;
    return share > 1 ? 1 : share > least_share ? share : least_share;
}

/* Sums the dense values, together with the numbers from which all ranks choose
 * the same slices. */
static enum ct_status sum_dense(struct ct_comm *c, struct dist_wire *w)
{
    struct dist_wires *all = &w->dist->wires;
    float *square          = w->dense + w->n_dense;
    int64_t n              = n_slices(w);

    for (int64_t i = 0; i < n; i++)
        square[i] = squares(slice_length(w, i), w->coded + i * SLICE);
    square[n] = w->first == 0 && c->rank == 0 ? (float)share_now(c, all) : 0;
    CT_TRY(dist_dense_sum(w->dist, c, w->dense, w->n_dense + n + 1));
    if (w->first == 0)
        all->share = (double)square[n];
    return CT_OK;
}

/* Chooses k slices and writes them to w->index.  On average 7 of 8 are the
 * largest ones, and 1 of 8 has waited longest.  So no slice waits for more than
 * 8 n / k steps, even if its gradients are small. */
static void choose(struct dist_wire *w, int64_t k)
{
    const int64_t n     = n_slices(w);
    const int64_t n_old = (k + OLD - 1 - w->dist->trainer.iter % OLD) / OLD;
    uint32_t *scratch   = w->index + 2 * n;
    int64_t n_chosen    = k - n_old;

    for (int64_t i = 0; i < n; i++)
        w->waited[i]++;
    if (n_chosen > 0)
        dist_largest(n, w->dense + w->n_dense, n_chosen, w->index, scratch);
    for (int64_t j = 0; j < n_chosen; j++)
        w->waited[w->index[j]] = 0;
    if (n_old > 0)
        dist_largest(n, w->waited, n_old, w->index + n_chosen, scratch);
    for (int64_t j = n_chosen; j < k; j++)
        w->waited[w->index[j]] = 0;
}

/* Copies the chosen slices to `work`, one after the other, and the others to
 * `residual`. */
static int64_t pack(struct dist_wire *w, int64_t k)
{
    int64_t n = 0;

    memcpy(w->residual, w->coded, (size_t)w->n_coded * sizeof(float));
    for (int64_t j = 0; j < k; j++) {
        int64_t at   = (int64_t)w->index[j] * SLICE;
        size_t bytes = (size_t)slice_length(w, w->index[j]) * sizeof(float);

        memcpy(w->work + n, w->coded + at, bytes);
        memset(w->residual + at, 0, bytes);
        n += slice_length(w, w->index[j]);
    }
    return n;
}

static void unpack(struct dist_wire *w, int64_t k)
{
    const float *from = w->work;

    memset(w->coded, 0, (size_t)w->n_coded * sizeof(float));
    for (int64_t j = 0; j < k; j++) {
        int64_t n = slice_length(w, w->index[j]);

        memcpy(w->coded + (int64_t)w->index[j] * SLICE, from,
               (size_t)n * sizeof(float));
        from += n;
    }
}

enum ct_status dist_managed_sum(struct ct_comm *c, struct dist_wire *w)
{
    struct dist_run run;
    int64_t k, n;

    if (w->n_coded)
        ct_comm_add(w->n_coded, w->residual, w->coded);
    CT_TRY(sum_dense(c, w));
    if (w->n_coded == 0)
        return CT_OK;
    k = count_of(w, w->dist->wires.share);
    choose(w, k);
    n   = pack(w, k);
    run = dist_wire_run(w, w->work, n);
    if (w->codec->type)
        CT_TRY(dist_run_sum(c, &run));
    else
        CT_TRY(dist_dense_sum(w->dist, c, w->work, n));
    unpack(w, k);
    return CT_OK;
}
