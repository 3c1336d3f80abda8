/* predict.h - how long a training step takes on more ranks than there are. */
#ifndef CT_DIST_MODEL_PREDICT_H
#define CT_DIST_MODEL_PREDICT_H

#include "base/text.h"
#include "cortado/solver.h"
#include "dist/model/schedule.h"

/* Times of one rank: medians over a few steps. */
struct dist_timing {
    int     n_layers;
    double *forward, *backward; /* owned; seconds of each layer */
    double  update;             /* the rest of a step */
};
/* Trains `n_steps` after two for warm-up, and as many without timing layers. */
CT_MUST_CHECK enum ct_status dist_timing_take(struct ct_solver *s,
                                              int n_steps,
                                              struct dist_timing *out);
void dist_timing_fini(struct dist_timing *t);
/* Scales the times to a machine that is `speed` times as fast. */
void dist_timing_scale(struct dist_timing *t, double speed);
/* Scales the times so that their sum is that of a whole step. */
void dist_timing_fit(struct dist_timing *t, double whole);

/* One number of ranks. */
struct dist_forecast {
    int              size;
    struct dist_step step[DIST_N_ROADS];
    enum dist_road   best;
    double           speedup[DIST_N_ROADS]; /* samples per second, relative to
                                             * one rank */
};

/* `global`: the measured batch is that of all ranks together, otherwise that of
 * each rank.  The road `ps` is simulated while that is quick. */
CT_MUST_CHECK enum ct_status dist_forecast(const struct dist_timing *t,
                                           const struct ct_net *net,
                                           const struct dist_options *o,
                                           bool global, int size,
                                           struct dist_forecast *out);

const char *dist_road_name(enum dist_road road);
/* A table of step times by road, with a * at the best. */
void dist_forecast_text(const struct dist_forecast *f, int n,
                        struct ct_text *out);
void dist_forecast_json(const struct dist_forecast *f, int n,
                        struct ct_text *out);

#endif
