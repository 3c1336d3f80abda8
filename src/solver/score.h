/* score.h - the outputs of a net, batch by batch, for tests.
 *
 * If P ranks deal out the batches, rank g mod P runs batch g.  Then every rank
 * gets all values and adds them up in the order of batches, so the means are
 * those of one rank, bit for bit. */
#ifndef CT_SOLVER_SCORE_H
#define CT_SOLVER_SCORE_H

#include "solver/exchange.h"

struct ct_batch_taker {
    /* Called after batch k, counted from 0, with its loss. */
    enum ct_status (*take)(void *arg, struct ct_net *net, int k, double loss);
    void *arg;
    bool (*pause)(void *arg); /* may be NULL; called before each batch; true:
                               * stop with CT_ESTOP */
    void *pause_arg;
};

/* Runs batches [first, first + n) of `net` and passes each to `take`; with
 * peers (`x`, may be NULL) only those of this rank. */
CT_MUST_CHECK enum ct_status ct_batches_take(struct ct_net *net,
                                             const struct ct_exchange *x,
                                             uint64_t first, int n,
                                             const struct ct_batch_taker *t);

struct ct_scores {
    int64_t n;         /* values per batch */
    int     n_batches; /* number of rows */
    double *row;       /* per batch: the loss, then the n values; owned */
};

/* Runs batches [first, first + n) of `net`.  With peers (`x`, may be NULL) the
 * net was built to deal tests, and all ranks call this.  `pause` may be NULL;
 * it is called before each batch, and true stops with CT_ESTOP. */
CT_MUST_CHECK enum ct_status ct_scores_run(
    struct ct_scores *s, struct ct_net *net, struct ct_exchange *x,
    uint64_t first, int n, bool (*pause)(void *arg), void *arg);
void ct_scores_fini(struct ct_scores *s);

/* The mean over batches of value i; -1: of the loss. */
double ct_scores_mean(const struct ct_scores *s, int64_t i);

/* Number of the first n batches that this rank of `size` ranks has run. */
uint64_t ct_scores_passes(uint64_t n, int rank, int size);

#endif
