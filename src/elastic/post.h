/* post.h - letters (short messages) between the processes of an elastic job.
 *
 * Each process listens, and connects to every process whose card it has.  It
 * writes to the lines that it opened and reads from those that others opened,
 * so a pair has two lines and need not agree on one.  A letter is
 *
 *     kind u8, then its body
 *
 * Before a letter, a process sends the cards of all whom it has reached since
 * the last one, and of those of its view, so a letter never names a process
 * that the receiver does not know.  Who is neither may be gone: if each told
 * the next one of it, nobody would ever forget it.  A letter is lost if the
 * line is not open; senders repeat what is important.
 *
 * Only one thread at a time may use a post. */
#ifndef CT_ELASTIC_POST_H
#define CT_ELASTIC_POST_H

#include "elastic/card.h"
#include "elastic/line.h"

/* A job's number is random but for how often it has begun anew, u16, behind the
 * first bytes, and for when it began, in the last ones.  One that begins anew
 * keeps those and these. */
enum { POST_JOB_BYTES = 16, POST_KEPT_BYTES = 6, POST_BEGAN_BYTES = 5,
       POST_VERSION = 7 };

enum post_kind {
    POST_HELLO = 1, /* version u8, what u8, job, digest u64, the job that it
                     * is to join, the receiver u64, 0: any, then a card */
    POST_CARD,      /* a card */
    POST_BEAT,      /* empty: the sender is alive */
    POST_RULES,     /* receiver u64, 0: any; a message of the agreement
                     * (wire.h) */
    POST_DEAD,      /* id u64, its job, then its will */
    POST_ASK,       /* what u8 (member.h); the answer comes back on the same
                     * line */
    POST_TELL,      /* the answer */
    POST_NO,        /* the receiver is not admitted: the reason; empty: the
                     * sender is in another job than the one to join */
    POST_DONE,      /* its job, then how u8 (enum post_end): training is over,
                     * and all files are written */
    POST_CANNOT,    /* view u32, then why the sender cannot continue in it */
    POST_EXPECT,    /* hint u64, view u32, rank u32, size u32: the receiver's
                     * likely place in the view after that one; view 0: it is in
                     * none; size 0: the last hint is withdrawn */
    POST_PREPARED   /* hint u64: the sender is prepared for that place */
};

/* How a job has ended. */
enum post_end { POST_FINISHED = 1, POST_STOPPED };

enum post_what { POST_MEMBER = 1, POST_AGENT, POST_GUEST };

/* The kind of object that an event refers to; the first member of each. */
enum post_about { POST_LISTENER, POST_DOOR, POST_WAKE, POST_CALLER, POST_PEER };

/* A process that connected to this one. */
struct post_caller {
    enum post_about     about;
    struct elastic_line line;
    uint64_t            id; /* 0: unknown yet, or a guest */
    enum post_what      what; /* 0: unknown yet */
    uint8_t             job[POST_JOB_BYTES]; /* its job; zeroes: none */
    struct elastic_card card; /* of an agent that called another one */
    struct post        *post;
    struct post_caller *next;
};

/* A process whose card is known, or an address to ask (id 0). */
struct post_peer {
    enum post_about     about;
    struct elastic_card card;
    uint64_t            serial;  /* order in which peers became news */
    struct elastic_line line;    /* the line that this process opened */
    bool                open;
    uint64_t            told;    /* on this line it was sent the cards up to
                                  * this serial; of an agent, the deaths */
    int                 at;      /* index of the address in use */
    bool                refused; /* connections are refused */
    bool                closed_door; /* the previous address refused */
    double              next_call, pause, heard;
    double              closed; /* time since which it is not open */
    struct post        *post;
    struct post_peer   *next;
};

struct post_config {
    const uint8_t      *secret; /* borrowed, SEAL_SECRET_BYTES */
    enum post_what      what;
    struct elastic_card card;   /* its port is set by post_start */
    uint64_t            digest; /* of everything that must be equal on all
                                 * members */
    uint8_t             seeks[POST_JOB_BYTES]; /* the job that it is to join,
                                 * and no other; zeroes: any */
    int                 door;   /* a socket for processes that want to join,
                                 * which other processes may share; -1: none */
    /* A letter of any kind but HELLO and CARD. */
    void (*take)(void *arg, struct post_caller *from, enum post_kind kind,
                 const uint8_t *body, size_t bytes);
    /* Has this process ended?  Then its card is not learned again.  May be
     * NULL. */
    bool (*ended)(void *arg, uint64_t id);
    /* Is this process in the view?  Others hear of it though it is not reached
     * now.  NULL: none is. */
    bool (*is_in)(void *arg, uint64_t id);
    /* A new card. */
    void (*learn)(void *arg, struct post_peer *p);
    /* An event of post_watch(). */
    void (*event)(void *arg, void *about);
    void  *arg;
};

