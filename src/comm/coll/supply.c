/* supply.c - ranks that come get what those have who were there.
 *
 *     host 0:  0 1 | 4        0 -> 4
 *     host 1:  2   | 5        2 -> 5
 *     host 2:      | 3 6      0 -> 3 -> 6 -> 7
 *     host 3:      | 7
 *
 * They stand in lines, and each rank passes on a piece while it receives the
 * next one.  So the array enters and leaves each host once, and takes the time
 * of one transfer and of one piece for each rank of a line.
 *
 *     T = n beta + (ranks of the line) (alpha + piece beta)
 *
 * A long array goes in parts.  Ranks that have it meet after each, also those
 * that nobody stands behind: a rank that hears nothing for long takes the
 * others for stalled. */
#include "comm/coll/coll.h"
#include "comm/coll/transfer.h"

/* A piece is so small that a line of some ranks costs little, and no smaller
 * than what a message costs. */
enum { PIECES = 64, LEAST_PIECE = 16 << 10, PART = 1 << 20 };

static size_t piece_of(size_t bytes)
{
    const size_t piece = bytes / PIECES;

    return piece < LEAST_PIECE        ? LEAST_PIECE
           : piece > CT_SEGMENT_BYTES ? CT_SEGMENT_BYTES
                                      : piece;
}

/* The first n ranks, as in a barrier. */
static enum ct_status meet(struct ct_comm *c, int n)
{
    char mine = 0, theirs;

    for (int d = 1, step = 1; d < n && c->rank < n; d <<= 1, step++)
        CT_TRY(ct_comm_exchange(c, (c->rank + d) % n, &mine, 1,
                                (c->rank - d + n) % n, &theirs, 1,
                                ct_comm_tag(c, step)));
    return CT_OK;
}

enum ct_status ct_supply(struct ct_comm *c, int n_have, void *data,
                         size_t bytes)
{
    struct ct_tree t;

    if (n_have < 1 || n_have > c->size)
        return ct_fail(CT_EINVAL, "%d of %d ranks have what others lack",
                       n_have, c->size);
    ct_tree_init_lines(&t, &c->place, n_have);
    for (size_t at = 0; at < bytes && n_have < c->size; at += PART) {
        const size_t n = bytes - at < PART ? bytes - at : PART;

        ct_comm_begin(c, "supply", n);
        CT_TRY(ct_tree_spread_by(c, &t, (char *)data + at, n, piece_of(n),
                                 ct_comm_tag(c, 0)));
        if (at + n < bytes)
            CT_TRY(meet(c, n_have));
    }
    return CT_OK;
}

double ct_supply_bytes(const struct ct_place *p, int n_have, size_t bytes)
{
    double sent;
    struct ct_tree t;

    ct_tree_init_lines(&t, p, n_have);
    sent = (double)t.n_child * (double)bytes;
    for (int d = 1; d < n_have && p->rank < n_have && n_have < p->size; d <<= 1)
        sent += (double)(bytes > 0 ? (bytes - 1) / PART : 0);
    return sent;
}
