/* test_managed.c - partial updates: the slices that matter most travel, the
 * rest waits, all ranks choose alike. */
#include "base/mem.h"
#include "base/rng.h"
#include "comm/comm_ranks.h"
#include "dist/codec/codecs.h"
#include "dist/codec/managed.h"
#include "dist/engine.h"

enum { SLICE = 64, N = 10 * SLICE - 5, STEPS = 48 };

/* What ranks did. */
struct run {
    const char *codec;
    double      tokens; /* that rank 0 has in every step */
    double      share;  /* of the last step */
    double      given[N];
    double      sent[MOST_RANKS][N];
    float       residual[MOST_RANKS][N];
    float       last[MOST_RANKS][N];
};

static double tokens_of(void *arg)
{
    return *(double *)arg;
}

/* Slice 3 is large on all ranks, slice 8 cancels out in the mean but is
 * largest by its squares; the others are small. */
static float value_of(int rank, int step, int64_t i)
{
    float v = ct_normal((uint64_t)rank + 1, (uint64_t)step, (uint64_t)i);

    return i / SLICE == 3   ? 10 * v
           : i / SLICE == 8 ? 20 * v
                            : 0.01f * v;
}

static enum ct_status steps(struct ct_comm *c, struct dist_wire *w,
                            struct run *run)
{
    for (int t = 0; t < STEPS; t++) {
        uint64_t before = atomic_load(&c->bytes_sent);
        double sent, want;

        w->dist->trainer.iter = t;
        for (int64_t i = 0; i < N; i++)
            w->coded[i] = value_of(c->rank, t, i);
        for (int64_t i = 0; i < w->n_dense; i++)
            w->dense[i] = (float)(i + 1);
        CT_TRY(dist_managed_sum(c, w));
        for (int64_t i = 0; i < w->n_dense; i++)
            if (w->dense[i] != (float)((i + 1) * c->size))
                return ct_fail(CT_EINTERNAL, "dense value %d is %g", (int)i,
                               (double)w->dense[i]);
        sent = (double)(atomic_load(&c->bytes_sent) - before);
        want = dist_managed_sends(c, w, w->dist->wires.share);
        /* The last slice is shorter. */
        if (c->size > 1 && !(sent <= want && sent >= want - 60))
            return ct_fail(CT_EINTERNAL, "%g bytes, not %g", sent, want);
        for (int64_t i = 0; i < N; i++)
            run->sent[c->rank][i] += (double)w->coded[i];
    }
    memcpy(run->last[c->rank], w->coded, N * sizeof(float));
    memcpy(run->residual[c->rank], w->residual, N * sizeof(float));
    if (c->rank == 0)
        run->share = w->dist->wires.share;
    return CT_OK;
}

static enum ct_status one_rank(struct ct_comm *c, void *arg)
{
    struct run *run  = arg;
    struct dist_plan plan = { .reduce = ct_allreduce_find("ring"),
                              .sheds  = true };
    struct ct_dist d = { .view = { .rank = c->rank, .size = c->size,
                                   .comm = c },
                         .plan = &plan };
    struct dist_wire wire = { .dist = &d, .codec = &plan.codec,
                              .n_coded = N, .n_dense = 16 };
    enum ct_status st;

    CT_TRY(dist_codec_parse(run->codec, &plan.codec));
    d.wires.wire       = &wire;
    d.wires.n          = 1;
    d.wires.tokens     = tokens_of;
    d.wires.tokens_arg = &run->tokens;
    wire.coded = ct_calloc(N, sizeof(float), "coded");
    wire.dense = ct_calloc(N, sizeof(float), "dense");
    wire.bytes = ct_calloc((size_t)c->size, sizeof(size_t), "bytes");
    st         = dist_managed_reserve(&wire);
    if (st == CT_OK)
        st = steps(c, &wire, run);
    ct_free(wire.coded);
    ct_free(wire.dense);
    ct_free(wire.bytes);
    ct_free(wire.residual);
    ct_free(wire.work);
    ct_free(wire.index);
    ct_free(wire.waited);
    ct_free(wire.code);
    ct_free(wire.taken);
    return st;
}

