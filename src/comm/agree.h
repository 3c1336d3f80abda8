/* agree.h - one order of jobs for all ranks, set by rank 0 while they run.
 *
 *     0 -> 1 .. 8,  1 -> 9 .. 16,  2 -> 17 .. 24, ...
 *
 * Rank 0 sends the number of the next job; all ranks number jobs equally.  Each
 * rank forwards it to up to eight others.  Only the comm thread uses this. */
#ifndef CT_COMM_AGREE_H
#define CT_COMM_AGREE_H

#include "comm/coll/transfer.h"

enum { CT_AGREE_FAN = 8 };

struct ct_agree {
    struct ct_comm  *comm; /* borrowed */
    int              parent, n_children;
    struct ct_flight child[CT_AGREE_FAN];
    uint64_t         word[CT_DEPTH]; /* numbers in flight */
    uint64_t         n;              /* numbers sent so far */
};

void ct_agree_init(struct ct_agree *a, struct ct_comm *c);
/* On rank 0: announces the next job.  Does not wait, unless a peer is CT_DEPTH
 * jobs behind. */
CT_MUST_CHECK enum ct_status ct_agree_tell(struct ct_agree *a,
                                           uint64_t number);
/* On the other ranks: waits for the next number. */
CT_MUST_CHECK enum ct_status ct_agree_hear(struct ct_agree *a,
                                           uint64_t *number);
/* Waits until all announcements have arrived. */
CT_MUST_CHECK enum ct_status ct_agree_end(struct ct_agree *a);

#endif
