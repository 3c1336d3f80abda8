/* roads.h - which road each gradient takes, and whether that was right.
 *
 * The first choice uses measured links only.  Every iteration then measures
 * backward per layer and the exchanges that the model predicted.  After ten
 * iterations, and then every `redecide`, rank 0 chooses again and sends the
 * choice to all ranks, so that all change in the same iteration.  A change must
 * save at least a tenth of the step. */
#ifndef CT_DIST_BSP_ROADS_H
#define CT_DIST_BSP_ROADS_H

#include "dist/model/schedule.h"

struct ct_dist;

struct dist_auto {
    struct dist_options options;
    double *forward, *backward; /* measured seconds per layer */
    int    *apart;       /* the choice per parameter: 0 factors, -1 in a
                          * bucket */
    bool   *may;         /* per parameter: factors are possible */
    int     n_choices;   /* number of parameters for which factors are
                          * possible */
    bool    measured;    /* options.machine is known */
    int     slow_rank, slow_peer; /* the slowest link; -1: none */
    bool    learning;    /* the choice may change */
    int     n_seen;      /* iterations since the last choice */
    int     due;         /* iterations until the next choice */
    double  mark;        /* time at which the last layer was done */
    double  begun, step; /* start of the current iteration; mean duration of
                          * one */
};

/* Sets apart[]. Call it before factors and buckets are made. */
CT_MUST_CHECK enum ct_status dist_auto_init(struct ct_dist *d,
                                            const struct ct_net *net);
/* Measures what it needs for ranks of one host, before they come.  Any
 * thread. */
void dist_auto_ahead(struct ct_dist *d);
void dist_auto_fini(struct ct_dist *d);
/* Rank 0 logs the choice; in an elastic job only one that differs from that of
 * the view before.  Call it on all ranks, after factors and buckets are
 * made. */
void dist_auto_say(struct ct_dist *d);

/* Call it before backward, when all sums of the previous iteration have
 * arrived. *changed: the caller must make factors and buckets again. */
CT_MUST_CHECK enum ct_status dist_auto_begin(struct ct_dist *d,
                                             bool *changed);
void dist_auto_layer_done(struct ct_dist *d, int layer);

/* How a parameter's gradient travels, for monitoring.  On the thread that
 * trains. false: no road is chosen for it here (servers, means of weights). */
struct dist_travel {
    char        param[64];
    const char *name;     /* "shared", "factors", ... */
    double      floats, bytes; /* bytes: sent by this rank */
    double      predicted, measured; /* seconds; 0: unknown */
    bool        may_choose; /* factors are possible */
};
bool dist_travel_of(const struct ct_dist *d, int param,
                    struct dist_travel *out);

#endif
