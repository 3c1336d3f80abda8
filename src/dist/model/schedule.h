/* schedule.h - predicts a training step on P ranks: what is sent when, and when
 * the last sum arrives.
 *
 * Forward and backward take the time measured on one rank.  Gradients are sent
 * in buckets when backward has completed them.  One comm thread sums them slice
 * by slice, the most urgent first (flight.h).  Products of factors and the
 * update follow. */
#ifndef CT_DIST_MODEL_SCHEDULE_H
#define CT_DIST_MODEL_SCHEDULE_H

#include "cortado/net.h"
#include "dist/model/cost.h"

struct ct_cut;

enum dist_road {
    DIST_ROAD_AUTO,
    DIST_ROAD_ALLREDUCE,
    DIST_ROAD_FACTORS,
    DIST_ROAD_PS,
    DIST_ROAD_SHARDED,
    DIST_N_ROADS
};

/* A net and its times on one rank. */
struct dist_model {
    const struct ct_net *net;
    const double        *forward, *backward; /* seconds of each layer */
    double               update;             /* seconds per iteration */
    double               share; /* a rank's part of the measured batch; 1:
                                 * all */
};

/* Measured time over predicted time; 0: unknown. */
struct dist_scales {
    double dense, factors, products;
};

struct dist_options {
    struct dist_machine machine;
    struct dist_scales  scales;
    struct dist_codec   codec; /* type NULL: no codec */
    const struct ct_allreduce_type *reduce; /* NULL: the usual algorithm */
    size_t first_bytes, bucket_bytes;
    size_t slice_bytes;  /* 0: whole buckets, in order */
    bool   overlap;      /* buckets leave during backward */
    bool   next_forward; /* a layer waits only for its own parameters */
};

struct dist_step {
    double seconds;
    double compute; /* forward, backward and update of a single rank */
    double bytes;   /* sent by the busiest rank */
    double comm;    /* seconds of the comm thread */
    int    n_factors; /* parameters that travel as factors */
};

/* By formula, with queues in order.  Exact if all ranks are alike. */
CT_MUST_CHECK enum ct_status dist_step_formula(const struct dist_model *m,
                                               const struct dist_options *o,
                                               enum dist_road road, int size,
                                               struct dist_step *out);
/* By simulation of every message through rank 0's link for `ps`, and of the
 * overlap with the next forward pass.  CT_ENOTSUP: more than `most_tasks`
 * tasks. */
CT_MUST_CHECK enum ct_status dist_step_simulate(const struct dist_model *m,
                                                const struct dist_options *o,
                                                enum dist_road road, int size,
                                                int most_tasks,
                                                struct dist_step *out);

/* A parameter's shape and, if its gradient has factors, their samples, scaled
 * to the model's share of the batch. */
struct dist_load dist_model_load(const struct dist_model *m, int param);
/* The cost of a parameter as factors, and of bucket b by a road, with codec and
 * scales. */
struct dist_cost dist_factors_cost(const struct dist_options *o, int size,
                                   const struct dist_load *load);
struct dist_cost dist_bucket_cost(const struct dist_model *m,
                                  const struct dist_options *o,
                                  enum dist_road road, int size,
                                  const struct ct_cut *buckets, int b);
/* For `auto`: chooses the parameters that travel as factors (0) or in buckets
 * (-1), so that the step is shortest. apart[] has one entry per parameter. */
CT_MUST_CHECK enum ct_status dist_model_choose(const struct dist_model *m,
                                               const struct dist_options *o,
                                               int size, int *apart);

/* The step with that choice, with overlap as in the options. */
CT_MUST_CHECK enum ct_status dist_step_of(const struct dist_model *m,
                                          const struct dist_options *o,
                                          int size, const int *apart,
                                          struct dist_step *out);

#endif
