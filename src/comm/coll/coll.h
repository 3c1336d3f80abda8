/* coll.h - collectives over floats; one file an algorithm.
 *
 * A way to sum is one const struct ct_allreduce_type in one file, and one line
 * in coll.def: `--reduce`, `--help`, the sweep over sizes and `cortado plan`
 * follow that list.
 *
 * Sums are made in an order that depends on P, the hosts and the algorithm
 * alone, so a run repeats bit for bit, and every rank ends with the same bits
 * (for `mpi` as far as the library keeps to that). */
#ifndef CT_COMM_COLL_H
#define CT_COMM_COLL_H

#include "comm/coll/terms.h"
#include "comm/comm.h"

struct ct_text;

/* x becomes the sum over ranks, on all ranks. */
typedef enum ct_status (*ct_allreduce_fn)(struct ct_comm *c, float *x,
                                          int64_t n);

struct ct_allreduce_type {
    const char     *name; /* what --reduce= takes */
    ct_allreduce_fn run;
    /* Bytes that the rank at place p sends for n floats, to the byte. */
    double (*bytes)(const struct ct_place *p, int64_t n);
    /* What it takes, predicted, with two ranks or more. */
    struct ct_cost (*cost)(const struct ct_terms *t);
    /* Optional: is it the usual way to sum so many bytes?  Without it: only
     * measurements or its name choose it. */
    bool (*is_usual)(const struct ct_place *p, double bytes);
    /* Optional: can it run here?  Without it: everywhere. */
    bool (*available)(const struct ct_comm *c);
    bool foreign; /* its order is not ours, so it is taken by name alone */
};

const struct ct_allreduce_type *ct_allreduce_find(const char *name);
const struct ct_allreduce_type *ct_allreduce_at(int i); /* NULL past the end */
/* What --reduce= takes, as text: "auto", the list, and `more`, a word that the
 * caller knows besides; NULL: none. */
void ct_allreduce_choices(const char *more, struct ct_text *out);
/* The sum of that name, NULL for "auto".  Another name is CT_EINVAL, with the
 * choices. */
CT_MUST_CHECK enum ct_status ct_allreduce_parse(
    const char *name, const char *more, const struct ct_allreduce_type **out);
/* Without measurements, for ranks that lie like those of `place`: the first in
 * the list that is_usual(). */
const struct ct_allreduce_type *ct_allreduce_usual(const struct ct_place *place,
                                                   double bytes);
/* What a sum of so many floats takes; nothing for one rank. */
struct ct_cost ct_allreduce_cost(const struct ct_allreduce_type *type,
                                 const struct ct_links *links,
                                 const struct ct_place *place, double n);
bool ct_allreduce_available(const struct ct_comm *c,
                            const struct ct_allreduce_type *type);

/* The algorithm for n floats, by size and number of ranks: what was measured
 * (coll/tune.h), or else what is usual. */
const struct ct_allreduce_type *ct_allreduce_choose(const struct ct_comm *c,
                                                    int64_t n);
CT_MUST_CHECK enum ct_status ct_allreduce(struct ct_comm *c, float *x,
                                          int64_t n);

/* From `root` to all; bytes of any kind. */
CT_MUST_CHECK enum ct_status ct_broadcast(struct ct_comm *c, int root,
                                          void *data, size_t bytes);
double ct_broadcast_bytes(const struct ct_place *p, int root, size_t bytes);
/* out holds sum(bytes) bytes; rank r's part, bytes[r] long, lies behind those
 * of the ranks before it.  `mine` may be its place in out already. */
CT_MUST_CHECK enum ct_status ct_allgather(struct ct_comm *c, const void *mine,
                                          const size_t *bytes, void *out);
double ct_allgather_bytes(const struct ct_place *p, const size_t *bytes);
/* Nobody goes on before all have come. */
CT_MUST_CHECK enum ct_status ct_barrier(struct ct_comm *c);
double ct_barrier_bytes(const struct ct_place *p);

#endif
