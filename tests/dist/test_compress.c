/* test_compress.c - training with coded gradients: close to training without,
 * ranks equal bit for bit, bytes as the formulas say. */
#include "base/mem.h"
#include "comm/coll/transfer.h"
#include "dist/codec/code_runs.h"
#include "dist/codec/codecs.h"
#include "dist/ranks.h"

static const char *const codecs[] = {
    "bf16", "fp16", "onebit", "qsgd", "topk:0.25:0", "powersgd:16:0",
};
enum { N_CODECS = 6 };

static struct rank *train(int n, const char *codec, const char *more)
{
    char options[256];

    snprintf(options, sizeof(options), "compress: '%s' road: 'allreduce' %s %s",
             codec, strstr(more, "guard") ? "" : "guard_interval: 1", more);
    return ranks_train(n, "", options, 0);
}

static void all_equal(const struct rank *r, int n)
{
    for (int i = 0; i < n; i++) {
        if (r[i].st != CT_OK)
            FAIL("rank %d of %d: %s", i, n, r[i].why);
        ASSERT_INT(0, memcmp(r[0].weights, r[i].weights,
                             r[0].n * sizeof(float)));
    }
}

/* 16 bits change the loss by little, the others by more. */
TEST(compress, ranks_stay_equal_and_learn_as_without)
{
    static const int counts[] = { 1, 2, 3, 4, 7, 8 };
    static const double tolerance[] = { 2e-3, 1e-4, 0.15, 5e-3, 0.3, 0.02 };

    ranks_make_data();
    for (int i = 0; i < 6; i++) {
        struct rank *dense = train(counts[i], "none", "");
        double first = dense->loss[0], last = dense->loss[RANKS_STEPS - 1];

        ASSERT(last < 0.9 * first);
        for (int k = 0; k < N_CODECS; k++) {
            struct rank *r = train(counts[i], codecs[k], "");

            all_equal(r, counts[i]);
            /* The loss rides along uncompressed; ranks may be added up in
             * another order. */
            ASSERT_FLOAT(first, r[0].loss[0], 3e-7 * first);
            if (counts[i] > 1)
                ASSERT_FLOAT(last, r[0].loss[RANKS_STEPS - 1], tolerance[k]);
            if (counts[i] == 1)
                ASSERT_INT(0, memcmp(dense->weights, r->weights,
                                     r->n * sizeof(float)));
            else
                ASSERT(memcmp(dense->weights, r->weights,
                              r->n * sizeof(float)) != 0);
        }
    }
}

TEST(compress, small_buckets_and_no_overlap_change_nothing_for_replicas)
{
    ranks_make_data();
    for (int k = 0; k < N_CODECS; k++) {
        all_equal(train(3, codecs[k], "bucket_bytes: 0"), 3);
        all_equal(train(4, codecs[k], "overlap: false"), 4);
    }
}

/* With SGD values that are sent lose their momentum, here all; Adam keeps
 * its own. */
TEST(compress, topk_of_everything_trains_as_without)
{
    const char *adam = "type: 'Adam' delta: 1";
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, adam, "", 0);
    ASSERT_OK(one->st);
    ranks_same_as_one(one, ranks_train(4, adam, "compress: 'topk:1' "
                                       "road: 'allreduce'", 0), 4);
}

TEST(compress, a_run_repeats_bit_for_bit)
{
    ranks_make_data();
    for (int k = 0; k < N_CODECS; k++) {
        struct rank *a = train(4, codecs[k], "reduce: 'ring'");
        struct rank *b = train(4, codecs[k], "reduce: 'ring'");

        ASSERT_INT(0, memcmp(a->weights, b->weights, a->n * sizeof(float)));
    }
}

/* The parameters: 16384 in w; 8 x 27 + 8, twice 128, 5 x 128 + 5 small ones; 16
 * riders.  Around the ring each rank of 4 sends 6/4 of what is summed. */
