/* plot.h - curves as pictures: of a training log, or any. */
#ifndef CT_OBSERVE_PLOT_H
#define CT_OBSERVE_PLOT_H

#include <stdbool.h>

#include "base/text.h"
#include "observe/training_log.h"

/* An SVG of the log's curves: losses on the left axis (logarithmic when they
 * span more than a factor of twenty), scores on the right.  Fails when there
 * is nothing to draw.  `svg` starts empty and is the caller's to free, also
 * after a failure. */
CT_MUST_CHECK enum ct_status ct_plot_log(
    const struct ct_training_log *log, const char *title,
    struct ct_text *svg);

/* Any curves over one axis; all borrowed. */
struct ct_chart_line {
    const char   *name;
    const double *x, *y; /* x rises */
    int           n;
};
struct ct_chart {
    const char *title, *x_name, *y_name;
    bool        log; /* both axes; all values are above 0 then */
    const struct ct_chart_line *line;
    int         n_lines;
};
CT_MUST_CHECK enum ct_status ct_plot_chart(const struct ct_chart *chart,
                                           struct ct_text *svg);

#endif
