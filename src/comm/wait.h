/* wait.h - the one way in which a rank waits for its peers.
 *
 *     ct_wait_begin(&w);
 *     while (st == CT_OK && !has_come())
 *         st = ct_wait_on(&w);
 *     took = ct_wait_end(&w);
 *
 * Between two looks ct_wait_on lets the thread that owns the comm go on with
 * what it does for others (ct_comm.background, ct_comm.tick), says in the
 * pulse whom this rank waits for once that takes longer than a moment, asks
 * now and then whether the wait can still end well, and pauses.
 *
 * Four waits are outside it, because none is a wait for a peer:
 *
 *     comm/thread.c        the compute thread sleeps until its own comm thread
 *                          has done a job; the job waits here
 *     device/cuda/stage.c  the compute thread waits for its own GPU, at that
 *                          GPU's pace.  If the GPU waits for others, NCCL says
 *                          whether one is lost (ct_stage_judge), while the
 *                          comm thread waits here for the same ranks
 *     transport/tcp.c      the end of a view: what was sent leaves, for a
 *                          bounded time
 *     transport/mpi.c      the end of a request: MPI lets go of its memory,
 *                          for a bounded time */
#ifndef CT_COMM_WAIT_H
#define CT_COMM_WAIT_H

#include "base/pace.h"
#include "comm/comm.h"

struct ct_wait {
    struct ct_comm *comm;
    int             peer;  /* whom it waits for, a rank of the comm; -1: all */
    bool            owner; /* on the comm's own thread */
    bool            own;   /* it waits for this rank itself: peers need not
                            * know, and nobody judges */
    struct ct_pace  pace;
    /* Optional.  In place of a nap; whether the one that is waited for can
     * still come. */
    void (*sleep)(void *arg);
    enum ct_status (*alive)(void *arg, int peer);
    void *arg;
    /* wait.c's: */
    double start, since, next_look; /* since: nothing has come */
    bool   told;
};

void ct_wait_begin(struct ct_wait *w);
/* Something has come, if not all: silence counts from `when` on. */
void ct_wait_news(struct ct_wait *w, double when);
CT_MUST_CHECK enum ct_status ct_wait_on(struct ct_wait *w);
/* Seconds that it took. */
double ct_wait_end(struct ct_wait *w);

#endif
