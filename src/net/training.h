/* training.h - what a solver and its peers ask of a net, beyond what any user
 * of one does. */
#ifndef CT_NET_TRAINING_H
#define CT_NET_TRAINING_H

#include "cortado/net.h"
#include "layers/deal.h"

struct ct_pulse;

/* For ct_net_options.training, which is copied: what a solver adds to the
 * options of its nets. */
struct ct_net_training {
    bool  more_come;   /* built as for several ranks, whatever size is now */
    bool  own_data;    /* as in struct ct_run, and so is: */
    int   share;
    float loss_scale;  /* of every loss weight; 0: 1 */
    struct ct_dealing      dealing;
    const struct ct_peers *peers; /* borrowed; NULL: as if alone */
    struct ct_pulse       *pulse; /* told of every layer; NULL: nobody */
    int   n_histories; /* that the solver keeps beside gradients */
    bool  unfilled;    /* as in struct ct_run */
    bool  trial;       /* no advice where it does not fit */
    bool  pairs;       /* passes come by ct_net_forward_paired() */
};

/* ---- Gradients. */

/* As ct_net_clear_diffs() for a full backward pass that follows: gradients
 * which that writes anyway need no zeros.  Or for parameter i alone. */
CT_MUST_CHECK enum ct_status ct_net_begin_diffs(struct ct_net *net);
CT_MUST_CHECK enum ct_status ct_net_begin_diff(struct ct_net *net, int i);
/* As ct_net_forward() when gradients are begun and ct_net_backward() follows:
 * some may be made right away. */
CT_MUST_CHECK enum ct_status ct_net_forward_paired(struct ct_net *net,
                                                   double *loss);
/* Someone reads bottoms and top diffs of layers after their backward pass, as
 * factors of gradients are made of. */
CT_MUST_CHECK enum ct_status ct_net_keep_factors(struct ct_net *net);
/* From now on every loss weight is multiplied by *scale during backward, so
 * gradients are too.  It lies on the net's device; NULL: by nothing. */
void ct_net_set_loss_scale(struct ct_net *net, const float *scale);
/* One more call after each layer's backward: it runs after that of the hooks
 * and leaves them in place.  NULL: none. */
void ct_net_set_layer_done(struct ct_net *net, ct_net_fn done, void *arg);
/* One more call before each layer's forward, whose parameters are about to be
 * read.  NULL: none. */
void ct_net_set_layer_start(struct ct_net *net, ct_net_fn start, void *arg);

/* Who is told of every layer from now on; NULL: nobody. */
void ct_net_set_pulse(struct ct_net *net, struct ct_pulse *pulse);

/* ---- Where it stands. */

/* Continue as if n passes had been made: data position, random draws. */
CT_MUST_CHECK enum ct_status ct_net_seek(struct ct_net *net,
                                         uint64_t n_passes);
uint64_t ct_net_n_passes(const struct ct_net *net);
/* Use `seed` from now on; sources follow with the next ct_net_seek(). */
void ct_net_reseed(struct ct_net *net, uint64_t seed);
/* After a resume with another number of ranks or another batch: `skew` samples
 * are to be added to where passes of `step` samples (of all ranks) would read.
 * Takes effect with the next ct_net_seek(). */
void ct_net_set_skew(struct ct_net *net, int64_t skew, int64_t step);
int64_t ct_net_skew(const struct ct_net *net);
int64_t ct_net_skew_step(const struct ct_net *net);
/* Passes that this rank makes in a step where ranks share out many; 1: no. */
int ct_net_share(const struct ct_net *net);

/* ---- What it holds. */

/* What ct_net_save_hdf5() writes, of a message that ct_net_to_message() made;
 * any thread may call it while the net works. */
CT_MUST_CHECK enum ct_status ct_net_message_hdf5(
    const struct ct_net *net, const Caffe__NetParameter *from,
    const char *path, bool with_diff);
/* Runs the net forward again on the data it has and finds the first layer
 * whose parameters or output hold a value that is not finite; -1 when all
 * are.  For reports: layer state (moving averages) moves on. */
CT_MUST_CHECK enum ct_status ct_net_find_nan(struct ct_net *net, int *layer);

#endif
