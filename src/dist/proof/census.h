/* census.h - the self-description of every rank, compared before training
 * starts. */
#ifndef CT_DIST_PROOF_CENSUS_H
#define CT_DIST_PROOF_CENSUS_H

#include "comm/comm.h"
#include "cortado/proto.h"
#include "device/stage.h"

struct ct_dist;
struct dist_facts;

/* The description of one rank. */
struct dist_seat {
    char    host[64];
    char    version[32]; /* of this program */
    char    mpi[96];     /* library and version */
    char    level[16];   /* threads that MPI allows */
    char    device[32];  /* "cpu", "GPU 1" */
    char    model[96];   /* e.g.  "NVIDIA H200"; for a CPU see
                          * device/kernels.h */
    struct ct_device_uuid uuid; /* of a GPU; zeros: no GPU */
    int32_t scaled;      /* fp16: gradients are scaled */
    int32_t cores, threads; /* available cores; threads that it will use */
};

struct dist_census {
    int               n;
    struct dist_seat *seat; /* by rank; the same on all ranks; owned */
};

/* All ranks call it; `device`: where this rank computes. */
CT_MUST_CHECK enum ct_status dist_census_take(struct ct_comm *c,
                                              const struct ct_device *device,
                                              struct dist_census *out);
/* The same among the ranks of d->view.comm, on the compute thread, whose number
 * of threads it is. */
CT_MUST_CHECK enum ct_status dist_census_meet(struct ct_dist *d,
                                              const struct ct_device *device,
                                              struct dist_census *out);
/* Sets those facts that follow from the devices of all ranks. */
void dist_census_facts(const struct dist_census *s, struct dist_facts *f);
void dist_census_fini(struct dist_census *s);
/* Fails and names the ranks if versions, MPI libraries or loss scaling
 * differ. */
CT_MUST_CHECK enum ct_status dist_census_check(const struct dist_census *s);
/* The same for one rank beside rank 0. */
CT_MUST_CHECK enum ct_status dist_census_check_rank(
    const struct dist_census *s, int rank);
/* Does any rank have a GPU? Has every rank its own GPU? Do devices differ in
 * model, so that they round differently? */
bool dist_census_gpus(const struct dist_census *s);
bool dist_census_own_gpus(const struct dist_census *s);
bool dist_census_unlike(const struct dist_census *s);
/* The first rank before `rank` that uses the same GPU; -1: none. */
int dist_census_shares(const struct dist_census *s, int rank);
/* The host with the most threads per core; false: all hosts have enough
 * cores. */
bool dist_census_crowded(const struct dist_census *s, const char **host,
                         int *threads, int *cores);

/* A digest of the input that must be equal on all ranks: the net files and, if
 * databases are `shared`, the number of records and the first and last key of
 * each. */
CT_MUST_CHECK enum ct_status dist_input_digest(
    const Caffe__SolverParameter *solver, bool shared, uint64_t *nets,
    uint64_t *data);

#endif
