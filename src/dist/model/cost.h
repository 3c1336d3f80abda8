/* cost.h - predicts the cost of an exchange from a few measured numbers.
 *
 * Algorithms that sum have their own formulas (comm/coll/coll.h).  The others,
 * for S bytes of gradients on P ranks, each on its own host:
 *
 *     ps          2a + 2(P-1)S b + (P-1)S c          through rank 0's link;
 *                 with P > 4 sums go down a binary tree of ranks (comm/ps):
 *                 (1 + log2(P)) a + (P+1)S b + (P-1)S c
 *     sharded     2(P-1) a + 2S(P-1)/P b + S(P-1)/P c
 *     factors     (P-1) a + (P-1) 4K(N+M) b, and 2NMK(P-1)/F of computing
 *
 * a is latency, b seconds per byte sent, c seconds per byte added, F operations
 * per second of a matrix product.  Factors are those of an N x M matrix from K
 * samples per rank; each rank also computes the products of all other ranks'
 * samples.  If the P ranks of a host share parameters and each updates a part,
 * the time is that of the bytes of memory that a rank moves:
 *
 *     shared      16 NM                clears, computes and adds the gradient;
 *                                      all ranks read the sum
 *     factors     12 KN + (8 + 4P) KM  writes both factors; reads its part of
 *                                      N and all of M
 *
 * Both ways have the same number of products; with factors each is P times as
 * deep.  With L ranks per host, messages inside a host have the host's own a
 * and b, and messages that leave it share one link. */
#ifndef CT_DIST_MODEL_COST_H
#define CT_DIST_MODEL_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/coll/coll.h"
#include "dist/codec/codec.h"

struct dist_machine {
    double alpha, beta, gamma, flops; /* links between hosts; additions;
                                       * products */
    int    per_host;                  /* ranks on a host; 0: one */
    double local_alpha, local_beta;   /* inside a host */
};

/* A gradient, or several that travel together. */
struct dist_load {
    double floats;
    double n, m; /* rows, columns; a vector is one row */
    double k;    /* samples, if the gradient has factors; 0: it has none */
};

struct dist_cost {
    double bytes;   /* sent by the busiest rank */
    double seconds; /* of the comm thread: sending and adding */
    double back;    /* part of `seconds` for answers of servers */
    double compute; /* of the compute thread, before the update */
};

/* The cost of a sum, by an algorithm of comm/coll/coll.def. */
struct dist_cost dist_cost_sum(const struct dist_machine *w, int size,
                               const struct ct_allreduce_type *type,
                               double floats);
/* The cost with one server on rank 0; with a server on every rank. */
struct dist_cost dist_cost_ps(const struct dist_machine *w, int size,
                              double floats);
struct dist_cost dist_cost_sharded(const struct dist_machine *w, int size,
                                   double floats);
struct dist_cost dist_cost_factors(const struct dist_machine *w, int size,
                                   const struct dist_load *load);
/* With shared parameters: sums in shared memory, or factors. */
struct dist_cost dist_cost_shared(const struct dist_machine *w, int size,
                                 bool factors, const struct dist_load *load);
/* An n x m matrix that a codec encodes: the codec's bytes, the messages of a
 * ring, and the time for encoding. */
struct dist_cost dist_cost_coded(const struct dist_machine *w, int size,
                                 const struct dist_codec *codec,
                                 const struct dist_load *load);
/* The algorithm of --reduce=auto before measurements. */
const struct ct_allreduce_type *dist_usual_sum(const struct dist_machine *w,
                                               int size, double floats);
/* How many copies of a sum rank 0's server sends, and over how many hops the
 * last rank gets it. */
int dist_ps_copies(int size);
int dist_ps_hops(int size);

#endif
