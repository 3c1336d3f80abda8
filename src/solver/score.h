/* score.h - what a net puts out, batch by batch, for tests.
 *
 * Ranks that deal batches out run batch g on rank g mod P and then tell each
 * other all values; everyone adds them up in the order of batches, so the
 * means are those of one rank, bit for bit. */
#ifndef CT_SOLVER_SCORE_H
#define CT_SOLVER_SCORE_H

#include "solver/exchange.h"

/* Runs batches [first, first + n) of `net` and shows each to `take`, by its
 * number from 0 on and with its loss; with peers (`x`, may be NULL) those of
 * this rank.  `pause`, where there is one, is asked before each; true: enough,
 * CT_ESTOP. */
struct ct_batch_taker {
    enum ct_status (*take)(void *arg, struct ct_net *net, int k, double loss);
    void *arg;
    bool (*pause)(void *arg);
    void *pause_arg;
};
CT_MUST_CHECK enum ct_status ct_batches_take(struct ct_net *net,
                                             const struct ct_exchange *x,
                                             uint64_t first, int n,
                                             const struct ct_batch_taker *t);

struct ct_scores {
    int64_t n;         /* values a batch */
    int     n_batches; /* that there are rows of */
    double *row;       /* a batch: the loss, then the n values */
};

/* Runs batches [first, first + n) of `net`.  With peers (`x`, may be NULL) the
 * net was built to deal tests, and all ranks call this.  `pause`, where there
 * is one, is asked before each batch; true: enough, CT_ESTOP. */
CT_MUST_CHECK enum ct_status ct_scores_run(
    struct ct_scores *s, struct ct_net *net, struct ct_exchange *x,
    uint64_t first, int n, bool (*pause)(void *arg), void *arg);
void ct_scores_fini(struct ct_scores *s);

/* The mean over batches of value i; -1: of the loss. */
double ct_scores_mean(const struct ct_scores *s, int64_t i);

/* Passes that rank r of P has made of n batches in all. */
uint64_t ct_scores_passes(uint64_t n, int rank, int size);

#endif
