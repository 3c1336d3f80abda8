/* test_codec.c - each codec by itself, and the sums that ranks make of codes.
 *
 * The oracles: what a codec can say exactly is exact; what it leaves out it
 * keeps; its random roundings have the right mean; all ranks get the same
 * bits; the bytes sent are those of the formula. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "comm/comm_ranks.h"
#include "dist/codec/code_runs.h"
#include "dist/codec/codecs.h"
#include "dist/codec/coded_bucket.h"
#include "dist/engine.h"

enum { MOST_N = 6000 };

static const struct dist_codec_type *const run_codecs[] = {
    &dist_codec_bf16, &dist_codec_fp16, &dist_codec_onebit, &dist_codec_qsgd,
};
enum { N_RUN_CODECS = 4 };

static void code_once(const struct dist_codec_type *t, int64_t n,
                      const float *x, float *residual, float *y)
{
    const struct dist_draw draw = { 1, 2, 0 };
    uint8_t *code = ct_malloc(t->bytes(n) + 4, "code");

    memset(code, 0xa5, t->bytes(n) + 4);
    t->encode(&draw, n, x, residual, code);
    t->decode(n, code, false, y);
    ASSERT_INT(0xa5, code[t->bytes(n)]); /* not a byte more than promised */
    ct_free(code);
}

TEST(codec, bytes_are_those_of_the_formula)
{
    ASSERT_INT(0, dist_codec_bf16.bytes(0));
    ASSERT_INT(4, dist_codec_bf16.bytes(1));
    ASSERT_INT(2 * 1000, dist_codec_bf16.bytes(1000));
    ASSERT_INT(0, dist_codec_fp16.bytes(0));
    ASSERT_INT(8, dist_codec_fp16.bytes(1));
    ASSERT_INT(4 * 2 + 2 * 1000, dist_codec_fp16.bytes(1000));
    ASSERT_INT(0, dist_codec_onebit.bytes(0));
    ASSERT_INT(12, dist_codec_onebit.bytes(1));
    ASSERT_INT(8 * 16 + 4 * 32, dist_codec_onebit.bytes(1000));
    ASSERT_INT(0, dist_codec_qsgd.bytes(0));
    ASSERT_INT(8, dist_codec_qsgd.bytes(1));
    ASSERT_INT(4 * 2 + 1000, dist_codec_qsgd.bytes(1000));
}

TEST(codec, bf16_rounds_to_nearest_and_to_even)
{
    const float x[]    = { 1, -2.5f, 1 + 0x1p-8f, 1 + 0x3p-8f, 1 + 0x1.8p-8f,
                           3e38f, 1e-40f };
    const float want[] = { 1, -2.5f, 1, 1 + 0x1p-6f, 1 + 0x1p-7f,
                           0x1.c4p127f, 0x1p-133f };
    float y[7];

    code_once(&dist_codec_bf16, 7, x, NULL, y);
    for (int i = 0; i < 7; i++)
        ASSERT_FLOAT(want[i], y[i], fabs((double)want[i]) * 1e-6);
}

TEST(codec, fp16_keeps_eleven_bits_at_any_magnitude)
{
    float x[MOST_N], y[MOST_N];

    for (int e = -120; e <= 120; e += 8) {
        for (int i = 0; i < MOST_N; i++)
            x[i] = ldexpf(ct_normal(5, 0, (uint64_t)i), e);
        code_once(&dist_codec_fp16, MOST_N - 3, x, NULL, y);
        for (int i = 0; i < MOST_N - 3; i++)
            ASSERT_FLOAT(x[i], y[i], fmax(fabs((double)x[i]) / 2048,
                                          ldexp(1, e - 34)));
    }
    x[0] = 3.4e38f; /* nothing overflows */
    x[1] = 1e38f;
    x[2] = 0;
    code_once(&dist_codec_fp16, 3, x, NULL, y);
    ASSERT_FLOAT(1, y[0] / x[0], 1e-3);
    ASSERT_FLOAT(1, y[1] / x[1], 1e-3);
    ASSERT_FLOAT(0, y[2], 0);
    x[0] = 1e-40f; /* nothing vanishes that a float has bits for */
    code_once(&dist_codec_fp16, 1, x, NULL, y);
    ASSERT_FLOAT(1, (double)y[0] / 1e-40, 1e-2);
}