TEST(compress, bytes_on_the_wire_are_those_of_the_formula)
{
    enum { W = 16384, SMALL = 8 * 27 + 8 + 2 * 128 + 5 * 128 + 5, RIDERS = 16 };
    const struct { const char *codec; double bytes; } want[] = {
        { "bf16", ct_ring_bytes(1, 4, RIDERS, CT_RING_BOTH) +
              dist_run_sends(&dist_codec_bf16, W + SMALL, 1, 4) },
        { "fp16", ct_ring_bytes(1, 4, RIDERS, CT_RING_BOTH) +
              dist_run_sends(&dist_codec_fp16, W + SMALL, 1, 4) },
        /* 32 chunks, 8 a rank: eight pairs of means each and 512 bits. */
        { "onebit", ct_ring_bytes(1, 4, RIDERS + SMALL, CT_RING_BOTH) +
              6 * 8 * (8 * 8 + 64) },
        { "onebit:9", ct_ring_bytes(1, 4, RIDERS + SMALL, CT_RING_BOTH) +
              6 * W },
        { "qsgd", ct_ring_bytes(1, 4, RIDERS + SMALL, CT_RING_BOTH) +
              6 * 8 * (4 + 512) },
        { "topk:0.01:0", ct_ring_bytes(1, 4, RIDERS + SMALL, CT_RING_BOTH) +
              3 * 8 * 164 },
        { "topk:0.5:0", ct_ring_bytes(1, 4, RIDERS + SMALL, CT_RING_BOTH) +
              6 * W },
        { "powersgd:4:0", ct_ring_bytes(1, 4, RIDERS + SMALL, CT_RING_BOTH) +
              2 * 6 * 4 * 128 },
    };

    ranks_make_data();
    for (size_t k = 0; k < sizeof(want) / sizeof(want[0]); k++) {
        struct rank *r = train(4, want[k].codec, "reduce: 'ring' "
                               "guard_interval: 0 "
                               "bucket_bytes: 1073741824");

        ASSERT_OK(r[1].st);
        ASSERT_FLOAT(RANKS_STEPS * want[k].bytes,
                     (double)r[1].stats.bytes_sent, 0.5);
    }
}

/* g, 5 x 128 from 6 samples a rank, goes as 6 x 133 factors to 3 peers. */
TEST(compress, factors_go_in_16_bits)
{
    static const char *const two[] = { "bf16", "fp16" };
    struct rank *dense;

    ranks_make_data();
    dense = train(4, "none", "");
    for (int k = 0; k < 2; k++) {
        char options[128];
        struct rank *sum = train(4, two[k], "reduce: 'ring' "
                                 "guard_interval: 0"), *r;
        double saved, want;

        snprintf(options, sizeof(options), "compress: '%s' road: 'factors' "
                 "reduce: 'ring' guard_interval: 0", two[k]);
        r = ranks_train(4, "", options, 0);
        all_equal(r, 4);
        ASSERT_FLOAT(dense->loss[RANKS_STEPS - 1], r->loss[RANKS_STEPS - 1],
                     2e-3);
        saved = ((double)sum[1].stats.bytes_sent -
                 (double)r[1].stats.bytes_sent) / RANKS_STEPS;
        want  = (k == 0 ? 2 * 1.5 * 640 : 2 * 1.5 * (640 + 2)) -
               3 * (k == 0 ? 2.0 * 6 * 133 : 4 * 2 + 2.0 * 6 * 133);
        /* Which rank owns the last, shorter chunks moves by a few. */
        ASSERT_FLOAT(want, saved, 2.0 * 2 * DIST_CHUNK);
    }
}

TEST(compress, clipping_acts_before_values_are_held_back)
{
    struct rank *r;

    ranks_make_data();
    r = ranks_train(4, "clip_gradients: 0.05", "compress: 'topk:0.1:0' "
                    "road: 'allreduce' guard_interval: 1", 0);
    all_equal(r, 4);
    ASSERT(isfinite(r->loss[RANKS_STEPS - 1]));
    ASSERT(r->loss[RANKS_STEPS - 1] < r->loss[0]);
}

