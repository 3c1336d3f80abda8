/* census.h - is this a job that can train?  What every rank says of itself,
 * compared before anything is built on it. */
#ifndef CT_DIST_PROOF_CENSUS_H
#define CT_DIST_PROOF_CENSUS_H

#include "comm/comm.h"
#include "cortado/proto.h"
#include "device/stage.h"

/* One rank, as it describes itself. */
struct dist_seat {
    char    host[64];
    char    version[32]; /* of this program */
    char    mpi[96];     /* library and version */
    char    level[16];   /* threads that MPI allows */
    char    device[32];  /* "cpu", "GPU 1" */
    char    model[96];   /* "NVIDIA H200"; of a CPU: device/kernels.h */
    struct ct_device_uuid uuid; /* of a GPU; zeros: none */
    int32_t scaled;      /* fp16: its gradients are scaled */
    int32_t cores, threads; /* cores it may use; threads that it will */
};

struct dist_census {
    int               n;
    struct dist_seat *seat; /* owned; by rank, the same on all */
};

/* All ranks call it; `device` is where this one computes. */
CT_MUST_CHECK enum ct_status dist_census_take(struct ct_comm *c,
                                              const struct ct_device *device,
                                              struct dist_census *out);
void dist_census_fini(struct dist_census *s);
/* Fails, naming the ranks, when versions differ. */
CT_MUST_CHECK enum ct_status dist_census_check(const struct dist_census *s);
/* Whether any rank has a GPU; all have one, and no two the same; devices are
 * of different models, which round differently. */
bool dist_census_gpus(const struct dist_census *s);
bool dist_census_own_gpus(const struct dist_census *s);
bool dist_census_unlike(const struct dist_census *s);
/* The first rank that uses the GPU of a rank before it; -1: none does. */
int dist_census_shares(const struct dist_census *s, int rank);
/* The host with the most threads for its cores; false: all have enough. */
bool dist_census_crowded(const struct dist_census *s, const char **host,
                         int *threads, int *cores);

/* A digest of what a solver's ranks must read alike: its nets' files, and of
 * each database, if they are `shared`, how many records it has and its first
 * and last key. */
CT_MUST_CHECK enum ct_status dist_input_digest(
    const Caffe__SolverParameter *solver, bool shared, uint64_t *nets,
    uint64_t *data);

#endif