TEST(codec, what_is_not_finite_arrives_as_such_and_is_not_kept)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    float x[1100], y[1100], e[1100];

    for (int k = 0; k < N_RUN_CODECS; k++)
        for (int b = 0; b < 3; b++) {
            const struct dist_codec_type *t = run_codecs[k];

            for (int i = 0; i < 1100; i++) {
                x[i] = 0.5f + (float)(i % 7);
                e[i] = 0;
            }
            x[700] = bad[b];
            code_once(t, 1100, x, t->feedback ? e : NULL, y);
            ASSERT(!isfinite(y[700]));
            for (int i = 0; i < 1100; i++) {
                ASSERT(isfinite(e[i]));
                ASSERT(isfinite(y[i]) || i / DIST_CHUNK == 1);
            }
        }
}

TEST(codec, onebit_is_exact_for_two_values)
{
    float x[1001], y[1001], e[1001] = { 0 };

    for (int i = 0; i < 1001; i++)
        x[i] = ct_philox_word(1, 0, (uint64_t)i) & 1 ? 0.25f : -0.75f;
    code_once(&dist_codec_onebit, 1001, x, e, y);
    for (int i = 0; i < 1001; i++) {
        ASSERT_FLOAT(x[i], y[i], 0);
        ASSERT_FLOAT(0, e[i], 0);
    }
}

TEST(codec, onebit_sends_now_or_later_all_it_is_given)
{
    double given[700] = { 0 }, sent[700] = { 0 };
    float x[700], y[700], e[700] = { 0 };

    for (int t = 0; t < 50; t++) {
        for (int i = 0; i < 700; i++) {
            x[i] = ct_normal(7, (uint64_t)t, (uint64_t)i);
            given[i] += (double)x[i];
        }
        code_once(&dist_codec_onebit, 700, x, e, y);
        for (int i = 0; i < 700; i++)
            sent[i] += (double)y[i];
    }
    for (int i = 0; i < 700; i++)
        ASSERT_FLOAT(given[i], sent[i] + (double)e[i], 1e-4);
}

TEST(codec, qsgd_has_the_right_mean)
{
    enum { N = 600, DRAWS = 10000 };
    static double sum[N];
    float x[N], y[N];
    uint8_t code[1024];
    double norm = 0;

    for (int i = 0; i < N; i++) {
        x[i]   = ct_normal(9, 0, (uint64_t)i) * (i % 3 ? 0.01f : 1.0f);
        sum[i] = 0;
        norm += i < DIST_CHUNK ? (double)x[i] * (double)x[i] : 0;
    }
    for (uint64_t t = 0; t < DRAWS; t++) {
        const struct dist_draw draw = { 3, t << 17, 0 };

        dist_codec_qsgd.encode(&draw, N, x, NULL, code);
        dist_codec_qsgd.decode(N, code, false, y);
        for (int i = 0; i < N; i++)
            sum[i] += (double)y[i];
    }
    /* A draw is off by less than a level, half of one on average: five
     * standard deviations of the mean. */
    for (int i = 0; i < N; i++)
        ASSERT_FLOAT((double)x[i], sum[i] / DRAWS,
                     5 * 0.5 * sqrt(norm) / 127 / sqrt(DRAWS));
}

TEST(codec, qsgd_draws_by_place_and_not_by_run)
{
    float x[2048], whole[2048], part[1024];
    const struct dist_draw all = { 3, 4, 0 }, half = { 3, 4, 1024 };
    uint8_t code[4096];

    for (int i = 0; i < 2048; i++)
        x[i] = ct_normal(9, 0, (uint64_t)i);
    dist_codec_qsgd.encode(&all, 2048, x, NULL, code);
    dist_codec_qsgd.decode(2048, code, false, whole);
    dist_codec_qsgd.encode(&half, 1024, x + 1024, NULL, code);
    dist_codec_qsgd.decode(1024, code, false, part);
    ASSERT_INT(0, memcmp(part, whole + 1024, sizeof(part)));
}

/* What ranks sum: every rank's values, and what came of them. */
struct sums {
    const struct dist_codec_type *type;
    int64_t n;
    int     n_steps;
    double *given;  /* sum of all ranks and steps */
    double *most;   /* largest of a step */
    float  *got[MOST_RANKS];      /* the last sum */
    double *sent[MOST_RANKS];     /* sum of sums */
    float  *residual[MOST_RANKS]; /* own, with that of its sums */
};