/* All values travel, so momentum gathers as it does in the solver. */
TEST(compress, topk_of_everything_has_all_of_the_momentum)
{
    static const char more[] = "weight_decay: 0";
    struct rank *one, *r;

    ranks_make_data();
    one = ranks_train(1, more, "", 0);
    r   = ranks_train(4, more, "compress: 'topk:1:0' road: 'allreduce'", 0);
    ranks_same_as_one(one, r, 4);
}

/* Residuals, velocities, bases and draws go on where they were, in the midst
 * of a warm-up, too. */
TEST(compress, a_snapshot_resumes_bit_for_bit)
{
    static const char *const formats[] = { "BINARYPROTO", "HDF5" };

    ranks_make_data();
    for (int k = 0; k <= N_CODECS; k++)
        for (int n = 2; n <= 4; n += 2) {
            char more[512], options[256], state[512];
            struct rank *whole, *rest;
            const char *format = formats[(k + n / 2) % 2];

            snprintf(more, sizeof(more), "snapshot: 4 snapshot_format: %s "
                     "snapshot_prefix: '%s/s%d_%d'", format, test_folder(), k,
                     n);
            snprintf(options, sizeof(options), "compress: '%s' "
                     "road: 'allreduce' reduce: 'ring' bucket_bytes: 0",
                     k < N_CODECS ? codecs[k] : "onebit:6");
            snprintf(state, sizeof(state), "%s/s%d_%d_iter_4.solverstate%s",
                     test_folder(), k, n,
                     strcmp(format, "HDF5") == 0 ? ".h5" : "");
            whole = ranks_train(n, more, options, 0);
            rest  = ranks_resume(n, more, options, state, false);
            all_equal(whole, n);
            all_equal(rest, n);
            for (int i = 4; i < RANKS_STEPS; i++)
                ASSERT_FLOAT(whole->loss[i], rest->loss[i], 0);
            ASSERT_INT(0, memcmp(whole->weights, rest->weights,
                                 whole->n * sizeof(float)));
        }
}

/* Adds what one file holds, and gives the ranks that have one of their own. */
static int add_held_back(const char *path, const char *what, size_t n,
                         double *sum, int *rank)
{
    Caffe__SolverState *m = NULL;
    int n_ranks           = 0;

    ASSERT_OK(ct_binary_read(&caffe__solver_state__descriptor, path, &m));
    for (size_t i = 0; i < m->n_state; i++)
        if ((strstr(m->state_name[i], what) ||
             strstr(m->state_name[i], "owner")) &&
            !strstr(m->state_name[i], ".n")) {
            ASSERT_INT(n, m->state[i]->n_data);
            for (size_t j = 0; j < n; j++)
                sum[j] += (double)m->state[i]->data[j];
        }
    for (size_t i = 0; i < m->n_rank_file; i++)
        rank[n_ranks++] = m->rank_file[i];
    ct_message_free(m);
    return n_ranks;
}

/* The sum of all that a snapshot says is held back, value by value. */
static double *held_back(const char *path, const char *what, size_t n)
{
    const int stem = (int)(strlen(path) - strlen(".solverstate"));
    double *sum    = ct_calloc(n, sizeof(*sum), "held back");
    char file[600];
    int rank[RANKS_MOST], n_ranks, none[RANKS_MOST];

    test_defer(ct_free, sum);
    n_ranks = add_held_back(path, what, n, sum, rank);
    for (int i = 0; i < n_ranks; i++) {
        snprintf(file, sizeof(file), "%.*s.rank%d.residuals", stem, path,
                 rank[i]);
        ASSERT_INT(0, add_held_back(file, what, n, sum, none));
    }
    return sum;
}

/* In the warm-up floats travel; then something waits, until before the end all
 * of it goes. */
