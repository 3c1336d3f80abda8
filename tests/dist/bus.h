/* bus.h - members of an elastic job as threads of one process.
 *
 * Now and then a member gets a hint of its next place, right or wrong, for
 * which it prepares.
 * They agree by the real rules (elastic/agreement.h), through messages that
 * wait and overtake each other by a seed.  A rank that is killed sees its
 * transport end and goes away without a word; its death is certified to each
 * of the others after a while. */
#ifndef CT_TESTS_DIST_BUS_H
#define CT_TESTS_DIST_BUS_H

#include <pthread.h>
#include <stdatomic.h>

#include "cortado/proto.h"
#include "elastic/agreement.h"
#include "elastic/membership.h"

enum { BUS_MEMBERS = 24, BUS_LETTERS = 1024, BUS_VIEWS = 256,
       BUS_STEPS = 40 };

struct letter {
    int  from, to;
    bool death; /* that of `from` */
    struct elastic_message message;
    struct elastic_will    will;
};

struct bus;

struct member {
    struct bus              *bus;
    int                      number;
    int                      threads; /* that it computes with */
    pthread_t                thread;
    bool                     made, alive, done;
    bool                     leaving; /* or will be left out */
    bool                     others_came; /* with its view, behind it */
    struct elastic_agreement a;
    struct elastic_membership asks;
    uint32_t                 given; /* the last view that it got */
    uint64_t                 n_hints; /* of the next, that it got */
    uint64_t                 given_id[BUS_MEMBERS]; /* whose ranks these are */
    struct ct_transport     *transport; /* its end in that view; borrowed */
    bool                     over;
    double                   loss[BUS_STEPS];
    int                      iter;
    float                   *weights;
    size_t                   n_weights;
    enum ct_status           st;
    char                     why[512];
};

struct bus {
    pthread_mutex_t      lock;
    pthread_cond_t       change;
    pthread_t            thread;
    bool                 stop;
    bool                 shaken;    /* views follow each other */
    int                  shaken_at; /* the latest after so many iterations */
    bool                 part;      /* who is gone has left of itself */
    /* A member is left out: it may come back; NULL: it ends. */
    void               (*left_out)(struct bus *b, struct member *m);
    bool                 begins_again; /* without who had the parameters */
    uint64_t             seed;
    atomic_ullong        n_drawn;
    struct member        member[BUS_MEMBERS];
    int                  n;
    struct letter       *letter; /* BUS_LETTERS of them */
    int                  n_letters;
    struct ct_transport *end[BUS_VIEWS][BUS_MEMBERS]; /* not taken yet */
    bool                 opened[BUS_VIEWS];
    const Caffe__SolverParameter      *param;
    const Caffe__DistributedParameter *options;
    int                  n_views;
};

CT_MUST_CHECK enum ct_status bus_create(
    uint64_t seed, const Caffe__SolverParameter *param,
    const Caffe__DistributedParameter *options, struct bus **out);
/* When it has stopped. */
void bus_destroy(struct bus *b);
/* With members that have the first view; its thread carries messages. */
void bus_start(struct bus *b, int n_members);
/* Until all members' threads have ended, those too that come meanwhile. */
void bus_await(struct bus *b);
/* After that. */
void bus_stop(struct bus *b);

/* The rest with b->lock held, but for a nap.  What follows from what members
 * know now. */
void bus_look(struct bus *b);
/* A new one, which has asked one of the others to be taken in. */
struct member *bus_join(struct bus *b);
/* Two of them, which come together; the second one follows. */
struct member *bus_join_two(struct bus *b);
/* One that was left out comes back as somebody new, together with a new one,
 * which this returns. */
struct member *bus_return(struct bus *b, struct member *m);
int  bus_n_alive(const struct bus *b);
/* Those of them that could go on without the others. */
int  bus_n_full(const struct bus *b);
struct member *bus_any_alive(struct bus *b);
void bus_kill(struct bus *b, struct member *m);
/* Some member believes another one lost, which it is not. */
void bus_suspect(struct bus *b);
/* Another member believes this one lost, and nobody counts on it. */
void bus_suspect_of(struct bus *b, struct member *m);
/* It begins another view of the same members. */
void bus_renew(struct bus *b, struct member *m);
/* One asks to go. */
void bus_let_go(struct bus *b);
/* From now on nobody reaches it.  With the last that has parameters the job
 * ends, also for those who still ask to be taken in. */
void bus_leave(struct member *m);
/* A number below n. */
int  bus_any(struct bus *b, int n);
void bus_nap(long us);

#endif
