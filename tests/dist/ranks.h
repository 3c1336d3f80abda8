/* ranks.h - ranks as threads of one process that train one small net.
 *
 * The net: 3 x 6 x 6 values from an HDF5 file, a convolution c with ReLU, two
 * InnerProducts f and f2 that share a 128 x 128 weight and have a bias each,
 * an InnerProduct g of 5 x 128, softmax loss.  The global batch is RANKS_BATCH
 * for any number.
 *
 * With CORTADO_TEST_DEVICE=cuda all ranks share GPU 0, each with streams of
 * its own; with `mixed` every second rank is on the CPU. */
#ifndef CT_TESTS_DIST_RANKS_H
#define CT_TESTS_DIST_RANKS_H

#include "cortado/solver.h"
#include "dist/engine.h"
#include "testing/ends.h"
#include "testing/test.h"

enum { RANKS_BATCH = 24, RANKS_STEPS = 9, RANKS_MOST = 8 };

/* How one rank trained. */
struct rank {
    struct ct_transport               *transport;
    const Caffe__SolverParameter      *param;
    const Caffe__DistributedParameter *options;
    enum ct_status                     st;
    char                               why[512];
    double                             loss[RANKS_STEPS];
    float                             *weights; /* all of them, at the end */
    size_t                             n;
    struct ct_dist_stats               stats;
    const struct ranks_how            *how;
    int  number;
    int  spoil_at; /* the step before which a weight changes; 0: none */
    struct ct_net      *net;      /* while it trains */
    struct ct_exchange *exchange; /* likewise */
    int  iter;     /* at the end */
};

/* How ranks are to train; all zero but n_ranks and options is usual. */
struct ranks_how {
    int         n_ranks, n_servers; /* the last n_servers do not train */
    const char *more, *options;     /* solver's text, distributed { } */
    int         spoil_at;
    int         steps; /* in one call; 0: RANKS_STEPS, one by one */
    unsigned    delay_seed;  /* messages wait and overtake */
    const int  *host;        /* of each rank; NULL: one for all */
    const char *resume;      /* a solverstate to start from */
    bool        alone;       /* rank 0 has it, the others have no such file */
    bool        stay;        /* no step: a snapshot of what was resumed */
    /* For a progress display's place: after every iteration of a rank. */
    void (*each)(const struct rank *r, int iter);
    bool quiet; /* a rank that fails does not end the others */
    /* Whether this rank has a request; NULL: never. */
    enum ct_solver_action (*action)(void *rank);
};
struct rank *ranks_train_so(const struct ranks_how *how);

/* From `each`, with its rank: the view is over for all ranks. */
void ranks_over(const struct rank *r);

/* Makes the data; every test calls it first. */
void ranks_make_data(void);

/* From now on, until ranks_make_data(): these layers stand behind c. */
void ranks_insert(const char *layers);

/* Likewise: this LMDB of 3 x 6 x 6 values is the source, in the order that
 * more words of its data_param say. */
void ranks_source_db(const char *path, const char *more);
/* Such an LMDB, of 90 records: an epoch ends in the middle of a step. */
const char *ranks_make_db(const char *name);
/* Likewise: batch_size is this, not RANKS_BATCH / n. */
void ranks_batch(int batch);

/* A train net out of a prototxt, for tests that need no solver. */
CT_MUST_CHECK enum ct_status ranks_net(const char *text, struct ct_net **out);

/* The list of HDF5 files that it made. */
const char *ranks_source(void);

/* A solver for that net; `more` goes over what it says. */
Caffe__SolverParameter *ranks_solver(int n_ranks, const char *more);

/* Trains RANKS_STEPS on `n` ranks with distributed { `options` }; the caller
 * looks at what each ended with.  The last rank may be spoilt. */
struct rank *ranks_train(int n, const char *more, const char *options,
                         int spoil_at);

/* ranks_train() from a solverstate on; with `stay` they take a snapshot in
 * place of steps. */
struct rank *ranks_resume(int n, const char *more, const char *options,
                          const char *snapshot, bool stay);
/* ranks_train() in one call of the solver, whose updates may be put off. */
struct rank *ranks_train_at_once(int n, const char *more,
                                 const char *options);

/* From `each`: a rank of this job has failed. */
bool ranks_have_failed(void);

/* It computes as rank 0 does: a CPU and a GPU round differently. */
bool ranks_alike(int number);

/* All of n ranks failed, and one of them said why: a rank that is quicker may
 * have ended the others before they find out themselves. */
void ranks_refuse(const char *text, const struct rank *r, int n);

/* Ranks 0 to n - 1 trained as `one` did, and are equal bit for bit. */
void ranks_same_as_one(const struct rank *one, const struct rank *r, int n);
/* They trained so within `limit`, of losses and, beside the largest, of
 * weights. */
void ranks_near_one(const struct rank *one, const struct rank *r, int n,
                    double limit);

#endif
