/* training.h - functions of a net that only solvers and their peers use. */
#ifndef CT_NET_TRAINING_H
#define CT_NET_TRAINING_H

#include "cortado/net.h"
#include "layers/deal.h"

struct ct_pulse;

/* Options that a solver adds to those of its nets (ct_net_options.training);
 * copied. */
struct ct_net_training {
    bool  more_come;   /* build as for several ranks, for any current size */
    bool  own_data;    /* see struct ct_run */
    int   share;       /* see struct ct_run */
    float loss_scale;  /* factor of every loss weight; 0: 1 */
    struct ct_dealing      dealing;
    const struct ct_peers *peers; /* borrowed; NULL: none */
    struct ct_pulse       *pulse; /* every layer is reported here; borrowed;
                                   * NULL: none */
    int   n_histories; /* histories of the solver */
    bool  unfilled;    /* see struct ct_run */
    bool  trial;       /* no advice if the net does not fit into memory */
    bool  pairs;       /* the solver calls ct_net_forward_paired() */
};

/* ---- Gradients. */

/* Prepares gradients for a full backward pass that follows.  Unlike
 * ct_net_clear_diffs() it does not clear gradients that the pass overwrites.
 * The second function does it for parameter i. */
CT_MUST_CHECK enum ct_status ct_net_begin_diffs(struct ct_net *net);
CT_MUST_CHECK enum ct_status ct_net_begin_diff(struct ct_net *net, int i);
/* ct_net_forward() for the case that gradients are prepared and
 * ct_net_backward() follows: some gradients may be computed at once. */
CT_MUST_CHECK enum ct_status ct_net_forward_paired(struct ct_net *net,
                                                   double *loss);
/* Keeps bottoms and top diffs, of which factors are made, after the backward
 * pass of their layer. */
CT_MUST_CHECK enum ct_status ct_net_keep_factors(struct ct_net *net);
/* From now on *scale, on the net's device, multiplies every loss weight during
 * backward, and so all gradients.  NULL: none. */
void ct_net_set_loss_scale(struct ct_net *net, const float *scale);
/* `done` is called after each layer's backward, after the hooks, which stay.
 * NULL: none. */
void ct_net_set_layer_done(struct ct_net *net, ct_net_fn done, void *arg);
/* `start` is called before each layer's forward, which reads its parameters.
 * NULL: none. */
void ct_net_set_layer_start(struct ct_net *net, ct_net_fn start, void *arg);

/* Every layer is reported in `pulse` from now on; NULL: none. */
void ct_net_set_pulse(struct ct_net *net, struct ct_pulse *pulse);

/* ---- The position in the data. */

/* Sets data position and random draws to those after n_passes passes. */
CT_MUST_CHECK enum ct_status ct_net_seek(struct ct_net *net,
                                         uint64_t n_passes);
uint64_t ct_net_n_passes(const struct ct_net *net);
/* Sets the seed; sources use it after the next ct_net_seek(). */
void ct_net_reseed(struct ct_net *net, uint64_t seed);
/* After a resume with another number of ranks or another batch: a pass of
 * `step` samples (of all ranks) reads `skew` samples after its usual position.
 * Takes effect with the next ct_net_seek(). */
void ct_net_set_skew(struct ct_net *net, int64_t skew, int64_t step);
int64_t ct_net_skew(const struct ct_net *net);
int64_t ct_net_skew_step(const struct ct_net *net);
/* Passes of this rank in a step, if ranks divide the passes; otherwise 1. */
int ct_net_share(const struct ct_net *net);

/* ---- Values. */

/* Writes the file of ct_net_save_hdf5() from a message that
 * ct_net_to_message() made.  Any thread may call it while the net runs. */
CT_MUST_CHECK enum ct_status ct_net_message_hdf5(
    const struct ct_net *net, const Caffe__NetParameter *from,
    const char *path, bool with_diff);
/* Runs the net forward again on its current data and finds the first layer
 * whose parameters or output have a value that is not finite; -1: none.  For
 * reports only: it changes the state of layers (moving averages). */
CT_MUST_CHECK enum ct_status ct_net_find_nan(struct ct_net *net, int *layer);

#endif
