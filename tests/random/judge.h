/* judge.h - whether two runs of one case came to the same result. */
#ifndef CT_TESTS_RANDOM_JUDGE_H
#define CT_TESTS_RANDOM_JUDGE_H

#include "train_steps.h"

/* What the plainest way gives, and how far rounding may be from it. */
struct truth {
    struct result ref;
    double       *limit; /* of each array */
    double        loss_limit[MOST_ITERATIONS];
};

/* CT_ENOTFOUND: the case cannot be judged, because the plainest way fails or
 * because rounding alone leads it astray. */
CT_MUST_CHECK enum ct_status truth_find(const struct drawn *c,
                                        struct truth *out);
void truth_fini(struct truth *t);

/* Trains in way `w`.  False: it does not agree; `why` says where. */
bool truth_holds(const struct truth *t, const struct drawn *c,
                 const struct way *w, char *why, size_t size);

#endif
