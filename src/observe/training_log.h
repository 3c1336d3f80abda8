/* training_log.h - curves out of a training log with Caffe's sentences.
 *
 *     ...] Iteration 100 (52.1 iter/s, 1.9s/100 iters), loss = 0.21
 *     ...] Iteration 500, Testing net (#0)
 *     ...]     Test net output #0: accuracy = 0.97
 *     ...]     Test net output #1: loss = 0.1 (* 1 = 0.1 loss)
 *
 * What stands before the `]` does not matter, so that logs of any glog and of
 * BVLC Caffe itself are read. */
#ifndef CT_OBSERVE_TRAINING_LOG_H
#define CT_OBSERVE_TRAINING_LOG_H

#include <stddef.h>

#include "cortado/status.h"

enum ct_curve_kind {
    CT_CURVE_TRAIN_LOSS,
    CT_CURVE_TEST_LOSS, /* a test output that counts into the loss */
    CT_CURVE_SCORE      /* one that does not: an accuracy */
};

struct ct_curve {
    enum ct_curve_kind kind;
    char               name[80];
    double            *x, *y; /* iteration and value; owned by the log */
    size_t             n, capacity;
};

enum { CT_LOG_MAX_CURVES = 96 };

/* Embedded; zero-initialised is empty. */
struct ct_training_log {
    struct ct_curve curve[CT_LOG_MAX_CURVES];
    int             n_curves;
};

/* Adds what `text` (terminated) says.  An iteration that comes again, because
 * training was resumed from a snapshot, replaces what followed it. */
CT_MUST_CHECK enum ct_status ct_training_log_read(
    struct ct_training_log *log, const char *text);
/* Moves the curves of `from` into `log`; `name` comes before theirs, NULL:
 * nothing does. */
CT_MUST_CHECK enum ct_status ct_training_log_join(
    struct ct_training_log *log, struct ct_training_log *from,
    const char *name);
void ct_training_log_fini(struct ct_training_log *log);

/* The curve of that name, or NULL. */
const struct ct_curve *ct_training_log_find(
    const struct ct_training_log *log, const char *name);

#endif
