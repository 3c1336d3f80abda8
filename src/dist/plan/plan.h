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

/* Who sums gradients in the memory of GPUs; see gpu/device_sum.h. */
enum dist_device_way {
    DIST_BY_HOST, /* nobody: they go through the CPU's memory */
    DIST_BY_NCCL,
    DIST_BY_MPI,
    DIST_BY_TREE
};

/* What becomes of a gradient that comes after its deadline (--late). */
enum dist_late {
    DIST_LATE_DISCARD, /* nothing: its samples are drawn again */
    DIST_LATE_FOLD,    /* it counts for half, in a later iteration */
    DIST_LATE_ERROR    /* the job ends */
};

struct dist_carrier;
struct dist_factor_way;

/* What the job has; the same on all ranks, but for `copied` where some have a
 * GPU and some have none. */
struct dist_facts {
    int  size, n_hosts;
    bool elastic;  /* ranks come and go */
    bool met;      /* a solver has come; what follows is known */
    bool gpus;     /* some rank's net is on one */
    bool own_gpus; /* each rank has one, and no two the same */
    bool mixed;    /* some ranks have one, and some have none */
    bool unlike;   /* devices round differently */
    bool copied;   /* this rank's gradients are copied to the CPU's memory, as
                    * from GPUs */
    bool learns;   /* the net has parameters */
    int  iter_size;
    /* What was tried: whether ranks of a host can share memory, and by which
     * way GPUs sum in their own. */
    bool no_windows;
    enum dist_device_way on_device;
    bool shared_params; /* ranks of a host have one copy of them */
};

struct dist_plan {
    const struct ct_exchange_ops *kind;
    /* Who trains, who serves, who waits for whom. */
    int  n_workers;    /* ranks 0 to n_workers - 1 train */
    int  n_servers;    /* parameter servers; 0: none */
    int  first_server; /* its rank; the others follow */
    int  n_groups;     /* that push; n_workers: every rank by itself */
    bool servers;      /* gradients go to servers */
    bool values;       /* servers keep the parameters and update them */
    bool rounds;       /* servers go on without slow workers */
    enum dist_late late; /* what slow workers send afterwards */
    int  staleness;    /* CT_PS_ASYNC: any */
    const struct dist_sync_type *sync; /* a kind by itself; NULL: in step, or
                                        * servers */
    int  parts;        /* canonical: micro-batches of all ranks; 0: no */
    bool alone;        /* one rank whose training is that of a process alone */
    bool keeps_history; /* the exchange works on the solver's histories */
    bool guards;       /* check from time to time that ranks are equal */
    bool equal_bits;   /* ranks have the same bits; otherwise they are near */
    /* What it trains on. */
    bool shared_data;  /* every rank reads the same files */
    bool root_data, own_data, global_batch, sync_bn;
    bool deals_tests;  /* ranks deal out the batches of a test */
    /* How gradients travel. */
    enum dist_road    road;
    struct dist_codec codec;     /* type NULL: as they are */
    const struct ct_allreduce_type *reduce; /* NULL: by size */
    bool   nccl;         /* insists on it */
    double bytes_s;      /* that a rank may send; 0: any number */
    bool   sheds;        /* gradients beyond that rate wait (codec/managed.h) */
    bool   codes;        /* some are coded, or wait for tokens */
    bool   codes_answers; /* what servers send back, too */
    int64_t slice_floats; /* of a bucket that are summed at once; 0: all */
    bool   agrees;       /* ranks agree on the order of sums as they go */
    bool   overlap;      /* they leave during the backward pass */
    bool   lazy;         /* updates wait for the next forward pass; this
                          * rank's, where some have a GPU */
    bool   commits;      /* ranks come and go: updates wait until all ranks have
                          * all sums */
    bool   reloads;      /* ranks come and go, and begin again then from the
                          * newest snapshot: what servers keep is lost with any
                          * of them */
    bool   apart;        /* they commit, and train apart, until they meet */
    bool   holds_back;   /* the codec keeps some, and momentum */
    bool   whole;        /* the solver gets mean gradients, all of them */
    bool   windows;      /* ranks of a host may share memory */
    bool   in_memory;    /* compute threads sum gradients where they lie */
    const char *not_in_memory; /* why not; NULL */
    bool   shares_params; /* ranks of a host may share one copy of parameters */
    bool   shared_params; /* ranks of a host share one copy of parameters */
    bool   on_gpus;      /* they may stay in the memory of GPUs */
    const char *not_on_gpus; /* why not; NULL */
    enum dist_device_way on_device; /* the way to try there */
    const struct dist_carrier *carrier; /* of buckets; see bsp/carrier.h */
    bool   roads;        /* each parameter has a road of its own */
    bool   factors;      /* weights may go as factors */
    const struct dist_factor_way *factor_way; /* how factors travel; see
                                               * bsp/factors.h */
    const struct dist_codec_type *factor_codec; /* NULL: they go as floats */
    bool   near_factors; /* GPUs may read each other's; all ranks try */
    bool   sweeps;       /* ways to sum between hosts are timed */
    bool   learns;       /* roads may change after what was seen */
};

/* resolve.c: facts beyond size and n_hosts may be unknown. */
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
/* The same of a job that has not begun and whose ranks come and go. */
CT_MUST_CHECK enum ct_status dist_explain_elastic(
    const Caffe__DistributedParameter *o, int n_ranks, struct ct_text *out);
/* A few lines for the log, when training starts. */
void dist_plan_say(const struct dist_plan *p,
                   const Caffe__DistributedParameter *o);

/* Choices of flags that stand for all, and what each says as fields; for the
 * table of what goes together and for the test that trains every pair. */
struct dist_choice {
    const char *flag, *fields;
    bool gpus, cpus; /* ranks have GPUs; some have none.  Neither: it says
                      * nothing of devices */
};
extern const struct dist_choice dist_choices[];
extern const int dist_n_choices;
/* The devices of a job that chose it, as facts. */
void dist_choice_facts(const struct dist_choice *c, struct dist_facts *f);
/* That table, and the rules, as the manual has them. */
CT_MUST_CHECK enum ct_status dist_combinations(struct ct_text *out);

/* conflicts.c: what does not go together. */
struct dist_rule {
    const char *one, *other, *why;
    const char *instead; /* what to do; NULL: nothing is said */
};
/* Rule i as the manual has it; false: there are not so many. */
bool dist_rule_at(int i, struct dist_rule *out);

#endif
