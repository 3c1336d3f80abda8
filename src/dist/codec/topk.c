/* topk.c - sends only the largest values; the others wait and add up.
 *
 *     u = m u + g;   v += u;   sent: the k largest |v| of a parameter
 *     v = 0 where sent
 *
 * m is the solver's momentum.  It is applied here and not in the solver, so
 * that a value that waits gets its momentum (u is the velocity, v the
 * residual).  coded_bucket.c clips gradients first.  The paper clears u with v,
 * which removes the momentum of values that are sent often.  These matter most:
 * with k = n there would be no momentum at all.
 *
 *     code: | index: 32 bits | ... k ... | value: float | ... k ... |
 *
 * The codes of all ranks are gathered: (P-1) 8k bytes per rank.  If a dense sum
 * has no more bytes, 8n (P-1)/P, all values including zeros are summed instead.
 * k = ceil(ratio n).  During the warm-up the ratio falls in four equal stages,
 * 1/4, 1/16, 1/64, 1/256, as long as they are above the final ratio.  At the
 * end of the training all values are sent.
 * Lin et al., "Deep gradient compression", 2018. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "comm/coll/coll.h"
#include "device/cpu/simd.h"
#include "dist/codec/select.h"
#include "dist/codec/coded_bucket.h"
#include "dist/engine.h"

enum { LEAST = 1024, STAGES = 4 };

/* topk:RATIO[:WARMUP] */
static enum ct_status topk_parse(const char *arg, struct dist_codec *out)
{
    char *end = NULL;

    out->ratio = arg ? strtod(arg, &end) : 0;
    if (!end || end == arg || !(out->ratio > 0 && out->ratio <= 1) ||
        !dist_codec_parse_warmup(end, out))
        return ct_fail(CT_EINVAL, "topk takes a ratio in (0, 1] and, if you "
                       "like, iterations of warm-up: topk:0.001 or "
                       "topk:0.001:2000");
    return CT_OK;
}

static bool topk_takes(const struct dist_codec *codec, int64_t rows,
                       int64_t cols)
{
    (void)codec;
    return rows > 1 && rows * cols >= LEAST;
}

static double ratio_at(const struct dist_codec *codec, int64_t iter)
{
    double ratio = 0.25;

    if (codec->end && iter >= codec->end)
        return 1;
    if (iter >= codec->warmup)
        return codec->ratio;
    for (int64_t i = 0; i < iter * STAGES / codec->warmup; i++)
        ratio /= 4;
    return ratio > codec->ratio ? ratio : codec->ratio;
}

static int64_t count_of(const struct dist_wire *w, const struct dist_piece *p,
                        int64_t iter)
{
    double k = ceil(ratio_at(w->codec, iter) * (double)p->n);

    return k < 1 ? 1 : k > (double)p->n ? p->n : (int64_t)k;
}

static int64_t count_all(const struct dist_wire *w, int64_t iter)
{
    int64_t k = 0;

    for (int i = 0; i < w->n_pieces; i++)
        k += w->piece[i].is_coded ? count_of(w, &w->piece[i], iter) : 0;
    return k;
}

/* Whether all values, including zeros, are fewer bytes than indices and
 * values. */
static bool is_dense(const struct dist_wire *w, int64_t k, int size)
{
    return k * size >= w->n_coded;
}

static double topk_predict(const struct dist_codec *codec, int size,
                           int64_t rows, int64_t cols, double dense)
{
    double n = (double)rows * (double)cols;

    return fmin(8 * ceil(codec->ratio * n) * (size - 1), dense);
}

static enum ct_status topk_reserve(struct dist_wire *w)
{
    size_t n = (size_t)w->n_coded;

    if (n == 0)
        return CT_OK;
    CT_TRY(ct_alloc(n, sizeof(float), "topk", &w->residual));
    CT_TRY(ct_alloc(n, sizeof(float), "topk", &w->velocity));
    CT_TRY(ct_alloc(2 * n, sizeof(*w->index), "topk", &w->index));
    if (w->pushed)
        return CT_OK;
    /* P codes of k, which is less than n / P. */
    return ct_alloc(n, 2 * sizeof(float), "topk", &w->code);
}

CT_SIMD static void accumulate(int64_t n, float m, const float *restrict g,
                               float *restrict u, float *restrict v)
{
    CT_SIMD_EACH (i, n) {
        u[i] = m * u[i] + g[i];
        v[i] += u[i];
    }
}

/* Writes the indices of the values that are sent, of all pieces, to
 * w->index. */
static int64_t choose(struct dist_wire *w, int64_t iter)
{
    int64_t k = 0;

    for (int i = 0; i < w->n_pieces; i++) {
        const struct dist_piece *p = &w->piece[i];
        int64_t count;

        if (!p->is_coded)
            continue;
        count = count_of(w, p, iter);
        /* There is room for the indices of this piece, because k <= at. */
        dist_largest(p->n, w->residual + p->at, count, w->index + k,
                     w->index + w->n_coded);
        for (int64_t j = 0; j < count; j++)
            w->index[k + j] += (uint32_t)p->at;
        k += count;
    }
    return k;
}

