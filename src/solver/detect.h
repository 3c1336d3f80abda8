/* detect.h - average precision of a detector, as SSD's solver computes it with
 * `eval_type: "detection"`.
 *
 * Every output of the net comes from a DetectionEvaluate layer.  Detections of
 * a class, from all batches and ranks, are ordered by score.  Each of them
 * gives a point of a curve of precision over recall, and ap_version selects the
 * result:
 *
 *     11point      mean of the highest precision at recall 0, .1, ... 1
 *     MaxIntegral  area below the curve; at each recall the highest precision
 *                  at this or a higher recall
 *     Integral     area below the curve as it is
 *
 * mAP is the mean over all classes except the background.  A class without
 * truths or detections counts as 0. */
#ifndef CT_SOLVER_DETECT_H
#define CT_SOLVER_DETECT_H

#include "solver/score.h"

/* One row of an output of the net: a detection, or the number of truths of a
 * class in a batch. */
struct ct_detection {
    double  score;
    int32_t output, label; /* output -1: `score` is the loss of the batch */
    int32_t batch, index;  /* the order of equal scores */
    int32_t right;         /* 1: right, 0: wrong, -1: a number of truths */
    int32_t n_truths;      /* only if `right` is -1 */
};

struct ct_detections {
    struct ct_detection *at; /* owned */
    int64_t              n, room;
};

CT_MUST_CHECK enum ct_status ct_ap_version_check(const char *version);

/* Like ct_scores_run(), for detections.  The result is the same on all
 * ranks. */
CT_MUST_CHECK enum ct_status ct_detections_run(
    struct ct_detections *d, struct ct_net *net, struct ct_exchange *x,
    uint64_t first, int n, bool (*pause)(void *arg), void *arg);
void ct_detections_fini(struct ct_detections *d);

/* mAP of an output; by_class: the log shows every class. */
double ct_detections_map(const struct ct_detections *d, int output,
                         const char *ap_version, bool by_class);
/* The mean loss over batches. */
double ct_detections_loss(const struct ct_detections *d);

/* Average precision of one class from its n detections, best first. */
double ct_average_precision(const char *ap_version, int64_t n,
                            const struct ct_detection *best,
                            int64_t n_truths);

#endif
