/* pairs.c - measures the link between every two ranks.
 *
 * A round-robin tournament by the circle method: of an even number of places
 * the last one is fixed, and the others rotate by one in each round.
 *
 *     round k: ranks a and b, both below the last place n, are a pair if
 *              a + b = k (mod n); the rank with 2 a = k (mod n) is paired
 *              with n
 *
 * For an odd number of ranks place n is empty, and its partner pauses. */
#include <string.h>

#include "base/mem.h"
#include "comm/coll/coll.h"
#include "comm/probe.h"

int ct_pairs_rounds(int size)
{
    return size < 2 ? 0 : size % 2 ? size : size - 1;
}

int ct_pairs_partner(int rank, int size, int round)
{
    const int n = ct_pairs_rounds(size);
    int other;

    if (rank == n) {
        /* 2 a = round (mod n), n odd: a is round / 2 or (round + n) / 2. */
        return round % 2 ? (round + n) / 2 : round / 2;
    }
    other = ((round - rank) % n + n) % n;
    if (other == rank)
        other = n;
    return other < size ? other : -1;
}

/* Each rank has its own row of the matrix; all ranks get all rows. */
static enum ct_status share(struct ct_comm *c, struct ct_pairs *p)
{
    size_t *bytes = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)c->size, sizeof(*bytes), "pairs", &bytes));
    for (int r = 0; r < c->size; r++)
        bytes[r] = (size_t)c->size * sizeof(*p->link);
    st = ct_allgather(c, p->link + (size_t)c->rank * (size_t)c->size, bytes,
                      p->link);
    ct_free(bytes);
    return st;
}

/* Copies the result of each pair, which its lower rank has, to the other half
 * of the matrix, and finds the slowest pair. */
static void mirror(struct ct_pairs *p)
{
    double worst = -1;

    for (int a = 0; a < p->size; a++)
        for (int b = a + 1; b < p->size; b++) {
            struct ct_link *l = &p->link[a * p->size + b];

            p->link[b * p->size + a] = *l;
            if (l->beta > worst) {
                worst        = l->beta;
                p->slow_rank = a;
                p->slow_peer = b;
            }
        }
}

enum ct_status ct_comm_probe_pairs(struct ct_comm *c, struct ct_pairs *out)
{
    const size_t n = (size_t)c->size;
    char *data     = NULL;
    enum ct_status st;

    *out = (struct ct_pairs){ .size = c->size, .slow_rank = -1,
                              .slow_peer = -1 };
    CT_TRY_GOTO(ct_alloc(n * n, sizeof(*out->link), "pairs", &out->link), st,
                out);
    CT_TRY_GOTO(ct_alloc(CT_PROBE_BYTES, 1, "pairs", &data), st, out);
    for (int round = 0; round < ct_pairs_rounds(c->size); round++) {
        int peer = ct_pairs_partner(c->rank, c->size, round);

        ct_comm_begin(c, "probe pairs", CT_PROBE_BYTES);
        if (peer >= 0)
            CT_TRY_GOTO(ct_probe_link(c, peer, c->rank < peer, false, data,
                                      &out->link[c->rank * c->size + peer]),
                        st, out);
        CT_TRY_GOTO(ct_barrier(c), st, out);
    }
    CT_TRY_GOTO(share(c, out), st, out);
    mirror(out);
out:
    ct_free(data);
    if (st != CT_OK)
        ct_pairs_fini(out);
    return st;
}

void ct_pairs_fini(struct ct_pairs *p)
{
    ct_free(p->link);
    p->link = NULL;
}
