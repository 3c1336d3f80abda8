/* factors.h - sufficient factors: gradients sent as what they are made of.
 *
 * The gradient of an InnerProduct weight is u^T v, with one row of u (top
 * diff) and of v (bottom data) for each sample.  Where K samples are far fewer
 * than the matrix has rows and columns, sending K (M + N) numbers to everyone
 * beats summing M N.  Each rank then multiplies all rows of all ranks, in rank
 * order, so the result is the same bits everywhere.
 *
 * On a GPU the factors are kept aside as soon as they are made, since layers
 * below reuse their memory; they are copied to the CPU and gathered, and the
 * product of all is made on the GPU. */
#ifndef CT_DIST_BSP_FACTORS_H
#define CT_DIST_BSP_FACTORS_H

#include "comm/thread.h"
#include "cortado/net.h"

struct ct_dist;
struct dist_peer_arrays;

/* One parameter that travels as factors. */
struct dist_factor {
    struct ct_job   job;
    struct ct_dist *dist;
    int             param, layer, blob;
    int64_t         rows, n, m; /* of this rank; u is rows x n, v rows x m */
    int64_t        *first;      /* rows of ranks before each; then of all */
    float          *all;        /* every rank's rows: [ u | v ] each */
    size_t         *bytes;      /* per rank */
    uint8_t        *code;       /* `all` in 16 bits; NULL: they go as floats */
    /* On a GPU: where u and v are kept, on it and on the CPU, one behind the
     * other; and `all` there.  NULL elsewhere. */
    float          *kept, *staged, *gathered;
    /* Where ranks read each other's: `kept` is this one's array, and nothing
     * of it goes to the CPU; `gathered` has all rows of u, then all of v. */
    struct dist_peer_arrays *near;
    bool            built;      /* this iteration's gradient is made */
    double          product_seconds; /* that making it took, the last time */
    /* factor_tiles.c, with shared parameters: everybody's factors, and the tile
     * being made. */
    float          *u, *v, *tile;
    uint64_t        ticket;
    char            name[64]; /* for traces */
};

struct dist_factors {
    struct dist_factor *factor;
    int                 n;
    int                *of_param; /* index of each parameter's; -1: dense */
    float              *space;    /* for u and v, in shared memory; not owned */
    int64_t             used;     /* floats of it */
};

/* The factors of a parameter, or CT_ENOTSUP where its layer has none. */
CT_MUST_CHECK enum ct_status dist_factors_of(const struct ct_net *net,
                                             int param,
                                             struct ct_factors *out);

/* The rate of a matrix product of a usual size, on this rank. */
CT_MUST_CHECK enum ct_status dist_measure_flops(const struct ct_device *d,
                                                double *out);

/* Makes ready the parameters whose `apart` is not negative, and tells their
 * layers not to make the gradient themselves; fini takes that back. */
CT_MUST_CHECK enum ct_status dist_factors_init(struct ct_dist *d,
                                               struct ct_net *net,
                                               const int *apart);
void dist_factors_fini(struct ct_dist *d);

/* On a GPU, behind the backward pass of `layer`: its factors are kept. */
CT_MUST_CHECK enum ct_status dist_factors_queued(struct ct_dist *d, int layer);
/* After the backward pass of `layer`: its factors leave. */
CT_MUST_CHECK enum ct_status dist_factors_layer_done(struct ct_dist *d,
                                                     int layer);
/* The gradient, summed over ranks, is in the parameter's diff; with
 * shared parameters, the parameter is updated. */
CT_MUST_CHECK enum ct_status dist_factors_wait(struct ct_dist *d, int factor);

/* The rows of every rank, added up: first[r] of those before r, first[P] of
 * all. */
CT_MUST_CHECK enum ct_status dist_factors_rows(struct ct_dist *d, int64_t mine,
                                               int64_t *first);

/* factor_tiles.c: floats that all that may go as factors need; a factor
 * whose gradient ranks make in tiles; its factors are there to be read. */
CT_MUST_CHECK enum ct_status dist_rows_space(struct ct_dist *d,
                                             const struct ct_net *net,
                                             int64_t *out);
CT_MUST_CHECK enum ct_status dist_rows_init(struct dist_factor *x);
CT_MUST_CHECK enum ct_status dist_rows_post(struct dist_factor *x,
                                            const struct ct_factors *f);

#endif
