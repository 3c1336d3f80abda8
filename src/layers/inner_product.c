/* inner_product.c - the fully connected layer, Caffe type "InnerProduct".
 *
 *     y = x W^T + 1 b^T        x: m x k   W: n x k   b: n   y: m x n
 *
 * Bottom axes before `axis` flatten into m rows, the rest into k columns;
 * n is num_output.  With `transpose: true` W is stored k x n instead.
 * Backward ADDS to dW and db, because the solver clears them once per
 * iteration and iter_size sums several passes; it OVERWRITES dx, and dW and db
 * where the net says so.
 *
 * A sink takes dW in slices of rows, each of which stays in a cache from the
 * product that makes it to the update that uses it: a dW of a hundred million
 * values is never in memory.
 *
 * It absorbs a ReLU behind it, which the product does on its way out; backward
 * sets dy to 0 where y is. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <string.h>

#include "device/conv.h"
#include "device/cpu/loop.h"
#include "device/impl.h"
#include "device/workspace.h"
#include "layers/cuda/slots.h"
#include "layers/inner_product.h"
#include "layers/in_parts.h"
#include "proto/params.h"

enum { WEIGHT, BIAS };

/* Values of all slices that are made at a time, and of one. */
enum { SLICES = 1 << 23, SLICE_MOST = 1 << 20, SLICE_LEAST = 1 << 18 };

static enum ct_status ip_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__InnerProductParameter *p = ct_inner_product_param(l->param);
    struct inner_product *s = l->state;
    struct ct_ip *ip = &s->ip;

    if (p->num_output == 0)
        return ct_fail(CT_EINVAL, "layer %s: num_output is zero", l->name);
    CT_TRY(ct_axis(io->bottom[0], p->axis, &s->axis));
    ip->dev       = l->dev;
    ip->n         = p->num_output;
    ip->k         = ct_count(io->bottom[0], s->axis, CT_END);
    ip->has_bias  = p->bias_term;
    ip->transpose = p->transpose;
    CT_TRY(ct_layer_add_blob(l, ip->transpose ? CT_SHAPE(ip->k, ip->n)
                                              : CT_SHAPE(ip->n, ip->k),
                             p->weight_filler));
    for (int i = 0; i < CT_IP_SHORTS && l->dev->kind == CT_CUDA &&
                    ct_device_dtype(l->dev) != CT_F32; i++)
        CT_TRY(ct_layer_add_scratch(l, &s->shorts[i]));
    return ip->has_bias ? ct_layer_add_blob(l, CT_SHAPE(ip->n), p->bias_filler)
                        : CT_OK;
}

/* How the gradient falls into slices of rows: how many at a time, and rows in
 * each. */
struct slices {
    int64_t workers, rows;
};

static struct slices slices_of(const struct ct_ip *ip)
{
    const int64_t rows = ip->transpose ? ip->k : ip->n;
    const int64_t width = ip->transpose ? ip->n : ip->k;
    struct slices s     = { ct_device_cpu_threads(), 0 };
    int64_t values      = SLICES / s.workers, n;

    values = values > SLICE_MOST ? SLICE_MOST : values;
    values = values < SLICE_LEAST ? SLICE_LEAST : values;
    s.rows = values > width ? values / width : 1;
    s.rows = s.rows > rows ? rows : s.rows;
    n      = (rows + s.rows - 1) / s.rows;
    s.workers = s.workers > n ? n : s.workers;
    return s;
}

static struct ct_workspace *ip_work(const struct ct_layer *l)
{
    struct inner_product *s = l->state;

    return l->run->work ? l->run->work : &s->own;
}

/* Whether its factors get 16 bits.  Where there is little to multiply that
 * takes longer than the products gain. */
static bool rounds(const struct inner_product *s)
{
    const double few = 1 << 26;

    return s->shorts[0] &&
           (ct_impl_allowed("rounding", "all") ||
            (double)s->ip.m * (double)s->ip.n * (double)s->ip.k > few);
}

