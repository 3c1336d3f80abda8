/* member.h - one process of an elastic job: it knows who is in it.
 *
 * A thread of its own keeps the post, hears who lives, sees processes of its
 * host end, and agrees with the others on the next view (agreement.h).  The
 * training asks it for its places through struct elastic_membership. */
#ifndef CT_ELASTIC_MEMBER_H
#define CT_ELASTIC_MEMBER_H

#include "base/text.h"
#include "elastic/membership.h"
#include "elastic/post.h"

enum { MEMBER_DOORS = 64 };

/* An address to knock at; the port in network order. */
struct elastic_door {
    struct ct_ip at;
    uint16_t     port;
};

struct member_config {
    const uint8_t *secret;      /* borrowed, SEAL_SECRET_BYTES */
    int            door;        /* a socket for strangers; -1: none */
    int            will;        /* a page that the agent handed down; -1 */
    bool           founds;      /* it begins the job, and joins none */
    uint8_t        before[POST_JOB_BYTES]; /* with `founds`: the job that it
                                 * begins anew; zeroes: it begins another */
    uint8_t        seeks[POST_JOB_BYTES]; /* without `founds`: the job that it
                                 * is to join; zeroes: any */
    uint64_t       agent;       /* number of the agent; 0: there is none */
    uint16_t       agent_port;  /* where that listens, in network order */
    int            least, most; /* members that train */
    int            last;        /* iterations after which training is done:
                                 * then fewer will do */
    double         suspect;     /* seconds of silence */
    double         orphan;      /* seconds without the others, until it ends */
    double         stall;       /* seconds that the thread which trains has to
                                 * come to a view; 0: for ever */
    uint64_t       digest;      /* of solver, net and flags */
    const char    *description; /* what one needs to take part; borrowed */
    const char    *file;        /* of addresses, that is touched while this
                                 * process is in the job; borrowed; NULL */
    struct elastic_door knock[MEMBER_DOORS]; /* where the job may be */
    int            n_knock;
    bool           prepares;    /* the thread that trains takes hints of its
                                 * next place (membership.h) */
    /* On the thread that asks for a place: it has this one now. */
    void (*placed)(void *arg, const struct elastic_place *p);
    /* On the member's thread: the thread that trains hangs, and others wait for
     * it in vain.  The process is to end.  NULL: the member asks to be left
     * out, and comes back if that thread ever asks again. */
    void (*hangs)(void *arg, const char *why);
    void  *arg;
};

/* "MIN:MAX"; NULL, "" or "true": any number. */
CT_MUST_CHECK enum ct_status member_read_size(const char *text, int *least,
                                              int *most);
/* No more than so many can train; 0: any number. */
CT_MUST_CHECK enum ct_status member_limit_size(int limit, int least,
                                               int *most);
/* Rank 0 alone logs at this level, whoever that is now. */
void member_hush(const struct elastic_place *p, int level);

struct elastic_member;

CT_MUST_CHECK enum ct_status member_create(const struct member_config *c,
                                           struct elastic_member **out);
void member_destroy(struct elastic_member *m); /* takes NULL */
const struct elastic_membership *member_asks(const struct elastic_member *m);
/* Who begins the job has `iter` iterations behind it, and trains from there:
 * the others are let in, and this returns when there are enough.  For all
 * others nothing happens. */
CT_MUST_CHECK enum ct_status member_begin(struct elastic_member *m, int iter);
/* It asks to be left out after the iteration under way: next() then gives
 * CT_ESTOP.  On any thread, also in a signal handler. */
void member_leave(struct elastic_member *m);

/* Training is to end: who still waits to begin ends at once.  On any thread,
 * also in a signal handler. */
void member_end(struct elastic_member *m);
/* Training is done: nobody is taken in any more, and its agent starts nobody in
 * its place.  Who waits and agents that have no rank in the job hear of it,
 * too.  `finished`: it came to its end and was not stopped. */
void member_done(struct elastic_member *m, bool finished);
/* Is this member in the job, in which it has had a place, and which goes on as
 * far as it has heard? */
bool member_is_in(struct elastic_member *m);
/* Has another member said so?  Waits a moment for its word, which may come
 * behind the news of its end. */
bool member_hears_done(struct elastic_member *m);
/* A number that all processes of the job have, for those who draw; also for who
 * has been given a hint of its place there. */
uint64_t member_seed(struct elastic_member *m);
/* When it began, in seconds since 1970, by the clock of who began it.  A job
 * that all ranks were lost of and that began anew is the same one, with another
 * number. */
int64_t member_began(struct elastic_member *m);
/* The same of the job with that number, POST_JOB_BYTES. */
int64_t member_job_began(const uint8_t *job);
/* Did this member begin the job anew? */
bool member_founds_again(const struct elastic_member *m);
/* The whole job is to end: this member asked to leave, and too few would stay,
 * or somebody asked it for the end with MEMBER_ASK_END. */
bool member_ends_job(struct elastic_member *m);

/* What one asks with POST_ASK. */
enum {
    MEMBER_ASK_JSON        = 'j',
    MEMBER_ASK_TEXT        = 't',
    MEMBER_ASK_DESCRIPTION = 'd',
    MEMBER_ASK_ROLL        = 'r', /* roll.h */
    MEMBER_ASK_END         = 'e'  /* the same, and the job with the number
                                   * behind this word is to end */
};

#endif
