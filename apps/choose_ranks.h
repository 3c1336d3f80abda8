/* choose_ranks.h - `cortado train --ranks=auto`: as many ranks, with as many
 * threads each, as train this very solver fastest on this host. */
#ifndef CT_APPS_CHOOSE_RANKS_H
#define CT_APPS_CHOOSE_RANKS_H

#include "train.h"

/* What --ranks says, in `f`; false: it is neither a number nor `auto`, and
 * stderr says so. */
bool choose_ranks_read(struct train_flags *f);

/* Whether there is something to choose; also choose_ranks() looks. */
CT_MUST_CHECK enum ct_status choose_ranks_check(const struct train_flags *f);

/* Chooses: measures every way to divide the cores that this process may use,
 * each as a training of its own that leaves nothing behind, and takes the
 * fastest; with --threads there is nothing to measure.  Ranks, threads and
 * words of `f` are then those of an ordinary training, whose batch is that of
 * all ranks.  *code other than 0: there is nothing to train, and the program
 * ends with it: a signal came, or no way works, which the log explains. */
CT_MUST_CHECK enum ct_status choose_ranks(struct train_flags *f,
                                          Caffe__SolverParameter *p,
                                          int *code);

#endif
