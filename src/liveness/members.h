/* members.h - who is in the job, and who is only said to be.
 *
 *     alive    waited for
 *     suspect  missed LIVE_MISSES iterations in a row, or was silent for too
 *              long; not waited for until it is heard of again
 *
 * The epoch counts changes, so that two views of the job can be told apart. */
#ifndef CT_LIVENESS_MEMBERS_H
#define CT_LIVENESS_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cortado/status.h"

enum { LIVE_MISSES = 3 };

struct live_member {
    bool     suspect;
    int      n_missed_in_row;
    uint64_t n_missed;
    double   heard; /* when */
};

struct live_members {
    struct live_member *one;
    int                 n, n_alive;
    uint32_t            epoch;
};

CT_MUST_CHECK enum ct_status live_members_init(struct live_members *m, int n,
                                               double now);
void live_members_fini(struct live_members *m);

/* A sign of life; it does not end a suspicion. */
void live_members_heard(struct live_members *m, int i, double now);
/* It was in an iteration, or came back to one, and is alive.  True when it was
 * suspect before. */
bool live_members_came(struct live_members *m, int i, double now);
/* It missed an iteration.  True when that makes it suspect. */
bool live_members_missed(struct live_members *m, int i);
/* Those silent for longer than `limit` become suspect; the first of them or
 * -1.  limit 0: nobody. */
int live_members_silent(struct live_members *m, double now, double limit);

bool live_members_is_suspect(const struct live_members *m, int i);
/* Iterations that it missed. */
uint64_t live_members_n_missed(const struct live_members *m, int i);

#endif
