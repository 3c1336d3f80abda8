/* factors.c - gradients sent as what they are made of. */
#include "dist/bsp/factors.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "device/stage.h"
#include "dist/engine.h"
#include "dist/gpu/peer_arrays.h"
#include "net/arena.h"

/* A GPU may hold activations in other types and orders. */
static bool is_plain(const struct ct_io *io)
{
    const struct ct_tensor *x = &io->bottom[0]->data, *y = &io->top[0]->diff;

    return io->bottom[0]->dev == io->top[0]->dev &&
           x->dtype == CT_F32 && y->dtype == CT_F32 &&
           (io->bottom[0]->dev->kind == CT_CPU ||
            (x->layout == CT_PLAIN && y->layout == CT_PLAIN));
}

enum ct_status dist_factors_of(const struct ct_net *net, int param,
                               struct ct_factors *out)
{
    const struct ct_net_param *p = ct_net_param(net, param);
    struct ct_layer *l           = ct_net_layer(net, p->layer);
    struct ct_io io              = ct_net_io(net, p->layer);

    /* What it has absorbed writes to tops of its own. */
    io.top = ct_net_io(net, ct_net_group_last(net, p->layer)).top;
    if (!l->type->factors || p->n_sharers > 1 || p->lr_mult == 0 ||
        !ct_net_layer_needs_backward(net, p->layer) || !is_plain(&io))
        return CT_ENOTSUP;
    return l->type->factors(l, &io, p->index, out);
}

enum ct_status dist_measure_flops(const struct ct_device *d, double *out)
{
    const int64_t n = d->kind == CT_CPU ? 256 : 2048;
    float *a        = NULL;
    void *room      = NULL;
    double best     = 0, begin;
    enum ct_status st;

    CT_TRY(d->ops->alloc(d, (size_t)(3 * n * n) * sizeof(*a), "probe",
                         &room));
    a  = room;
    st = ct_fill(d, 2 * n * n, 0, a);
    begin = ct_now();
    /* Longer than a busy host leaves a process without a core. */
    for (int i = 0; st == CT_OK && (i < 5 || ct_now() - begin < 0.02); i++) {
        double start = ct_now(), rate;

        st = ct_gemm(d, CT_T, CT_N, n, n, n, 1, a, a + n * n, 0,
                     a + 2 * n * n);
        if (st == CT_OK)
            st = d->ops->sync(d);
        rate = 2.0 * (double)(n * n * n) / (ct_now() - start);
        best = rate > best ? rate : best;
    }
    d->ops->free(d, room);
    *out = best;
    return st;
}

/* The codec that factors may go by: they are products' inputs, not sums, so
 * nothing can be held back of them. */
static const struct dist_codec_type *codec_of(const struct ct_dist *d)
{
    const struct dist_codec_type *t = d->plan.codec.type;

    return t && t->for_factors ? t : NULL;
}

/* Of `all`, in front of rank r's. */
static int64_t floats_before(const struct dist_factor *x, int r)
{
    return x->first[r] * (x->n + x->m);
}

/* Everybody's rows from where they are.  Nobody goes on, and writes the next
 * ones, before all have read. */
static enum ct_status read_all(struct ct_comm *c, struct dist_factor *x)
{
    const struct dist_peer_arrays *w = x->near;
    float *u = x->gathered, *v = u + x->first[c->size] * x->n;

    CT_TRY(ct_barrier(c)); /* all are there */
    for (int i = 0; i < c->size; i++) {
        const int r        = (c->rank + i) % c->size;
        const int64_t rows = x->first[r + 1] - x->first[r];

        CT_TRY(ct_peer_copy(w->near, rows * x->n, w->of[r].x,
                            u + x->first[r] * x->n));
        CT_TRY(ct_peer_copy(w->near, rows * x->m, w->of[r].x + rows * x->n,
                            v + x->first[r] * x->m));
    }
    return ct_barrier(c);
}

