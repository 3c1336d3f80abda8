/* rnn.c - a simple recurrent net over sequences, Caffe type "RNN".
 *
 *     h_t = tanh(x_t W_xh^T + b_h [+ x_static W_xh_static^T] + hc_t W_hh^T)
 *     o_t = tanh(h_t W_ho^T + b_o)
 *
 * Top 0 is o (T x N x H).  Blobs: W_xh (H x I), b_h (H), [W_xh_static
 * (H x S),] W_hh (H x H), W_ho (H x H), b_o (H).  With expose_hidden h_0 is
 * the last bottom and h_T top 1.  See recurrent.h for the bottoms, for the
 * states between passes and for where gradients stop.  As o feeds nothing
 * back, it is one product over all steps.
 * Backward ADDS to blob diffs and OVERWRITES those of bottoms. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/recurrent.h"
#include "layers/rnn.h"
#include "layers/squash.h"
#include "proto/params.h"

static enum ct_status rnn_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__RecurrentParameter *p = ct_recurrent_param(l->param);
    struct rnn *s                      = l->state;

    CT_TRY(ct_recurrent_setup(l, io, &s->r, 1, 1));
    s->w_o = l->n_blob;
    CT_TRY(ct_layer_add_blob(l, CT_SHAPE(s->r.h, s->r.h), p->weight_filler));
    s->b_o = l->n_blob;
    CT_TRY(ct_layer_add_blob(l, CT_SHAPE(s->r.h), p->bias_filler));
    CT_TRY(ct_layer_add_scratch(l, &s->dout));
    return ct_layer_add_scratch(l, &s->dhid);
}

static enum ct_status rnn_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct rnn *s = l->state;

    CT_TRY(ct_recurrent_reshape(l, io, &s->r));
    s->output.dev = l->dev;
    s->output.m   = s->r.t * s->r.n;
    s->output.n   = s->r.h;
    s->output.k   = s->r.h;
    CT_TRY(ct_ip_choose(&s->output));
    CT_TRY(ct_reshape(s->dout, CT_SHAPE(s->r.t, s->r.n, s->r.h)));
    return ct_reshape(s->dhid, CT_SHAPE(s->r.t, s->r.n, s->r.h));
}

/* y = tanh(y + bias [+ fixed]) for one row. */
CT_SIMD static void rnn_row(int64_t h, const float *bias, const float *fixed,
                            float *y)
{
    CT_SIMD_EACH (d, h)
        y[d] = ct_tanh_row(y[d] + bias[d] + (fixed ? fixed[d] : 0));
}

static void rnn_tanh(int64_t rows, int64_t h, const float *bias,
                     const float *fixed, float *y)
{
    CT_FOR_ROWS (n, rows, 8 * h)
        rnn_row(h, bias, fixed ? fixed + n * h : NULL, y + n * h);
}

static enum ct_status rnn_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct rnn *s               = l->state;
    const struct ct_recurrent r = s->r;
    const float *before         = ct_recurrent_first(io, &r, 0);
    float *h = ct_data(r.gates), *o = ct_data(io->top[0]);

    CT_TRY(ct_recurrent_inputs(l, io, &s->r));
    for (int64_t t = 0; t < r.t; t++) {
        CT_TRY(ct_recurrent_step(l, io, &s->r, t, before));
        rnn_tanh(r.n, r.h, ct_data(l->blob[r.b]),
                 r.has_static ? ct_data(r.fixed) : NULL, h + t * r.n * r.h);
        before = h + t * r.n * r.h;
    }
    CT_TRY(ct_ip_forward(&s->output, h, ct_data(l->blob[s->w_o]), NULL, o));
    rnn_tanh(r.t * r.n, r.h, ct_data(l->blob[s->b_o]), NULL, o);
    return ct_recurrent_last(l, io, &s->r, 0, before);
}

/* The output product's gradients; leaves what h gets from it in dhid. */
static enum ct_status rnn_output_back(struct ct_layer *l,
                                      const struct ct_io *io)
{
    struct rnn *s               = l->state;
    const struct ct_recurrent r = s->r;
    const int64_t rows          = r.t * r.n;
    const float *o = ct_data(io->top[0]), *dy = ct_diff(io->top[0]);
    float *dout = ct_data(s->dout);

    CT_FOR_EACH (d, rows * r.h)
        dout[d] = dy[d] * (1 - o[d] * o[d]);
    CT_TRY(ct_ip_backward_weights(&s->output, ct_data(r.gates), dout,
                                  ct_diff(l->blob[s->w_o]),
                                  ct_diff(l->blob[s->b_o])));
    return ct_ip_backward_data(&s->output, ct_data(l->blob[s->w_o]), dout,
                               ct_data(s->dhid));
}

static enum ct_status rnn_backward(struct ct_layer *l, const struct ct_io *io)
{
    struct rnn *s               = l->state;
    const struct ct_recurrent r = s->r;
    const int64_t step          = r.n * r.h;
    const float *dh             = ct_data(r.dh);

    CT_TRY(rnn_output_back(l, io));
    for (int64_t t = r.t - 1; t >= 0; t--) {
        const bool last   = t == r.t - 1;
        const float *h    = ct_data(r.gates) + t * step;
        const float *from = ct_data(s->dhid) + t * step;
        float *dg         = ct_data(r.dgates) + t * step;

        CT_FOR_EACH (d, step)
            dg[d] = (last ? from[d] : from[d] + dh[d]) * (1 - h[d] * h[d]);
        if (t > 0)
            CT_TRY(ct_recurrent_step_back(l, io, &s->r, t));
    }
    return ct_recurrent_finish(l, io, &s->r);
}

static void rnn_teardown(struct ct_layer *l)
{
    struct rnn *s = l->state;

    ct_ip_fini(&s->output);
    ct_recurrent_fini(&s->r);
}

static double rnn_macs(const struct ct_layer *l, const struct ct_io *io)
{
    const struct rnn *s = l->state;

    (void)io;
    return ct_recurrent_macs(&s->r) +
           (double)(s->r.t * s->r.n) * (double)(s->r.h * s->r.h);
}

static struct ct_blob *rnn_carried(struct ct_layer *l, int i)
{
    const struct rnn *s = l->state;

    return ct_recurrent_carried(&s->r, i);
}

const struct ct_layer_type ct_layer_rnn = {
    .name       = "RNN",
    .bottoms    = CT_BETWEEN(2, 4),
    .tops       = CT_BETWEEN(1, 2),
    .flags      = CT_LAYER_CARRIES,
    .no_grad    = 1 << 1, /* the cont markers */
    .state_size = sizeof(struct rnn),
    .setup      = rnn_setup,
    .reshape    = rnn_reshape,
    .forward    = { rnn_forward, CT_CUDA_FN(rnn_forward) },
    .backward   = { rnn_backward, CT_CUDA_FN(rnn_backward) },
    .macs       = rnn_macs,
    .carried    = rnn_carried,
    .teardown   = rnn_teardown,
};
