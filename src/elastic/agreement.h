/* agreement.h - which view comes next: the rules alone, without clocks, sockets
 * or threads, so that a test can try every order of events.
 *
 *     someone is lost, or wants to come or go
 *     the coordinator    PREPARE    to all of the view
 *     each member        PROMISE    stops where it is, and says how far it got
 *     the coordinator    ACCEPT     the next view
 *     each member        ACCEPTED
 *     the coordinator    INSTALL    once more than half have accepted
 *
 * The coordinator is the first member that is believed alive; two that both
 * believe it of themselves are kept apart by ballots, as in single-decree
 * Paxos.  A view counts when more than half of the members that are not
 * certified dead have accepted it; half is enough for the half that has the
 * first of them.  So of two parts of a split job at most one goes on.
 *
 * An iteration counts when all members have all of its sums, are `ready`.  The
 * next view begins with `base`: the iterations for which every member of it
 * was ready.  If anyone had taken iteration t for committed, all were ready;
 * so all of the next view hold its sums, and apply them.  If one was not
 * ready, nobody can have committed it, and all do it again.
 *
 * Who leaves goes when somebody who stays has the parameters. */
#ifndef CT_ELASTIC_AGREEMENT_H
#define CT_ELASTIC_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>

#ifndef ELASTIC_MEMBERS
#define ELASTIC_MEMBERS 1024
#endif

enum { ELASTIC_NOTHING = -1 }; /* iterations of who has no parameters yet */

struct elastic_view {
    uint32_t number; /* 0: none */
    int      base;   /* iterations that count; ELASTIC_NOTHING: the newest
                      * snapshot's */
    int      n, n_full; /* members; of these the first have parameters */
    uint64_t id[ELASTIC_MEMBERS]; /* of processes, in the order of ranks */
};

enum elastic_kind {
    ELASTIC_PREPARE,
    ELASTIC_PROMISE,
    ELASTIC_REFUSE, /* another ballot, which it names, was promised */
    ELASTIC_ACCEPT,
    ELASTIC_ACCEPTED,
    ELASTIC_INSTALL,
    ELASTIC_JOIN,   /* `about` asks to be taken in */
    ELASTIC_LEAVE,  /* `about` asks to be left out */
    ELASTIC_RENEW,  /* the view is of no use to the sender */
    ELASTIC_HOLDS,  /* the sender came without parameters, and has them now */
    ELASTIC_N_KINDS
};

struct elastic_message {
    enum elastic_kind kind;
    uint32_t view;     /* the sender's */
    uint64_t ballot;
    uint64_t about;    /* JOIN, LEAVE */
    int      ready;    /* PROMISE */
    uint64_t accepted; /* PROMISE: the ballot of `next`; 0: none */
    struct elastic_view next; /* PROMISE, ACCEPT, INSTALL */
};

/* What a member is bound by.  It is written down, where it outlives the
 * process, before a message says so; whoever certifies a death reads it there.
 * So the votes of the dead count, and what only they knew is not lost. */
struct elastic_will {
    struct elastic_view view;     /* installed */
    uint64_t promised, accepted;  /* ballots in it */
    struct elastic_view next;     /* the view of `accepted` */
};

/* What a member knows of another one of its view. */
struct elastic_peer {
    bool dead;      /* certified */
    bool suspect;
    bool leaves;
    bool holds;     /* parameters, since the view began */
    bool promised, accepted; /* in the ballot that this member leads */
    int  ready;     /* as it promised */
};

typedef void (*elastic_send_fn)(void *arg, uint64_t to,
                                const struct elastic_message *m);

struct elastic_agreement {
    uint64_t            me;
    struct elastic_will own;    /* own.view is the view that it is in */
    int                 rank;   /* in it; -1: not among its members */
    int                 ready;  /* iterations whose sums this member has */
    bool                frozen; /* it promised, and gets no further in it */
    bool                leaves; /* it wants to */
    bool                renews; /* somebody cannot go on in this view */
    int                 least;  /* members that stay when others leave */
    int                 most;   /* members of a view, with those who join */
    struct elastic_peer peer[ELASTIC_MEMBERS];
    uint64_t            joiner[ELASTIC_MEMBERS];
    int                 n_joiners;
    uint64_t            grave[ELASTIC_MEMBERS]; /* the last that died */
    unsigned            n_graves;
    uint32_t            round;  /* the highest seen */
    uint64_t            ballot; /* that this member leads; 0: none */
    bool                asks;   /* that ballot is at ACCEPT */
    struct elastic_view offer;  /* the view that it is for */
    uint64_t            heard;  /* the ballot that accepted `offer` before; 0:
                                 * none */
    uint64_t            left;   /* the highest that the dead had accepted */
    struct elastic_view left_next; /* the view that they had accepted */
    elastic_send_fn     send;   /* not called for `me` */
    void               *arg;
};

/* A member without a view: elastic_found() makes one, another member's INSTALL
 * brings one. */
void elastic_init(struct elastic_agreement *a, uint64_t me,
                  elastic_send_fn send, void *arg);
/* View 1, of this member alone, which has parameters. */
void elastic_found(struct elastic_agreement *a);
void elastic_receive(struct elastic_agreement *a, uint64_t from,
                     const struct elastic_message *m);

/* Process `id` has ended, and left this; or is silent, or not so any more. */
void elastic_dead(struct elastic_agreement *a, uint64_t id,
                  const struct elastic_will *will);
void elastic_suspect(struct elastic_agreement *a, uint64_t id, bool suspect);
/* Process `id` asks to be taken in, or n processes do at once; this member asks
 * to be left out. */
void elastic_join(struct elastic_agreement *a, uint64_t id);
void elastic_join_all(struct elastic_agreement *a, const uint64_t *id, int n);
void elastic_leave(struct elastic_agreement *a);
/* Process `id`, which asked to be taken in, is not to be for now. */
void elastic_dismiss(struct elastic_agreement *a, uint64_t id);
/* This member cannot go on in its view, though nobody may be lost. */
void elastic_renew(struct elastic_agreement *a);

/* Now and then, while something is outstanding: says again what may have been
 * lost with a connection. */
void elastic_retry(struct elastic_agreement *a);

/* This member has all sums of iteration iter - 1, and its parameters.  False:
 * the view ends, and that comes too late. */
bool elastic_ready(struct elastic_agreement *a, int iter);

/* Who proposes: the first member of the view that is not lost; 0: none. */
uint64_t elastic_coordinator(const struct elastic_agreement *a);
/* Do enough members stay for others to leave? */
bool elastic_lets_go(const struct elastic_agreement *a);
/* Will rank r of the view be in the next one, as far as this member knows?  Who
 * wants to go stays for as long as it is not let go. */
bool elastic_stays(const struct elastic_agreement *a, int r);
/* Is this member outside of every view it knows of? */
static inline bool elastic_is_out(const struct elastic_agreement *a)
{
    return a->rank < 0;
}

#endif
