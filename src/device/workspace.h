/* workspace.h - memory that operations use in turn.
 *
 * What an operation needs only while it runs (reordered weights, columns,
 * scratchpads) lies here.  The layers of a net run one after another, so one
 * workspace as large as the greediest of them serves all.
 *
 * Embedded; owned by the net, or by an operation that nobody lent one.  Used
 * by one thread at a time.  Contents last until the next operation runs. */
#ifndef CT_DEVICE_WORKSPACE_H
#define CT_DEVICE_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>

#include "cortado/status.h"

struct ct_tuning;

struct ct_workspace {
    float *ptr; /* moves when it grows: read it when the operation runs */
    size_t bytes;
    struct ct_tuning *tuning; /* borrowed; NULL: nothing is looked up */
    bool lane; /* other threads run operations at the same time */
};

/* At least `bytes` from now on: for creating, not for running. */
CT_MUST_CHECK enum ct_status ct_workspace_need(struct ct_workspace *w,
                                               size_t bytes);
void ct_workspace_fini(struct ct_workspace *w);

#endif
