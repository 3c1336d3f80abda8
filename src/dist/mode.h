/* mode.h - who trains, who serves, who waits for whom: from the options. */
#ifndef CT_DIST_MODE_H
#define CT_DIST_MODE_H

#include <stdbool.h>

#include "cortado/proto.h"
#include "cortado/status.h"

struct dist_mode {
    int  n_workers;    /* ranks 0 to n_workers - 1 train */
    int  n_servers;    /* parameter servers; 0: none */
    int  first_server; /* its rank; the others follow */
    int  n_groups;     /* that push; n_workers: every rank by itself */
    bool ps;           /* gradients go to servers */
    bool values;       /* ... who keep values and update them */
    bool rounds;       /* ... and go on without slow workers */
    int  staleness;    /* CT_PS_ASYNC: any */
    int  local_steps;  /* between two means of the weights; 0: no such */
};

/* `size` ranks in all. */
CT_MUST_CHECK enum ct_status dist_mode_choose(
    const Caffe__DistributedParameter *o, int size, struct dist_mode *out);

/* First rank and size of the group that rank r pushes with. */
int dist_group_first(const struct dist_mode *m, int group);
int dist_group_of(const struct dist_mode *m, int rank);

/* One line for the log. */
void dist_mode_say(const struct dist_mode *m,
                   const Caffe__DistributedParameter *o);

#endif
