/* roads.h - which road each gradient takes, and whether that was right.
 *
 * At the start the choice stands on measured links alone.  From then on every
 * iteration tells how long backward takes, layer by layer, and how long the
 * exchanges took that the model had predicted; after ten iterations and then
 * every `redecide` rank 0 decides again with what it has learnt and tells all,
 * so that all change over in the same iteration.  A change must promise a
 * tenth of the step. */
#ifndef CT_DIST_BSP_ROADS_H
#define CT_DIST_BSP_ROADS_H

#include "dist/model/schedule.h"

struct ct_dist;

struct dist_auto {
    struct dist_options options;
    double *forward, *backward; /* seconds of each layer, as learnt */
    int    *apart;       /* the choice: 0 factors, -1 in a bucket */
    bool   *may;         /* go as factors */
    int     n_choices;   /* parameters that may */
    bool    measured;    /* options.machine is known */
    int     slow_rank, slow_peer; /* the slowest link; -1: none */
    bool    learning;    /* may change its mind */
    int     n_seen;      /* iterations since the latest choice */
    int     due;         /* iterations until the next */
    double  mark;        /* when the latest layer was done */
    double  begun, step; /* the latest iteration's begin; seconds of one */
};

/* Before factors and buckets are made: apart[] is set. */
CT_MUST_CHECK enum ct_status dist_auto_init(struct ct_dist *d,
                                            const struct ct_net *net);
void dist_auto_fini(struct ct_dist *d);
/* Once factors and buckets are made: says what was chosen. */
void dist_auto_say(const struct ct_dist *d);

/* Before backward: all that the iteration before sent is in.  *changed: the
 * caller makes factors and buckets anew. */
CT_MUST_CHECK enum ct_status dist_auto_begin(struct ct_dist *d,
                                             bool *changed);
void dist_auto_layer_done(struct ct_dist *d, int layer);

/* How a parameter's gradient travels, for whoever watches; on the thread that
 * trains.  false: not by a road that is chosen here (servers, means). */
struct dist_travel {
    char        param[64];
    const char *name;     /* "shared", "factors", ... */
    double      floats, bytes; /* bytes: that this rank sends */
    double      predicted, measured; /* seconds; 0: unknown */
    bool        may_choose; /* factors would be possible */
};
bool dist_travel_of(const struct ct_dist *d, int param,
                    struct dist_travel *out);

#endif
