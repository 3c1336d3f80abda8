/* detect.h - how good a detector is: average precision, as SSD's solver
 * computes it with `eval_type: "detection"`.
 *
 * Every output of the net is a DetectionEvaluate's.  Detections of a class, of
 * all batches and ranks, are ordered by score; after each of them precision
 * and recall follow, and ap_version says what is made of the curve:
 *
 *     11point      mean of the highest precision at recall 0, .1, ... 1
 *     MaxIntegral  area below the curve, precision made to fall with recall
 *     Integral     area below the curve as it is
 *
 * mAP is the mean over all classes but the background; a class without
 * truths or detections counts as 0. */
#ifndef CT_SOLVER_DETECT_H
#define CT_SOLVER_DETECT_H

#include "solver/score.h"

/* One line of what a net put out: a detection that is right or wrong; or, with
 * n_truths, how many truths a class has in a batch. */
struct ct_detection {
    double  score;
    int32_t output, label; /* output -1: `score` is the batch's loss */
    int32_t batch, index;  /* what orders equal scores */
    int32_t right;         /* 0 or 1; -1: a number of truths */
    int32_t n_truths;
};

struct ct_detections {
    struct ct_detection *at; /* owned */
    int64_t              n, room;
};

CT_MUST_CHECK enum ct_status ct_ap_version_check(const char *version);

/* As ct_scores_run(); the same on all ranks. */
CT_MUST_CHECK enum ct_status ct_detections_run(
    struct ct_detections *d, struct ct_net *net, struct ct_exchange *x,
    uint64_t first, int n, bool (*pause)(void *arg), void *arg);
void ct_detections_fini(struct ct_detections *d);

/* mAP of an output; logs the classes where `by_class`. */
double ct_detections_map(const struct ct_detections *d, int output,
                         const char *ap_version, bool by_class);
/* The mean loss over batches. */
double ct_detections_loss(const struct ct_detections *d);

/* Of one class: n detections, best first, of which right[i] is 1 or 0. */
double ct_average_precision(const char *ap_version, int64_t n,
                            const struct ct_detection *best,
                            int64_t n_truths);

#endif
