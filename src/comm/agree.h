/* agree.h - one order of jobs for all ranks, set by rank 0 while they run.
 *
 *     0 -> 1 .. 8,  1 -> 9 .. 16,  2 -> 17 .. 24, ...
 *
 * Rank 0 says which job comes next, by a number that all ranks count alike;
 * who hears it passes it on to eight others.  The comm thread's alone. */
#ifndef CT_COMM_AGREE_H
#define CT_COMM_AGREE_H

#include "comm/coll/transfer.h"

enum { CT_AGREE_FAN = 8 };

struct ct_agree {
    struct ct_comm  *comm; /* borrowed */
    int              parent, n_children;
    struct ct_flight child[CT_AGREE_FAN];
    uint64_t         word[CT_DEPTH]; /* under way */
    uint64_t         n;              /* said so far */
};

void ct_agree_init(struct ct_agree *a, struct ct_comm *c);
/* On rank 0: job `number` is the next one.  It waits for nobody, unless a
 * peer is CT_DEPTH jobs behind. */
CT_MUST_CHECK enum ct_status ct_agree_tell(struct ct_agree *a,
                                           uint64_t number);
/* On the others: waits for it. */
CT_MUST_CHECK enum ct_status ct_agree_hear(struct ct_agree *a,
                                           uint64_t *number);
/* Until all have heard what was said. */
CT_MUST_CHECK enum ct_status ct_agree_end(struct ct_agree *a);

#endif
