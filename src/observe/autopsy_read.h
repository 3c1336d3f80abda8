/* autopsy_read.h - records of ranks (liveness/record.h) read back. */
#ifndef CT_OBSERVE_AUTOPSY_READ_H
#define CT_OBSERVE_AUTOPSY_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "cortado/status.h"

struct autopsy_entry {
    uint64_t channel, sequence, bytes;
    char     what[32], of[48];
    bool     done;
    double   ago, took; /* seconds; ago: that it began, before the record */
};

struct autopsy_rank {
    bool   here; /* there is a record */
    int    pid, ranks; /* ranks: of the job, or of its view */
    long   view; /* of ranks that come and go; 0: they stay the same */
    char   host[64], why[512], where[160];
    double time;  /* of the record, since 1970 */
    double moved_ago, waiting; /* seconds; waiting 0: it does not */
    int    waiting_for;
    struct autopsy_entry *entry; /* owned */
    int    n, capacity;
};

struct autopsy {
    struct autopsy_rank *rank; /* owned; one per rank of the job */
    int                  n_ranks, n_here;
    long                 view;  /* that the records are of; 0: of all */
    int                  n_old; /* records of other views, left out */
};

/* The caller frees `out` either way. */
CT_MUST_CHECK enum ct_status autopsy_read(const char *folder,
                                          struct autopsy *out);
void autopsy_fini(struct autopsy *a);

#endif
