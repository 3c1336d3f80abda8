/* cost.h - what an exchange takes, predicted from a few measured numbers.
 *
 * For S bytes of gradients on P ranks, each on a host of its own:
 *
 *     ring        2(P-1) a + 2S(P-1)/P b + S(P-1)/P c
 *     halving     2 log2(P) a + 2S(P-1)/P b + S(P-1)/P c
 *                 (+ 2(a + S b) + S c where P is no power of two)
 *     tree        2 log2(P) (a + S b) + log2(P) S c
 *     ps          2a + 2(P-1)S b + (P-1)S c          through rank 0's link;
 *                 with P > 4 sums go down a binary tree of ranks (comm/ps):
 *                 (1 + log2(P)) a + (P+1)S b + (P-1)S c
 *     sharded     2(P-1) a + 2S(P-1)/P b + S(P-1)/P c
 *     shared      S(P-1)/P c                         inside one host's memory
 *     factors     (P-1) a + (P-1) 4K(N+M) b, and 2NMK(P-1)/F of computing
 *
 * a is latency, b seconds a byte on the wire, c seconds a byte added, F
 * operations a second of a matrix product.  Factors are of an N x M matrix
 * from K samples a rank; they cost the products of all other ranks' samples.
 * Where a host's P ranks have parameters once and each updates its
 * part, time goes by the bytes of memory that a rank moves:
 *
 *     shared      16 NM                clears, makes and adds it; all read it
 *     factors     12 KN + (8 + 4P) KM  writes both; reads its part and all of M
 *
 * and the products are as many either way, P times as deep with factors.
 * With L ranks on a host, what stays inside goes at the host's own a and b,
 * and what leaves it shares one link. */
#ifndef CT_DIST_MODEL_COST_H
#define CT_DIST_MODEL_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "dist/codec/codec.h"

struct dist_machine {
    double alpha, beta, gamma, flops; /* between hosts; adding; computing */
    int    per_host;                  /* ranks on a host; 0: one */
    double local_alpha, local_beta;   /* inside a host */
};

/* A gradient, or several that travel together. */
struct dist_load {
    double floats;
    double n, m; /* rows, columns; a vector is one row */
    double k;    /* samples, of a gradient that has factors; 0: none */
};

enum dist_way {
    DIST_RING,
    DIST_HALVING,
    DIST_TREE,
    DIST_HIERARCHICAL,
    DIST_SHARED,
    DIST_PS,
    DIST_SHARDED,
    DIST_FACTORS,
    DIST_N_WAYS
};
const char *dist_way_name(enum dist_way way);

struct dist_cost {
    double bytes;   /* that the busiest rank sends */
    double seconds; /* of the comm thread: the wire, and adding */
    double back;    /* ... of which the way back from a server takes so long */
    double compute; /* of the compute thread, before the update */
};

struct dist_cost dist_cost(const struct dist_machine *w, int size,
                           enum dist_way way, const struct dist_load *load);
/* With shared parameters: DIST_SHARED or DIST_FACTORS. */
struct dist_cost dist_cost_shared(const struct dist_machine *w, int size,
                                 enum dist_way way,
                                 const struct dist_load *load);
/* An n x m matrix through a codec that takes it: its own bytes, a ring's
 * messages, and the time to code. */
struct dist_cost dist_cost_coded(const struct dist_machine *w, int size,
                                 const struct dist_codec *codec,
                                 const struct dist_load *load);
/* The way that --reduce=auto takes for so many floats (comm/coll/coll.c). */
enum dist_way dist_way_usual(const struct dist_machine *w, int size,
                             double floats);
/* How often rank 0's server sends a sum, and over how many ranks it comes to
 * the last one. */
int dist_ps_copies(int size);
int dist_ps_hops(int size);
/* Ranks on one host, and hosts, when `size` are dealt out. */
int dist_per_host(const struct dist_machine *w, int size);

#endif
