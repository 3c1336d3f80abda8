/* terms.h - what a sum takes, predicted from a few measured numbers.
 *
 * a is the latency of a message, b seconds per byte on the wire, c seconds per
 * byte added; P ranks on H hosts, L ranks per host, S bytes to sum.  What stays
 * inside a host takes that host's own latency (la) and time per byte (lb), and
 * what leaves it shares one link.  Each collective states its formula in its
 * own file. */
#ifndef CT_COMM_COLL_TERMS_H
#define CT_COMM_COLL_TERMS_H

#include "comm/place.h"

/* What is measured: seconds per message, per byte sent, per byte added. */
struct ct_links {
    double alpha, beta, gamma;      /* between hosts */
    double local_alpha, local_beta; /* inside a host */
};

/* The letters of the formulas. */
struct ct_terms {
    double a, b, c; /* between hosts, or inside the only one */
    double la, lb;  /* inside a host */
    double P, L, H, S;
};

struct ct_cost {
    double bytes;   /* that the busiest rank sends */
    double seconds; /* on the wire, and adding */
};

struct ct_terms ct_terms(const struct ct_links *links,
                         const struct ct_place *place, double bytes);
/* ceil(log2(n)): the levels of a binomial tree over n. */
double ct_levels(double n);

#endif
