/* test_resume.c - ranks go on from one snapshot, whoever has it and however
 * many they are. */
#include "dist/ranks.h"

#include <stdlib.h>

#include "testing/files.h"

/* With rate 0 the loss tells which samples a step has taken. */
static const char *const still = "base_lr: 0 weight_decay: 0 snapshot: 4";

static const char *words(const char *more)
{
    return test_format("%s snapshot_prefix: '%s/s'", more, test_folder());
}

static const char *snapshot(void)
{
    return test_path("s_iter_4.solverstate");
}

static const double *losses(const struct rank *r, int n)
{
    for (int i = 0; i < n; i++)
        if (r[i].st != CT_OK)
            FAIL("rank %d: %s", i, r[i].why);
    return r->loss;
}

/* Rank 0's host has the file; the others have nothing of that name.  Roads that
 * are measured may be others in each run, with other bits. */
TEST(resume, rank_0_reads_for_all)
{
    static const char *const options[] = {
        "reduce: 'ring' road: 'allreduce'", "road: 'ps'", "road: 'sharded'",
        "sync: 'ssp' staleness: 1", "sync: 'async'", "sync: 'local'",
        "groups: 2",               "deadline: 5",   "canonical: true parts: 4",
    };

    ranks_make_data();
    for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
        struct ranks_how how = { .n_ranks = 4, .options = options[k],
                                 .more = words("snapshot: 4"),
                                 .resume = snapshot(), .alone = true };
        struct rank *whole = ranks_train(4, words("snapshot: 4"), options[k],
                                         0);
        struct rank *rest;

        losses(whole, 4);
        rest = ranks_train_so(&how);
        losses(rest, 4);
        ASSERT_INT(RANKS_STEPS, rest->iter);
        if (strstr(options[k], "ssp") || strstr(options[k], "async"))
            continue; /* each run is another one */
        for (int r = 1; r < 4; r++)
            if (memcmp(rest->weights, rest[r].weights,
                       rest->n * sizeof(float)) != 0)
                FAIL("%s: rank %d ends with other weights", options[k], r);
        if (memcmp(whole->weights, rest->weights,
                   rest->n * sizeof(float)) != 0)
            FAIL("%s: other weights after a resume", options[k]);
    }
}

/* Before: 4 iterations of `from` ranks with 2 samples each.  After: the loss
 * of an iteration on `to` ranks is that of the samples that come next. */
static void goes_on(int from, int to, const char *options)
{
    const double *whole, *rest;
    const int next = 4 * from / to; /* iterations of `to` before it */

    ranks_batch(2);
    losses(ranks_train(from, words(still), options, 0), from);
    rest  = losses(ranks_resume(to, words(still), options, snapshot(), false),
                   to);
    whole = losses(ranks_train(to, words(still), options, 0), to);
    for (int i = next; i < RANKS_STEPS && i - next + 4 < RANKS_STEPS; i++)
        ASSERT_FLOAT(whole[i], rest[i - next + 4], 1e-6);
}

TEST(resume, another_number_of_ranks_takes_the_next_samples)
{
    static const char *const options[] = { "", "road: 'ps'", "data: 'root'" };

    for (int k = 0; k < 3; k++) {
        ranks_make_data();
        if (k == 2)
            ranks_source_db(ranks_make_db("train_lmdb"), "shuffle: true");
        goes_on(4, 2, options[k]);
        goes_on(2, 4, options[k]);
        goes_on(4, 8, options[k]);
    }
}

/* 16 samples before, and 3 ranks: in no iteration of theirs do 16 end. */
TEST(resume, any_number_of_ranks_takes_the_next_samples)
{
    const double *one, *three;
    double mean = 0;

    ranks_make_data();
    ranks_source_db(ranks_make_db("train_lmdb"), "shuffle: true");
    ranks_batch(1);
    losses(ranks_train(4, words(still), "", 0), 4);
    one   = losses(ranks_resume(1, words(still), "", snapshot(), false), 1);
    three = losses(ranks_resume(3, words(still), "", snapshot(), false), 3);
    for (int i = 4; i < 7; i++)
        mean += one[i] / 3;
    ASSERT_FLOAT(mean, three[4], 1e-6);
}

/* A snapshot that was resumed on other ranks and taken again knows where it
 * stands. */
TEST(resume, a_second_change_of_ranks_goes_on_as_well)
{
    const double *straight, *twice;

    ranks_make_data();
    ranks_batch(2);
    losses(ranks_train(4, words(still), "", 0), 4); /* 32 samples */
    losses(ranks_resume(2, words(still), "", snapshot(), true), 2);
    twice    = losses(ranks_resume(4, words(still), "", snapshot(), false), 4);
    straight = losses(ranks_train(4, words(still), "", 0), 4);
    for (int i = 4; i < RANKS_STEPS; i++)
        ASSERT_FLOAT(straight[i], twice[i], 1e-6);
}

/* Caffe's own states have no checksums, and may have double precision. */
static void make_old(const char *path)
{
    Caffe__SolverState *m = NULL;

    ASSERT_OK(ct_binary_read(&caffe__solver_state__descriptor, path, &m));
    m->has_crc = m->has_own_crc = false;
    for (size_t i = 0; i < m->n_history; i++) {
        Caffe__BlobProto *b = m->history[i];

        b->double_data = malloc(b->n_data * sizeof(double));
        for (size_t k = 0; k < b->n_data; k++)
            b->double_data[k] = (double)b->data[k];
        b->n_double_data = b->n_data;
        b->n_data        = 0;
    }
    ASSERT_OK(ct_binary_write(m, path));
    ct_message_free(m);
}

TEST(resume, a_state_of_doubles_goes_to_all_ranks)
{
    const char *road = "road: 'allreduce'";
    const struct rank *whole, *rest;

    ranks_make_data();
    whole = ranks_train(2, words("snapshot: 4"), road, 0);
    losses(whole, 2);
    make_old(snapshot());
    rest = ranks_resume(2, words("snapshot: 4"), road, snapshot(), false);
    losses(rest, 2);
    for (int r = 0; r < 2; r++)
        ASSERT(memcmp(whole->weights, rest[r].weights,
                      rest->n * sizeof(float)) == 0);
}
