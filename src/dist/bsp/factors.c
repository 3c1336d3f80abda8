/* factors.c - sends factors of gradients instead of gradients. */
#include "dist/bsp/factors.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "dist/engine.h"
#include "dist/gpu/peer_arrays.h"
#include "net/arena.h"
#include "net/training.h"

/* Whether activations are floats in plain layout; on a GPU they may have other
 * types and layouts. */
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

    /* If the layer has absorbed others, its output is the top of the last. */
    io.top = ct_net_io(net, ct_net_group_last(net, p->layer)).top;
    if (!l->type->factors || p->n_sharers > 1 || p->lr_mult == 0 ||
        !ct_net_layer_needs_backward(net, p->layer) || !is_plain(&io))
        return CT_ENOTSUP;
    return l->type->factors(l, &io, p->index, out);
}

bool dist_may_have_factors(const struct ct_net *net, int n_ranks)
{
    struct ct_factors f;
    bool may = false;

    for (int i = 0; i < ct_net_n_params(net); i++)
        may |= dist_factors_of(net, i, &f) == CT_OK;
    return may && n_ranks > 1;
}

enum ct_status dist_measure_flops(const struct ct_device *d, bool brief,
                                  double *out)
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
    /* Measured for longer than a busy host may leave a process without a
     * core. */
    for (int i = 0; st == CT_OK && (i < 5 || (!brief && ct_now() - begin <
                                                            0.02)); i++) {
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

int64_t dist_factors_before(const struct dist_factor *x, int r)
{
    return x->first[r] * (x->n + x->m);
}

static int64_t floats_from(const struct dist_factor *x, int r)
{
    return dist_factors_before(x, r + 1) - dist_factors_before(x, r);
}

static enum ct_status gather_job(struct ct_comm *c, void *arg)
{
    struct dist_factor *x           = arg;
    const struct dist_codec_type *t = x->dist->plan->factor_codec;
    float *mine   = x->all + dist_factors_before(x, c->rank);
    uint8_t *code = x->code;

    if (!code)
        return ct_allgather(c, mine, x->bytes, x->all);
    for (int r = 0; r < c->rank; r++)
        code += x->bytes[r];
    t->encode(NULL, x->rows * (x->n + x->m), mine, NULL, code);
    CT_TRY(ct_allgather(c, code, x->bytes, x->code));
    code = x->code;
    for (int r = 0; r < c->size; r++) { /* with its own: equal bits on all */
        t->decode(floats_from(x, r), code, false,
                  x->all + dist_factors_before(x, r));
        code += x->bytes[r];
    }
    return CT_OK;
}

enum ct_status dist_factors_rows(struct ct_dist *d, int64_t mine,
                                 int64_t *first)
{
    first[0] = 0;
    CT_TRY(dist_gather_each(d, &mine, sizeof(mine), first + 1));
    for (int r = 0; r < d->view.size; r++)
        first[r + 1] += first[r];
    return CT_OK;
}

enum ct_status dist_factors_make_codes(struct dist_factor *x)
{
    const struct ct_dist *d         = x->dist;
    const struct dist_codec_type *t = d->plan->factor_codec;
    size_t all                      = 0;

    x->job.run = gather_job;
    CT_TRY(ct_alloc((size_t)d->view.size, sizeof(*x->bytes), "factors",
                    &x->bytes));
    for (int r = 0; r < d->view.size; r++) {
        const int64_t n = floats_from(x, r);

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
    x->way     = d->plan->factor_way;
    x->param   = param;
    x->layer   = p->layer;
    x->blob    = p->index;
    x->rows    = f->rows;
    x->n       = f->u_cols;
    x->m       = f->v_cols;
    snprintf(x->name, sizeof(x->name), "%s (factors)",
             ct_net_layer(net, p->layer)->name);
    x->job.name = x->name;
    x->job.arg  = x;
    x->job.priority = 1 + p->layer; /* as buckets: flight.c */
    d->factors.of_param[param] = d->factors.n++;
    CT_TRY(ct_alloc((size_t)d->view.size + 1, sizeof(*x->first), "factors",
                    &x->first));
    CT_TRY(dist_factors_rows(d, f->rows, x->first));
    CT_TRY(x->way->make(x));
    /* The layer does not multiply; the rows of all ranks are multiplied
     * here. */
    ct_net_make_gradient(net, param, false);
    return ct_net_keep_factors(net);
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
        x->way->drop(x);
        ct_free(x->first);
    }
    ct_free(d->factors.factor);
    ct_free(d->factors.of_param);
    d->factors = (struct dist_factors){ .space = d->factors.space };
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

/* The factors of the current pass. */
static enum ct_status factors_now(const struct ct_dist *d,
                                  const struct dist_factor *x,
                                  struct ct_factors *out)
{
    CT_TRY(dist_factors_of(d->net, x->param, out));
    return check_rows(d, x, out);
}

static enum ct_status hand_over(struct ct_dist *d, int layer, bool queued)
{
    for (int i = 0; i < d->factors.n; i++) {
        struct dist_factor *x = &d->factors.factor[i];
        struct ct_factors f;

        if (x->layer != layer)
            continue;
        CT_TRY(factors_now(d, x, &f));
        CT_TRY(queued ? x->way->keep(x, &f) : x->way->leave(x, &f));
    }
    return CT_OK;
}

enum ct_status dist_factors_queued(struct ct_dist *d, int layer)
{
    return hand_over(d, layer, true);
}

enum ct_status dist_factors_layer_done(struct ct_dist *d, int layer)
{
    return hand_over(d, layer, false);
}

bool dist_factors_arrived(struct ct_dist *d, int factor)
{
    struct dist_factor *x = &d->factors.factor[factor];

    return x->way->arrived(x);
}

enum ct_status dist_factors_wait(struct ct_dist *d, int factor)
{
    struct dist_factor *x = &d->factors.factor[factor];

    return x->way->wait(x);
}

/* ---- Factors in CPU memory. */

static enum ct_status wire_make(struct dist_factor *x)
{
    const size_t n = (size_t)dist_factors_before(x, x->dist->view.size);

    if (x->dist->plan->near_factors) /* all ranks try; this one has no GPU */
        CT_TRY(dist_factors_try_peers(x));
    CT_TRY(ct_alloc(n, sizeof(*x->all), "factors", &x->all));
    return dist_factors_make_codes(x);
}

static void wire_drop(struct dist_factor *x)
{
    dist_peer_arrays_destroy(x->peers);
    ct_free(x->all);
    ct_free(x->bytes);
    ct_free(x->code);
}

static enum ct_status wire_keep(struct dist_factor *x,
                                const struct ct_factors *f)
{
    (void)x, (void)f; /* nothing is queued */
    return CT_OK;
}

/* Rows of u and v alternate, so that the rows of all ranks form one matrix. */
enum ct_status dist_factors_send(struct dist_factor *x,
                                 const struct ct_factors *f)
{
    const int64_t width = x->n + x->m;
    float *to           = x->all + dist_factors_before(x, x->dist->view.rank);

    for (int64_t r = 0; r < x->rows; r++, to += width) {
        memcpy(to, f->u + r * x->n, (size_t)x->n * sizeof(*to));
        memcpy(to + x->n, f->v + r * x->m, (size_t)x->m * sizeof(*to));
    }
    x->built = false;
    ct_job_submit(x->dist->view.thread, &x->job);
    return CT_OK;
}

bool dist_factors_gathered(struct dist_factor *x)
{
    return ct_job_done(&x->job);
}

enum ct_status dist_factors_multiply(const struct dist_factor *x,
                                     const float *all)
{
    const struct ct_blob *b = ct_net_param(x->dist->net, x->param)->blob;
    const int64_t rows = x->first[x->dist->view.size], width = x->n + x->m;

    return ct_gemm_ld(b->dev, CT_T, CT_N, x->n, x->m, rows, 1, all, width,
                      all + x->n, width, 0, ct_diff(b), x->m);
}

enum ct_status dist_factors_build(struct dist_factor *x,
                                  enum ct_status (*product)(
                                      struct dist_factor *x))
{
    double start;

    CT_TRY(ct_job_wait(&x->job));
    if (x->built)
        return CT_OK;
    x->built = true;
    start    = ct_now();
    CT_TRY(product(x));
    x->product_seconds = ct_now() - start;
    return CT_OK;
}

static enum ct_status wire_product(struct dist_factor *x)
{
    return dist_factors_multiply(x, x->all);
}

static enum ct_status wire_wait(struct dist_factor *x)
{
    return dist_factors_build(x, wire_product);
}

const struct dist_factor_way dist_factors_by_wire = {
    .make    = wire_make,
    .drop    = wire_drop,
    .keep    = wire_keep,
    .leave   = dist_factors_send,
    .arrived = dist_factors_gathered,
    .wait    = wire_wait,
};
