/* test_pairs.c - every two ranks meet once, and all know what was measured. */
#include "comm/probe.h"
#include "comm/comm_ranks.h"

TEST(pairs, every_two_ranks_meet_exactly_once)
{
    for (int P = 1; P <= 17; P++) {
        int met[17][17] = { { 0 } };

        for (int k = 0; k < ct_pairs_rounds(P); k++)
            for (int r = 0; r < P; r++) {
                int other = ct_pairs_partner(r, P, k);

                if (other < 0)
                    continue;
                ASSERT(other != r && other < P);
                ASSERT_INT(r, ct_pairs_partner(other, P, k));
                met[r][other]++;
            }
        for (int a = 0; a < P; a++)
            for (int b = 0; b < P; b++)
                ASSERT_INT(a != b, met[a][b]);
    }
}

static enum ct_status measure(struct ct_comm *c, void *arg)
{
    return ct_comm_probe_pairs(c, (struct ct_pairs *)arg + c->rank);
}

TEST(pairs, all_ranks_get_the_same_matrix)
{
    for (int P = 1; P <= 5; P += 2) {
        struct ct_pairs p[MOST_RANKS] = { { 0 } };

        ranks_run(P, NULL, measure, p);
        for (int r = 0; r < P; r++) {
            ASSERT_INT(p[0].slow_rank, p[r].slow_rank);
            ASSERT(P == 1 || p[r].slow_rank < p[r].slow_peer);
            for (int a = 0; a < P; a++)
                for (int b = 0; b < P; b++) {
                    const struct ct_link *l = &p[r].link[a * P + b];

                    ASSERT(a == b || l->alpha > 0);
                    ASSERT_FLOAT(p[0].link[b * P + a].beta, l->beta, 0);
                }
        }
        for (int r = 0; r < P; r++)
            ct_pairs_fini(&p[r]);
    }
}