static enum ct_status gather_job(struct ct_comm *c, void *arg)
{
    struct dist_factor *x           = arg;
    const struct dist_codec_type *t = codec_of(x->dist);
    float *mine;
    uint8_t *code = x->code;

    if (x->near)
        return read_all(c, x);
    mine = x->all + floats_before(x, c->rank);
    if (!code)
        return ct_allgather(c, mine, x->bytes, x->all);
    for (int r = 0; r < c->rank; r++)
        code += x->bytes[r];
    t->encode(NULL, x->rows * (x->n + x->m), mine, NULL, code);
    CT_TRY(ct_allgather(c, code, x->bytes, x->code));
    code = x->code;
    for (int r = 0; r < c->size; r++) { /* the own too: the same bits for all */
        t->decode(floats_before(x, r + 1) - floats_before(x, r), code, false,
                  x->all + floats_before(x, r));
        code += x->bytes[r];
    }
    return CT_OK;
}

/* Codes are made in the CPU's memory. */
static enum ct_status make_near(struct ct_dist *d, struct dist_factor *x)
{
    int64_t most = 0;

    for (int r = 0; r < d->view.size; r++)
        if (x->first[r + 1] - x->first[r] > most)
            most = x->first[r + 1] - x->first[r];
    if (d->view.size == 1 || codec_of(d))
        return CT_OK;
    CT_TRY(dist_peer_arrays_create(d, "factors", most * (x->n + x->m),
                                  &x->near));
    if (x->near)
        x->kept = ct_peer_array(x->near->near);
    return CT_OK;
}

/* Memory for a GPU's factors, and `all` where copies from it are fast. */
static enum ct_status make_room(struct ct_dist *d, struct dist_factor *x)
{
    const struct ct_mirror *m = d->trainer.mirror;
    const size_t mine = (size_t)(x->rows * (x->n + x->m)) * sizeof(float);
    const size_t all  = (size_t)floats_before(x, d->view.size) * sizeof(float);
    void *kept = NULL, *gathered = NULL;

    if (d->facts.gpus || m)
        CT_TRY(make_near(d, x));
    if (!m)
        return ct_alloc(all, 1, "factors", &x->all);
    CT_TRY(m->dev->ops->alloc(m->dev, all, "factors", &gathered));
    x->gathered = gathered;
    if (x->near)
        return CT_OK;
    CT_TRY(m->dev->ops->alloc(m->dev, mine, "factors", &kept));
    x->kept = kept;
    CT_TRY(ct_stage_alloc(m->dev, mine, "factors", &x->staged));
    return ct_stage_alloc(m->dev, all, "factors", &x->all);
}

static void drop_room(struct ct_dist *d, struct dist_factor *x)
{
    const struct ct_mirror *m = d->trainer.mirror;

    if (!m) {
        ct_free(x->all);
        return;
    }
    m->apart[x->param] = false;
    if (x->kept && !x->near)
        m->dev->ops->free(m->dev, x->kept);
    if (x->gathered)
        m->dev->ops->free(m->dev, x->gathered);
    ct_stage_free(m->dev, x->staged);
    ct_stage_free(m->dev, x->all);
}

enum ct_status dist_factors_rows(struct ct_dist *d, int64_t mine,
                                 int64_t *first)
{
    for (int r = 0; r < d->view.size; r++)
        d->services.part_bytes[r] = sizeof(mine);
    first[0] = 0;
    CT_TRY(dist_gather(d, &mine, d->services.part_bytes, first + 1));
    for (int r = 0; r < d->view.size; r++)
        first[r + 1] += first[r];
    return CT_OK;
}

/* Memory for what goes over a wire. */
static enum ct_status make_wire(struct ct_dist *d, struct dist_factor *x)
{
    const struct dist_codec_type *t = codec_of(d);
    size_t all                      = 0;

