/* selftest.h - is this a job that can train?  What every rank says of itself,
 * compared before anything is built on it. */
#ifndef CT_DIST_SELFTEST_H
#define CT_DIST_SELFTEST_H

#include "comm/comm.h"
#include "cortado/proto.h"

/* One rank, as it describes itself. */
struct dist_seat {
    char    host[64];
    char    version[32]; /* of this program */
    char    mpi[96];     /* library and version */
    char    level[16];   /* threads that MPI allows */
    char    device[32];  /* "cpu", "cuda:1" */
    int32_t cores, threads; /* cores it may use; threads that it will */
};

struct dist_census {
    int               n;
    struct dist_seat *seat; /* owned; by rank, the same on all */
};

/* All ranks call it. */
CT_MUST_CHECK enum ct_status dist_census_take(struct ct_comm *c,
                                              struct dist_census *out);
void dist_census_fini(struct dist_census *s);
/* Fails, naming the ranks, when versions differ or two ranks have one GPU. */
CT_MUST_CHECK enum ct_status dist_census_check(const struct dist_census *s);
/* The host with the most threads for its cores; false: all have enough. */
bool dist_census_crowded(const struct dist_census *s, const char **host,
                         int *threads, int *cores);

/* A digest of what a solver's ranks must read alike: its nets' files, and of
 * each database how many records it has and its first and last key.  With
 * data that is not shared the databases are left out. */
CT_MUST_CHECK enum ct_status dist_input_digest(
    const Caffe__SolverParameter *solver, uint64_t *nets, uint64_t *data);

#endif
