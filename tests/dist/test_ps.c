/* test_ps.c - parameter servers in lock-step: the results of an allreduce, by
 * other messages, whose bytes are those of the formulas. */
#include "comm/ps/ps_message.h"
#include "dist/ranks.h"

TEST(ps, one_server_trains_as_one_rank)
{
    static const int counts[] = { 1, 2, 3, 4, 8 };
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    for (int i = 0; i < 5; i++)
        ranks_same_as_one(one, ranks_train(counts[i], "", "road: 'ps'", 0),
                          counts[i]);
}

TEST(ps, servers_on_all_ranks_train_as_one_rank)
{
    static const int counts[] = { 1, 2, 3, 4, 8 };
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    for (int i = 0; i < 5; i++)
        ranks_same_as_one(one, ranks_train(counts[i], "", "road: 'sharded'",
                                           0), counts[i]);
}

TEST(ps, ranks_that_only_serve_make_no_difference)
{
    static const struct { int workers, servers; } job[] = {
        { 1, 1 }, { 2, 1 }, { 3, 2 }, { 4, 3 }, { 6, 1 },
    };
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    for (int i = 0; i < 5; i++) {
        char options[64];
        struct ranks_how how = {
            .n_ranks   = job[i].workers + job[i].servers,
            .n_servers = job[i].servers,
            .options   = options,
        };

        snprintf(options, sizeof(options), "road: '%s' servers: %d",
                 job[i].servers == 1 ? "ps" : "sharded", job[i].servers);
        ranks_same_as_one(one, ranks_train_so(&how), job[i].workers);
    }
}

TEST(ps, late_and_overtaking_messages_make_no_difference)
{
    static const char *const roads[] = { "road: 'ps'", "road: 'sharded'" };
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, "", "", 0);
    for (int i = 0; i < 2; i++)
        for (unsigned seed = 1; seed <= 3; seed++) {
            struct ranks_how how = { .n_ranks = 4, .options = roads[i],
                                     .delay_seed = seed };

            ranks_same_as_one(one, ranks_train_so(&how), 4);
        }
}

TEST(ps, clipping_micro_batches_and_no_overlap_keep_to_it)
{
    const char *clip = "clip_gradients: 0.05";
    struct rank *one;

    ranks_make_data();
    one = ranks_train(1, clip, "", 0);
    ranks_same_as_one(one, ranks_train(4, clip, "road: 'sharded'", 0), 4);
    one = ranks_train(1, "iter_size: 2", "", 0);
    ranks_same_as_one(one, ranks_train(2, "iter_size: 2",
                                       "road: 'ps' overlap: false", 0), 2);
}

/* Four ranks part with a barrier, log2(P) messages of a byte. */
enum { BARRIER = 2 };

/* Messages are heads of 128 bytes and floats; n of them in all. */
static double floats_sent(const struct rank *r, double n_messages)
{
    return ((double)r->stats.bytes_sent - BARRIER -
            n_messages * sizeof(struct ct_ps_head)) / sizeof(float);
}

/* One server: 1024 floats a slice at least, and four slices at least. */
TEST(ps, one_servers_bytes_are_the_formulas)
{
    struct rank *r;
    double n;

    ranks_make_data();
    r = ranks_train(4, "", "road: 'ps'", 0);
    ASSERT_OK(r[0].st);
    n = RANKS_STEPS * (double)r[0].n;
    for (int slices = 1;; slices++) { /* as many answers as pushes */
        double sent = floats_sent(&r[1], RANKS_STEPS * slices);

        ASSERT(slices < 100);
        if (sent > n)
            continue;
        ASSERT_FLOAT(n, sent, 0);
        /* The root's link carries 2 n (P-1): half of that is sent. */
        ASSERT_FLOAT(3 * n, floats_sent(&r[0], 3.0 * RANKS_STEPS * slices), 0);
        return;
    }
}

/* Beyond four workers answers go down a tree.  The root sends two of each;
 * ranks 1 and 2 pass two on beside their own push, rank 3 one. */
