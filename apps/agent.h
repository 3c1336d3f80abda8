/* agent.h - the parent of the ranks of a host.
 *
 * It starts them, sees them end, tells the others of the job what they were
 * bound by, and starts new ones in their place.  Ranks live on without it. */
#ifndef CT_APPS_AGENT_H
#define CT_APPS_AGENT_H

#include "elastic/member.h"
#include "order_input.h"
#include "train_signals.h"

enum { AGENT_RANKS = 256 };

struct agent_config {
    int  n_ranks;
    int  restarts; /* of each rank */
    bool founds;   /* its first rank begins the job */
    /* In a process of its own, forked from this one: trains as a member that is
     * configured like this, and returns its exit status.  Signals that are
     * passed on (passed_on.h) wait until it lets them in. */
    int (*run)(void *arg, const struct member_config *c);
    /* Where the job may be found now: doors of `c`; NULL: where it was. */
    void (*find)(void *arg, struct member_config *c);
    void *arg;
    struct order_input *orders; /* of who started it; borrowed; NULL: there
                                 * are none */
    struct signal_flags signals; /* what they do to ranks */
    int   done, stopped; /* exit statuses of ranks that ended as planned; the
                          * first counts where the job is over */
    int   hopeless;      /* up to this, but for `done`: another one would end
                          * alike */
    struct member_config member;
};

/* Until all ranks have ended, and none is to be started again; returns the exit
 * status of the whole.  *waited: it is that of a rank that has waited for the
 * others in vain, and another one may find them later.  This process has no
 * other threads. */
CT_MUST_CHECK enum ct_status agent_run(const struct agent_config *c, int *code,
                                       bool *waited);

#endif
