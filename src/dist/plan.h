/* plan.h - what a job will do, and why.
 *
 * Options say what was asked for, facts what the job has; dist_resolve() makes
 * one plan of both, by the rules of conflicts.c, or refuses with the rule that
 * forbids it.  Nothing changes a plan, and nobody else decides.
 *
 * A plan is made when ranks meet, because nets are built by it, and made anew
 * when a solver has come with its net and all devices are known. */
#ifndef CT_DIST_PLAN_H
#define CT_DIST_PLAN_H

#include "base/text.h"
#include "comm/coll/coll.h"
#include "cortado/proto.h"
#include "dist/codec/codec.h"
#include "dist/model/schedule.h"
#include "dist/sync/sync.h"

/* What the job has; the same on all ranks. */
struct dist_facts {
    int  size, n_hosts;
    bool elastic;  /* ranks come and go */
    bool met;      /* a solver has come; what follows is known */
    bool gpus;     /* some rank's net is on one */
    bool own_gpus; /* each rank has one, and no two the same */
    bool mixed;    /* some ranks have one, and some have none */
    bool unlike;   /* devices round differently */
    bool copied;   /* gradients are copied to the CPU's memory, as from GPUs */
    bool learns;   /* the net has parameters */
    int  iter_size;
};

struct dist_plan {
    const struct ct_exchange_ops *kind;
    /* Who trains, who serves, who waits for whom. */
    int  n_workers;    /* ranks 0 to n_workers - 1 train */
    int  n_servers;    /* parameter servers; 0: none */
    int  first_server; /* its rank; the others follow */
    int  n_groups;     /* that push; n_workers: every rank by itself */
    bool servers;      /* gradients go to servers */
    bool values;       /* ... who keep values and update them */
    bool rounds;       /* ... and go on without slow workers */
    int  staleness;    /* CT_PS_ASYNC: any */
    int  local_steps;  /* between two means of the weights; 0: no such */
    const struct dist_sync_type *sync; /* a kind by itself; NULL: in step, or
                                        * servers */
    int  parts;        /* canonical: micro-batches of all ranks; 0: no */
    bool alone;        /* one rank whose training is that of a process alone */
    /* What it trains on. */
    bool root_data, own_data, global_batch, sync_bn;
    /* How gradients travel. */
    enum dist_road    road;
    struct dist_codec codec;     /* type NULL: as they are */
    const struct ct_allreduce_type *reduce; /* NULL: by size */
    bool   nccl;         /* insists on it */
    double bytes_s;      /* that a rank may send; 0: any number */
    bool   sheds;        /* ... what has no tokens waits (codec/managed.h) */
    bool   overlap;      /* they leave during the backward pass */
    bool   lazy;         /* updates wait for the next forward pass */
    bool   commits;      /* ... or until all ranks have all sums */
    bool   holds_back;   /* the codec keeps some, and momentum */
    bool   windows;      /* ranks of a host may share memory */
    bool   in_memory;    /* compute threads sum gradients where they lie */
    bool   on_gpus;      /* they may stay in the memory of GPUs */
    const char *not_on_gpus; /* why not; NULL */
    bool   factors;      /* weights may go as factors */
    bool   sweeps;       /* ways to sum between hosts are timed */
    bool   learns;       /* roads may change after what was seen */
};

/* conflicts.c: NULL facts beyond size and n_hosts are unknown. */
CT_MUST_CHECK enum ct_status dist_resolve(const Caffe__DistributedParameter *o,
                                          const struct dist_facts *f,
                                          struct dist_plan *out);

/* First rank of the group that pushes as number `group`; the group of a
 * rank. */
int dist_group_first(const struct dist_plan *p, int group);
int dist_group_of(const struct dist_plan *p, int rank);

/* explain.c: the plan in lines of topic, choice and reason. */
void dist_plan_explain(const struct dist_plan *p,
                       const Caffe__DistributedParameter *o,
                       const struct dist_facts *f, struct ct_text *out);
/* A few lines for the log, when training starts. */
void dist_plan_say(const struct dist_plan *p,
                   const Caffe__DistributedParameter *o);

/* Choices of flags that stand for all, and what each says as fields; for the
 * table of what goes together and for the test that trains every pair. */
struct dist_choice {
    const char *flag, *fields;
};
extern const struct dist_choice dist_choices[];
extern const int dist_n_choices;
/* That table, and the rules, as the manual has them. */
CT_MUST_CHECK enum ct_status dist_combinations(struct ct_text *out);

/* conflicts.c: what does not go together. */
struct dist_rule {
    const char *one, *other, *why;
};
/* Rule i as the manual has it; false: there are not so many. */
bool dist_rule_at(int i, struct dist_rule *out);

#endif
