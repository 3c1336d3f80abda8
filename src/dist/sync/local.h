/* local.h - when local SGD takes means; for its test. */
#ifndef CT_DIST_SYNC_LOCAL_H
#define CT_DIST_SYNC_LOCAL_H

/* The number of iterations between two means, at iteration `iter` of `all`.  It
 * is 1, 2, 4, ... up to H in the first tenth, where weights change fast, and 1
 * in the last twentieth, so that noise decreases. */
int dist_local_steps(int H, int all, int iter);

#endif