static float value_of(int rank, int step, int64_t i)
{
    return ct_normal((uint64_t)rank + 1, (uint64_t)step, (uint64_t)i);
}

static enum ct_status run_steps(struct ct_comm *c, void *arg)
{
    struct sums *s = arg;
    const int P = c->size, r = c->rank;
    struct dist_run_part own = dist_run_owned(s->n, P, r);
    float *owner = ct_calloc((size_t)own.n + 1, sizeof(float), "owner");
    struct dist_run q = {
        .type = s->type, .x = s->got[r], .n = s->n,
        .residual = s->type->feedback ? s->residual[r] : NULL,
        .owner = s->type->feedback ? owner : NULL,
        .code  = ct_malloc(dist_run_code_bytes(s->type, s->n, P) + 1, "code"),
        .taken = ct_malloc(dist_run_taken_bytes(s->type, s->n, P) + 1, "in"),
        .bytes = ct_calloc((size_t)P, sizeof(size_t), "bytes"),
    };
    enum ct_status st = CT_OK;

    for (int t = 0; t < s->n_steps && st == CT_OK; t++) {
        uint64_t before = atomic_load(&c->bytes_sent);
        double want     = dist_run_sends(s->type, s->n, r, P);

        for (int64_t i = 0; i < s->n; i++)
            q.x[i] = value_of(r, t, i);
        q.draw = (struct dist_draw){ 8, (uint64_t)t << 17, 0 };
        st     = dist_run_sum(c, &q);
        if (st == CT_OK &&
            (double)(atomic_load(&c->bytes_sent) - before) != want)
            st = ct_fail(CT_EINTERNAL, "%s sent %llu bytes, not %g",
                         s->type->name,
                         (unsigned long long)(atomic_load(&c->bytes_sent) -
                                              before), want);
        for (int64_t i = 0; i < s->n; i++)
            s->sent[r][i] += (double)q.x[i];
    }
    if (P > 1)
        for (int64_t i = 0; i < own.n; i++)
            s->residual[r][own.first + i] += owner[i];
    ct_free(owner);
    ct_free(q.code);
    ct_free(q.taken);
    ct_free(q.bytes);
    return st;
}

static void sums_init(struct sums *s, int P)
{
    size_t n = (size_t)s->n + 1;

    s->given = ct_calloc(n, sizeof(double), "given");
    for (int r = 0; r < P; r++) {
        s->got[r]      = ct_calloc(n, sizeof(float), "got");
        s->sent[r]     = ct_calloc(n, sizeof(double), "sent");
        s->residual[r] = ct_calloc(n, sizeof(float), "residual");
        for (int t = 0; t < s->n_steps; t++)
            for (int64_t i = 0; i < s->n; i++)
                s->given[i] += (double)value_of(r, t, i);
    }
}

static void sums_fini(struct sums *s, int P)
{
    ct_free(s->given);
    for (int r = 0; r < P; r++) {
        ct_free(s->got[r]);
        ct_free(s->sent[r]);
        ct_free(s->residual[r]);
    }
}

static const int counts[] = { 1, 2, 3, 4, 7, 8 };

/* One sum: near the true one, the same bits everywhere, the bytes of the
 * formula (checked inside). */
static void sums_are_near(const struct dist_codec_type *type, double tolerance)
{
    static const int64_t lengths[] = { 0, 1, 5, 511, 513, 1030, 5001 };

    for (int k = 0; k < 6; k++)
        for (int l = 0; l < 7; l++) {
            struct sums s = { .type = type, .n = lengths[l], .n_steps = 1 };
            const int P   = counts[k];

            sums_init(&s, P);
            ranks_run(P, NULL, run_steps, &s);
            for (int r = 0; r < P; r++)
                for (int64_t i = 0; i < s.n; i++) {
                    ASSERT_FLOAT(s.given[i], (double)s.got[r][i],
                                 P == 1 ? 0 : tolerance * P);
                    ASSERT_INT(0, memcmp(&s.got[0][i], &s.got[r][i], 4));
                }
            sums_fini(&s, P);
        }
}

