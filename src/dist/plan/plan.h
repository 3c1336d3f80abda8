/* plan.h - what a job will do, and why.
 *
 * Options are what the user asked for; facts are what the job has.
 * dist_resolve() makes one plan of both by the rules of conflicts.c, or refuses
 * and names the rule.  A plan never changes, and no other code decides which
 * choices go together.
 *
 * The first plan is made when the ranks have connected, because nets are built
 * by it.  Another one follows when a solver attaches and all devices are
 * known. */
#ifndef CT_DIST_PLAN_H
#define CT_DIST_PLAN_H

#include "base/text.h"
#include "comm/coll/coll.h"
#include "cortado/proto.h"
#include "dist/codec/codec.h"
#include "dist/model/schedule.h"
#include "dist/sync/sync.h"
#include "solver/exchange.h"

/* How gradients are summed in GPU memory; see gpu/device_sum.h. */
enum dist_device_way {
    DIST_BY_HOST, /* not at all: they go through CPU memory */
    DIST_BY_NCCL,
    DIST_BY_MPI,
    DIST_BY_TREE
};

/* What happens to a gradient that arrives after its deadline (--late). */
enum dist_late {
    DIST_LATE_DISCARD, /* it is dropped, and its samples are drawn again */
    DIST_LATE_FOLD,    /* it is added to a later iteration, at half its
                        * weight */
    DIST_LATE_ERROR    /* the job ends */
};

struct dist_carrier;
struct dist_factor_way;

/* What the job has.  Equal on all ranks, except `copied` if only some ranks
 * have a GPU. */
struct dist_facts {
    int  size, n_hosts;
    bool elastic;  /* ranks may join and leave */
    bool met;      /* a solver has attached; the members below are known */
    bool gpus;     /* at least one rank's net is on a GPU */
    bool own_gpus; /* every rank has a GPU that no other rank uses */
    bool mixed;    /* some ranks have a GPU and some have none */
    bool unlike;   /* the devices of the ranks round differently */
    bool copied;   /* this rank's gradients are copied to CPU memory, as those
                    * of a GPU are */
    bool learns;   /* the net has parameters */
    int  iter_size;
    /* Results of attempts: ranks of this host cannot share memory; the way in
     * which GPUs sum in their own memory. */
    bool no_windows;
    enum dist_device_way on_device;
    bool shared_params; /* the ranks of a host have one copy of the
                         * parameters */
};

