/* coll.h - collectives over floats; one file per algorithm.
 *
 * An algorithm that sums is one const struct ct_allreduce_type in one file, and
 * one line in coll.def.  `--reduce`, `--help`, the sweep over sizes and
 * `cortado plan` use that list.
 *
 * The order of additions depends only on P, the hosts and the algorithm.  So a
 * run repeats bit for bit, and every rank gets the same bits.  For `mpi` this
 * holds if it holds for the library. */
#ifndef CT_COMM_COLL_H
#define CT_COMM_COLL_H

#include "comm/coll/terms.h"
#include "comm/comm.h"

struct ct_text;

/* x becomes the sum over ranks, on all ranks. */
typedef enum ct_status (*ct_allreduce_fn)(struct ct_comm *c, float *x,
                                          int64_t n);

struct ct_allreduce_type {
    const char     *name; /* for --reduce */
    ct_allreduce_fn run;
    /* Exact number of bytes that the rank at place p sends for n floats. */
    double (*bytes)(const struct ct_place *p, int64_t n);
    /* Predicted cost with two or more ranks. */
    struct ct_cost (*cost)(const struct ct_terms *t);
    /* Optional: whether it is the usual algorithm for so many bytes.  NULL:
     * only measurements or --reduce choose it. */
    bool (*is_usual)(const struct ct_place *p, double bytes);
    /* Optional: whether it can run here.  NULL: always. */
    bool (*available)(const struct ct_comm *c);
    bool foreign; /* its order of additions is unknown: only --reduce chooses
                   * it */
};

const struct ct_allreduce_type *ct_allreduce_find(const char *name);
const struct ct_allreduce_type *ct_allreduce_at(int i); /* NULL past the end */
/* Adds the values of --reduce to `out`: "auto", the list, and `more`, a word
 * that only the caller knows; NULL: none. */
void ct_allreduce_choices(const char *more, struct ct_text *out);
/* The algorithm of that name; NULL for "auto".  An unknown name is CT_EINVAL,
 * and the message lists the choices. */
CT_MUST_CHECK enum ct_status ct_allreduce_parse(
    const char *name, const char *more, const struct ct_allreduce_type **out);
/* The algorithm without measurements: the first of the list that is_usual() for
 * the hosts and ranks of `place`. */
const struct ct_allreduce_type *ct_allreduce_usual(const struct ct_place *place,
                                                   double bytes);
/* Predicted cost of a sum of n floats; 0 for one rank. */
struct ct_cost ct_allreduce_cost(const struct ct_allreduce_type *type,
                                 const struct ct_links *links,
                                 const struct ct_place *place, double n);
bool ct_allreduce_available(const struct ct_comm *c,
                            const struct ct_allreduce_type *type);

/* The algorithm for n floats: the fastest one if it was measured
 * (coll/tune.h), otherwise the usual one. */
const struct ct_allreduce_type *ct_allreduce_choose(const struct ct_comm *c,
                                                    int64_t n);
CT_MUST_CHECK enum ct_status ct_allreduce(struct ct_comm *c, float *x,
                                          int64_t n);

/* Copies bytes of `root` to all ranks. */
CT_MUST_CHECK enum ct_status ct_broadcast(struct ct_comm *c, int root,
                                          void *data, size_t bytes);
double ct_broadcast_bytes(const struct ct_place *p, int root, size_t bytes);
/* The first n_have ranks have these bytes, and keep them; the others get
 * them. */
CT_MUST_CHECK enum ct_status ct_supply(struct ct_comm *c, int n_have,
                                       void *data, size_t bytes);
double ct_supply_bytes(const struct ct_place *p, int n_have, size_t bytes);
/* Gathers the parts of all ranks in rank order.  Rank r has bytes[r] bytes.
 * `mine` may already be in its place in out. */
CT_MUST_CHECK enum ct_status ct_allgather(struct ct_comm *c, const void *mine,
                                          const size_t *bytes, void *out);
double ct_allgather_bytes(const struct ct_place *p, const size_t *bytes);
/* Returns when all ranks have called it. */
CT_MUST_CHECK enum ct_status ct_barrier(struct ct_comm *c);
double ct_barrier_bytes(const struct ct_place *p);

#endif
