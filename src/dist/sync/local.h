/* local.h - when local SGD takes means; for its test. */
#ifndef CT_DIST_SYNC_LOCAL_H
#define CT_DIST_SYNC_LOCAL_H

/* Of `all` iterations, at `iter`: every so many there is a mean.  In the first
 * tenth, while ranks would part fast, 1, 2, 4, ... up to H, and in the last
 * twentieth, so that noise settles, 1. */
int dist_local_steps(int H, int all, int iter);

#endif