TEST(codec, bf16_sums_are_near) { sums_are_near(&dist_codec_bf16, 0.03); }
TEST(codec, fp16_sums_are_near) { sums_are_near(&dist_codec_fp16, 0.004); }
TEST(codec, qsgd_sums_are_near) { sums_are_near(&dist_codec_qsgd, 0.6); }
TEST(codec, onebit_sums_are_near) { sums_are_near(&dist_codec_onebit, 9); }

TEST(codec, ranks_send_now_or_later_all_they_are_given)
{
    for (int k = 0; k < 6; k++) {
        struct sums s = { .type = &dist_codec_onebit, .n = 1400,
                          .n_steps = 30 };
        const int P   = counts[k];

        sums_init(&s, P);
        ranks_run(P, NULL, run_steps, &s);
        for (int64_t i = 0; i < s.n; i++) {
            double kept = 0;

            for (int r = 0; r < P; r++)
                kept += (double)s.residual[r][i];
            ASSERT_FLOAT(s.given[i], s.sent[0][i] + kept, 1e-3);
        }
        sums_fini(&s, P);
    }
}

/* A wire with one matrix, for the codecs that sum by themselves. */
struct matrix {
    const char *codec;
    int64_t     rows, cols;
    int         n_steps;
    float       momentum;
    struct sums s;
    bool        spoilt; /* rank 0's value 5 in step 1 is not a number */
};

static enum ct_status matrix_steps(struct ct_comm *c, struct dist_wire *w,
                                   const struct matrix *m)
{
    const int r = c->rank;

    for (int t = 0; t < m->n_steps; t++) {
        uint64_t before = atomic_load(&c->bytes_sent);
        double want;

        w->dist->trainer.iter = t;
        want = w->codec->type->sends(c, w);
        for (int64_t i = 0; i < w->n_coded; i++)
            w->coded[i] = m->spoilt && r == 0 && t == 1 && i == 5
                              ? NAN
                              : value_of(r, t, i);
        CT_TRY(w->codec->type->sum(c, w));
        if (m->spoilt && isfinite(w->coded[5]) != (t != 1))
            return ct_fail(CT_EINTERNAL, "%s: in step %d value 5 is %g",
                           m->codec, t, (double)w->coded[5]);
        if (c->size > 1 &&
            (double)(atomic_load(&c->bytes_sent) - before) != want)
            return ct_fail(CT_EINTERNAL, "%s sent %g bytes, not %g", m->codec,
                           (double)(atomic_load(&c->bytes_sent) - before),
                           want);
        for (int64_t i = 0; i < w->n_coded; i++)
            m->s.sent[r][i] += (double)w->coded[i];
    }
    memcpy(m->s.got[r], w->coded, (size_t)w->n_coded * sizeof(float));
    memcpy(m->s.residual[r], w->residual, (size_t)w->n_coded * sizeof(float));
    return CT_OK;
}

static enum ct_status matrix_rank(struct ct_comm *c, void *arg)
{
    const struct matrix *m = arg;
    struct dist_plan plan  = { .n_workers = c->size };
    struct ct_dist d = { .view = { .rank = c->rank, .size = c->size,
                                   .comm = c },
                         .plan = &plan };
    struct dist_piece piece = { .n = m->rows * m->cols, .rows = m->rows,
                                .cols = m->cols, .is_coded = true };
    struct dist_wire wire, *w = &wire;
    enum ct_status st;

    CT_TRY(dist_codec_parse(m->codec, &plan.codec));
    d.trainer.momentum = m->momentum;
    d.trainer.seed     = 5;
    wire = (struct dist_wire){ .dist = &d, .codec = &plan.codec,
                               .piece = &piece, .n_pieces = 1,
                               .n_coded = piece.n };
    w->coded = ct_calloc((size_t)piece.n, sizeof(float), "coded");
    w->bytes = ct_calloc((size_t)c->size, sizeof(size_t), "bytes");
    st       = w->codec->type->reserve(w);
    if (st == CT_OK)
        st = matrix_steps(c, w, m);
    ct_free(w->coded);
    ct_free(w->bytes);
    ct_free(w->residual);
    ct_free(w->velocity);
    ct_free(w->basis);
    ct_free(w->work);
    ct_free(w->index);
    ct_free(w->code);
    return st;
}

