/* whereabouts.h - where the agents of a launch are.
 *
 * Each agent is given a port, and takes another one where a program has that
 * by now.  The job knows it then, by the cards of its ranks, and says it with
 * the numbers that agents are given (elastic/roll.h). */
#ifndef CT_APPS_WHEREABOUTS_H
#define CT_APPS_WHEREABOUTS_H

#include "elastic/member.h"
#include "hosts.h"
#include "restarts.h"

struct whereabouts {
    const struct hosts *hosts; /* an agent each; borrowed */
    const uint8_t      *key;   /* the secret; borrowed */
    uint8_t             job[POST_JOB_BYTES]; /* its number; zeroes: unknown */
    bool                all_here; /* on this machine */
    char                meet[300]; /* where the first one is */
    struct restarts     look;      /* for those of which word is awaited */
    struct {
        int      port;    /* that it listens on, as far as it is known */
        uint64_t number;  /* of the agent that was last started there */
        bool     awaited; /* it runs, and the job has yet to say where */
    } agent[HOSTS_MOST];
};

/* Zero-initialised.  Ports for all agents, from `port` on; 0: free ones. */
CT_MUST_CHECK enum ct_status where_choose(struct whereabouts *w,
                                          const struct hosts *hosts,
                                          const uint8_t *key, int port);
/* Is agent k the one that begins the job, of which nobody has heard yet? */
bool where_begins(const struct whereabouts *w, int k);
/* The flag that tells agent k; `again`: it comes in place of another one. */
void where_put_flag(const struct whereabouts *w, int k, bool again,
                    struct ct_text *out);
/* Another agent k is about to start: the line that goes to its standard input,
 * with the secret, the agent's number, and the job that it is to find. */
void where_put_line(struct whereabouts *w, int k, struct ct_text *out);
/* Agent k has ended. */
void where_end(struct whereabouts *w, int k);
/* Does the job answer within so many seconds?  0: as long as it takes. */
bool where_ask(struct whereabouts *w, double seconds);
/* Asks the job to end, all of it, as after SIGINT.  CT_ENOTFOUND: it is not
 * there; CT_ECOMM: it does not answer, and may be there. */
CT_MUST_CHECK enum ct_status where_end_job(struct whereabouts *w);
/* Now and then: asks where agents are of which word is awaited. */
void where_look(struct whereabouts *w);

#endif
