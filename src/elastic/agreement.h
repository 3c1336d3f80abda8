/* agreement.h - which view comes next: the rules alone, without clocks, sockets
 * or threads, so that a test can try every order of events.
 *
 *     a member is lost, or a process wants to join or leave
 *     the coordinator    PREPARE    to all members of the view
 *     each member        PROMISE    stops, and says how far it got
 *     the coordinator    ACCEPT     the next view
 *     each member        ACCEPTED
 *     the coordinator    INSTALL    when more than half have accepted
 *
 * The coordinator is the first member that is believed alive.  If two members
 * believe that they are the coordinator, ballots decide, as in single-decree
 * Paxos.  A view is decided when more than half of the members that are not
 * certified dead have accepted it; exactly half is enough if it includes the
 * first of them.  So at most one part of a partitioned job continues.
 *
 * A member is `ready` for an iteration when it has all of its sums.  The
 * iteration counts when all members are ready.  The next view begins with
 * `base`: the iterations for which all of its members were ready.  If any
 * member has committed iteration t, all were ready, so all members of the next
 * view have its sums and apply them.  If one was not ready, no member has
 * committed it, and all repeat it.
 *
 * A member that leaves stays until a member that remains has the
 * parameters. */
#ifndef CT_ELASTIC_AGREEMENT_H
#define CT_ELASTIC_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>

#ifndef ELASTIC_MEMBERS
#define ELASTIC_MEMBERS 1024
#endif

enum { ELASTIC_NOTHING = -1 }; /* `ready` of a member without parameters */

struct elastic_view {
    uint32_t number; /* 0: none */
    int      base;   /* iterations that count; ELASTIC_NOTHING: those of the
                      * newest snapshot */
    int      n, n_full; /* members; the first n_full of them have parameters */
    uint64_t id[ELASTIC_MEMBERS]; /* ids of processes, by rank */
};

enum elastic_kind {
    ELASTIC_PREPARE,
    ELASTIC_PROMISE,
    ELASTIC_REFUSE, /* a higher ballot, which it names, was promised */
    ELASTIC_ACCEPT,
    ELASTIC_ACCEPTED,
    ELASTIC_INSTALL,
    ELASTIC_JOIN,   /* `about` asks to join */
    ELASTIC_LEAVE,  /* `about` asks to leave */
    ELASTIC_RENEW,  /* the sender cannot continue in this view */
    ELASTIC_HOLDS,  /* the sender joined without parameters and has them now */
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

/* The promises of a member.  They are written where they outlive the process
 * before a message announces them.  A process that certifies a death reads them
 * there, so votes of dead members count and nothing that only they knew is
 * lost. */
struct elastic_will {
    struct elastic_view view;     /* the installed view */
    uint64_t promised, accepted;  /* ballots in that view */
    struct elastic_view next;     /* the view of `accepted` */
};

/* What a member knows of another member of its view. */
struct elastic_peer {
    bool dead;      /* certified */
    bool suspect;
    bool leaves;
    bool holds;     /* it has received the parameters since the view began */
    bool promised, accepted; /* answers to the ballot that this member leads */
    int  ready;     /* from its PROMISE */
};

typedef void (*elastic_send_fn)(void *arg, uint64_t to,
                                const struct elastic_message *m);

struct elastic_agreement {
    uint64_t            me;
    struct elastic_will own;    /* own.view is its current view */
    int                 rank;   /* in own.view; -1: not a member */
    int                 ready;  /* iterations whose sums this member has */
    bool                frozen; /* it has promised and cannot continue in this
                                 * view */
    bool                leaves; /* it wants to leave */
    bool                renews; /* a member cannot continue in this view */
    int                 least;  /* least number of members that must stay */
    int                 most;   /* largest number of members of a view */
    struct elastic_peer peer[ELASTIC_MEMBERS];
    uint64_t            joiner[ELASTIC_MEMBERS];
    int                 n_joiners;
    uint64_t            grave[ELASTIC_MEMBERS]; /* ids of the last members that
                                                 * died; a ring */
    unsigned            n_graves;
    uint32_t            round;  /* the highest round seen */
    uint64_t            ballot; /* the ballot that this member leads; 0: none */
    bool                asks;   /* its ballot is in the ACCEPT phase */
    struct elastic_view offer;  /* the view that its ballot proposes */
    uint64_t            heard;  /* the highest ballot in which `offer` was
                                 * accepted before; 0: none */
    uint64_t            left;   /* the highest ballot that dead members had
                                 * accepted */
    struct elastic_view left_next; /* the view of `left` */
    struct elastic_will unread; /* while this member has no view: of the dead,
                                 * those in the newest view, together */
    elastic_send_fn     send;   /* not called for `me` */
    void               *arg;
};

/* A member without a view. elastic_found() creates one; an INSTALL of another
 * member brings one. */
void elastic_init(struct elastic_agreement *a, uint64_t me,
                  elastic_send_fn send, void *arg);
/* Creates view 1 of this member alone, which has the parameters. */
void elastic_found(struct elastic_agreement *a);
void elastic_receive(struct elastic_agreement *a, uint64_t from,
                     const struct elastic_message *m);

/* Process `id` has ended and left `will`; is silent, or not any more. */
void elastic_dead(struct elastic_agreement *a, uint64_t id,
                  const struct elastic_will *will);
void elastic_suspect(struct elastic_agreement *a, uint64_t id, bool suspect);
/* Has process `id` ended, as far as this member knows? */
bool elastic_has_ended(const struct elastic_agreement *a, uint64_t id);
/* Process `id` asks to join, or n processes at once; this member asks to
 * leave. */
void elastic_join(struct elastic_agreement *a, uint64_t id);
void elastic_join_all(struct elastic_agreement *a, const uint64_t *id, int n);
void elastic_leave(struct elastic_agreement *a);
/* Process `id`, which asked to join, is not admitted for now. */
void elastic_dismiss(struct elastic_agreement *a, uint64_t id);
/* This member cannot continue in its view, although nobody may be lost. */
void elastic_renew(struct elastic_agreement *a);

/* Call it from time to time while a request is open: repeats messages that may
 * have been lost with a connection. */
void elastic_retry(struct elastic_agreement *a);

/* This member has all sums of iteration iter - 1, and the parameters before it.
 * False: too late, the view ends. */
bool elastic_ready(struct elastic_agreement *a, int iter);

/* The member that proposes: the first one that is not lost; 0: none. */
uint64_t elastic_coordinator(const struct elastic_agreement *a);
/* Do enough members stay, so that others can leave? */
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
