/* factors.c - gradients sent as what they are made of. */
#include "dist/factors.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "dist/dist.h"

enum ct_status dist_factors_of(const struct ct_net *net, int param,
                               struct ct_factors *out)
{
    const struct ct_net_param *p = ct_net_param(net, param);
    struct ct_layer *l           = ct_net_layer(net, p->layer);
    struct ct_io io              = ct_net_io(net, p->layer);

    if (!l->type->factors || p->n_sharers > 1 || p->lr_mult == 0 ||
        !ct_net_layer_needs_backward(net, p->layer))
        return CT_ENOTSUP;
    return l->type->factors(l, &io, p->index, out);
}

enum ct_status dist_measure_flops(double *out)
{
    enum { N = 256 };
    const struct ct_device *cpu = ct_device_cpu();
    float *a = ct_calloc(3 * N * N, sizeof(*a), "probe");
    double best = 0;
    enum ct_status st = a ? CT_OK : CT_ENOMEM;

    for (int i = 0; i < 5 && st == CT_OK; i++) {
        double start = ct_now();

        st   = ct_gemm(cpu, CT_T, CT_N, N, N, N, 1, a, a + N * N, 0,
                       a + 2 * N * N);
        best = 2.0 * N * N * N / (ct_now() - start) > best
                   ? 2.0 * N * N * N / (ct_now() - start)
                   : best;
    }
    ct_free(a);
    *out = best;
    return st;
}

/* The codec that factors may go by: they are products' inputs, not sums, so
 * nothing can be held back of them. */
static const struct dist_codec_type *codec_of(const struct ct_dist *d)
{
    const struct dist_codec_type *t = d->wires.codec.type;

    return t == &dist_codec_bf16 || t == &dist_codec_fp16 ? t : NULL;
}

static enum ct_status gather_job(struct ct_comm *c, void *arg)
{
    struct dist_factor *x           = arg;
    const struct dist_codec_type *t = codec_of(x->dist);
    int64_t n                       = x->rows * (x->n + x->m);
    size_t each                     = x->bytes[0];
    uint8_t *mine                   = x->code + (size_t)c->rank * each;

    if (!x->code)
        return ct_allgather(c, x->all + c->rank * n, x->bytes, x->all);
    t->encode(NULL, n, x->all + c->rank * n, NULL, mine);
    CT_TRY(ct_allgather(c, mine, x->bytes, x->code));
    for (int r = 0; r < c->size; r++) /* the own too: all have the same bits */
        t->decode(n, x->code + (size_t)r * each, false, x->all + r * n);
    return CT_OK;
}

static enum ct_status add_factor(struct ct_dist *d, struct ct_net *net,
                                 int param, const struct ct_factors *f)
{
    const struct ct_net_param *p = ct_net_param(net, param);
    struct dist_factor *x        = &d->factors.factor[d->factors.n];
    const struct dist_codec_type *t = codec_of(d);
    size_t width = (size_t)(f->rows * (f->u_cols + f->v_cols));
    size_t each  = t ? t->bytes((int64_t)width) : width * sizeof(float);

    x->dist    = d;
    x->param   = param;
    x->layer   = p->layer;
    x->blob    = p->index;
    x->rows    = f->rows;
    x->n       = f->u_cols;
    x->m       = f->v_cols;
    x->job.run = gather_job;
    x->job.arg = x;
    x->job.priority = 1 + p->layer; /* as buckets: flight.c */
    d->factors.of_param[param] = d->factors.n++;
    CT_TRY(ct_alloc((size_t)d->size * width, sizeof(*x->all), "factors",
                    &x->all));
    CT_TRY(ct_alloc((size_t)d->size, sizeof(*x->bytes), "factors",
                    &x->bytes));
    for (int r = 0; r < d->size; r++)
        x->bytes[r] = each;
    if (t)
        CT_TRY(ct_alloc((size_t)d->size, each, "factors", &x->code));
    /* The layer leaves its own product out; all rows are multiplied here. */
    ct_net_layer(net, p->layer)->blob_wants_grad[p->index] = false;
    return ct_dist_same(d, "batch size", (uint64_t)f->rows);
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
            ct_net_layer(d->net, x->layer)->blob_wants_grad[x->blob] = true;
        ct_free(x->all);
        ct_free(x->bytes);
        ct_free(x->code);
    }
    ct_free(d->factors.factor);
    ct_free(d->factors.of_param);
    d->factors = (struct dist_factors){ 0 };
}

/* Row by row, so that all rows of all ranks form one matrix in the end. */
static void pack(struct dist_factor *x, const struct ct_factors *f)
{
    int64_t width = x->n + x->m;
    float *to     = x->all + x->dist->rank * x->rows * width;

    for (int64_t r = 0; r < x->rows; r++, to += width) {
        memcpy(to, f->u + r * x->n, (size_t)x->n * sizeof(*to));
        memcpy(to + x->n, f->v + r * x->m, (size_t)x->m * sizeof(*to));
    }
}

enum ct_status dist_factors_layer_done(struct ct_dist *d, int layer)
{
    for (int i = 0; i < d->factors.n; i++) {
        struct dist_factor *x = &d->factors.factor[i];
        struct ct_factors f;

        if (x->layer != layer)
            continue;
        CT_TRY(dist_factors_of(d->net, x->param, &f));
        if (f.rows != x->rows)
            return ct_fail(CT_ESHAPE, "layer %s: the batch changed from %lld "
                           "to %lld; train with --road=allreduce",
                           ct_net_layer(d->net, layer)->name,
                           (long long)x->rows, (long long)f.rows);
        pack(x, &f);
        x->built = false;
        ct_job_submit(d->thread, &x->job);
    }
    return CT_OK;
}

enum ct_status dist_factors_wait(struct ct_dist *d, int factor)
{
    struct dist_factor *x = &d->factors.factor[factor];
    int64_t width         = x->n + x->m;
    const struct ct_blob *b = ct_net_param(d->net, x->param)->blob;

    double start;

    CT_TRY(ct_job_wait(&x->job));
    if (x->built)
        return CT_OK;
    x->built = true;
    start    = ct_now();
    CT_TRY(ct_gemm_ld(b->dev, CT_T, CT_N, x->n, x->m, x->rows * d->size, 1,
                      x->all, width, x->all + x->n, width, 0, ct_diff(b),
                      x->m));
    x->product_seconds = ct_now() - start;
    return CT_OK;
}
