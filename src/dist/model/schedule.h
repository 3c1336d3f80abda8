/* schedule.h - a training step on P ranks, predicted: what is sent when, and
 * when the last of it is in.
 *
 * Forward and backward take what was measured on one rank.  Gradients leave in
 * buckets as backward completes them and go through one comm thread, slice by
 * slice and the most urgent first (flight.h); then come the products of factors
 * and the update. */
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

/* A net, and what one rank takes for it. */
struct dist_model {
    const struct ct_net *net;
    const double        *forward, *backward; /* seconds of each layer */
    double               update;             /* seconds an iteration */
    double               share; /* of the batch measured that a rank has: 1 */
};

/* What exchanges took, over what was predicted; 0: nobody knows yet. */
struct dist_scales {
    double dense, factors, products;
};

struct dist_options {
    struct dist_machine machine;
    struct dist_scales  scales;
    struct dist_codec   codec; /* type NULL: sums as they are */
    const struct ct_allreduce_type *reduce; /* NULL: what is usual */
    size_t first_bytes, bucket_bytes;
    size_t slice_bytes;  /* 0: buckets whole and in order */
    bool   overlap;      /* buckets leave during backward */
    bool   next_forward; /* a layer waits for its own parameters alone */
};

struct dist_step {
    double seconds;
    double compute; /* forward, backward, update: a rank alone */
    double bytes;   /* that the busiest rank sends */
    double comm;    /* seconds of the comm thread */
    int    n_factors; /* parameters that go as factors */
};

/* By formula: queues in order, which is exact where all ranks are alike. */
CT_MUST_CHECK enum ct_status dist_step_formula(const struct dist_model *m,
                                               const struct dist_options *o,
                                               enum dist_road road, int size,
                                               struct dist_step *out);
/* By simulation: every message through rank 0's link for `ps`, and the
 * overlap with the next forward pass.  `most_tasks` bounds the work: beyond,
 * CT_ENOTSUP. */
CT_MUST_CHECK enum ct_status dist_step_simulate(const struct dist_model *m,
                                                const struct dist_options *o,
                                                enum dist_road road, int size,
                                                int most_tasks,
                                                struct dist_step *out);

/* A parameter's shape and, where its gradient has factors, their samples,
 * scaled to the model's share of the batch. */
struct dist_load dist_model_load(const struct dist_model *m, int param);
/* What goes as factors, and bucket b of a road, with codec and scales. */
struct dist_cost dist_factors_cost(const struct dist_options *o, int size,
                                   const struct dist_load *load);
struct dist_cost dist_bucket_cost(const struct dist_model *m,
                                  const struct dist_options *o,
                                  enum dist_road road, int size,
                                  const struct ct_cut *buckets, int b);
/* For `auto`: which parameters go as factors (0) and which in buckets (-1),
 * so that the step is shortest.  apart[] has one entry a parameter. */
CT_MUST_CHECK enum ct_status dist_model_choose(const struct dist_model *m,
                                               const struct dist_options *o,
                                               int size, int *apart);

/* The step by that choice, with overlap as the options say. */
CT_MUST_CHECK enum ct_status dist_step_of(const struct dist_model *m,
                                          const struct dist_options *o,
                                          int size, const int *apart,
                                          struct dist_step *out);

#endif
