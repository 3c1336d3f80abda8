/* batch_norm.h - what a BatchNorm layer keeps; see batch_norm.c. */
#ifndef CT_LAYERS_BATCH_NORM_H
#define CT_LAYERS_BATCH_NORM_H

#include "cortado/layer.h"
#include "device/conv.h"
#include "device/batch_norm_ops.h"
#include "device/norm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Its blobs. */
enum { MEAN, VARIANCE, FACTOR, N_BLOBS };

/* Rows of `stats`; FACTOR_V is s v. */
enum { BATCH_MEAN, BATCH_VAR, INVERSE, FACTOR_V, SLOPE, OFFSET, N_STATS };

struct batch_norm {
    struct ct_channels view;
    int64_t            channels;
    bool               global; /* use_global_stats */
    struct ct_blob    *stats;  /* N_STATS rows of c */
    struct ct_blob    *sums;   /* scratch of the reductions */
    struct ct_blob    *kept;   /* x, in place */
    struct ct_blob    *above;  /* a bit for each y above 0, behind a sum */
    bool               noted;  /* forward has written them */
    struct ct_batch_norm alone; /* with nothing absorbed, in training */
    const struct ct_layer *scale; /* absorbed, or NULL */
    bool               sum;       /* absorbed: y = z + bottom 1 */
    bool               relu;      /* absorbed, behind the sum if there is one */
    bool               split;     /* absorbed, behind a sum */
    double            *merged; /* sums over ranks; NULL: own batch; owned */
    float             *here;   /* two rows of stats, from a GPU; owned */
    double             m;      /* values a channel that the statistics see */
    struct ct_layer   *before; /* a convolution that adds up x, or NULL */
    /* Where a sum adds two of them: in the one that absorbed it, the other; in
     * the other, the first one, and its own x, which it has left to that one
     * to normalise in this pass, or NULL. */
    struct ct_layer   *added, *adder;
    const void        *left;
    /* Behind a sum and a Split: what forward has for a convolution that ends
     * the block's gradient, the gradients of the tops, and what that left. */
    struct ct_conv_end end;
    const void        *diff[2];
    struct ct_moments  ended;
    /* There, too: how many readers can leave out positions between those that
     * strides read, and have done so in this pass; of images of this size. */
    int                thin, thinned;
    int64_t            stride[2], in[2];
};

extern const struct ct_layer_type ct_layer_batch_norm;

/* Over ranks, in the CPU's memory, where the functions on a GPU have copied
 * them: a batch's means and variances become those of all batches, and s->m
 * their count; the sums that dx needs. */
CT_MUST_CHECK enum ct_status batch_norm_merge_moments(
    const struct ct_layer *l, float *mean, float *var);
CT_MUST_CHECK enum ct_status batch_norm_merge_sums(const struct ct_layer *l,
                                                   float *offset,
                                                   float *slope);

/* The sums over channels of x, the bottom, where the convolution before it has
 * left them: where it takes another way, or the batch is empty, there are none,
 * as when they were asked for already. */
bool batch_norm_moments(const struct ct_layer *l, const float *x,
                        struct ct_moments *out);

/* For a convolution that reads a top of `l`, as the last one backward: whether
 * its gradient dx can be ended by it, now that forward has run, and how; and
 * that this has been done. */
bool batch_norm_splits(const struct ct_layer *l);
bool batch_norm_end(const struct ct_layer *l, const float *dx,
                    struct ct_conv_end *out);
void batch_norm_ended(struct ct_layer *l, const struct ct_moments *sums);

/* For convolutions that read tops of `l`, images at every stride-th position:
 * that one does so, before the first pass; whether all do, so that they may
 * leave out the others; and that one has, of images of size `in`. */
bool batch_norm_reader(struct ct_layer *l, const int64_t *stride);
bool batch_norm_takes_thin(const struct ct_layer *l);
void batch_norm_thinned(struct ct_layer *l, const int64_t *in);

#ifdef __cplusplus
}
#endif
#endif
