/* post.h - letters between the processes of a job.
 *
 * Each process listens, and calls every other one whose card it has.  It
 * writes on the lines that it called, and reads on those that called it, so a
 * pair has two lines and nobody decides whose.  A letter is
 *
 *     kind u8, then what it says
 *
 * Cards travel ahead of letters: before a letter goes to somebody, that one is
 * told of everybody its sender has learned of since the last, so that no letter
 * speaks of a stranger.  Letters that find no open line are lost; who sends
 * them says things again.
 *
 * One thread at a time. */
#ifndef CT_ELASTIC_POST_H
#define CT_ELASTIC_POST_H

#include "elastic/card.h"
#include "elastic/line.h"

enum { POST_JOB_BYTES = 16, POST_VERSION = 4 };

enum post_kind {
    POST_HELLO = 1, /* version u8, what u8, job, digest u64, then a card */
    POST_CARD,      /* a card */
    POST_BEAT,      /* nothing: it lives */
    POST_RULES,     /* to whom u64, 0: anybody; a message of the agreement
                     * (wire.h) */
    POST_DEAD,      /* id u64, its job, then its will */
    POST_ASK,       /* what u8; the answer comes back on the same line */
    POST_TELL,      /* the answer */
    POST_NO,        /* it cannot be taken in: the reason */
    POST_DONE,      /* its job: training is over, and all is written */
    POST_CANNOT,    /* view u32, then why its sender cannot go on in it */
    POST_EXPECT,    /* hint u64, view u32, rank u32, size u32: the place that is
                     * likely to be the receiver's in the view after that one;
                     * view 0: it is in none; size 0: the last one does not hold
                     * any more */
    POST_PREPARED   /* hint u64: its receiver is prepared for that place */
};

enum post_what { POST_MEMBER = 1, POST_AGENT, POST_GUEST };

/* What an event is about; the first member of each. */
enum post_about { POST_LISTENER, POST_DOOR, POST_WAKE, POST_CALLER, POST_PEER };

/* Somebody who called this process. */
struct post_caller {
    enum post_about     about;
    struct elastic_line line;
    uint64_t            id; /* 0: it has not said, or is a guest */
    enum post_what      what; /* 0: it has not said */
    uint8_t             job[POST_JOB_BYTES]; /* that it is in; zeroes: none */
    struct post        *post;
    struct post_caller *next;
};

/* Somebody whose card this process has, or a door to knock at: id 0. */
struct post_peer {
    enum post_about     about;
    struct elastic_card card;
    uint64_t            serial;  /* they are learned of one after the other */
    struct elastic_line line;    /* that this process called */
    bool                open;
    uint64_t            told;    /* of cards up to this serial */
    int                 at;      /* which of its addresses is called */
    bool                refused; /* nobody listens there any more */
    bool                closed_door; /* nobody listened at the address before */
    double              next_call, pause, heard;
    double              closed; /* since when it is not open */
    struct post        *post;
    struct post_peer   *next;
};

struct post_config {
    const uint8_t      *secret; /* borrowed, SEAL_SECRET_BYTES */
    enum post_what      what;
    struct elastic_card card;   /* its port is filled in */
    uint64_t            digest; /* of what all members must have alike */
    int                 door;   /* a socket that listens for strangers, which
                                 * other processes may share; -1: none */
    /* A letter of any kind but HELLO and CARD. */
    void (*take)(void *arg, struct post_caller *from, enum post_kind kind,
                 const uint8_t *body, size_t bytes);
    /* A card that was not known. */
    void (*learn)(void *arg, struct post_peer *p);
    /* An event of post_watch(). */
    void (*event)(void *arg, void *about);
    void  *arg;
};

struct post {
    struct post_config  config;
    uint8_t             job[POST_JOB_BYTES]; /* zeroes: none yet */
    int                 listener, epoll, wake;
    enum post_about     about[3]; /* these three: what events are about */
    struct post_caller *callers;
    struct post_peer   *peers;
    uint64_t            n_learned;
    double              next_beat;
    bool                door_open;
    struct line_memory  greetings;
    char                refusal[256]; /* "": nobody has said NO */
};

CT_MUST_CHECK enum ct_status post_start(struct post *p,
                                        const struct post_config *config);
void post_stop(struct post *p);
/* The same in a child of the process that started it, which goes on with it:
 * both have the same epoll, and what the child took out of it would be gone. */
void post_stop_child(struct post *p);

/* Waits until there is something to do, at most so long, or until a post_wake()
 * of any thread; touches nothing of the post.  Then post_work() does it. */
struct post_events;
void post_wait(struct post *p, int ms, struct post_events *out);
void post_work(struct post *p, const struct post_events *e);
void post_wake(struct post *p);

/* Strangers are heard, or wait for somebody else to hear them. */
void post_open_door(struct post *p, bool open);
/* Another descriptor to wait for, until it is closed or not to be any more. */
void post_watch(struct post *p, int fd, void *about);
void post_unwatch(struct post *p, int fd);

struct post_peer *post_find(const struct post *p, uint64_t id);
/* Of two cards of a process the later edition counts.  NULL: there is no
 * memory. */
struct post_peer *post_learn(struct post *p, const struct elastic_card *c);
/* This process's own card has changed: all are told. */
void post_tell_card(struct post *p);
/* Hangs up, and forgets the card. */
void post_forget(struct post *p, uint64_t id);
/* A door to knock at: it gets what goes to all, and who is behind it learns of
 * this process and calls back. */
struct post_peer *post_door(struct post *p, const struct ct_ip *at,
                            uint16_t port);
void post_forget_doors(struct post *p);
/* This process has another name from now on. */
void post_rename(struct post *p, uint64_t id);

/* A letter that came; also for tests. */
void post_take(struct post_caller *c, const uint8_t *letter, size_t bytes);
/* What came back on a line that this process called; also for tests. */
void post_take_answer(struct post_peer *q, const uint8_t *letter, size_t bytes);
/* Writes what there is to write. */
void post_flush(struct post *p);

/* False: it is not reached now. */
bool post_send(struct post *p, uint64_t to, enum post_kind kind,
               const void *body, size_t bytes);
void post_send_all(struct post *p, enum post_kind kind, const void *body,
                   size_t bytes);
/* To somebody who asked, on the same line. */
bool post_answer(struct post_caller *to, enum post_kind kind,
                 const void *body, size_t bytes);

enum { POST_EVENTS = 64 };
struct post_events {
    int   n;
    void *about[POST_EVENTS];
};

#endif
