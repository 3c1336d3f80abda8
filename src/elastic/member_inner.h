/* member_inner.h - a member, for the files that it is made of. */
#ifndef CT_ELASTIC_MEMBER_INNER_H
#define CT_ELASTIC_MEMBER_INNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "elastic/agreement.h"
#include "elastic/member.h"
#include "elastic/neighbours.h"
#include "elastic/will_page.h"

struct ct_tcp;
struct links;

enum { MEMBER_LOSSES = 4 };

/* Who is gone, as far as this member has seen it. */
struct elastic_losses {
    int  n_lost, n_left;
    int  n_last;                    /* texts so far */
    char last[MEMBER_LOSSES][320];  /* the last of them, in a ring */
};

/* Those who have asked this member, which coordinates, to be taken in, and who
 * of all is prepared for that (member_room.c). */
struct elastic_room {
    uint64_t id[ELASTIC_MEMBERS];
    int      n;
    double   since;      /* when the first of them came */
    double   changed;    /* when the last one came or went */
    uint64_t hint;       /* the last that was given */
    uint32_t view;       /* in which; 0: none stands: it has come true, or was
                          * withdrawn */
    double   complete;   /* since when all are prepared */
    uint64_t expected[ELASTIC_MEMBERS]; /* in the next view, by rank */
    bool     prepared[ELASTIC_MEMBERS]; /* for it */
    int      n_expected;
};

/* The hint that this member has, and from whom. */
struct elastic_hint {
    uint64_t number, from;
    int      rank, size;
    uint8_t  job[POST_JOB_BYTES];
};

struct elastic_member {
    struct member_config     config;
    struct elastic_membership asks;
    struct ct_tcp           *tcp;
    struct will_page        *page;
    int                      page_file;
    bool                     page_is_ours;
    pthread_t                thread;
    bool                     runs;
    pid_t                    parent; /* its agent, if it has one */
    struct links            *links;
    atomic_bool              stop, wants_to_leave, wants_to_end;
    atomic_bool              ends_job;  /* somebody has asked for that */
    /* The rest with `lock` held. */
    pthread_mutex_t          lock;
    pthread_cond_t           change;
    struct post              post;
    struct elastic_agreement a;
    uint8_t                  unread_job[POST_JOB_BYTES]; /* the job of
                                         * a.unread, where that has a view */
    struct elastic_will      written; /* what the page has */
    struct elastic_view      given;   /* the last view that next() gave */
    struct ct_transport     *transport; /* its transport; NULL: none */
    bool                     over;      /* it was told that its view is over */
    struct neighbours        neighbours;
    char                     events[512]; /* since `given`: who was lost */
    bool                     noted[ELASTIC_MEMBERS]; /* ranks in `events` */
    double                   since;       /* when the change began; 0: there
                                           * is none */
    double                   trained;     /* when it last held an iteration more
                                           * than before; 0: it has not yet */
    char                     line[1280];  /* of the log, of the view `given`;
                                           * "": the log has it */
    double                   line_since;  /* when that change began; 0: nobody
                                           * trained before */
    struct elastic_losses    losses;
    char                     cannot[320]; /* go on in `given`: who, and why */
    int                      n_vain;   /* views in a row that came to nothing */
    double                   given_at; /* when the last one of these began */
    unsigned                 n_done;   /* collectives of the furthest of them */
    double                   moved;    /* when there was one more */
    double                   worked;      /* when the thread last did */
    double                   next_retry;
    bool                     job_done;   /* others have finished it */
    struct elastic_room      room;
    struct elastic_hint      hint;
    bool                     heeds;      /* the training takes hints */
    atomic_bool              hinted;     /* the training has yet to take it */
    atomic_bool              all_wait;   /* for the training's next iteration:
                                          * then who asked is let in */
    /* Of the thread that trains: */
    bool                     asking;     /* it waits for a view */
    bool                     through;    /* it asks for none any more */
    bool                     hangs;      /* it was found to */
    const struct ct_pulse   *pulse; /* of training; NULL: not known; borrowed */
    double                   over_since; /* its view is over, or it last gave
                                          * a sign since */
    uint32_t                 given_up;   /* the newest view that another one
                                          * could not go on in */
    uint32_t                 seen;       /* the view that it last looked at */
    double                   seen_since; /* when it first looked at that */
};

