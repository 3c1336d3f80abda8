/* figures.h - numbers about every rank, for monitoring. */
#ifndef CT_DIST_REPORT_FIGURES_H
#define CT_DIST_REPORT_FIGURES_H

#include "cortado/dist.h"

/* Counts an exchange that begins and publishes how long this rank has
 * waited. */
void dist_begun(struct ct_dist *d);

/* The next event among the ranks; any thread; takes NULL. *seen starts at 0 and
 * counts the events that the caller has read; false: no other event. */
bool dist_next_mark(struct ct_dist *d, uint64_t *seen, struct ct_mark *out);

/* Has a rank died or left?  Any thread, at any time. */
bool dist_has_lost(const struct ct_dist *d);

struct ct_pairs;

/* Measures the link between every two ranks that train.  All of them call
 * it. */
CT_MUST_CHECK enum ct_status dist_links(struct ct_dist *d,
                                        struct ct_pairs *out);

#endif
