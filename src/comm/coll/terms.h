/* terms.h - predicts the cost of a sum from a few measured numbers.
 *
 * a is the latency of a message, b the seconds per byte sent, c the seconds per
 * byte added; P ranks on H hosts, L ranks per host, S bytes to sum.  Messages
 * inside a host have another latency (la) and time per byte (lb); messages that
 * leave a host share one link.  Each collective has its formula in its own
 * file. */
#ifndef CT_COMM_COLL_TERMS_H
#define CT_COMM_COLL_TERMS_H

#include "comm/place.h"

/* Measured: seconds per message, per byte sent, per byte added. */
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
    double bytes;   /* sent by the rank that sends most */
    double seconds; /* for messages and additions */
};

struct ct_terms ct_terms(const struct ct_links *links,
                         const struct ct_place *place, double bytes);
/* ceil(log2(n)): the levels of a binomial tree over n. */
double ct_levels(double n);

#endif
