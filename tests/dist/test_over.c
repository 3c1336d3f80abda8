/* test_over.c - a view ends in the middle of training: no rank waits on. */
#include "base/clock.h"
#include "dist/ranks.h"
#include "testing/files.h"

enum { RANKS = 4, AT = 3 };

/* Rank 1 ends the view for all in the middle of the others' iterations, and
 * comes to none itself until they have noticed. */
static void end_it(const struct rank *r, int iter)
{
    if (r->number == 1 && iter == AT)
        ranks_over(r);
}

static void ends(const char *options, const char *more, int n_servers,
                 const int *host)
{
    const double start         = ct_now();
    const struct ranks_how how = { .n_ranks   = RANKS,
                                   .n_servers = n_servers,
                                   .options   = options,
                                   .more      = more,
                                   .host      = host,
                                   .each      = end_it,
                                   .quiet     = true };
    const struct rank *r       = ranks_train_so(&how);

    if (ct_now() - start > 60)
        FAIL("%s: it took %.1f s", options, ct_now() - start);
    for (int i = 0; i < RANKS; i++)
        if (r[i].st != CT_ECOMM)
            FAIL("%s: rank %d ended with %d: %s", options, i, (int)r[i].st,
                 r[i].why);
}

TEST(over, no_way_of_training_waits_on)
{
    static const char *const ways[] = {
        "", "reduce: 'ring'", "reduce: 'tree'", "reduce: 'halving'",
        "reduce: 'hierarchical'", "road: 'allreduce' bucket_bytes: 4096",
        "road: 'allreduce' reduce: 'ring' slice_bytes: 512",
        "road: 'factors'", "road: 'factors' reduce: 'ring'", "road: 'ps'",
        "road: 'sharded'", "overlap: false", "compress: 'bf16'",
        "compress: 'topk:0.1'", "compress: 'onebit'", "sync: 'local'",
        "sync: 'local' local_steps: 2 reduce: 'ring'", "sync: 'ssp'",
        "sync: 'ssp' staleness: 2 road: 'ps'", "sync: 'async' road: 'ps'",
        "groups: 2", "deadline: 0.5", "bandwidth: '100MB'" };

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        ranks_make_data();
        ends(ways[i], "", 0, NULL);
    }
}

TEST(over, servers_and_hosts_do_not_either)
{
    static const int hosts[RANKS] = { 0, 0, 1, 1 };

    ranks_make_data();
    ends("", "", 0, hosts);
    ends("reduce: 'hierarchical'", "", 0, hosts);
    ends("road: 'factors'", "", 0, hosts);
    ends("sync: 'ssp' servers: 2", "", 2, hosts);
    ends("sync: 'ssp' servers: 1", "", 1, NULL);
    ends("sync_bn: true", "", 0, hosts);
    ends("", "iter_size: 2", 0, NULL);
}
