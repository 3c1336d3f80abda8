/* carrier.h - who takes buckets of gradients from rank to rank.
 *
 *     thread   the comm thread, slice by slice (flight.c)
 *     memory   the compute threads of one host, where the gradients lie; and
 *              the same where parameters lie there, too: whoever has a sum
 *              updates with it (host/direct.c)
 *     gpus     the comm thread, in the memory of GPUs; and NCCL, behind the
 *              layers' own work (gpu/device_sum.c)
 *
 * The plan names one when it knows all devices, and bsp.c asks no further. */
#ifndef CT_DIST_BSP_CARRIER_H
#define CT_DIST_BSP_CARRIER_H

#include "cortado/net.h"

struct ct_dist;
struct dist_cost;
struct dist_model;

struct dist_carrier {
    const char *name; /* in a few words, for whoever watches */
    /* As struct ct_attached has them. */
    bool queues_sums, sums_apart;
    /* What rides along is no part of the first bucket. */
    bool riders_apart;
    /* The gradient arena that buckets are cut from. */
    float *(*diffs)(const struct ct_dist *d, const struct ct_net *net);
    /* On a GPU: the backward pass of `layer` is queued. */
    enum ct_status (*queued)(struct ct_dist *d, int layer);
    /* The riders are set. */
    void (*loss_done)(struct ct_dist *d);
    /* The first n_ready buckets are complete, and leave. */
    enum ct_status (*send)(struct ct_dist *d, int n_ready);
    /* Is the sum of a bucket there?  Waits for it. */
    bool (*arrived)(struct ct_dist *d, int bucket);
    enum ct_status (*wait)(struct ct_dist *d, int bucket);
    /* Waits for the sums of the riders. */
    enum ct_status (*finish)(struct ct_dist *d, const float **riders);
    /* Where the sum of a parameter in a bucket lies. */
    const float *(*sum)(const struct ct_dist *d, int param);
    /* When a solver attaches: rank 0's parameters become everybody's. */
    enum ct_status (*spread)(struct ct_dist *d, const struct ct_net *net);
    /* Which parameters had better go as factors, into d->roads.apart. */
    enum ct_status (*choose)(struct ct_dist *d, const struct dist_model *m);
    /* How a parameter travels, in a word: its bytes, and seconds predicted and
     * observed.  In a bucket it has its share. */
    const char *(*road)(const struct ct_dist *d, int param,
                        struct dist_cost *cost, double *observed);
};

extern const struct dist_carrier dist_by_thread, dist_by_memory,
    dist_by_shared_params, dist_by_gpus, dist_by_nccl;

/* flight.c: what several have in common.  The gradients as peers see them, and
 * a parameter's own. */
float *dist_carrier_diffs(const struct ct_dist *d, const struct ct_net *net);
const float *dist_carrier_own_sum(const struct ct_dist *d, int param);
CT_MUST_CHECK enum ct_status dist_carrier_not_queued(struct ct_dist *d,
                                                     int layer);
/* For loss_done where riders are the first floats of the first bucket. */
void dist_carrier_riders_in_bucket(struct ct_dist *d);
CT_MUST_CHECK enum ct_status dist_flights_send(struct ct_dist *d, int n_ready);
/* roads.c: by what the model predicts, and how that came out. */
CT_MUST_CHECK enum ct_status dist_roads_choose(struct ct_dist *d,
                                               const struct dist_model *m);
const char *dist_roads_name(const struct ct_dist *d, int param,
                            struct dist_cost *cost, double *observed);
bool dist_flights_arrived(struct ct_dist *d, int bucket);
CT_MUST_CHECK enum ct_status dist_flights_wait(struct ct_dist *d, int bucket);

#endif