static enum ct_status ip_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct inner_product *s = l->state;
    struct ct_shape y = io->bottom[0]->shape;
    int64_t k = ct_count(io->bottom[0], s->axis, CT_END);

    if (k != s->ip.k)
        return ct_fail(CT_ESHAPE, "layer %s: bottom rows have %" PRId64
                       " values, weights take %" PRId64, l->name, k, s->ip.k);
    s->ip.m        = ct_count(io->bottom[0], 0, s->axis);
    y.n_axes       = s->axis + 1;
    y.dim[s->axis] = s->ip.n;
    CT_TRY(ct_reshape(io->top[0], y));
    s->rounds = rounds(s);
    if (s->shorts[0]) { /* two to a float */
        const int64_t m = s->rounds ? s->ip.m : 0, n = s->rounds ? s->ip.n : 0;

        CT_TRY(ct_reshape(s->shorts[CT_IP_X], CT_SHAPE((m * k + 1) / 2)));
        CT_TRY(ct_reshape(s->shorts[CT_IP_W], CT_SHAPE((n * k + 1) / 2)));
        CT_TRY(ct_reshape(s->shorts[CT_IP_DY], CT_SHAPE((m * n + 1) / 2)));
    }
    s->ip.has_bias = ct_inner_product_param(l->param)->bias_term ||
                     ct_fold_any(&s->fold);
    s->ip.relu = s->relu && l->dev->kind == CT_CPU;
    s->sinks |= l->sink != NULL;
    if (l->sink) {
        const struct slices cut = slices_of(&s->ip);

        CT_TRY(ct_workspace_need(ip_work(l),
                                 (size_t)(cut.workers * cut.rows *
                                          (l->blob[WEIGHT]->count /
                                           l->blob[WEIGHT]->shape.dim[0])) *
                                     sizeof(float)));
    }
    return ct_ip_choose(&s->ip);
}

static enum ct_status ip_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct inner_product *s = l->state;
    const float *w = ct_data(l->blob[WEIGHT]);
    const float *b = l->n_blob > BIAS ? ct_data(l->blob[BIAS]) : NULL;

    if (ct_fold_any(&s->fold)) {
        if (!ct_fold_holds(&s->fold, l->run))
            CT_TRY(ct_fold_make(&s->fold, l->run, s->ip.n, s->ip.k,
                                s->ip.transpose, w, b));
        w = s->fold.w;
        b = s->fold.b;
    }
    return ct_ip_forward(&s->ip, ct_data(io->bottom[0]), w, b,
                         ct_data(io->top[0]));
}

/* dW = dy^T x: one outer product per row.  Stored transposed it is x^T dy. */
static enum ct_status ip_factors(struct ct_layer *l, const struct ct_io *io,
                                 int blob, struct ct_factors *out)
{
    const struct ct_ip *ip = &((const struct inner_product *)l->state)->ip;
    const float *x = ct_data(io->bottom[0]), *dy = ct_diff(io->top[0]);

    if (blob != WEIGHT)
        return CT_ENOTSUP;
    *out = ip->transpose ? (struct ct_factors){ x, dy, ip->m, ip->k, ip->n }
                         : (struct ct_factors){ dy, x, ip->m, ip->n, ip->k };
    return CT_OK;
}

/* Every n-th slice of dW = u^T v, by one thread. */
static enum ct_status ip_sink_part(const struct ct_layer *l,
                                   const struct ct_factors *f, int64_t worker)
{
    const struct inner_product *s = l->state;
    const struct slices cut       = slices_of(&s->ip);
    float *g = ip_work(l)->ptr + worker * cut.rows * f->v_cols;

    for (int64_t r = worker * cut.rows; r < f->u_cols;
         r += cut.workers * cut.rows) {
        const int64_t n = r + cut.rows < f->u_cols ? cut.rows : f->u_cols - r;

        CT_TRY(l->dev->ops->gemm(l->dev, CT_T, CT_N, n, f->v_cols, f->rows, 1,
                                 f->u + r, f->u_cols, f->v, f->v_cols, 0, g,
                                 f->v_cols));
        l->sink->take(l->sink, r * f->v_cols, n * f->v_cols, g);
    }
    return CT_OK;
}

static enum ct_status ip_sink(struct ct_layer *l, const struct ct_io *io)
{
    const struct slices cut =
        slices_of(&((const struct inner_product *)l->state)->ip);
    enum ct_status worst = CT_OK;
    struct ct_factors f;