static void matrix_run(struct matrix *m, int P)
{
    m->s.n       = m->rows * m->cols;
    m->s.n_steps = m->n_steps;
    sums_init(&m->s, P);
    ranks_run(P, NULL, matrix_rank, m);
    for (int r = 1; r < P; r++)
        ASSERT_INT(0, memcmp(m->s.got[0], m->s.got[r],
                             (size_t)m->s.n * sizeof(float)));
}

/* What was sent is what was given, in each step. */
static void is_dense(const char *codec, int64_t rows, int64_t cols)
{
    for (int k = 0; k < 6; k++) {
        struct matrix m = { codec, rows, cols, 3, 0, { 0 }, false };

        matrix_run(&m, counts[k]);
        for (int64_t i = 0; i < m.s.n; i++)
            ASSERT_FLOAT(m.s.given[i], m.s.sent[0][i], 1e-4 * counts[k]);
        sums_fini(&m.s, counts[k]);
    }
}

TEST(codec, powersgd_of_full_rank_is_dense)
{
    is_dense("powersgd:9:0", 9, 40);
    is_dense("powersgd:9:0", 40, 9);
    is_dense("powersgd:200:0", 13, 13);
    is_dense("powersgd:1:0", 1, 20);
    is_dense("powersgd:1:3", 30, 20); /* still in its warm-up */
}

TEST(codec, topk_of_all_values_is_dense)
{
    is_dense("topk:1:0", 20, 40);
    is_dense("topk:1:100", 1, 1);
}

/* sum(sent) + residuals = sum(given), whatever is left out. */
static void keeps_the_rest(const char *codec)
{
    for (int k = 0; k < 6; k++) {
        struct matrix m = { codec, 60, 70, 20, 0, { 0 }, false };
        const int P     = counts[k];
        double left     = 0;

        matrix_run(&m, P);
        for (int64_t i = 0; i < m.s.n; i++) {
            double kept = 0;

            for (int r = 0; r < P; r++)
                kept += (double)m.s.residual[r][i];
            left += fabs(kept);
            ASSERT_FLOAT(m.s.given[i], m.s.sent[0][i] + kept, 2e-3);
        }
        ASSERT(left > 1); /* it does leave something out */
        sums_fini(&m.s, P);
    }
}

TEST(codec, topk_sends_now_or_later_all_it_is_given)
{
    keeps_the_rest("topk:0.02:0");
    keeps_the_rest("topk:0.6:0"); /* more than 1/P: zeros travel too */
    keeps_the_rest("topk:0.001:20");
}

TEST(codec, powersgd_sends_now_or_later_all_it_is_given)
{
    keeps_the_rest("powersgd:2:0");
    keeps_the_rest("powersgd:4:5");
}

/* Momentum gathers before a value is sent: u = m u + g, v += u. */
TEST(codec, topk_sends_the_largest_with_their_momentum)
{
    struct matrix m = { "topk:0.01:0", 64, 64, 2, 0.5f, { 0 }, false };
    const int k = 41; /* ceil(0.01 4096) */
    int n_sent = 0, n_first = 0, n_second = 0;

    matrix_run(&m, 2);
    for (int64_t i = 0; i < m.s.n; i++) {
        double a = (double)value_of(0, 0, i), b = (double)value_of(0, 1, i);
        double v = (double)m.s.residual[0][i];

        n_sent += m.s.got[0][i] != 0;
        if (v == 0) /* went in the second step */
            n_second++;
        else if (fabs(v - (0.5 * a + b)) < 1e-5 && fabs(a) > 2) /* first */
            n_first++;
        else
            ASSERT_FLOAT(1.5 * a + b, v, 1e-5);
        ASSERT(fabs(v) < 5); /* what stays is smaller than what went */
    }
    ASSERT(n_sent >= k && n_sent <= 2 * k);
    ASSERT_INT(k, n_second);
    ASSERT(n_first > k - 3 && n_first <= k); /* some went twice */
    sums_fini(&m.s, 2);
}

TEST(codec, sums_recover_from_what_is_not_finite)
{
    static const char *const kinds[] = { "topk:0.02:0", "topk:0.9:0",
                                         "powersgd:3:0" };

    for (int k = 0; k < 3; k++) {
        struct matrix m = { kinds[k], 40, 50, 4, 0.9f, { 0 }, true };

        matrix_run(&m, 3);
        for (int r = 0; r < 3; r++)
            for (int64_t i = 0; i < m.s.n; i++) {
                ASSERT(isfinite(m.s.got[r][i]));
                ASSERT(isfinite(m.s.residual[r][i]));
            }
        sums_fini(&m.s, 3);
    }
}