/* With `lock` held: */
void member_send_rules(void *arg, uint64_t to,
                       const struct elastic_message *r);
/* A letter that came; also for tests. */
void member_on_letter(void *arg, struct post_caller *from,
                      enum post_kind kind, const uint8_t *body, size_t bytes);
/* What it is bound by goes to its page, where that has changed. */
void member_write_will(struct elastic_member *m);
/* What follows from what it knows now. */
void member_settle(struct elastic_member *m);
void member_knock(struct elastic_member *m);
/* member_peers.c. */
bool member_is_in_view(const struct elastic_member *m, uint64_t id);
/* How the post of a member learns of others. */
void member_learn_peers(struct post_config *c);
/* Now and then: suspects who is silent, and forgets who is gone. */
void member_mind_peers(struct elastic_member *m, double now);
/* member_asks.c.  Now and then: whether this process, which came with its view,
 * gets what the others have. */
void member_see_supply(struct elastic_member *m, double now);
/* member_says.c.  For the line that the log has of a change: what became of a
 * rank. */
void member_note(struct elastic_member *m, uint64_t id, const char *what);
/* The same for who gave a view up in which nobody was lost, came or went. */
void member_note_cannot(struct elastic_member *m, uint64_t id,
                        const char *why);
/* Makes that line, for the view that it is in; what is in it is not said
 * again. */
void member_tell_view(struct elastic_member *m, struct elastic_place *out);
/* Logs it, if the log does not have it yet.  `trains`: the ranks of the view
 * can train from now on, so it is known how long they could not. */
void member_log_view(struct elastic_member *m, bool trains);
/* Now and then: logs it when that takes long. */
void member_mind_line(struct elastic_member *m, double now);
/* The whole job, for who asks. */
void member_describe(const struct elastic_member *m, bool json,
                     struct ct_text *out);
/* Its agents, for who seeks one of them (roll.h). */
void member_call_roll(const struct elastic_member *m, struct ct_text *out);
/* NULL: nobody knows that process any more. */
const struct elastic_card *member_card_of(const struct elastic_member *m,
                                          uint64_t id);
/* "rank 2 (process 77 on a)" */
void member_name_rank(const struct elastic_member *m,
                      const struct elastic_view *v, int r, char *out,
                      size_t bytes);

/* member_room.c.  Process `id` asks to be taken in. */
void room_ask(struct elastic_member *m, uint64_t id);
/* Now and then: gives hints, and takes in who has waited long enough. */
void room_mind(struct elastic_member *m, double now);
/* Letters about it. */
void room_take_hint(struct elastic_member *m, const struct post_caller *from,
                    const uint8_t *body, size_t bytes);
void room_take_prepared(struct elastic_member *m, uint64_t from,
                        const uint8_t *body, size_t bytes);
/* The training begins an iteration: a good moment to let them in. */
void room_turn(struct elastic_member *m);
/* The hint that the training has yet to take; false: there is none. */
bool room_expects(struct elastic_member *m, struct elastic_place *out);
/* This member is prepared for it. */
void room_prepared(struct elastic_member *m, uint64_t hint);
/* Its training takes hints from now on, or does not: then this member is
 * prepared for any place. */
void room_heed(struct elastic_member *m, bool hints);

/* member_waits.c: who has waited so long for a place says for whom, once it is
 * time for the next line; *next begins as 0. */
void member_say_wait(const struct elastic_member *m, double waited,
                     double *next);

static inline bool member_leaves(struct elastic_member *m)
{
    return atomic_load(&m->wants_to_leave);
}

/* member_asks.c: what the training asks. */
struct elastic_membership member_answers(struct elastic_member *m);

#endif
