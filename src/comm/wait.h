/* wait.h - the one way in which a rank waits for its peers.
 *
 *     ct_wait_begin(&w);
 *     while (st == CT_OK && !has_come())
 *         st = ct_wait_on(&w);
 *     took = ct_wait_end(&w);
 *
 * Each call of ct_wait_on lets the comm's own thread work for other ranks
 * (ct_comm.background, ct_comm.tick), writes to the pulse which rank this one
 * waits for if that takes more than a moment, checks from time to time whether
 * the awaited rank is lost, and pauses.
 *
 * Four waits do not use it, because they do not wait for a peer:
 *
 *     comm/thread.c        the compute thread sleeps until its own comm thread
 *                          has done a job; the job itself waits here
 *     device/cuda/stage.c  the compute thread waits for its own GPU.  If the
 *                          GPU waits for other ranks, NCCL reports a lost rank
 *                          (ct_stage_judge), and the comm thread waits here for
 *                          the same ranks
 *     transport/tcp.c      the end of a view: sends what is queued, for a
 *                          bounded time
 *     transport/mpi.c      the end of a request: MPI releases its memory, for a
 *                          bounded time */
#ifndef CT_COMM_WAIT_H
#define CT_COMM_WAIT_H

#include "base/pace.h"
#include "comm/comm.h"

struct ct_wait {
    struct ct_comm *comm;
    int             peer;  /* the awaited rank of the comm; -1: all */
    bool            owner; /* the caller is the comm's own thread */
    bool            own;   /* it waits for this rank itself: not reported to
                            * peers, and nobody is judged */
    struct ct_pace  pace;  /* a turn that another thread takes for long is
                            * followed by a nap: see wait.c */
    /* Optional.  Called instead of a nap; checks that the awaited rank can
     * still answer. */
    void (*sleep)(void *arg);
    enum ct_status (*alive)(void *arg, int peer);
    void *arg;
    /* Private to wait.c: */
    double start, since, next_look; /* since: time of the last progress */
    bool   told, shares_core;
};

void ct_wait_begin(struct ct_wait *w);
/* There was progress at time `when`: silence counts from then on. */
void ct_wait_news(struct ct_wait *w, double when);
CT_MUST_CHECK enum ct_status ct_wait_on(struct ct_wait *w);
/* Ends the wait; returns its duration in seconds. */
double ct_wait_end(struct ct_wait *w);

#endif
