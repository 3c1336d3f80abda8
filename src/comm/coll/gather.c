/* gather.c - all-gather and barrier.
 *
 * All-gather uses a ring: in each of P-1 steps a rank forwards the part that it
 * received last.  T = (P-1) alpha + (sum - own) beta.
 *
 * Barrier: in step k rank r sends to r + 2^k and receives from r - 2^k; after
 * ceil(log2 P) steps every rank has news of all others. */
#include <string.h>

#include "comm/coll/coll.h"
#include "comm/coll/transfer.h"

enum ct_status ct_allgather(struct ct_comm *c, const void *mine,
                            const size_t *bytes, void *out)
{
    const int P   = c->size;
    int give      = c->rank;
    char *to      = out;
    size_t at     = 0, whole = 0;

    for (int r = 0; r < P; r++) {
        at += r < c->rank ? bytes[r] : 0;
        whole += bytes[r];
    }
    ct_comm_begin(c, "allgather", whole);
    if (bytes[give] && to + at != (const char *)mine)
        memcpy(to + at, mine, bytes[give]);
    for (int step = 0; step < P - 1; step++) {
        int take = (give + P - 1) % P;
        struct ct_transfer t = {
            .to         = (c->rank + 1) % P,
            .give       = to + at,
            .give_bytes = bytes[give],
            .from       = (c->rank + P - 1) % P,
            .take_bytes = bytes[take],
        };

        at     = (take == P - 1 ? whole : at) - bytes[take];
        t.take = to + at;
        CT_TRY(ct_transfer(c, &t, ct_comm_tag(c, 0)));
        give = take;
    }
    return CT_OK;
}

/* A rank forwards all parts except the next rank's own. */
double ct_allgather_bytes(const struct ct_place *p, const size_t *bytes)
{
    double sum = 0;

    for (int r = 0; r < p->size; r++)
        if (r != (p->rank + 1) % p->size)
            sum += (double)bytes[r];
    return p->size == 1 ? 0 : sum;
}

enum ct_status ct_barrier(struct ct_comm *c)
{
    char mine = 0, theirs;

    ct_comm_begin(c, "barrier", 0);
    for (int d = 1, step = 0; d < c->size; d <<= 1, step++)
        CT_TRY(ct_comm_exchange(c, (c->rank + d) % c->size, &mine, 1,
                                (c->rank - d + c->size) % c->size, &theirs, 1,
                                ct_comm_tag(c, step)));
    return CT_OK;
}

double ct_barrier_bytes(const struct ct_place *p)
{
    double n = 0;

    for (int d = 1; d < p->size; d <<= 1)
        n++;
    return n;
}
