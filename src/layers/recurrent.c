/* recurrent.c - the products, checks and states of RNN and LSTM. */
#include "layers/recurrent.h"

#include <inttypes.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

enum { X, CONT, STATIC };

/* The bottom that holds initial state k. */
static int state_bottom(const struct ct_recurrent *r, int k)
{
    return (r->has_static ? STATIC + 1 : STATIC) + k;
}

static enum ct_status rec_counts(const struct ct_layer *l,
                                 const struct ct_io *io,
                                 struct ct_recurrent *r)
{
    int n_states = r->exposed ? r->n_states : 0;

    if (io->n_bottom < 2 + n_states || io->n_bottom > 3 + n_states)
        return ct_fail(CT_EINVAL, "layer %s: %s takes %d bottoms (%s) and may "
                       "take x_static as bottom 2, not %d bottoms", l->name,
                       l->type->name, 2 + n_states,
                       n_states ? "x, cont, initial states" : "x, cont",
                       io->n_bottom);
    if (io->n_top != 1 + n_states)
        return ct_fail(CT_EINVAL, "layer %s: %s has %d top(s) here, not %d: "
                       "final states are tops with expose_hidden", l->name,
                       l->type->name, 1 + n_states, io->n_top);
    r->has_static = io->n_bottom == 3 + n_states;
    return CT_OK;
}

static enum ct_status rec_check(const struct ct_layer *l,
                                const struct ct_io *io,
                                const struct ct_recurrent *r)
{
    const struct ct_shape *x = &io->bottom[X]->shape;
    const struct ct_shape *c = &io->bottom[CONT]->shape;

    if (x->n_axes < 3)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 0 must be time steps x "
                       "streams x values, it has %d axes", l->name, x->n_axes);
    if (c->n_axes != 2 || c->dim[0] != x->dim[0] || c->dim[1] != x->dim[1])
        return ct_fail(CT_ESHAPE, "layer %s: bottom 1 must be time steps x "
                       "streams, %" PRId64 " x %" PRId64, l->name, x->dim[0],
                       x->dim[1]);
    if (r->has_static && (io->bottom[STATIC]->shape.n_axes < 1 ||
                          io->bottom[STATIC]->shape.dim[0] != x->dim[1]))
        return ct_fail(CT_ESHAPE, "layer %s: bottom 2, the static input, must "
                       "have %" PRId64 " rows, one a stream", l->name,
                       x->dim[1]);
    for (int k = 0; r->exposed && k < r->n_states; k++) {
        int at = state_bottom(r, k);

        if (!ct_shape_equal(&io->bottom[at]->shape,
                            &CT_SHAPE(1, x->dim[1], r->h)))
            return ct_fail(CT_ESHAPE, "layer %s: bottom %d, an initial state, "
                           "must be 1 x %" PRId64 " x %" PRId64, l->name, at,
                           x->dim[1], r->h);
    }
    return CT_OK;
}

static enum ct_status rec_add_blobs(struct ct_layer *l, struct ct_recurrent *r)
{
    const Caffe__RecurrentParameter *p = ct_recurrent_param(l->param);

    r->w_x = l->n_blob;
    CT_TRY(ct_layer_add_blob(l, CT_SHAPE(r->g, r->i), p->weight_filler));
    r->b = l->n_blob;
    CT_TRY(ct_layer_add_blob(l, CT_SHAPE(r->g), p->bias_filler));
    if (r->has_static) {
        r->w_s = l->n_blob;
        CT_TRY(ct_layer_add_blob(l, CT_SHAPE(r->g, r->s), p->weight_filler));
        CT_TRY(ct_layer_add_scratch(l, &r->fixed));
    }
    r->w_h = l->n_blob;
    return ct_layer_add_blob(l, CT_SHAPE(r->g, r->h), p->weight_filler);
}

enum ct_status ct_recurrent_setup(struct ct_layer *l, const struct ct_io *io,
                                  struct ct_recurrent *r, int n_states,
                                  int gates_a_unit)
{
    const Caffe__RecurrentParameter *p = ct_recurrent_param(l->param);

    r->n_states = n_states;
    r->exposed  = p->expose_hidden;
    r->h        = p->num_output;
    r->g        = gates_a_unit * r->h;
    if (r->h == 0)
        return ct_fail(CT_EINVAL, "layer %s: recurrent_param needs a "
                       "num_output", l->name);
    CT_TRY(rec_counts(l, io, r));
    CT_TRY(rec_check(l, io, r));
    r->i = ct_count(io->bottom[X], 2, CT_END);
    r->s = r->has_static ? ct_count(io->bottom[STATIC], 1, CT_END) : 0;
    CT_TRY(rec_add_blobs(l, r));
    CT_TRY(ct_layer_add_scratch(l, &r->gates));
    CT_TRY(ct_layer_add_scratch(l, &r->dgates));
    CT_TRY(ct_layer_add_scratch(l, &r->hc));
    CT_TRY(ct_layer_add_scratch(l, &r->dh));
    for (int k = 0; !r->exposed && k < n_states; k++)
        CT_TRY(ct_layer_add_scratch(l, &r->state[k]));
    return CT_OK;
}