TEST(ps, one_server_of_many_sends_each_answer_twice)
{
    static const double copies[] = { 2, 3, 3, 2, 1, 1, 1, 1 };
    struct rank *r;

    ranks_make_data();
    r = ranks_train_so(&(struct ranks_how){ .n_ranks = 8, .delay_seed = 4,
                                            .options = "road: 'ps'" });
    for (int i = 0; i < 8; i++) {
        double floats = copies[i] * RANKS_STEPS * (double)r[i].n;

        ASSERT_OK(r[i].st);
        /* The rest is heads of up to 64 slices, and the barrier. */
        ASSERT((double)r[i].stats.bytes_sent > 4 * floats);
        ASSERT((double)r[i].stats.bytes_sent <
               4 * floats + copies[i] * RANKS_STEPS * 64 * 128 + 8);
    }
}

/* Over all ranks 2 n (P-1), as a ring's; and nobody has much more than a P-th
 * of it. */
TEST(ps, sharded_servers_bytes_are_the_rings)
{
    struct rank *r;
    double sum = 0, most = 0, want;

    ranks_make_data();
    r = ranks_train(4, "", "road: 'sharded'", 0);
    for (int i = 0; i < 4; i++) {
        double sent = (double)r[i].stats.bytes_sent - BARRIER;

        ASSERT_OK(r[i].st);
        sum += sent;
        most = fmax(most, sent);
    }
    want = 4.0 * RANKS_STEPS * 2 * 3 * (double)r[0].n;
    /* What is left over is heads, a whole number of them for each of the 2
     * (P-1) messages of a slice. */
    ASSERT(sum > want);
    ASSERT_FLOAT(0, fmod(sum - want,
                         128.0 * RANKS_STEPS * 2 * 3), 0);
    ASSERT(most < 1.25 * sum / 4);
}

/* Sixteen bits each way: half of the bytes but for riders and heads, all
 * ranks equal to the bit, and close to what floats train. */
TEST(ps, servers_in_step_take_16_bits)
{
    static const char *const codecs[] = { "bf16", "fp16" };
    static const char *const roads[]  = { "ps", "sharded" };
    static const double close[]       = { 2e-2, 2e-3 };

    ranks_make_data();
    for (int i = 0; i < 4; i++) {
        char plain[64], coded[96];
        const int n = i % 2 ? 4 : 7; /* 7: down a tree */
        struct rank *a, *b;

        snprintf(plain, sizeof(plain), "road: '%s'", roads[i % 2]);
        snprintf(coded, sizeof(coded), "road: '%s' compress: '%s'",
                 roads[i % 2], codecs[i / 2]);
        ranks_batch(3);
        a = ranks_train(n, "", plain, 0);
        b = ranks_train(n, "", coded, 0);
        for (int r = 0; r < n; r++) {
            if (b[r].st != CT_OK)
                FAIL("rank %d: %s", r, b[r].why);
            if (ranks_alike(r))
                ASSERT_INT(0, memcmp(b[0].weights, b[r].weights,
                                     b[0].n * sizeof(float)));
            for (int k = 0; k < RANKS_STEPS; k++)
                ASSERT_FLOAT(a[r].loss[k], b[r].loss[k],
                             close[i / 2] * a[0].loss[0]);
        }
        ASSERT(memcmp(a[0].weights, b[0].weights, b[0].n * sizeof(float)));
        ASSERT((double)b[1].stats.bytes_sent <
               .75 * (double)a[1].stats.bytes_sent);
    }
}

TEST(ps, what_does_not_go_together_is_refused)
{
    static const struct { const char *options, *why; } bad[] = {
        { "road: 'ps' servers: 2", "sharded" },
        { "servers: 3", "leaves no rank" },
        { "sync: 'sloppy'", "sloppy" },
        { "sync: 'ssp' road: 'allreduce'", "no servers" },
        { "sync: 'local' road: 'ps'", "local" },
        { "deadline: 1 sync: 'ssp'", "deadline" },
        { "staleness: 2", "ssp" },
        { "groups: 4", "groups=4" },
        { "late: 'never' road: 'ps' deadline: 1", "never" },
    };

    ranks_make_data();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rank *r = ranks_train(3, "", bad[i].options, 0);

        ASSERT_STATUS(CT_EINVAL, r[0].st);
        ASSERT_HAS(bad[i].why, r[0].why);
    }
}