    CT_TRY(make_room(d, x));
    CT_TRY(ct_alloc((size_t)d->view.size, sizeof(*x->bytes), "factors",
                    &x->bytes));
    for (int r = 0; r < d->view.size; r++) {
        const int64_t n = floats_before(x, r + 1) - floats_before(x, r);

        x->bytes[r] = t ? t->bytes(n) : (size_t)n * sizeof(float);
        all += x->bytes[r];
    }
    return t ? ct_alloc(all, 1, "factors", &x->code) : CT_OK;
}

static enum ct_status add_factor(struct ct_dist *d, struct ct_net *net,
                                 int param, const struct ct_factors *f)
{
    const struct ct_net_param *p = ct_net_param(net, param);
    struct dist_factor *x        = &d->factors.factor[d->factors.n];

    x->dist    = d;
    x->param   = param;
    x->layer   = p->layer;
    x->blob    = p->index;
    x->rows    = f->rows;
    x->n       = f->u_cols;
    x->m       = f->v_cols;
    snprintf(x->name, sizeof(x->name), "%s (factors)",
             ct_net_layer(net, p->layer)->name);
    x->job.name = x->name;
    x->job.run  = gather_job;
    x->job.arg  = x;
    x->job.priority = 1 + p->layer; /* as buckets: flight.c */
    d->factors.of_param[param] = d->factors.n++;
    CT_TRY(ct_alloc((size_t)d->view.size + 1, sizeof(*x->first), "factors",
                    &x->first));
    CT_TRY(dist_factors_rows(d, f->rows, x->first));
    CT_TRY(d->host.params_of ? dist_rows_init(x) : make_wire(d, x));
    /* The layer leaves its own product out; all rows are multiplied here. */
    ct_net_make_gradient(net, param, false);
    if (d->trainer.mirror)
        d->trainer.mirror->apart[param] = true;
    return CT_OK;
}

enum ct_status dist_factors_init(struct ct_dist *d, struct ct_net *net,
                                 const int *apart)
{
    size_t n = (size_t)ct_net_n_params(net) + 1;

    CT_TRY(ct_alloc(n, sizeof(*d->factors.of_param), "factors",
                    &d->factors.of_param));
    CT_TRY(ct_alloc(n, sizeof(*d->factors.factor), "factors",
                    &d->factors.factor));
    for (int i = 0; i < ct_net_n_params(net); i++) {
        struct ct_factors f;

        d->factors.of_param[i] = -1;
        if (apart[i] < 0)
            continue;
        CT_TRY(dist_factors_of(net, i, &f));
        CT_TRY(add_factor(d, net, i, &f));
    }
    return CT_OK;
}

void dist_factors_fini(struct ct_dist *d)
{
    for (int i = 0; i < d->factors.n; i++) {
        struct dist_factor *x = &d->factors.factor[i];

        if (d->net)
            ct_net_make_gradient(d->net, x->param, true);
        drop_room(d, x);
        dist_peer_arrays_destroy(x->near);
        ct_free(x->tile);
        ct_free(x->first);
        ct_free(x->bytes);
        ct_free(x->code);
    }
    ct_free(d->factors.factor);
    ct_free(d->factors.of_param);
    d->factors = (struct dist_factors){ .space = d->factors.space };
}

/* Row by row, so that all rows of all ranks form one matrix in the end. */
static void pack(struct dist_factor *x, const struct ct_factors *f)
{
    int64_t width = x->n + x->m;
    float *to     = x->all + floats_before(x, x->dist->view.rank);

    for (int64_t r = 0; r < x->rows; r++, to += width) {
        memcpy(to, f->u + r * x->n, (size_t)x->n * sizeof(*to));
        memcpy(to + x->n, f->v + r * x->m, (size_t)x->m * sizeof(*to));
    }
}