/* States belong to streams, so another number of streams starts afresh. */
static enum ct_status rec_reshape_states(struct ct_layer *l,
                                         struct ct_recurrent *r,
                                         bool other_streams)
{
    for (int k = 0; !r->exposed && k < r->n_states; k++) {
        CT_TRY(ct_reshape(r->state[k], CT_SHAPE(r->n, r->h)));
        if (other_streams)
            CT_TRY(ct_fill(l->dev, r->n * r->h, 0, ct_data(r->state[k])));
    }
    return CT_OK;
}

static enum ct_status rec_products(const struct ct_layer *l,
                                   struct ct_recurrent *r)
{
    const int64_t rows = r->t * r->n;

    ct_recurrent_fini(r);
    r->input      = (struct ct_ip){ .dev = l->dev, .m = rows, .n = r->g,
                                    .k = r->i };
    r->state_part = (struct ct_ip){ .dev = l->dev, .m = r->n, .n = r->g,
                                    .k = r->h, .add = true, .packed = true };
    r->state_grad = (struct ct_ip){ .dev = l->dev, .m = rows, .n = r->g,
                                    .k = r->h };
    CT_TRY(ct_ip_choose(&r->input));
    CT_TRY(ct_ip_choose_pass(&r->state_part, CT_FORWARD));
    CT_TRY(ct_ip_choose_pass(&r->state_part, CT_BACKWARD));
    return ct_ip_choose_pass(&r->state_grad, CT_BACKWARD_WEIGHTS);
}

struct ct_blob *ct_recurrent_carried(const struct ct_recurrent *r, int i)
{
    return i < r->n_states && !r->exposed ? r->state[i] : NULL;
}

void ct_recurrent_fini(struct ct_recurrent *r)
{
    ct_ip_fini(&r->input);
    ct_ip_fini(&r->state_part);
    ct_ip_fini(&r->state_grad);
}

enum ct_status ct_recurrent_reshape(struct ct_layer *l, const struct ct_io *io,
                                    struct ct_recurrent *r)
{
    int64_t n = r->n, i, s;

    CT_TRY(rec_check(l, io, r));
    i = ct_count(io->bottom[X], 2, CT_END);
    s = r->has_static ? ct_count(io->bottom[STATIC], 1, CT_END) : 0;
    if (i != r->i || s != r->s)
        return ct_fail(CT_ESHAPE, "layer %s: bottom rows have %" PRId64
                       " values, weights take %" PRId64, l->name,
                       i != r->i ? i : s, i != r->i ? r->i : r->s);
    r->t = io->bottom[X]->shape.dim[0];
    r->n = io->bottom[X]->shape.dim[1];
    CT_TRY(ct_reshape(io->top[0], CT_SHAPE(r->t, r->n, r->h)));
    for (int k = 1; k < io->n_top; k++)
        CT_TRY(ct_reshape(io->top[k], CT_SHAPE(1, r->n, r->h)));
    CT_TRY(ct_reshape(r->gates, CT_SHAPE(r->t, r->n, r->g)));
    CT_TRY(ct_reshape(r->dgates, CT_SHAPE(r->t, r->n, r->g)));
    CT_TRY(ct_reshape(r->hc, CT_SHAPE(r->t, r->n, r->h)));
    CT_TRY(ct_reshape(r->dh, CT_SHAPE(r->n, r->h)));
    CT_TRY(rec_products(l, r));
    if (r->has_static)
        CT_TRY(ct_reshape(r->fixed, CT_SHAPE(r->n, r->g)));
    return rec_reshape_states(l, r, n != r->n);
}

const float *ct_recurrent_first(const struct ct_io *io,
                                const struct ct_recurrent *r, int k)
{
    return ct_data(r->exposed ? io->bottom[state_bottom(r, k)] : r->state[k]);
}

enum ct_status ct_recurrent_last(struct ct_layer *l, const struct ct_io *io,
                                 struct ct_recurrent *r, int k,
                                 const float *last)
{
    return ct_copy(l->dev, r->n * r->h, last,
                   ct_data(r->exposed ? io->top[1 + k] : r->state[k]));
}

enum ct_status ct_recurrent_inputs(struct ct_layer *l, const struct ct_io *io,
                                   struct ct_recurrent *r)
{
    if (r->has_static)
        CT_TRY(ct_gemm(l->dev, CT_N, CT_T, r->n, r->g, r->s, 1,
                       ct_data(io->bottom[STATIC]), ct_data(l->blob[r->w_s]),
                       0, ct_data(r->fixed)));
    CT_TRY(ct_ip_pack(&r->state_part, CT_FORWARD, ct_data(l->blob[r->w_h])));
    return ct_ip_forward(&r->input, ct_data(io->bottom[X]),
                         ct_data(l->blob[r->w_x]), NULL, ct_data(r->gates));
}