static struct run *run_all(int P, const char *codec, double tokens)
{
    struct run *run = ct_calloc(1, sizeof(*run), "run");

    test_defer(ct_free, run);
    run->codec  = codec;
    run->tokens = tokens;
    ranks_run(P, NULL, one_rank, run);
    for (int r = 0; r < P; r++) {
        ASSERT_INT(0, memcmp(run->last[0], run->last[r], sizeof(run->last[0])));
        for (int t = 0; t < STEPS; t++)
            for (int64_t i = 0; i < N; i++)
                run->given[i] += (double)value_of(r, t, i);
    }
    return run;
}

static void keeps_all(const struct run *run, int P, double tolerance)
{
    for (int64_t i = 0; i < N; i++) {
        const double times = i / SLICE == 8 ? 20 : i / SLICE == 3 ? 10 : 1;
        double kept        = 0;

        for (int r = 0; r < P; r++)
            kept += (double)run->residual[r][i];
        ASSERT_FLOAT(run->given[i], run->sent[0][i] + kept,
                     tolerance * times);
    }
}

TEST(managed, what_does_not_travel_waits_on_its_rank)
{
    static const int counts[] = { 2, 3, 4, 7, 8 };

    for (int k = 0; k < 5; k++) {
        keeps_all(run_all(counts[k], "none", 0), counts[k], 1e-4);
        keeps_all(run_all(counts[k], "none", 1e9), counts[k], 1e-4);
        keeps_all(run_all(counts[k], "fp16", 0), counts[k], 0.05);
    }
}

TEST(managed, the_largest_slices_travel_first)
{
    struct run *run = run_all(3, "none", 0); /* one slice of ten a step */
    double got[10] = { 0 };
    int n_slices   = 0;

    ASSERT_FLOAT(1.0 / 16, run->share, 1e-7);
    for (int64_t i = 0; i < N; i++)
        got[i / SLICE] += fabs((double)run->last[0][i]);
    for (int s = 0; s < 10; s++)
        n_slices += got[s] > 0;
    ASSERT_INT(1, n_slices);
    ASSERT(got[8] > 0 || got[3] > 0);
    /* Slice 3 waits while 8 is larger, then it has grown and goes. */
    for (int64_t i = 3 * SLICE; i < 4 * SLICE; i++)
        ASSERT(run->sent[0][i] != 0);
}

/* Two of ten slices go in a step, and two are a thousand times as large as the
 * rest: all have been on the way after forty. */
TEST(managed, small_slices_do_not_wait_for_ever)
{
    struct run *run = run_all(4, "none", 0.199 * 1.5 * 4 * (N + 16 + 11));

    ASSERT_FLOAT(0.199, run->share, 5e-4); /* two slices, not three */
    for (int64_t i = 0; i < N; i++)
        ASSERT(run->sent[0][i] != 0);
}

TEST(managed, with_enough_tokens_nothing_waits)
{
    struct run *run = run_all(4, "none", 1e12);

    ASSERT_FLOAT(1, run->share, 0);
    for (int64_t i = 0; i < N; i++)
        ASSERT_FLOAT(0, run->residual[2][i], 0);
}

TEST(managed, the_share_is_what_tokens_suffice_for)
{
    /* Around the ring a rank sends 6/4 of the floats: values, 16 dense ones,
     * the squares of 10 slices and the share. */
    const double bytes = 1.5 * 4 * (N + 16 + 11);

    ASSERT_FLOAT(0.5, run_all(4, "none", 0.5 * bytes)->share, 1e-3);
    ASSERT_FLOAT(0.25, run_all(4, "none", 0.25 * bytes)->share, 1e-3);
}

TEST(managed, codecs_that_hold_back_themselves_are_left_alone)
{
    ASSERT(dist_managed_suits(NULL));
    ASSERT(dist_managed_suits(&dist_codec_bf16));
    ASSERT(dist_managed_suits(&dist_codec_fp16));
    ASSERT(dist_managed_suits(&dist_codec_qsgd));
    ASSERT(!dist_managed_suits(&dist_codec_onebit));
    ASSERT(!dist_managed_suits(&dist_codec_topk));
    ASSERT(!dist_managed_suits(&dist_codec_powersgd));
}
