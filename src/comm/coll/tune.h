/* tune.h - the algorithms by number, and a sweep that measures all of them.
 *
 * Files that include this are compiled again when coll.def changes; those that
 * include only coll.h are not. */
#ifndef CT_COMM_COLL_TUNE_H
#define CT_COMM_COLL_TUNE_H

#include "comm/coll/coll.h"

enum {
#define CT_ALLREDUCE(file) CT_COLL_##file,
#include "comm/coll/coll.def"
#undef CT_ALLREDUCE
    CT_N_ALLREDUCE
};

/* The result of a sweep over sizes. */
enum { CT_TUNE_SIZES = 5 };
struct ct_tuning {
    int n_sizes; /* measured sizes; fewer than CT_TUNE_SIZES on slow links */
    int n_known; /* measured and predicted sizes */
    struct {
        int64_t n;                       /* floats */
        double  seconds[CT_N_ALLREDUCE]; /* mean over ranks; -1: cannot run */
        int     best;
    } size[CT_TUNE_SIZES];
};
/* Measures every algorithm for sums of up to about `most` floats; rank 0
 * decides for all.  The usual algorithm is kept unless another is a tenth
 * faster.  Sizes that would take more than about `budget_seconds` are
 * predicted. */
CT_MUST_CHECK enum ct_status ct_allreduce_tune(struct ct_comm *c, int64_t most,
                                               double budget_seconds,
                                               struct ct_tuning *out);
/* Sets the choices of c from the table that rank 0 sent; fails if a rank of
 * this program cannot have sent it. */
CT_MUST_CHECK enum ct_status ct_tuning_take(struct ct_comm *c,
                                            const struct ct_tuning *t);
/* Predicts those of the first `n` sizes that were not measured. */
void ct_tuning_predict(const struct ct_comm *c, int n, struct ct_tuning *t);

#endif
