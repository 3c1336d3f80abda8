/* plot.h - a training log as a picture. */
#ifndef CT_OBSERVE_PLOT_H
#define CT_OBSERVE_PLOT_H

#include "base/text.h"
#include "observe/training_log.h"

/* An SVG of the log's curves: losses on the left axis (logarithmic when they
 * span more than a factor of twenty), scores on the right.  Fails when there
 * is nothing to draw.  `svg` starts empty and is the caller's to free, also
 * after a failure. */
CT_MUST_CHECK enum ct_status ct_plot_log(
    const struct ct_training_log *log, const char *title,
    struct ct_text *svg);

#endif