TEST(codec, words_that_make_no_sense_are_refused)
{
    static const char *const bad[] = {
        "zip", "topk", "topk:", "topk:0", "topk:2", "topk:0.1:", "topk:a",
        "topk:0.1:x", "powersgd", "powersgd:0", "powersgd:4x", "bf16:3",
        "powersgd:4:-1", "onebit:", "onebit:x", "onebit:-1", "",
    };
    struct dist_codec codec;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ASSERT_STATUS(CT_EINVAL, dist_codec_parse(bad[i], &codec));
    ASSERT_OK(dist_codec_parse("none", &codec));
    ASSERT(!codec.type);
    ASSERT_OK(dist_codec_parse("topk:0.25:7", &codec));
    ASSERT_FLOAT(0.25, codec.ratio, 0);
    ASSERT_INT(7, codec.warmup);
    ASSERT_OK(dist_codec_parse("powersgd:3", &codec));
    ASSERT_INT(3, codec.rank);
}

/* A tenth of all iterations at the start and a twentieth at the end, or what
 * the words say and half of it; without a known end, at the start alone. */
TEST(codec, nothing_is_held_back_at_first_and_at_the_end)
{
    static const struct { const char *text; int max, warmup, end; } want[] = {
        { "onebit", 5000, 500, 4750 },   { "powersgd:4", 400, 40, 380 },
        { "topk:0.01", 5000, 500, 4750 }, { "onebit:60", 100, 60, 70 },
        { "onebit:80", 100, 80, 0 },     { "onebit:0", 5000, 0, 0 },
        { "onebit:30", 0, 30, 0 },       { "onebit", 0, 0, 0 },
    };

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        struct dist_codec codec;

        ASSERT_OK(dist_codec_parse(want[i].text, &codec));
        dist_codec_schedule(&codec, want[i].max);
        ASSERT_INT(want[i].warmup, codec.warmup);
        ASSERT_INT(want[i].end, codec.end);
        ASSERT_INT(want[i].warmup > 0, dist_codec_rests(&codec, 0));
        ASSERT(!dist_codec_rests(&codec, want[i].warmup));
        if (want[i].end) {
            ASSERT(!dist_codec_rests(&codec, want[i].end - 1));
            ASSERT(dist_codec_rests(&codec, want[i].end));
            ASSERT(dist_codec_rests(&codec, want[i].max - 1));
        }
    }
}

TEST(codec, an_unknown_word_gets_the_list)
{
    struct dist_codec codec;

    ASSERT_STATUS(CT_EINVAL, dist_codec_parse("zip", &codec));
    ASSERT_HAS("--compress=zip: use none, ", ct_last_error());
#define DIST_CODEC(name) ASSERT_HAS(#name, ct_last_error());
#include "dist/codec/codecs.def"
#undef DIST_CODEC
    ASSERT_HAS("topk:RATIO", ct_last_error());
}

TEST(codec, predicted_bytes_are_those_sent)
{
    struct dist_codec codec;

    ASSERT_OK(dist_codec_parse("none", &codec));
    ASSERT_FLOAT(8 * 1e4 * 0.75, dist_codec_bytes(&codec, 4, 100, 100), 1e-6);
    ASSERT_OK(dist_codec_parse("topk:0.01", &codec));
    ASSERT_FLOAT(8 * 100 * 3, dist_codec_bytes(&codec, 4, 100, 100), 1e-6);
    ASSERT_OK(dist_codec_parse("powersgd:2", &codec));
    ASSERT_FLOAT(8 * 400 * 0.75, dist_codec_bytes(&codec, 4, 100, 100), 1e-6);
    ASSERT_OK(dist_codec_parse("bf16", &codec));
    ASSERT_FLOAT(dist_run_sends(&dist_codec_bf16, 10000, 0, 4),
                 dist_codec_bytes(&codec, 4, 100, 100), 1e-6);
    ASSERT(dist_codec_seconds(&codec, 4, 100, 100) > 0);
}