/* Rows of `x` times their cont mark; a mark of 0 hides even NaN. */
static enum ct_status rec_mark_rows(const struct ct_layer *l, int64_t rows,
                                    int64_t width, const float *cont,
                                    const float *x, float *y)
{
    (void)l;
    CT_FOR_ROWS (n, rows, width) {
        if (cont[n] == 0)
            memset(y + n * width, 0, (size_t)width * sizeof(*y));
        else
            for (int64_t d = n * width; d < (n + 1) * width; d++)
                y[d] = cont[n] * x[d];
    }
    return CT_OK;
}

static enum ct_status rec_mark(const struct ct_layer *l,
                               const struct ct_recurrent *r, const float *cont,
                               const float *x, float *y)
{
    enum ct_status (*const marks[CT_DEVICE_KINDS])(
        const struct ct_layer *, int64_t, int64_t, const float *,
        const float *, float *) = { rec_mark_rows,
                                    CT_CUDA_FN(recurrent_mark) };

    return marks[l->dev->kind](l, r->n, r->h, cont, x, y);
}

enum ct_status ct_recurrent_step(struct ct_layer *l, const struct ct_io *io,
                                 struct ct_recurrent *r, int64_t t,
                                 const float *before)
{
    float *hc = ct_data(r->hc) + t * r->n * r->h;

    CT_TRY(rec_mark(l, r, ct_data(io->bottom[CONT]) + t * r->n, before, hc));
    return ct_ip_forward(&r->state_part, hc, ct_data(l->blob[r->w_h]), NULL,
                         ct_data(r->gates) + t * r->n * r->g);
}

enum ct_status ct_recurrent_step_back(struct ct_layer *l,
                                      const struct ct_io *io,
                                      struct ct_recurrent *r, int64_t t)
{
    const float *w = ct_data(l->blob[r->w_h]);
    float *dh      = ct_data(r->dh);

    if (t == r->t - 1)
        CT_TRY(ct_ip_pack(&r->state_part, CT_BACKWARD, w));
    CT_TRY(ct_ip_backward_data(&r->state_part, w,
                               ct_data(r->dgates) + t * r->n * r->g, dh));
    return rec_mark(l, r, ct_data(io->bottom[CONT]) + t * r->n, dh, dh);
}

/* `fixed` went into every step, so its gradient is the sum of theirs; the
 * room of the forward values holds it. */
static enum ct_status rec_static_back(struct ct_layer *l,
                                      const struct ct_io *io,
                                      struct ct_recurrent *r)
{
    float *sum      = ct_data(r->fixed);
    const float *dg = ct_data(r->dgates);

    CT_TRY(ct_fill(l->dev, r->n * r->g, 0, sum));
    for (int64_t t = 0; t < r->t; t++)
        CT_TRY(ct_axpy(l->dev, r->n * r->g, 1, dg + t * r->n * r->g, sum));
    CT_TRY(ct_gemm(l->dev, CT_T, CT_N, r->g, r->s, r->n, 1, sum,
                   ct_data(io->bottom[STATIC]), 1, ct_diff(l->blob[r->w_s])));
    if (io->want_grad[STATIC])
        CT_TRY(ct_gemm(l->dev, CT_N, CT_N, r->n, r->s, r->g, 1, sum,
                       ct_data(l->blob[r->w_s]), 0,
                       ct_diff(io->bottom[STATIC])));
    return CT_OK;
}

enum ct_status ct_recurrent_finish(struct ct_layer *l, const struct ct_io *io,
                                   struct ct_recurrent *r)
{
    const float *dg = ct_data(r->dgates), *x = ct_data(io->bottom[X]);

    CT_TRY(ct_ip_backward_weights(&r->input, x, dg, ct_diff(l->blob[r->w_x]),
                                  ct_diff(l->blob[r->b])));
    CT_TRY(ct_ip_backward_weights(&r->state_grad, ct_data(r->hc), dg,
                                  ct_diff(l->blob[r->w_h]), NULL));
    if (r->has_static)
        CT_TRY(rec_static_back(l, io, r));
    if (io->want_grad[X])
        CT_TRY(ct_ip_backward_data(&r->input, ct_data(l->blob[r->w_x]), dg,
                                   ct_diff(io->bottom[X])));
    for (int b = CONT; b < io->n_bottom; b++)
        if (io->want_grad[b] && !(r->has_static && b == STATIC))
            CT_TRY(ct_fill(l->dev, io->bottom[b]->count, 0,
                           ct_diff(io->bottom[b])));
    return CT_OK;
}

double ct_recurrent_macs(const struct ct_recurrent *r)
{
    return (double)r->n * (double)r->g *
           ((double)r->t * (double)(r->i + r->h) + (double)r->s);
}
