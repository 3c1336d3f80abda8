/* lstm.c - long short-term memory over sequences, Caffe type "LSTM".
 *
 *     g_t = x_t W_xc^T + b_c [+ x_static W_xc_static^T] + hc_t W_hc^T
 *     c_t, h_t = cell(g_t, c_{t-1}, cont_t)          (lstm_gates.h)
 *
 * Top 0 is h (T x N x H).  Blobs: W_xc (4H x I), b_c (4H), [W_xc_static
 * (4H x S),] W_hc (4H x H).  With expose_hidden h_0 and c_0 are the last two
 * bottoms and h_T and c_T tops 1 and 2.  See recurrent.h for the bottoms, for
 * the states between passes and for where gradients stop.
 * Backward ADDS to blob diffs and OVERWRITES those of bottoms. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/lstm.h"
#include "layers/lstm_gates.h"
#include "layers/recurrent.h"

static enum ct_status lstm_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct lstm *s = l->state;

    CT_TRY(ct_recurrent_setup(l, io, &s->r, N_STATES, 4));
    CT_TRY(ct_layer_add_scratch(l, &s->c));
    CT_TRY(ct_layer_add_scratch(l, &s->first));
    return ct_layer_add_scratch(l, &s->dc);
}

static enum ct_status lstm_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct lstm *s = l->state;

    CT_TRY(ct_recurrent_reshape(l, io, &s->r));
    CT_TRY(ct_reshape(s->c, CT_SHAPE(s->r.t, s->r.n, s->r.h)));
    CT_TRY(ct_reshape(s->first, CT_SHAPE(s->r.n, s->r.h)));
    return ct_reshape(s->dc, CT_SHAPE(s->r.n, s->r.h));
}

static enum ct_status lstm_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct lstm *s              = l->state;
    const struct ct_recurrent r = s->r;
    const float *bias = ct_data(l->blob[r.b]), *cont = ct_data(io->bottom[1]);
    const float *fixed = r.has_static ? ct_data(r.fixed) : NULL;
    const float *h_before = ct_recurrent_first(io, &r, H_STATE);
    const float *c_before = ct_data(s->first);
    const int64_t step = r.n * r.h;

    CT_TRY(ct_copy(l->dev, step, ct_recurrent_first(io, &r, C_STATE),
                   ct_data(s->first)));
    CT_TRY(ct_recurrent_inputs(l, io, &s->r));
    for (int64_t t = 0; t < r.t; t++) {
        float *gates = ct_data(r.gates) + t * r.n * r.g;
        float *c = ct_data(s->c) + t * step;
        float *h = ct_data(io->top[0]) + t * step;

        CT_TRY(ct_recurrent_step(l, io, &s->r, t, h_before));
        CT_FOR_ROWS (n, r.n, 8 * r.g)
            ct_lstm_forward(r.h, cont[t * r.n + n], bias,
                            fixed ? fixed + n * r.g : NULL,
                            c_before + n * r.h, gates + n * r.g, c + n * r.h,
                            h + n * r.h);
        h_before = h;
        c_before = c;
    }
    CT_TRY(ct_recurrent_last(l, io, &s->r, H_STATE, h_before));
    return ct_recurrent_last(l, io, &s->r, C_STATE, c_before);
}

static enum ct_status lstm_backward(struct ct_layer *l, const struct ct_io *io)
{
    struct lstm *s              = l->state;
    const struct ct_recurrent r = s->r;
    const float *dy             = ct_diff(io->top[0]);
    const int64_t step          = r.n * r.h;
    float *dc                   = ct_data(s->dc);

    for (int64_t t = r.t - 1; t >= 0; t--) {
        const bool last    = t == r.t - 1;
        const float *gates = ct_data(r.gates) + t * r.n * r.g;
        const float *c     = ct_data(s->c) + t * step;
        const float *c_before = t > 0 ? c - step : ct_data(s->first);
        const float *dh       = last ? NULL : ct_data(r.dh);
        float *dgates         = ct_data(r.dgates) + t * r.n * r.g;

        CT_FOR_ROWS (n, r.n, 8 * r.g) {
            int64_t at = n * r.h;

            ct_lstm_backward(r.h, gates + n * r.g, c_before + at, c + at,
                             dy + t * step + at, dh ? dh + at : NULL,
                             last ? NULL : dc + at, dgates + n * r.g, dc + at);
        }
        if (t > 0)
            CT_TRY(ct_recurrent_step_back(l, io, &s->r, t));
    }
    return ct_recurrent_finish(l, io, &s->r);
}

static void lstm_teardown(struct ct_layer *l)
{
    struct lstm *s = l->state;

    ct_recurrent_fini(&s->r);
}

static double lstm_macs(const struct ct_layer *l, const struct ct_io *io)
{
    const struct lstm *s = l->state;

    (void)io;
    return ct_recurrent_macs(&s->r);
}

static struct ct_blob *lstm_carried(struct ct_layer *l, int i)
{
    const struct lstm *s = l->state;

    return ct_recurrent_carried(&s->r, i);
}

const struct ct_layer_type ct_layer_lstm = {
    .name       = "LSTM",
    .bottoms    = CT_BETWEEN(2, 5),
    .tops       = CT_BETWEEN(1, 3),
    .flags      = CT_LAYER_NO_TOP | CT_LAYER_CARRIES,
    .no_grad    = 1 << 1, /* the cont markers */
    .state_size = sizeof(struct lstm),
    .setup      = lstm_setup,
    .reshape    = lstm_reshape,
    .forward    = { lstm_forward, CT_CUDA_FN(lstm_forward) },
    .backward   = { lstm_backward, CT_CUDA_FN(lstm_backward) },
    .macs       = lstm_macs,
    .carried    = lstm_carried,
    .teardown   = lstm_teardown,
};
