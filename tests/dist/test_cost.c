/* test_cost.c - the formulas against bytes that collectives count, and times
 * worked out by hand. */
#include "base/mem.h"
#include "comm/coll/coll.h"
#include "dist/model/cost.h"
#include "testing/test.h"

/* A machine on which every term shows: a 1 s, b 1 s, c 10 s a byte. */
static const struct dist_machine plain = { 1, 1, 10, 1, 1, 0, 0 };

static struct dist_cost sum_cost(const struct dist_machine *w, int size,
                                 const char *name, double floats)
{
    return dist_cost_sum(w, size, ct_allreduce_find(name), floats);
}

static double seconds(const char *name, int size, double floats)
{
    return sum_cost(&plain, size, name, floats).seconds;
}

TEST(cost, the_busiest_rank_sends_what_the_collectives_count)
{
    static const int sizes[] = { 2, 3, 4, 8, 16 };
    static const char *const ways[] = { "ring", "halving", "tree" };

    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 3; k++) {
            const int64_t n = 48 * 1024;
            const int P     = sizes[i];
            double most     = 0;
            int host[16];

            for (int r = 0; r < P; r++)
                host[r] = r;
            for (int r = 0; r < P; r++) {
                struct ct_place p = ct_place(r, P, host);

                most = fmax(most, ct_allreduce_find(ways[k])->bytes(&p, n));
            }
            ASSERT_FLOAT(most, sum_cost(&plain, P, ways[k],
                                        (double)n).bytes, 1);
        }
}

TEST(cost, hosts_of_several_ranks_send_what_the_collective_counts)
{
    const struct dist_machine w = { 1, 1, 1, 1, 4, 1, 1 };
    const int64_t n = 1 << 20;
    int host[16];
    struct ct_place p;

    for (int r = 0; r < 16; r++)
        host[r] = r / 4;
    p = ct_place(5, 16, host);
    ASSERT_FLOAT(ct_allreduce_find("hierarchical")->bytes(&p, n),
                 sum_cost(&w, 16, "hierarchical", (double)n).bytes, 1);
}

/* A 6 x 10 matrix from 2 samples on each of 3 ranks; 10 s a byte.  A rank
 * writes and others read 2 (6 + 10) floats as factors. */
TEST(cost, in_a_house_time_goes_by_the_memory_moved)
{
    struct dist_load load = { .floats = 60, .n = 6, .m = 10, .k = 2 };
    struct dist_cost sums = dist_cost_shared(&plain, 3, false, &load);
    struct dist_cost rows = dist_cost_shared(&plain, 3, true, &load);

    ASSERT_FLOAT(10 * 16 * 60, sums.seconds, 0);
    ASSERT_FLOAT(4 * 60, sums.bytes, 0);
    ASSERT_FLOAT(10 * (12 * 2 * 6 + (8 + 12) * 2 * 10), rows.seconds, 0);
    ASSERT_FLOAT(4 * 2 * 16, rows.bytes, 0);
}

/* 4 ranks, 2 floats: S = 8. */
TEST(cost, times_are_those_of_the_formulas)
{
    ASSERT_FLOAT(6 + 12 + 60, seconds("ring", 4, 2), 1e-9);
    ASSERT_FLOAT(4 + 12 + 60, seconds("halving", 4, 2), 1e-9);
    ASSERT_FLOAT(4 * 9 + 160, seconds("tree", 4, 2), 1e-9);
    ASSERT_FLOAT(2 + 48 + 240, dist_cost_ps(&plain, 4, 2).seconds, 1e-9);
    ASSERT_FLOAT(6 + 12 + 60, dist_cost_sharded(&plain, 4, 2).seconds, 1e-9);
    ASSERT_FLOAT(60, seconds("shared", 4, 2), 1e-9);
    /* 3 ranks: two halve and double, the third folds and unfolds. */
    ASSERT_FLOAT(2 + 8 + 40 + 2 * (1 + 8) + 80, seconds("halving", 3, 2),
                 1e-9);
    ASSERT_FLOAT(0, dist_cost_ps(&plain, 1, 2).seconds, 0);
    /* 8 ranks: 7 pushes in, two copies out, which are passed on twice. */
    ASSERT_FLOAT(1 + 56 + 560 + 3 + 16, dist_cost_ps(&plain, 8, 2).seconds,
                 1e-9);
}

/* Two hosts of two: what crosses takes b, what stays inside a quarter; 4
 * floats are S = 16. */
TEST(cost, what_stays_inside_a_host_is_cheaper)
{
    const struct dist_machine w = { 1, 1, 0, 1, 2, .5, .25 };

    /* Inside: 2 waits of .5, and copies that cost nothing here; across: 2
     * steps, 2 ranks with 8 bytes each through one link. */
    ASSERT_FLOAT(1 + 2 + 16, sum_cost(&w, 4, "hierarchical", 4).seconds,
                 1e-9);
    /* One host alone. */
    ASSERT_FLOAT(1 + 4, sum_cost(&w, 2, "ring", 4).seconds, 1e-9);
}

/* 3 x 5 from 2 samples on 4 ranks: 2 x 8 floats to each of 3 peers; the
 * products of 6 samples that are not one's own. */
TEST(cost, factors_send_samples_and_multiply_them_all)
{
    struct dist_load load = { 15, 3, 5, 2 };
    struct dist_cost c = dist_cost_factors(&plain, 4, &load);

    ASSERT_FLOAT(3 * 64, c.bytes, 0);
    ASSERT_FLOAT(3 + 3 * 64, c.seconds, 1e-9);
    ASSERT_FLOAT(2 * 15 * 2 * 3, c.compute, 1e-9);
}

/* 128 x 64 floats on 4 ranks: half of 2 3/4 32768 bytes, and 6 messages. */
TEST(cost, codecs_send_their_own_bytes)
{
    struct dist_load load   = { 8192, 128, 64, 0 };
    struct dist_codec codec = { 0 };
    struct dist_cost c;

    ASSERT_OK(dist_codec_parse("bf16", &codec));
    c = dist_cost_coded(&plain, 4, &codec, &load);
    ASSERT_FLOAT(24576, c.bytes, 1e-9);
    ASSERT(c.seconds > 6 + 24576);
    ASSERT(c.seconds < 6 + 24576 + 1);
}

/* Why `auto` does not look at servers: on every rank they take a ring's bytes
 * and messages, and on one, beyond a / b bytes, more of a link's time than any
 * sum. */
TEST(cost, servers_are_never_quicker_than_the_best_sum)
{
    static const char *const sums[] = { "ring", "halving", "tree" };
    const double b = 8e-9, c = 2e-10;

    for (double a = 1e-6; a < 1e-2; a *= 3)
        for (int P = 2; P <= 64; P++)
            for (double S = 64; S < 1e9; S *= 3) {
                const struct dist_machine w = { a, b, c, 1, 1, a, b };
                double best = INFINITY;

                for (int i = 0; i < 3; i++)
                    best = fmin(best, sum_cost(&w, P, sums[i],
                                               S / 4).seconds);
                ASSERT(best <= 1.000001 *
                       dist_cost_sharded(&w, P, S / 4).seconds);
                if (S > a / b)
                    ASSERT(best < dist_cost_ps(&w, P, S / 4).seconds);
            }
}
