/* hosts.h - the hosts of a job, and how to reach them. */
#ifndef CT_APPS_HOSTS_H
#define CT_APPS_HOSTS_H

#include <stdbool.h>

#include "cortado/status.h"

enum { HOSTS_MOST = 1024 };

struct host {
    char name[256];
    int  n_ranks;
    bool is_here;
};

struct hosts {
    struct host host[HOSTS_MOST];
    int         n, n_ranks;
};

/* Reads HOST[:RANKS],... */
CT_MUST_CHECK enum ct_status hosts_read(struct hosts *h, const char *list);

/* This host alone. */
void hosts_here(struct hosts *h, int n_ranks);

/* In a child: becomes these words, which NULL ends, in that folder of that
 * host, by ssh, or by srun inside a Slurm job.  Returns where it cannot, with
 * errno. */
void hosts_become(const struct host *h, const char *folder,
                  const char *const *words);

#endif
