/* member.h - who is in the job, and who is only said to be.
 *
 *     alive    waited for
 *     suspect  missed DIST_MISSES iterations in a row, or was silent for too
 *              long; not waited for until it is heard of again
 *
 * The epoch counts changes, so that two views of the job can be told apart. */
#ifndef CT_DIST_MEMBER_H
#define CT_DIST_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "cortado/status.h"

enum { DIST_MISSES = 3 };

struct dist_member {
    bool     suspect;
    int      n_missed_in_row;
    uint64_t n_missed;
    double   heard; /* when */
};

struct dist_members {
    struct dist_member *one;
    int                 n, n_alive;
    uint32_t            epoch;
};

CT_MUST_CHECK enum ct_status dist_members_init(struct dist_members *m, int n,
                                               double now);
void dist_members_fini(struct dist_members *m);

/* A sign of life; it does not end a suspicion. */
void dist_members_heard(struct dist_members *m, int i, double now);
/* It was in an iteration, or came back to one: alive.  True when it was
 * suspect before. */
bool dist_members_came(struct dist_members *m, int i, double now);
/* It was not.  True when that makes it suspect. */
bool dist_members_missed(struct dist_members *m, int i);
/* Those silent for longer than `limit` become suspect; the first of them or
 * -1.  limit 0: nobody. */
int dist_members_silent(struct dist_members *m, double now, double limit);

#endif
