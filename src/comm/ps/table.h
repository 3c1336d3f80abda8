/* table.h - an array of floats in slices, and the server of each slice.
 *
 *     slices   |    0    | 1 |  2  |  3  | 4 |      as the caller cut them
 *     server        0      1    1     0    1        least loaded first
 *
 * Every rank makes the same table from the same borders.  A table does not
 * change. */
#ifndef CT_COMM_PS_TABLE_H
#define CT_COMM_PS_TABLE_H

#include <stddef.h>

#include "cortado/status.h"

struct ct_ps_slice {
    size_t first, n; /* floats */
    int    server;   /* a number from 0 up, not a rank */
};

struct ct_ps_table {
    struct ct_ps_slice *slice; /* in the order of the floats */
    int                 n, n_servers;
    int                *n_of;  /* slices of each server */
    size_t             *load;  /* floats of each server */
    size_t              longest;
};

/* A slice is the range between two borders.  Borders ascend from 0 to the
 * number of floats. */
CT_MUST_CHECK enum ct_status ct_ps_table_init(struct ct_ps_table *t,
                                              const size_t *border,
                                              int n_borders, int n_servers);
void ct_ps_table_fini(struct ct_ps_table *t);

#endif