    CT_TRY(ip_factors(l, io, WEIGHT, &f));
    CT_FOR_ROWS (i, cut.workers, CT_GRAIN) {
        enum ct_status st = ip_sink_part(l, &f, i);

        if (st != CT_OK)
            __atomic_store_n(&worst, st, __ATOMIC_RELAXED);
    }
    return worst;
}

/* dy = 0 where y is, for an absorbed ReLU. */
static enum ct_status ip_mask(const struct ct_layer *l, const struct ct_io *io)
{
    const struct inner_product *s = l->state;
    const struct ct_bias_desc rows = { s->ip.m, 1, s->ip.n, CT_PLAIN, CT_F32 };

    return ct_bias_mask(l->dev, &rows, ct_data(io->top[0]),
                        ct_diff(io->top[0]), NULL);
}

static enum ct_status ip_backward(struct ct_layer *l, const struct ct_io *io)
{
    struct inner_product *s = l->state;
    const float *dy  = ct_diff(io->top[0]);
    const bool bias  = s->ip.has_bias && l->blob_wants_grad[BIAS];
    const bool sinks = l->sink && l->blob_wants_grad[WEIGHT];

    if (s->relu)
        CT_TRY(ip_mask(l, io));
    s->ip.overwrite = l->overwrites;
    CT_TRY(ct_ip_backward_weights(
        &s->ip, ct_data(io->bottom[0]), dy,
        l->blob_wants_grad[WEIGHT] && !sinks ? ct_diff(l->blob[WEIGHT]) : NULL,
        bias ? ct_diff(l->blob[BIAS]) : NULL));
    if (io->want_grad[0])
        CT_TRY(ct_ip_backward_data(&s->ip, ct_data(l->blob[WEIGHT]), dy,
                                   ct_diff(io->bottom[0])));
    return sinks ? ip_sink(l, io) : CT_OK; /* W may change there */
}

static bool ip_absorb(struct ct_layer *l, const struct ct_layer *next)
{
    struct inner_product *s = l->state;

    if (!next) {
        ct_fold_fini(&s->fold);
        s->relu = false;
        l->flags |= CT_LAYER_NO_TOP;
        return true;
    }
    if (s->relu)
        return false;
    if (l->dev->kind == CT_CPU && s->axis == 1 &&
        ct_fold_absorb(&s->fold, l, next, s->ip.n))
        return true;
    s->relu = strcmp(next->type->name, "ReLU") == 0 &&
              ct_relu_param(next->param)->negative_slope == 0;
    if (s->relu) /* backward reads the sign of y */
        l->flags &= ~(unsigned)CT_LAYER_NO_TOP;
    return s->relu;
}

static void ip_teardown(struct ct_layer *l)
{
    struct inner_product *s = l->state;

    ct_ip_fini(&s->ip);
    ct_fold_fini(&s->fold);
    ct_workspace_fini(&s->own);
}

/* Rows are items.  A sink takes the gradient of the whole, and a product that
 * is not oneDNN's wakes the threads of its library. */
const struct ct_parts *inner_product_parts(const struct ct_layer *l)
{
#ifdef CT_HAVE_ONEDNN
    static const struct ct_parts parts = { NULL, NULL, NULL };
    const struct inner_product *s      = l->state;

    return l->dev->kind == CT_CPU && s->axis == 1 && !s->sinks ? &parts : NULL;
#else
    (void)l;
    return NULL;
#endif
}

static double ip_macs(const struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_ip *ip = &((const struct inner_product *)l->state)->ip;

    (void)io;
    return (double)ip->m * (double)ip->n * (double)ip->k;
}

const struct ct_layer_type ct_layer_inner_product = {
    .name       = "InnerProduct",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_TOP | CT_LAYER_ASIDE | CT_LAYER_OVERWRITES |
                  CT_LAYER_SINKS,
    .state_size = sizeof(struct inner_product),
    .setup      = ip_setup,
    .reshape    = ip_reshape,
    .forward    = { ip_forward, CT_CUDA_FN(inner_product_forward) },
    .backward   = { ip_backward, CT_CUDA_FN(inner_product_backward) },
    .factors    = ip_factors,
    .absorb     = ip_absorb,
    .teardown   = ip_teardown,
    .macs       = ip_macs,
};
