/* carrier.h - what sums buckets of gradients over ranks.
 *
 *     thread   the comm thread, slice by slice (flight.c)
 *     memory   the compute threads of one host, in shared memory; if the
 *              parameters are there as well, the rank that has a sum updates
 *              them with it (host/direct.c)
 *     gpus     the comm thread, in GPU memory; or NCCL, on a stream behind the
 *              layers' kernels (gpu/device_sum.c)
 *
 * The plan names one carrier when all devices are known. */
#ifndef CT_DIST_BSP_CARRIER_H
#define CT_DIST_BSP_CARRIER_H

#include "cortado/net.h"

struct ct_dist;
struct dist_cost;
struct dist_model;

struct dist_carrier {
    const char *name; /* in a few words, for monitoring */
    /* See struct ct_attached. */
    bool queues_sums, sums_apart;
    /* The riders are not part of the first bucket. */
    bool riders_apart;
    /* The gradient arena that is divided into buckets. */
    float *(*diffs)(const struct ct_dist *d, const struct ct_net *net);
    /* On a GPU: the backward pass of `layer` is queued. */
    enum ct_status (*queued)(struct ct_dist *d, int layer);
    /* Called when the riders are set. */
    void (*loss_done)(struct ct_dist *d);
    /* Sends buckets up to n_ready; they are complete. */
    enum ct_status (*send)(struct ct_dist *d, int n_ready);
    /* Has the sum of a bucket arrived? wait() waits for it. */
    bool (*arrived)(struct ct_dist *d, int bucket);
    enum ct_status (*wait)(struct ct_dist *d, int bucket);
    /* Waits for the sums of the riders. */
    enum ct_status (*finish)(struct ct_dist *d, const float **riders);
    /* The sum of a parameter that is in a bucket. */
    const float *(*sum)(const struct ct_dist *d, int param);
    /* Copies rank 0's parameters to all ranks when a solver attaches. */
    enum ct_status (*spread)(struct ct_dist *d, const struct ct_net *net);
    /* Writes to d->roads.apart which parameters should travel as factors. */
    enum ct_status (*choose)(struct ct_dist *d, const struct dist_model *m);
    /* Names the road of a parameter; its bytes, and its predicted and measured
     * seconds.  A parameter in a bucket gets its share of the bucket's. */
    const char *(*road)(const struct ct_dist *d, int param,
                        struct dist_cost *cost, double *observed);
};

extern const struct dist_carrier dist_by_thread, dist_by_memory,
    dist_by_shared_params, dist_by_gpus, dist_by_nccl;

/* flight.c: functions that several carriers use.  The gradients that peers see;
 * the net's own gradient of a parameter. */
float *dist_carrier_diffs(const struct ct_dist *d, const struct ct_net *net);
const float *dist_carrier_own_sum(const struct ct_dist *d, int param);
CT_MUST_CHECK enum ct_status dist_carrier_not_queued(struct ct_dist *d,
                                                     int layer);
/* For loss_done if the riders are the first floats of the first bucket. */
void dist_carrier_riders_in_bucket(struct ct_dist *d);
CT_MUST_CHECK enum ct_status dist_flights_send(struct ct_dist *d, int n_ready);
/* roads.c: for `choose` and `road`, by the model's prediction. */
CT_MUST_CHECK enum ct_status dist_roads_choose(struct ct_dist *d,
                                               const struct dist_model *m);
const char *dist_roads_name(const struct ct_dist *d, int param,
                            struct dist_cost *cost, double *observed);
bool dist_flights_arrived(struct ct_dist *d, int bucket);
CT_MUST_CHECK enum ct_status dist_flights_wait(struct ct_dist *d, int bucket);

#endif
