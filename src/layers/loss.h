/* loss.h - what the loss layers share: labels and normalisation.
 *
 * A loss is summed over positions (an image, or each pixel of it) and divided
 * by a normaliser, which LossParameter chooses:
 *
 *     FULL        every position             outer inner
 *     VALID       positions that count       all but those of ignore_label
 *     BATCH_SIZE  outer
 *     PRE_FIXED   pre_fixed_normalizer       of R-FCN
 *     NONE        1
 *
 * never less than 1.  `normalize` is the older way to say VALID (true) or
 * BATCH_SIZE (false); it speaks only where `normalization` does not. */
#ifndef CT_LAYERS_LOSS_H
#define CT_LAYERS_LOSS_H

#include <math.h>

#include "cortado/layer.h"

/* Caffe's floor under a probability before its logarithm is taken, in the
 * losses other than SoftmaxWithLoss. */
#define CT_LOG_FLOOR 1e-20f

struct ct_loss {
    Caffe__LossParameter__NormalizationMode mode;
    bool                                    ignores;
    int                                     ignore_label;
    float                                   fixed; /* of PRE_FIXED */
};

/* The layer's loss_param; `mode` where it names none. */
struct ct_loss ct_loss_read(const struct ct_layer *l,
                            Caffe__LossParameter__NormalizationMode mode);

/* What the sum over positions is divided by; at least 1. */
float ct_loss_normalizer(const struct ct_loss *loss, int64_t outer,
                         int64_t inner, int64_t n_valid);

/* Labels are floats and lose their fraction.  True when the label is the one
 * to ignore. */
static inline bool ct_loss_ignored(const struct ct_loss *loss, float label)
{
    return loss->ignores && truncf(label) == (float)loss->ignore_label;
}

/* Counts the labels that are not ignored and refuses one outside
 * [0, n_classes), by layer name, index and value. */
CT_MUST_CHECK enum ct_status ct_loss_check_labels(
    const struct ct_layer *l, const struct ct_loss *loss, const float *label,
    int64_t n, int64_t n_classes, int64_t *n_valid);

/* Caffe's check of a loss layer's first two bottoms, and its scalar top. */
CT_MUST_CHECK enum ct_status ct_loss_reshape(const struct ct_layer *l,
                                             const struct ct_io *io);

/* Refuses another number of labels than bottom 0 has rows. */
CT_MUST_CHECK enum ct_status ct_loss_one_label_a_row(const struct ct_layer *l,
                                                     const struct ct_io *io);
#endif
