/* tune.h - the ways to sum by number, and a sweep that times them all.
 *
 * What includes this is compiled again when coll.def changes; coll.h is not
 * among it. */
#ifndef CT_COMM_COLL_TUNE_H
#define CT_COMM_COLL_TUNE_H

#include "comm/coll/coll.h"

enum {
#define CT_ALLREDUCE(file) CT_COLL_##file,
#include "comm/coll/coll.def"
#undef CT_ALLREDUCE
    CT_N_ALLREDUCE
};

/* A sweep over sizes, for c's choice and for a table. */
enum { CT_TUNE_SIZES = 5 };
struct ct_tuning {
    int n_sizes; /* fewer than CT_TUNE_SIZES when the links are slow */
    int n_known; /* with those that are only predicted */
    struct {
        int64_t n;                       /* floats */
        double  seconds[CT_N_ALLREDUCE]; /* mean over ranks; -1: cannot run */
        int     best;
    } size[CT_TUNE_SIZES];
};
/* Times every algorithm, for sums of up to about `most` floats; rank 0 decides
 * for all.  What is usual stays where nothing is a tenth faster.  Stops at
 * larger sizes once it has taken about `budget_seconds`; what larger ones take
 * is predicted then. */
CT_MUST_CHECK enum ct_status ct_allreduce_tune(struct ct_comm *c, int64_t most,
                                               double budget_seconds,
                                               struct ct_tuning *out);
/* Takes the table that rank 0 sent for c's choices; refuses one that no rank of
 * this program can have sent. */
CT_MUST_CHECK enum ct_status ct_tuning_take(struct ct_comm *c,
                                            const struct ct_tuning *t);
/* Predicts the first `n` sizes that were not timed, from those that were. */
void ct_tuning_predict(const struct ct_comm *c, int n, struct ct_tuning *t);

#endif
