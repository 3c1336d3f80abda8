/* figures.h - how every rank is doing, for whoever watches the run. */
#ifndef CT_DIST_REPORT_FIGURES_H
#define CT_DIST_REPORT_FIGURES_H

#include "cortado/dist.h"

/* An exchange begins: counts it, and shows how long this rank has waited. */
void dist_begun(struct ct_dist *d);

/* What happened among the ranks, in order, on any thread; takes NULL.  *seen
 * starts at 0 and counts what the caller had; false: there is no other. */
bool dist_next_mark(struct ct_dist *d, uint64_t *seen, struct ct_mark *out);

/* Has a rank been seen to die, or left?  On any thread, whatever the ranks are
 * at. */
bool dist_has_lost(const struct ct_dist *d);

struct ct_pairs;

/* The link between every two ranks that train.  All of them call it. */
CT_MUST_CHECK enum ct_status dist_links(struct ct_dist *d,
                                        struct ct_pairs *out);

#endif
