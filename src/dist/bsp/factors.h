/* factors.h - sufficient factors: gradients that travel as two factors.
 *
 * The gradient of an InnerProduct weight is u^T v, with one row of u (top
 * diff) and one of v (bottom data) per sample.  If the K samples are far fewer
 * than the rows and columns of the matrix, sending K (M + N) numbers to every
 * rank is cheaper than summing M N.  Each rank multiplies the rows of all
 * ranks in rank order, so all ranks get the same bits.
 *
 * On a GPU the factors are copied aside as soon as they are computed, because
 * other layers reuse their memory.  They go to CPU memory and are gathered; the
 * product is computed on the GPU. */
#ifndef CT_DIST_BSP_FACTORS_H
#define CT_DIST_BSP_FACTORS_H

#include "comm/thread.h"
#include "cortado/net.h"

struct ct_dist;
struct dist_factor;
struct dist_peer_arrays;

/* How the factors of a parameter reach all ranks and become a gradient. */
struct dist_factor_way {
    /* Allocates memory; drop frees it, also after a failed make. */
    enum ct_status (*make)(struct dist_factor *x);
    void (*drop)(struct dist_factor *x);
    /* On a GPU: queues a copy of the factors after the layer's backward
     * pass. */
    enum ct_status (*keep)(struct dist_factor *x, const struct ct_factors *f);
    /* After the layer's backward pass: sends the factors. */
    enum ct_status (*leave)(struct dist_factor *x, const struct ct_factors *f);
    bool (*arrived)(struct dist_factor *x);
    /* Waits until the summed gradient is in the parameter's diff; with shared
     * parameters, until the parameter is updated. */
    enum ct_status (*wait)(struct dist_factor *x);
};

/* Messages between CPU memories (factors.c); messages from and to GPUs, and
 * GPUs that read each other's memory (gpu/gpu_factors.c); tiles in shared
 * memory, together with shared parameters (host/factor_tiles.c). */
extern const struct dist_factor_way dist_factors_by_wire, dist_factors_of_gpu,
    dist_factors_of_peers, dist_factors_in_tiles;

/* One parameter that travels as factors. */
struct dist_factor {
    struct ct_job   job;
    struct ct_dist *dist;
    const struct dist_factor_way *way;
    int             param, layer, blob;
    int64_t         rows, n, m; /* rows: of this rank; u is rows x n, v is rows
                                 * x m */
    int64_t        *first;      /* rows of the ranks before rank r; first[P]:
                                 * all rows */
    float          *all;        /* the rows of all ranks, each [ u | v ] */
    size_t         *bytes;      /* per rank */
    uint8_t        *code;       /* `all` encoded in 16 bits; NULL: floats */
    /* On a GPU: u, then v, in GPU memory and in CPU memory; `all` in GPU
     * memory.  NULL elsewhere. */
    float          *kept, *staged, *gathered;
    /* If GPUs read each other's memory: `kept` is this rank's array and is not
     * copied to the CPU; `gathered` has all rows of u, then all of v. */
    struct dist_peer_arrays *peers;
    bool            built;      /* the gradient of this iteration is computed */
    double          product_seconds; /* duration of the last product */
    /* factor_tiles.c, with shared parameters: the factors of all ranks, and the
     * current tile. */
    float          *u, *v, *tile;
    uint64_t        ticket;
    char            name[64]; /* for traces */
};

struct dist_factors {
    struct dist_factor *factor;
    int                 n;
    int                *of_param; /* per parameter: its index in `factor`; -1:
                                   * in a bucket */
    float              *space;    /* room for u and v in shared memory;
                                   * borrowed */
    int64_t             used;     /* floats of `space` in use */
};

/* The factors of a parameter; CT_ENOTSUP: its layer has none. */
CT_MUST_CHECK enum ct_status dist_factors_of(const struct ct_net *net,
                                             int param,
                                             struct ct_factors *out);

/* The FLOP/s of a matrix product of a usual size on this rank; brief: measured
 * for a short time, because others wait for it. */
CT_MUST_CHECK enum ct_status dist_measure_flops(const struct ct_device *d,
                                                bool brief, double *out);

/* Prepares the parameters whose `apart` is not negative and tells their layers
 * not to compute the gradient; fini reverts that. */
CT_MUST_CHECK enum ct_status dist_factors_init(struct ct_dist *d,
                                               struct ct_net *net,
                                               const int *apart);
void dist_factors_fini(struct ct_dist *d);

/* Calls `keep` of the layer's factors.  On a GPU, after the layer's backward
 * pass is queued. */
CT_MUST_CHECK enum ct_status dist_factors_queued(struct ct_dist *d, int layer);
/* Calls `leave` of the layer's factors, after its backward pass. */
CT_MUST_CHECK enum ct_status dist_factors_layer_done(struct ct_dist *d,
                                                     int layer);
/* Call the functions of the way. */
CT_MUST_CHECK enum ct_status dist_factors_wait(struct ct_dist *d, int factor);
bool dist_factors_arrived(struct ct_dist *d, int factor);

/* Prefix sums of the rows of all ranks: first[r] is the number of rows before
 * rank r, first[P] of all rows. */
CT_MUST_CHECK enum ct_status dist_factors_rows(struct ct_dist *d, int64_t mine,
                                               int64_t *first);

/* Functions that several ways use: the floats of `all` before those of rank r;
 * allocation of bytes[] and code; copying the rows of f to `all` and submitting
 * the job that gathers; the product u^T v of all rows at `all`, on the diff's
 * device. */
int64_t dist_factors_before(const struct dist_factor *x, int r);
CT_MUST_CHECK enum ct_status dist_factors_make_codes(struct dist_factor *x);
CT_MUST_CHECK enum ct_status dist_factors_send(struct dist_factor *x,
                                               const struct ct_factors *f);
bool dist_factors_gathered(struct dist_factor *x);
CT_MUST_CHECK enum ct_status dist_factors_multiply(const struct dist_factor *x,
                                                   const float *all);
/* Waits for all rows and computes the product, once per pass; measures its
 * time. */
CT_MUST_CHECK enum ct_status dist_factors_build(
    struct dist_factor *x, enum ct_status (*product)(struct dist_factor *x));

/* gpu_factors.c: all ranks test whether GPUs can read each other's memory. */
CT_MUST_CHECK enum ct_status dist_factors_try_peers(struct dist_factor *x);

/* Whether ranks will have factors of this net, so that it has to keep them:
 * those that share parameters (host/direct.c), and others, which may. */
bool dist_shares_factors(const struct ct_net *net, int n_ranks);
bool dist_may_have_factors(const struct ct_net *net, int n_ranks);

/* factor_tiles.c: floats of shared memory that the factors of all parameters
 * need. */
CT_MUST_CHECK enum ct_status dist_rows_space(struct ct_dist *d,
                                             const struct ct_net *net,
                                             int64_t *out);

#endif
