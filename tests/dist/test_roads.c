/* test_roads.c - every road leads to the same place: ranks that sum around a
 * ring, along a tree, inside hosts first, through servers that add up or keep
 * the parameters, or by factors, train alike, to one in a million.
 *
 * Two hosts, one with the first half of the ranks; messages wait and
 * overtake. */
#include "dist/ranks.h"

static const char *const roads[] = {
    "road: 'allreduce' reduce: 'halving'",
    "road: 'allreduce' reduce: 'tree'",
    "road: 'allreduce' reduce: 'hierarchical'",
    "road: 'factors' reduce: 'ring'",
    "road: 'auto' redecide: 2",
    "road: 'ps'",
    "road: 'sharded'",
    "sync: 'ssp'",
    "sync: 'ssp' road: 'ps'",
};

/* To 1e-6 of the largest weight, and of each loss. */
static void alike(const char *road, const struct rank *a, const struct rank *b,
                  int n)
{
    double most = 0;

    for (size_t j = 0; j < a->n; j++)
        most = fmax(most, fabs((double)a->weights[j]));
    for (int r = 0; r < n; r++) {
        if (b[r].st != CT_OK)
            FAIL("%s, rank %d of %d: %s", road, r, n, b[r].why);
        for (int k = 0; k < RANKS_STEPS; k++)
            ASSERT_FLOAT(a->loss[k], b[r].loss[k], 1e-6 * a->loss[k]);
        for (size_t j = 0; j < a->n; j++)
            ASSERT_FLOAT(a->weights[j], b[r].weights[j], 1e-6 * most);
        if (ranks_alike(r))
            ASSERT_INT(0, memcmp(b->weights, b[r].weights,
                                 a->n * sizeof(float)));
    }
}

TEST(roads, all_lead_to_the_same_place)
{
    static const int counts[] = { 1, 2, 3, 4, 7, 8 };

    ranks_make_data();
    ranks_batch(3);
    for (int c = 0; c < 6; c++) {
        struct ranks_how how = { .n_ranks = counts[c], .delay_seed = 3,
                                 .options = "road: 'allreduce' "
                                            "reduce: 'ring'" };
        int host[RANKS_MOST];
        struct rank *ring;

        for (int r = 0; r < counts[c]; r++)
            host[r] = r >= (counts[c] + 1) / 2;
        how.host = host;
        ring     = ranks_train_so(&how);
        ASSERT_OK(ring->st);
        if (counts[c] == 8) /* 24 samples: it learns indeed */
            ASSERT(ring->loss[RANKS_STEPS - 1] < 0.8 * ring->loss[0]);
        for (size_t i = 0; i < sizeof(roads) / sizeof(roads[0]); i++) {
            how.options = roads[i];
            alike(roads[i], ring, ranks_train_so(&how), counts[c]);
        }
    }
}

static atomic_int n_timed, n_looks;

static void look(const struct rank *r, int iter)
{
    const struct ct_dist *d = r->exchange->state;

    (void)iter;
    atomic_fetch_add(&n_looks, 1);
    atomic_fetch_add(&n_timed, d->view.comm->n_choices > 0);
}

/* Whether ranks on these hosts timed the ways to sum before they trained. */
static bool timed(const int *host, const char *options)
{
    const struct ranks_how how = { .n_ranks = 3, .options = options,
                                   .host = host, .each = look, .steps = 2 };
    struct rank *r;

    atomic_store(&n_timed, 0);
    atomic_store(&n_looks, 0);
    r = ranks_train_so(&how);
    for (int k = 0; k < 3; k++)
        if (r[k].st != CT_OK)
            FAIL("%s, rank %d: %s", options, k, r[k].why);
    ASSERT(atomic_load(&n_looks) > 0);
    ASSERT(n_timed == 0 || n_timed == n_looks);
    return n_timed > 0;
}

TEST(roads, sums_between_hosts_are_timed_at_the_start)
{
    static const int hosts[] = { 0, 0, 1 };

    ranks_make_data();
    ASSERT(timed(hosts, "road: 'allreduce'"));
    ASSERT(timed(hosts, "road: 'auto'"));
    ASSERT(!timed(NULL, "road: 'allreduce'"));
    ASSERT(!timed(hosts, "road: 'allreduce' reduce: 'ring'"));
    ASSERT(!timed(hosts, "road: 'allreduce' bandwidth: '1gbit'"));
    ASSERT(!timed(hosts, "road: 'sharded'"));
}
