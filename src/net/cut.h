/* cut.h - the arena of parameters, cut into runs.
 *
 *     arena:   | riders | last layer ... |  ...  | ... first layer |
 *     runs:    |        0       |   1    |  ...  |       n-1       |
 *
 * Parameters are in the order in which a backward pass completes them, so runs
 * become complete in order.  Different policies make runs that are summed
 * together (buckets), copied together (gradients of a GPU), or kept by one
 * server. */
#ifndef CT_NET_CUT_H
#define CT_NET_CUT_H

#include "cortado/net.h"

/* Sizes are numbers of floats. */
struct ct_cut_policy {
    size_t begin;        /* floats before this are in no run */
    size_t first, least; /* a run ends when it has this size: the first run,
                          * the others */
    size_t last;         /* largest size of the last run; 0: no limit */
    size_t most;         /* largest size of a run; a larger parameter is cut
                          * into equal parts; 0: parameters are never cut */
    bool   whole_layers; /* the parameters of a layer are in one run */
    const int *apart;    /* per parameter: not negative: it is in no run; NULL:
                          * every parameter is in a run */
};

struct ct_cut_run {
    size_t first, n;   /* floats of the arena */
    int    begin, end; /* places in ct_cut.order */
    int    layer;      /* the layer whose backward pass completes it */
};

struct ct_cut {
    struct ct_cut_run *run;
    int                n;
    int               *of_param; /* per parameter: its first run; -1: none */
    int               *order;    /* parameters in the order of the arena */
};

CT_MUST_CHECK enum ct_status ct_cut_init(struct ct_cut *c,
                                         const struct ct_net *net,
                                         const struct ct_cut_policy *policy);
void ct_cut_fini(struct ct_cut *c);

/* The end of the parameter at place k of the order, where the next one
 * starts. */
size_t ct_cut_end(const struct ct_cut *c, const struct ct_net *net, int k);

#endif
