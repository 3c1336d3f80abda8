/* test_coded.c - training where coded gradients go to servers that keep the
 * parameters: in step it is what servers that add up make of the same codes;
 * out of step ranks learn and end as one; snapshots go on. */
#include "dist/ranks.h"

enum { P = 4 };

static const char *const codecs[] = { "onebit", "qsgd", "topk:0.25:0" };

/* All trained, are equal at the end, and have brought their loss down to a
 * part of what it was. */
static void learnt(const struct rank *r, int n, double to)
{
    for (int i = 0; i < n; i++) {
        if (r[i].st != CT_OK)
            FAIL("rank %d: %s", i, r[i].why);
        if (ranks_alike(i))
            ASSERT_INT(0, memcmp(r[0].weights, r[i].weights,
                                 r[0].n * sizeof(float)));
    }
    ASSERT(r[0].loss[RANKS_STEPS - 1] < to * r[0].loss[0]);
}

/* Every rule's momentum acts where it does without servers' values: topk's in
 * the codec, and not once more in the server. */
TEST(coded, in_step_it_is_what_servers_that_add_up_make_of_it)
{
    static const char *const rules[] = { "", "type: 'Nesterov'",
                                         "type: 'Adam' delta: 0.01" };

    ranks_make_data();
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) {
            char sum[96], values[96];
            struct rank *one;

            snprintf(sum, sizeof(sum), "road: 'sharded' compress: '%s'",
                     codecs[k]);
            snprintf(values, sizeof(values), "sync: 'ssp' compress: '%s'",
                     codecs[k]);
            one = ranks_train(P, rules[i], sum, 0);
            learnt(one, P, 0.9);
            ranks_same_as_one(one, ranks_train(P, rules[i], values, 0), P);
        }
}

/* The one that serves has no gradients of its own, and knows the codec. */
TEST(coded, a_rank_that_only_serves_makes_no_difference)
{
    ranks_make_data();
    for (int k = 0; k < 3; k++) {
        char sum[96], values[96];
        struct ranks_how how = { .n_ranks = P + 1, .n_servers = 1,
                                 .options = values, .delay_seed = 3 };
        struct rank *one;

        snprintf(sum, sizeof(sum), "road: 'ps' compress: '%s'", codecs[k]);
        snprintf(values, sizeof(values), "sync: 'ssp' servers: 1 "
                 "compress: '%s'", codecs[k]);
        one = ranks_train(P, "", sum, 0);
        learnt(one, P, 0.9);
        ranks_same_as_one(one, ranks_train_so(&how), P);
    }
}

/* Nobody is late: a deadline changes nothing. */
TEST(coded, with_a_deadline_16_and_8_bits_are_lock_step)
{
    static const char *const short_ones[] = { "bf16", "fp16", "qsgd" };

    ranks_make_data();
    for (int k = 0; k < 3; k++) {
        char values[96], rounds[96];
        struct rank *one;

        snprintf(values, sizeof(values), "sync: 'ssp' road: 'ps' "
                 "compress: '%s'", short_ones[k]);
        snprintf(rounds, sizeof(rounds), "deadline: 60 road: 'ps' "
                 "compress: '%s'", short_ones[k]);
        one = ranks_train(P, "", values, 0);
        learnt(one, P, 0.9);
        /* What differs in the last bit may round to another code. */
        ranks_near_one(one, ranks_train(P, "", rounds, 0), P, 1e-3);
    }
}

TEST(coded, out_of_step_ranks_learn_and_end_as_one)
{
    static const char *const how[] = {
        "sync: 'ssp' staleness: 2", "sync: 'async' road: 'ps'",
        "groups: 2 staleness: 1", "groups: 2",
    };

    ranks_make_data();
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 4; i++) {
            char options[128];
            struct ranks_how gentle = { .n_ranks = P, .options = options,
                                        .more = "base_lr: 0.01",
                                        .delay_seed = (unsigned)(i + 1) };

            snprintf(options, sizeof(options), "%s compress: '%s'", how[i],
                     codecs[k]);
            learnt(ranks_train_so(&gentle), P, 0.98);
        }
}

/* What ranks hold back, or the first ranks of groups, is in the snapshot. */
TEST(coded, a_snapshot_resumes_bit_for_bit)
{
    static const char *const how[] = { "sync: 'ssp'", "groups: 2" };

    ranks_make_data();
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 2; i++) {
            char more[512], options[128], state[512];
            struct rank *whole, *rest;

            snprintf(more, sizeof(more), "snapshot: 4 snapshot_prefix: "
                     "'%s/v%d%d'", test_folder(), k, i);
            snprintf(state, sizeof(state), "%s/v%d%d_iter_4.solverstate",
                     test_folder(), k, i);
            snprintf(options, sizeof(options), "%s compress: '%s'", how[i],
                     codecs[k]);
            whole = ranks_train(P, more, options, 0);
            rest  = ranks_resume(P, more, options, state, false);
            learnt(whole, P, 0.9);
            for (int r = 0; r < P; r++) {
                if (rest[r].st != CT_OK)
                    FAIL("rank %d: %s", r, rest[r].why);
                ASSERT_INT(0, memcmp(whole->weights, rest[r].weights,
                                     whole->n * sizeof(float)));
            }
        }
}
