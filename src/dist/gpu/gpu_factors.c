/* gpu_factors.c - factors that are computed on GPUs, and multiplied there.
 *
 * Earlier layers reuse the memory of u and v, so both are copied as soon as
 * they are computed.  Then they are sent
 *
 *     through CPU memory   copied to the CPU and gathered there; all rows are
 *                          copied back to the GPU
 *     from GPU to GPU      every rank reads the memory of its peers, if all
 *                          ranks can do so (peer_arrays.h) */
#include "base/mem.h"
#include "device/stage.h"
#include "dist/bsp/factors.h"
#include "dist/engine.h"
#include "dist/gpu/peer_arrays.h"

enum ct_status dist_factors_try_peers(struct dist_factor *x)
{
    int64_t most = 0;

    for (int r = 0; r < x->dist->view.size; r++)
        if (x->first[r + 1] - x->first[r] > most)
            most = x->first[r + 1] - x->first[r];
    return dist_peer_arrays_create(x->dist, "factors", most * (x->n + x->m),
                                   &x->peers);
}

/* Copies the rows of all ranks from their memory.  No rank writes the next rows
 * before all ranks have read these. */
static enum ct_status read_all(struct ct_comm *c, void *arg)
{
    struct dist_factor *x            = arg;
    const struct dist_peer_arrays *w = x->peers;
    float *u = x->gathered, *v = u + x->first[c->size] * x->n;

    CT_TRY(ct_barrier(c)); /* the rows of all ranks are complete */
    for (int i = 0; i < c->size; i++) {
        const int r        = (c->rank + i) % c->size;
        const int64_t rows = x->first[r + 1] - x->first[r];

        CT_TRY(ct_peer_copy(w->memory, rows * x->n, w->of[r].x,
                            u + x->first[r] * x->n));
        CT_TRY(ct_peer_copy(w->memory, rows * x->m, w->of[r].x + rows * x->n,
                            v + x->first[r] * x->m));
    }
    return ct_barrier(c);
}

static enum ct_status make(struct dist_factor *x)
{
    struct ct_mirror *m = x->dist->trainer.mirror;
    const int64_t n     = dist_factors_before(x, x->dist->view.size);
    const size_t all    = (size_t)n * sizeof(float);
    const size_t mine = (size_t)(x->rows * (x->n + x->m)) * sizeof(float);
    void *kept = NULL, *gathered = NULL;

    ct_mirror_keep(m, x->param, true);
    if (x->dist->plan->near_factors)
        CT_TRY(dist_factors_try_peers(x));
    CT_TRY(m->dev->ops->alloc(m->dev, all, "factors", &gathered));
    x->gathered = gathered;
    if (x->peers) {
        x->way     = &dist_factors_of_peers;
        x->kept    = ct_peer_array(x->peers->memory);
        x->job.run = read_all;
        return CT_OK;
    }
    CT_TRY(m->dev->ops->alloc(m->dev, mine, "factors", &kept));
    x->kept = kept;
    CT_TRY(ct_stage_alloc(m->dev, mine, "factors", &x->staged));
    CT_TRY(ct_stage_alloc(m->dev, all, "factors", &x->all));
    return dist_factors_make_codes(x);
}

static void drop(struct dist_factor *x)
{
    struct ct_mirror *m = x->dist->trainer.mirror;

    ct_mirror_keep(m, x->param, false);
    if (x->kept && !x->peers)
        m->dev->ops->free(m->dev, x->kept);
    if (x->gathered)
        m->dev->ops->free(m->dev, x->gathered);
    ct_stage_free(m->dev, x->staged);
    ct_stage_free(m->dev, x->all);
    dist_peer_arrays_destroy(x->peers);
    ct_free(x->bytes);
    ct_free(x->code);
}

/* ---- Through CPU memory. */

static enum ct_status put_aside(struct dist_factor *x,
                                const struct ct_factors *f)
{
    const struct ct_device *dev = x->dist->trainer.mirror->dev;
    const int64_t n_u           = x->rows * x->n;

    CT_TRY(ct_copy(dev, n_u, f->u, x->kept));
    return ct_copy(dev, x->rows * x->m, f->v, x->kept + n_u);
}

static enum ct_status copy_out(struct dist_factor *x,
                               const struct ct_factors *f)
{
    CT_TRY(put_aside(x, f));
    return ct_stage_out(ct_mirror_stage(x->dist->trainer.mirror),
                        (size_t)(x->rows * (x->n + x->m)) * sizeof(float),
                        x->kept, x->staged);
}

static enum ct_status send_copy(struct dist_factor *x,
                                const struct ct_factors *f)
{
    struct ct_factors copy = *f;

    copy.u = x->staged;
    copy.v = x->staged + x->rows * x->n;
    return dist_factors_send(x, &copy);
}

static enum ct_status copy_in(struct dist_factor *x)
{
    struct ct_stage *stage = ct_mirror_stage(x->dist->trainer.mirror);
    const int64_t n        = dist_factors_before(x, x->dist->view.size);

    CT_TRY(ct_stage_in(stage, (size_t)n * sizeof(float), x->all, x->gathered));
    CT_TRY(ct_stage_follow_in(stage));
    return dist_factors_multiply(x, x->gathered);
}

static enum ct_status wait_for_copies(struct dist_factor *x)
{
    return dist_factors_build(x, copy_in);
}

const struct dist_factor_way dist_factors_of_gpu = {
    .make    = make,
    .drop    = drop,
    .keep    = copy_out,
    .leave   = send_copy,
    .arrived = dist_factors_gathered,
    .wait    = wait_for_copies,
};

/* ---- From GPU to GPU. */

static enum ct_status let_read(struct dist_factor *x,
                               const struct ct_factors *f)
{
    (void)f;
    x->built = false;
    ct_job_submit(x->dist->view.thread, &x->job);
    return CT_OK;
}

/* Computes u^T v.  All rows of u come before all rows of v. */
static enum ct_status multiply_there(struct dist_factor *x)
{
    const struct ct_blob *b = ct_net_param(x->dist->net, x->param)->blob;
    const int64_t rows      = x->first[x->dist->view.size];

    return ct_gemm(b->dev, CT_T, CT_N, x->n, x->m, rows, 1, x->gathered,
                   x->gathered + rows * x->n, 0, ct_diff(b));
}

static enum ct_status wait_for_peers(struct dist_factor *x)
{
    return dist_factors_build(x, multiply_there);
}

const struct dist_factor_way dist_factors_of_peers = {
    .make    = make,
    .drop    = drop,
    .keep    = put_aside,
    .leave   = let_read,
    .arrived = dist_factors_gathered,
    .wait    = wait_for_peers,
};