struct post {
    struct post_config  config;
    uint8_t             job[POST_JOB_BYTES]; /* zeroes: none */
    int                 listener, epoll, wake;
    enum post_about     about[3]; /* what events of these three refer to */
    struct post_caller *callers;
    struct post_peer   *peers;
    uint64_t            n_news;
    double              next_beat;
    bool                door_open;
    struct line_memory  greetings;
    char                refusal[256]; /* "": no POST_NO was received */
    double              refused; /* when it was */
    bool                misled;  /* another job has answered */
    uint8_t             done[POST_JOB_BYTES]; /* the job that a member said to
                                               * an agent to be over; zeroes:
                                               * none */
    enum post_end       end;     /* how that ended */
};

/* Are these numbers of the same job, which may have begun anew? */
bool post_same_job(const uint8_t *a, const uint8_t *b);
/* How often it has. */
int post_job_generation(const uint8_t *job);

CT_MUST_CHECK enum ct_status post_start(struct post *p,
                                        const struct post_config *config);
void post_stop(struct post *p);
/* The same in a forked child, while the parent continues to use the post: both
 * share one epoll, and the child must not remove descriptors from it. */
void post_stop_child(struct post *p);

/* Waits for events, for at most `ms`, or for a post_wake() of any thread;
 * changes nothing of the post. post_work() handles the events. */
struct post_events;
void post_wait(struct post *p, int ms, struct post_events *out);
void post_work(struct post *p, const struct post_events *e);
void post_wake(struct post *p);

/* Accepts connections at the door, or leaves them to other processes. */
void post_open_door(struct post *p, bool open);
/* Watches another descriptor, until it is closed or unwatched. */
void post_watch(struct post *p, int fd, void *about);
void post_unwatch(struct post *p, int fd);

/* Does a member of a job know this process? */
bool post_is_known(const struct post *p);
/* And is it reached, and was heard in the last so many seconds? */
bool post_is_heard(const struct post *p, double seconds);
struct post_peer *post_find(const struct post *p, uint64_t id);
/* Adds or replaces a card; the higher edition wins.  NULL: out of memory, or
 * its process has ended. */
struct post_peer *post_learn(struct post *p, const struct elastic_card *c);
/* This process is in that job, from now on; all hear of it. */
void post_set_job(struct post *p, const uint8_t *job);
/* Others are to hear of that process, e.g. because it is in the view now. */
void post_tell_of(struct post *p, struct post_peer *q);
/* Sends this process's changed card to all. */
void post_tell_card(struct post *p);
/* Reads POST_DONE without its kind: *job is in the letter. */
CT_MUST_CHECK bool post_read_done(const uint8_t *body, size_t bytes,
                                  const uint8_t **job, enum post_end *end);
/* The letter POST_DONE, without its kind. */
enum { POST_DONE_BYTES = POST_JOB_BYTES + 1 };
void post_write_done(const uint8_t *job, enum post_end end, uint8_t *out);
/* An agent has heard of that. */
void post_take_done(struct post *p, const uint8_t *body, size_t bytes);
/* Closes the line and forgets the card. */
void post_forget(struct post *p, uint64_t id);
/* Closes the lines on which that process has called; if it lives, it calls
 * again, and says who it is. */
void post_hang_up(struct post *p, uint64_t id);
/* Adds an address that gets all letters to everybody.  The process there learns
 * of this one and connects to it. */
struct post_peer *post_door(struct post *p, const struct ct_ip *at,
                            uint16_t port);
void post_forget_doors(struct post *p);
/* Changes the id of this process. */
void post_rename(struct post *p, uint64_t id);

/* Handles a received letter; also for tests. */
void post_take(struct post_caller *c, const uint8_t *letter, size_t bytes);
/* Handles an answer on a line that this process opened; also for tests. */
void post_take_answer(struct post_peer *q, const uint8_t *letter, size_t bytes);
/* Writes all that is queued. */
void post_flush(struct post *p);

/* False: not connected now. */
bool post_send(struct post *p, uint64_t to, enum post_kind kind,
               const void *body, size_t bytes);
void post_send_all(struct post *p, enum post_kind kind, const void *body,
                   size_t bytes);
/* To agents that have called this process, at once. */
void post_tell_agents(struct post *p, enum post_kind kind, const void *body,
                      size_t bytes);
/* Answers on the line of the question. */
bool post_answer(struct post_caller *to, enum post_kind kind,
                 const void *body, size_t bytes);

enum { POST_EVENTS = 64 };
struct post_events {
    int   n;
    void *about[POST_EVENTS];
};

#endif