struct dist_plan {
    const struct ct_exchange_ops *kind;
    /* Roles and synchronisation. */
    int  n_workers;    /* ranks 0 to n_workers - 1 train */
    int  n_servers;    /* parameter servers; 0: none */
    int  first_server; /* rank of the first server; the others follow it */
    int  n_groups;     /* groups that push; n_workers: every rank pushes
                        * alone */
    bool servers;      /* gradients go to servers */
    bool values;       /* servers keep the parameters and update them */
    bool rounds;       /* servers go on without slow workers */
    enum dist_late late; /* what happens to gradients of slow workers */
    int  staleness;    /* in iterations; CT_PS_ASYNC: unlimited */
    const struct dist_sync_type *sync; /* a kind of sync/; NULL: in step or
                                        * servers */
    int  parts;        /* canonical training: micro-batches of all ranks
                        * together; 0: not canonical */
    bool alone;        /* a single rank that needs no exchange */
    bool keeps_history; /* the exchange changes the solver's histories */
    bool guards;       /* check from time to time that ranks are equal */
    bool equal_bits;   /* ranks have the same bits; otherwise they are near */
    /* Data. */
    bool shared_data;  /* every rank reads the same files */
    bool root_data, own_data, global_batch, sync_bn;
    enum ct_shares shares; /* how ranks divide a batch */
    bool deals_tests;  /* ranks deal out the batches of a test */
    /* How gradients travel. */
    enum dist_road    road;
    struct dist_codec codec;     /* type NULL: no codec */
    const struct ct_allreduce_type *reduce; /* NULL: by size */
    bool   nccl;         /* NCCL was named, so it must work */
    double bytes_s;      /* bytes per second that a rank may send; 0:
                          * unlimited */
    bool   sheds;        /* gradients that exceed bytes_s wait
                          * (codec/managed.h) */
    bool   codes;        /* buckets are encoded or limited (struct
                          * dist_wires) */
    bool   codes_answers; /* answers of servers are encoded, too */
    int64_t slice_floats; /* floats of a bucket that are summed at once; 0:
                           * all */
    bool   agrees;       /* rank 0 chooses the order of sums during the
                          * iteration */
    bool   overlap;      /* gradients are sent during the backward pass */
    bool   lazy;         /* updates wait for the next forward pass; on this
                          * rank, if only some ranks have a GPU */
    bool   commits;      /* elastic: an update waits until all ranks have all
                          * sums of the iteration */
    bool   reloads;      /* elastic: a new view restarts from the newest
                          * snapshot, because state of servers is lost with any
                          * of them */
    bool   apart;        /* elastic: ranks have different weights between two
                          * meetings */
    bool   holds_back;   /* the codec holds parts of gradients back and applies
                          * momentum */
    bool   whole;        /* the solver gets complete mean gradients */
    bool   windows;      /* shared memory inside a host may be used */
    bool   in_memory;    /* compute threads sum gradients in shared memory */
    const char *not_in_memory; /* why not; NULL */
    bool   shares_params; /* ranks of a host may share one copy of parameters */
    bool   shared_params; /* ranks of a host share one copy of parameters */
    bool   on_gpus;      /* gradients may be summed in GPU memory */
    const char *not_on_gpus; /* why not; NULL */
    enum dist_device_way on_device; /* the way to try in GPU memory */
    const struct dist_carrier *carrier; /* moves buckets between ranks; see
                                         * bsp/carrier.h */
    bool   roads;        /* each parameter may have its own road */
    bool   factors;      /* weights may travel as factors */
    const struct dist_factor_way *factor_way; /* how factors travel; see
                                               * bsp/factors.h */
    const struct dist_codec_type *factor_codec; /* NULL: factors travel as
                                                 * floats */
    bool   near_factors; /* GPUs may read each other's factors; all ranks try
                          * it */
    bool   sweeps;       /* the ways to sum between hosts are timed at the
                          * start */
    bool   learns;       /* roads may change after measured iterations */
};

/* resolve.c: only size and n_hosts of the facts must be known. */
CT_MUST_CHECK enum ct_status dist_resolve(const Caffe__DistributedParameter *o,
                                          const struct dist_facts *f,
                                          struct dist_plan *out);

/* The first rank of group number `group`; the group of a rank. */
int dist_group_first(const struct dist_plan *p, int group);
int dist_group_of(const struct dist_plan *p, int rank);

/* explain.c: the plan as lines of topic, choice and reason. */
void dist_plan_explain(const struct dist_plan *p,
                       const Caffe__DistributedParameter *o,
                       const struct dist_facts *f, struct ct_text *out);
/* The same for an elastic job that has not started. */
CT_MUST_CHECK enum ct_status dist_explain_elastic(
    const Caffe__DistributedParameter *o, int n_ranks, struct ct_text *out);
/* A few lines for the log when training starts. */
void dist_plan_say(const struct dist_plan *p,
                   const Caffe__DistributedParameter *o);

/* Choices of flags that represent all others, and their fields in `distributed
 * { }`.  Used by the table of combinations and by the test that trains every
 * pair. */
struct dist_choice {
    const char *flag, *fields;
    bool gpus, cpus; /* gpus: ranks have GPUs; cpus: some have none.  Both
                      * false: says nothing about devices */
};
extern const struct dist_choice dist_choices[];
extern const int dist_n_choices;
/* Adds the devices of this choice to the facts. */
void dist_choice_facts(const struct dist_choice *c, struct dist_facts *f);
/* The table of combinations and the rules, as in the manual. */
CT_MUST_CHECK enum ct_status dist_combinations(struct ct_text *out);

/* conflicts.c: two choices that cannot be combined. */
struct dist_rule {
    const char *one, *other, *why;
    const char *instead; /* what to do instead; NULL: no advice */
};
/* Rule i as the manual prints it; false: there is no rule i. */
bool dist_rule_at(int i, struct dist_rule *out);

#endif
