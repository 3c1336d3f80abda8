/* test_figures.c - rank 0 knows how the others are doing, and what happened. */
#include <unistd.h>

#include "dist/report/marks.h"
#include "ranks.h"

static struct ct_rank_state seen[3];
static bool known[3];

/* Rank 0 looks until the watching threads have told all; a minute at most. */
static void look(const struct rank *r, int iter)
{
    bool all = false;

    for (int n = 0; r->number == 0 && iter == 6 && !all && n < 600; n++) {
        usleep(100000);
        all = true;
        for (int i = 0; i < 3; i++) {
            known[i] = ct_dist_rank_state(r->exchange->state, i, &seen[i]);
            all &= known[i] && seen[i].memory > 0 && seen[i].bytes_sent > 0;
        }
    }
}

TEST(figures, rank_0_knows_all_ranks_of_its_host)
{
    struct ranks_how how = { .n_ranks = 3, .options = "", .each = look };
    struct rank *ranks;

    ranks_make_data();
    ranks = ranks_train_so(&how);
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(ranks[i].st);
        ASSERT(known[i]);
        ASSERT_INT(i, seen[i].rank);
        ASSERT_INT(getpid(), seen[i].pid);
        ASSERT(seen[i].iter >= 5 && seen[i].iter <= 6);
        ASSERT(seen[i].memory > 1 << 20 && !seen[i].gone);
        ASSERT(seen[i].host[0] && seen[i].phase[0]);
    }
    if (ranks_alike(1))
        ASSERT_HAS(seen[0].device, seen[1].device);
    ASSERT(seen[1].bytes_sent > 0 && seen[2].bytes_sent > 0);
    ASSERT(seen[0].waited + seen[1].waited + seen[2].waited > 0);
}

/* Those of another host come by messages. */
TEST(figures, rank_0_knows_ranks_of_other_hosts)
{
    static const int host[] = { 0, 1, 1 };
    struct ranks_how how = { .n_ranks = 3, .options = "", .each = look,
                             .host = host };

    ranks_make_data();
    ASSERT_OK(ranks_train_so(&how)[0].st);
    for (int i = 0; i < 3; i++)
        ASSERT(known[i]);
    ASSERT(seen[1].memory > 1 << 20 && seen[2].bytes_sent > 0);
}

TEST(figures, nothing_is_known_of_ranks_that_there_are_not)
{
    struct ct_rank_state s;

    ASSERT(!ct_dist_rank_state(NULL, 0, &s));
    ASSERT_INT(1, ct_dist_n_ranks(NULL));
    ASSERT_INT(-1, s.waiting_for);
}

TEST(figures, marks_come_in_order_and_the_oldest_make_room)
{
    struct dist_marks m = { .n = 0 };
    struct ct_mark mark;
    uint64_t n = 0;

    dist_marks_init(&m);
    ASSERT(!dist_marks_next(&m, &n, &mark));
    dist_marks_add(&m, CT_MARK_LOST, 2, 57, "rank %d is gone", 2);
    ASSERT(dist_marks_next(&m, &n, &mark));
    ASSERT_HAS("rank 2 is gone", mark.text);
    ASSERT_INT(57, mark.iter);
    ASSERT(mark.time > 1e9);
    ASSERT(!dist_marks_next(&m, &n, &mark));
    for (int i = 0; i < DIST_MARKS + 10; i++)
        dist_marks_add(&m, CT_MARK_BACK, i, i, "x");
    ASSERT(dist_marks_next(&m, &n, &mark));
    ASSERT_INT(10, mark.rank);
    for (int i = 11; i < DIST_MARKS + 10; i++)
        ASSERT(dist_marks_next(&m, &n, &mark));
    ASSERT_INT(DIST_MARKS + 9, mark.rank);
    ASSERT(!dist_marks_next(&m, &n, &mark));
    dist_marks_fini(&m);
}