static enum ct_status check_rows(const struct ct_dist *d,
                                 const struct dist_factor *x,
                                 const struct ct_factors *f)
{
    if (f->rows == x->rows)
        return CT_OK;
    return ct_fail(CT_ESHAPE, "layer %s: the batch changed from %lld to %lld; "
                   "train with --road=allreduce",
                   ct_net_layer(d->net, x->layer)->name, (long long)x->rows,
                   (long long)f->rows);
}

static enum ct_status keep(const struct ct_mirror *m, struct dist_factor *x,
                           const struct ct_factors *f)
{
    const int64_t n_u = x->rows * x->n, n_v = x->rows * x->m;

    CT_TRY(ct_copy(m->dev, n_u, f->u, x->kept));
    CT_TRY(ct_copy(m->dev, n_v, f->v, x->kept + n_u));
    if (x->near)
        return CT_OK;
    return ct_stage_out(m->stage, (size_t)(n_u + n_v) * sizeof(float),
                        x->kept, x->staged);
}

/* What the layer has made in this pass. */
static enum ct_status factors_now(const struct ct_dist *d,
                                  const struct dist_factor *x,
                                  struct ct_factors *out)
{
    CT_TRY(dist_factors_of(d->net, x->param, out));
    return check_rows(d, x, out);
}

enum ct_status dist_factors_queued(struct ct_dist *d, int layer)
{
    for (int i = 0; i < d->factors.n; i++) {
        struct dist_factor *x = &d->factors.factor[i];
        struct ct_factors f;

        if (x->layer != layer)
            continue;
        CT_TRY(factors_now(d, x, &f));
        CT_TRY(keep(d->trainer.mirror, x, &f));
    }
    return CT_OK;
}

enum ct_status dist_factors_layer_done(struct ct_dist *d, int layer)
{
    for (int i = 0; i < d->factors.n; i++) {
        struct dist_factor *x = &d->factors.factor[i];
        struct ct_factors f;

        if (x->layer != layer)
            continue;
        CT_TRY(factors_now(d, x, &f));
        if (d->host.params_of) {
            CT_TRY(dist_rows_post(x, &f));
            continue;
        }
        if (x->staged) {
            f.u = x->staged;
            f.v = x->staged + x->rows * x->n;
        }
        if (!x->near)
            pack(x, &f);
        x->built = false;
        ct_job_submit(d->view.thread, &x->job);
    }
    return CT_OK;
}

/* u^T v of all rows that lie at `all`, where b's diff does. */
static enum ct_status multiply(const struct dist_factor *x, const float *all,
                               const struct ct_blob *b)
{
    const int64_t rows = x->first[x->dist->view.size], width = x->n + x->m;

    if (x->near)
        return ct_gemm(b->dev, CT_T, CT_N, x->n, x->m, rows, 1, all,
                       all + rows * x->n, 0, ct_diff(b));
    return ct_gemm_ld(b->dev, CT_T, CT_N, x->n, x->m, rows, 1, all, width,
                      all + x->n, width, 0, ct_diff(b), x->m);
}

enum ct_status dist_factors_wait(struct ct_dist *d, int factor)
{
    struct dist_factor *x = &d->factors.factor[factor];
    const struct ct_mirror *m = d->trainer.mirror;
    const struct ct_blob *b   = ct_net_param(d->net, x->param)->blob;
    const size_t bytes = (size_t)floats_before(x, d->view.size) * sizeof(float);
    double start;

    if (d->host.params_of)
        return dist_direct_wait(d, x->ticket);
    CT_TRY(ct_job_wait(&x->job));
    if (x->built)
        return CT_OK;
    x->built = true;
    start    = ct_now();
    if (m && !x->near) {
        CT_TRY(ct_stage_in(m->stage, bytes, x->all, x->gathered));
        CT_TRY(ct_stage_follow_in(m->stage));
    }
    CT_TRY(multiply(x, m ? x->gathered : x->all, b));
    x->product_seconds = ct_now() - start;
    return CT_OK;
}
