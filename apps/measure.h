/* measure.h - `cortado train --measure`: how fast a training would be.
 *
 * It is built as any other and takes its steps, with nothing that stays: no
 * snapshot, test, record, page or trace, and it resumes nothing. */
#ifndef CT_APPS_MEASURE_H
#define CT_APPS_MEASURE_H

#include "train.h"

/* false: --measure does not, and stderr says why. */
bool measure_makes_sense(const struct train_flags *f);

/* Takes back what the flags, and a solver file, ask for beyond steps. */
void measure_flags(struct train_flags *f);
void measure_solver(Caffe__SolverParameter *p);

/* All ranks call it: some steps to warm up, then steps for about so many
 * seconds, but no more than max_iter in all.  Rank 0 prints "N samples/s", of
 * all ranks.  CT_ESTOP: a signal came. */
CT_MUST_CHECK enum ct_status measure_steps(struct ct_solver *s,
                                           struct ct_dist *d, double seconds);

#endif
