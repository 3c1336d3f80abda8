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
struct dist_factor;
struct dist_peer_arrays;

/* How the factors of a parameter come to all ranks, and become a gradient. */
struct dist_factor_way {
    /* Memory for them; drop takes what is half made. */
    enum ct_status (*make)(struct dist_factor *x);
    void (*drop)(struct dist_factor *x);
    /* On a GPU, behind the layer's backward pass: they are kept. */
    enum ct_status (*keep)(struct dist_factor *x, const struct ct_factors *f);
    /* After that pass: they leave. */
    enum ct_status (*leave)(struct dist_factor *x, const struct ct_factors *f);
    bool (*arrived)(struct dist_factor *x);
    /* The gradient, summed over ranks, is in the parameter's diff; with shared
     * parameters, the parameter is updated. */
    enum ct_status (*wait)(struct dist_factor *x);
};

/* Messages between the memories of CPUs (factors.c); from and to GPUs, and
 * between GPUs that read each other's (gpu/gpu_factors.c); in the memory of a
 * host, where parameters lie, too (host/factor_tiles.c). */
extern const struct dist_factor_way dist_factors_by_wire, dist_factors_of_gpu,
    dist_factors_of_peers, dist_factors_in_tiles;

/* One parameter that travels as factors. */
struct dist_factor {
    struct ct_job   job;
    struct ct_dist *dist;
    const struct dist_factor_way *way;
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
    struct dist_peer_arrays *peers;
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

/* The rate of a matrix product of a usual size, on this rank; briefly where
 * others wait for it. */
CT_MUST_CHECK enum ct_status dist_measure_flops(const struct ct_device *d,
                                                bool brief, double *out);

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
/* As the way has them. */
CT_MUST_CHECK enum ct_status dist_factors_wait(struct ct_dist *d, int factor);
bool dist_factors_arrived(struct ct_dist *d, int factor);

/* The rows of every rank, added up: first[r] of those before r, first[P] of
 * all. */
CT_MUST_CHECK enum ct_status dist_factors_rows(struct ct_dist *d, int64_t mine,
                                               int64_t *first);

/* What several ways have in common.  Floats of `all` in front of rank r's;
 * bytes[] and code; rows of f into `all`, row by row, and the job that gathers
 * everybody's; u^T v of all rows that lie at `all`, where the diff does. */
int64_t dist_factors_before(const struct dist_factor *x, int r);
CT_MUST_CHECK enum ct_status dist_factors_make_codes(struct dist_factor *x);
CT_MUST_CHECK enum ct_status dist_factors_send(struct dist_factor *x,
                                               const struct ct_factors *f);
bool dist_factors_gathered(struct dist_factor *x);
CT_MUST_CHECK enum ct_status dist_factors_multiply(const struct dist_factor *x,
                                                   const float *all);
/* When all rows are there, once a pass: the product is made, and timed. */
CT_MUST_CHECK enum ct_status dist_factors_build(
    struct dist_factor *x, enum ct_status (*product)(struct dist_factor *x));

/* gpu_factors.c: all ranks try whether GPUs can read each other's. */
CT_MUST_CHECK enum ct_status dist_factors_try_peers(struct dist_factor *x);

/* factor_tiles.c: floats that all that may go as factors need. */
CT_MUST_CHECK enum ct_status dist_rows_space(struct ct_dist *d,
                                             const struct ct_net *net,
                                             int64_t *out);

#endif
