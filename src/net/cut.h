/* cut.h - the arena of parameters, cut into runs.
 *
 *     arena:   | riders | last layer ... |  ...  | ... first layer |
 *     runs:    |        0       |   1    |  ...  |       n-1       |
 *
 * Parameters lie as a backward pass completes them, so runs become complete in
 * order.  What travels together (buckets), is copied together (a GPU's
 * gradients) or is kept by one server are runs of different policies. */
#ifndef CT_NET_CUT_H
#define CT_NET_CUT_H

#include "cortado/net.h"

/* Sizes are floats. */
struct ct_cut_policy {
    size_t begin;        /* what lies before is in no run */
    size_t first, least; /* a run of so many is complete: the first, others */
    size_t last;         /* the last one has so many at most; 0: any number */
    size_t most;         /* no run has more, and a parameter that has is cut
                          * into equal parts; 0: parameters are never cut */
    bool   whole_layers; /* a layer's parameters are in one run */
    const int *apart;    /* a parameter whose number here is not negative is
                          * in no run; NULL: all are in one */
};

struct ct_cut_run {
    size_t first, n;   /* floats of the arena */
    int    begin, end; /* places in ct_cut.order */
    int    layer;      /* whose backward pass completes it */
};

struct ct_cut {
    struct ct_cut_run *run;
    int                n;
    int               *of_param; /* the first run with it; -1: apart */
    int               *order;    /* parameters as they lie */
};

CT_MUST_CHECK enum ct_status ct_cut_init(struct ct_cut *c,
                                         const struct ct_net *net,
                                         const struct ct_cut_policy *policy);
void ct_cut_fini(struct ct_cut *c);

/* Where the parameter at place k of the order ends: the next one's start. */
size_t ct_cut_end(const struct ct_cut *c, const struct ct_net *net, int k);

#endif