/* Adds one rank's k values to the run. */
static enum ct_status add_code(const struct dist_wire *w, const void *code,
                               int64_t k, float *coded)
{
    const uint32_t *index = code;
    const float *value    = (const float *)(const void *)(index + k);

    for (int64_t j = 0; j < k; j++) {
        if (index[j] >= w->n_coded)
            return ct_fail(CT_ECOMM, "a value came for place %u of %lld",
                           index[j], (long long)w->n_coded);
        coded[index[j]] += value[j];
    }
    return CT_OK;
}

/* Writes the chosen values as a code. */
static void write_code(struct dist_wire *w, int64_t k, void *code)
{
    float *value = (float *)(void *)((uint32_t *)code + k);

    memcpy(code, w->index, 4 * (size_t)k);
    for (int64_t j = 0; j < k; j++)
        value[j] = w->residual[w->index[j]];
}

/* Writes the chosen values to w->coded, and zeros for the others. */
static void write_dense(struct dist_wire *w, int64_t k)
{
    memset(w->coded, 0, (size_t)w->n_coded * sizeof(float));
    for (int64_t j = 0; j < k; j++)
        w->coded[w->index[j]] = w->residual[w->index[j]];
}

/* Removes the values that were sent from those that wait. */
static void forget(struct dist_wire *w, int64_t k)
{
    for (int64_t j = 0; j < k; j++) {
        float *v = &w->residual[w->index[j]];

        if (!isfinite(*v))
            w->velocity[w->index[j]] = 0;
        *v = 0;
    }
}

static enum ct_status gather(struct ct_comm *c, struct dist_wire *w, int64_t k)
{
    size_t each   = 8 * (size_t)k;
    uint8_t *mine = w->code + (size_t)c->rank * each;

    for (int r = 0; r < c->size; r++)
        w->bytes[r] = each;
    write_code(w, k, mine);
    CT_TRY(ct_allgather(c, mine, w->bytes, w->code));
    memset(w->coded, 0, (size_t)w->n_coded * sizeof(float));
    for (int r = 0; r < c->size; r++)
        CT_TRY(add_code(w, w->code + (size_t)r * each, k, w->coded));
    return CT_OK;
}

static enum ct_status topk_sum(struct ct_comm *c, struct dist_wire *w)
{
    int64_t k;

    accumulate(w->n_coded, w->dist->trainer.momentum, w->coded, w->velocity,
               w->residual);
    k = choose(w, w->dist->trainer.iter);
    if (!is_dense(w, k, c->size)) {
        CT_TRY(gather(c, w, k));
    } else {
        write_dense(w, k);
        CT_TRY(dist_dense_sum(w->dist, c, w->coded, w->n_coded));
    }
    forget(w, k);
    return CT_OK;
}

static double topk_sends(const struct ct_comm *c, const struct dist_wire *w)
{
    int64_t k = count_all(w, w->dist->trainer.iter);

    return is_dense(w, k, c->size)
               ? dist_dense_sends(w->dist, c, w->n_coded)
               : 8.0 * (double)k * (c->size - 1);
}

/* A push has 8k bytes, or 4n if it is dense. */
static size_t topk_push_bytes(const struct dist_wire *w, int64_t iter)
{
    int64_t k = count_all(w, iter);

    return is_dense(w, k, 2) ? 4 * (size_t)w->n_coded : 8 * (size_t)k;
}

static void topk_push(struct dist_wire *w, int64_t iter, void *code)
{
    int64_t k;

    accumulate(w->n_coded, w->dist->trainer.momentum, w->coded, w->velocity,
               w->residual);
    k = choose(w, iter);
    if (is_dense(w, k, 2)) {
        write_dense(w, k);
        memcpy(code, w->coded, (size_t)w->n_coded * sizeof(float));
    } else {
        write_code(w, k, code);
    }
    forget(w, k);
}

static enum ct_status topk_add(const struct dist_wire *w, int64_t iter,
                               const void *code, float *coded)
{
    int64_t k = count_all(w, iter);

    if (!is_dense(w, k, 2))
        return add_code(w, code, k, coded);
    ct_comm_add(w->n_coded, code, coded);
    return CT_OK;
}

const struct dist_codec_type dist_codec_topk = {
    .name         = "topk",
    .usage        = "topk:RATIO",
    .parse        = topk_parse,
    .takes        = topk_takes,
    .reserve      = topk_reserve,
    .sum          = topk_sum,
    .sends        = topk_sends,
    .predict      = topk_predict,
    .push_bytes   = topk_push_bytes,
    .push         = topk_push,
    .add          = topk_add,
    .momentum     = true,
    .ns_per_float = 1.2,
};