TEST(compress, one_bit_starts_and_ends_with_floats)
{
    struct rank *dense, *r;
    char more[512], path[512];
    double *kept, waits = 0;

    ranks_make_data();
    dense = train(4, "none", "");
    r     = train(4, "onebit:9", "");
    all_equal(r, 4);
    for (int i = 0; i < RANKS_STEPS; i++)
        ASSERT_FLOAT(dense->loss[i], r->loss[i], 1e-6);
    snprintf(more, sizeof(more), "max_iter: 9 snapshot: 3 snapshot_prefix: "
             "'%s/e'", test_folder());
    r = ranks_train(4, more, "compress: 'onebit:4' road: 'allreduce'", 0);
    all_equal(r, 4);
    for (int at = 3; at <= 9; at += 3) {
        snprintf(path, sizeof(path), "%s/e_iter_%d.solverstate", test_folder(),
                 at);
        kept = held_back(path, "residual", r->n);
        for (size_t i = 0; i < r->n; i++) {
            waits += at == 6 ? fabs(kept[i]) : 0;
            ASSERT(at == 6 || kept[i] == 0);
        }
    }
    ASSERT(waits > 0.01);
}

TEST(compress, nothing_held_back_is_lost_on_another_number_of_ranks)
{
    static const char *const kinds[] = { "onebit", "topk:0.05:0",
                                         "powersgd:4:0" };
    static const int counts[] = { 2, 3, 8 };

    ranks_make_data();
    for (int k = 0; k < 3; k++)
        for (int c = 0; c < 3; c++) {
            char more[512], options[256], from[512], to[512];
            double *before, *after, all = 0;
            struct rank *r;

            snprintf(options, sizeof(options), "compress: '%s' "
                     "road: 'allreduce'", kinds[k]);
            snprintf(more, sizeof(more), "snapshot: 4 snapshot_prefix: "
                     "'%s/a'", test_folder());
            ASSERT_OK(ranks_train(4, more, options, 0)->st);
            snprintf(from, sizeof(from), "%s/a_iter_4.solverstate",
                     test_folder());
            snprintf(more, sizeof(more), "snapshot_prefix: '%s/b'",
                     test_folder());
            snprintf(to, sizeof(to), "%s/b_iter_4.solverstate",
                     test_folder());
            r = ranks_resume(counts[c], more, options, from, true);
            all_equal(r, counts[c]);
            for (int v = 0; v < (k == 1 ? 2 : 1); v++) {
                before = held_back(from, v ? "velocity" : "residual", r->n);
                after  = held_back(to, v ? "velocity" : "residual", r->n);
                for (size_t i = 0; i < r->n; i++) {
                    all += fabs(before[i]);
                    ASSERT_FLOAT(before[i], after[i], 1e-6);
                }
            }
            ASSERT(all > 0.01);
            r = ranks_resume(counts[c], more, options, from, false);
            all_equal(r, counts[c]);
            ASSERT(r->loss[RANKS_STEPS - 1] < 1.5);
        }
}

TEST(compress, partial_updates_keep_replicas_equal)
{
    static const char *const rates[] = { "800kB", "1gbit", "40mbit:all" };
    static const char *const kinds[] = { "none", "fp16", "onebit" };

    ranks_make_data();
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            char options[256];
            struct rank *r;

            snprintf(options, sizeof(options), "bandwidth: '%s' compress: "
                     "'%s' road: 'allreduce' guard_interval: 3",
                     rates[i], kinds[k]);
            r = ranks_train(3, "", options, 0);
            all_equal(r, 3);
            ASSERT(r->loss[RANKS_STEPS - 1] < r->loss[0]);
        }
}

TEST(compress, a_rate_that_makes_no_sense_is_refused)
{
    struct rank *r;

    ranks_make_data();
    r = ranks_train(2, "", "bandwidth: 'fast'", 0);
    ASSERT_STATUS(CT_EINVAL, r[0].st);
    ASSERT_HAS("fast", r[0].why);
    r = ranks_train(2, "", "bandwidth: '1gbit:some'", 0);
    ASSERT_STATUS(CT_EINVAL, r[0].st);
    ASSERT_HAS("some", r[0].why);
}

TEST(compress, an_unknown_codec_is_refused)
{
    struct rank *r;

    ranks_make_data();
    r = train(2, "zip", "");
    ASSERT_STATUS(CT_EINVAL, r[0].st);
    ASSERT_HAS("zip", r[0].why);
}
