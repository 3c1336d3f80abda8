/* cost.h - what an exchange takes, predicted from a few measured numbers.
 *
 * For a gradient of an N x M matrix from K samples a rank, on P ranks:
 *
 *     dense    2(P-1) a + 2 4MN b (P-1)/P + 4MN c (P-1)/P + 2MNK / F
 *     factors   (P-1) a + 4K(M+N) b (P-1)                 + 2MNKP / F
 *
 * a is latency, b seconds a byte on the wire, c seconds a byte added, F
 * operations a second of a matrix product.  The last term is the product that
 * makes the gradient: of the rank's own samples, or of all. */
#ifndef CT_DIST_COST_H
#define CT_DIST_COST_H

#include <stdint.h>

struct dist_machine {
    double alpha, beta, gamma, flops;
};

struct dist_matrix {
    double n, m, k; /* rows, columns, samples a rank */
};

double dist_cost_dense(const struct dist_machine *w, int size,
                       const struct dist_matrix *g);
double dist_cost_factors(const struct dist_machine *w, int size,
                         const struct dist_matrix *g);

/* Bytes that a rank sends, by either road. */
double dist_bytes_dense(int size, const struct dist_matrix *g);
double dist_bytes_factors(int size, const struct dist_matrix *g);

#endif
