/* members.h - which members of a job are alive, and which are suspect.
 *
 *     alive    the others wait for it
 *     suspect  it missed LIVE_MISSES iterations in a row, or was silent for too
 *              long; the others do not wait until it takes part again
 *
 * The epoch counts changes. */
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
    double   heard; /* time of the last sign of life */
};

struct live_members {
    struct live_member *one; /* per member; owned */
    int                 n, n_alive;
    uint32_t            epoch;
};

CT_MUST_CHECK enum ct_status live_members_init(struct live_members *m, int n,
                                               double now);
void live_members_fini(struct live_members *m);

/* A sign of life; it does not end a suspicion. */
void live_members_heard(struct live_members *m, int i, double now);
/* The member took part in an iteration and is alive.  True: it was suspect. */
bool live_members_came(struct live_members *m, int i, double now);
/* The member missed an iteration.  True: this made it suspect. */
bool live_members_missed(struct live_members *m, int i);
/* Members that were silent for longer than `limit` become suspect; returns the
 * first of them, or -1.  limit 0: none become suspect. */
int live_members_silent(struct live_members *m, double now, double limit);

bool live_members_is_suspect(const struct live_members *m, int i);
/* Number of iterations that the member missed. */
uint64_t live_members_n_missed(const struct live_members *m, int i);

#endif
