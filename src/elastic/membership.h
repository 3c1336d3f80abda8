/* membership.h - what a rank asks of whoever knows who is in its job.
 *
 * Views follow each other at any moment, also in the middle of an iteration:
 * the transport of a view is then over (comm/transport.h), every call that
 * needs a peer fails with CT_ECOMM, and the rank asks for its next place. */
#ifndef CT_ELASTIC_MEMBERSHIP_H
#define CT_ELASTIC_MEMBERSHIP_H

#include "comm/transport.h"

/* A rank's place in a view, or the place that it is likely to have in the next
 * one: a hint, on which nothing depends but how long the others wait. */
struct elastic_place {
    uint32_t view;   /* 0: it is likely to have this rank among so many */
    uint64_t hint;   /* then, the number of the hint */
    int      rank, size; /* with view 0, size 0: the hint before this one does
                          * not hold any more */
    int      base;   /* iterations that count */
    int      n_full; /* the first so many ranks have parameters */
    bool     left;   /* a rank of the view before left of itself: its process
                      * may live on for a while */
    int64_t  job;    /* the number of the job, also when it began anew */
    bool     again;  /* the job has begun anew after all ranks were lost */
    char     why[320]; /* who came and went, since the place before */
};

struct ct_pulse;

struct elastic_membership {
    void *arg;
    /* Waits for the view after the last one that this gave.  Who asks cannot go
     * on in that one, for the reason of ct_last_error(): if nobody else has
     * ended it, this does.  Its transport is over by then.
     * A process that waits to be taken in may get hints first (view 0), each
     * once: it prepares for the place, says so with prepared(), and asks again.
     * CT_ESTOP: this process is to go, or has been left out.  CT_EIO: it has
     * asked again and again, and is to go. */
    enum ct_status (*next)(void *arg, struct elastic_place *out);
    /* The transport of the place that next() gave last, for the asker to
     * destroy.  CT_ECOMM: that view is over already. */
    enum ct_status (*open)(void *arg, struct ct_transport **out);
    /* Before it is destroyed: nobody else touches it from now on. */
    void (*close)(void *arg);
    /* This rank has all sums of iteration iter - 1.  False: its view is
     * over. */
    bool (*ready)(void *arg, int iter);
    /* Host and process of a rank of that place; on any thread.  False: nobody
     * knows.  May be NULL. */
    bool (*who)(void *arg, int rank, char *host, size_t bytes, int *pid);
    /* A number of that rank's process, which no other one has or had.  0:
     * nobody knows.  May be NULL. */
    uint64_t (*id)(void *arg, int rank);
    /* Training is done after so many iterations, as it turns out: then fewer
     * will do.  May be NULL. */
    void (*last)(void *arg, int iter);
    /* How the training of this process moves, from now on; NULL: nobody can
     * tell any more.  Borrowed.  May be NULL. */
    void (*follow)(void *arg, const struct ct_pulse *pulse);
    /* While it trains: a hint that it did not have yet; false: there is none.
     * May be NULL. */
    bool (*expects)(void *arg, struct elastic_place *out);
    /* It is prepared for the place of that hint, or will not be; on any thread.
     * Only then is it asked to go there, or when that takes too long. */
    void (*prepared)(void *arg, uint64_t hint);
    /* Whether the training of this view takes hints with expects().  Before its
     * first view a process always does.  May be NULL. */
    void (*heeds)(void *arg, bool hints);
    /* The ranks of its view cannot begin to train, and all of them find that
     * alike, as where they are too many.  True: others have come with the view,
     * of whom the last one ends, and this rank, which has waited a moment for
     * that, is to ask for the next view.  False: no other one is to blame, or
     * this one is the last.  May be NULL. */
    bool (*others_came)(void *arg);
};

#endif
