/* recurrent.cu - RNN, LSTM and LSTMUnit on a GPU; formulas as in recurrent.h,
 * lstm_gates.h and their .c files.  Products are the device's; a kernel makes
 * all units of a step. */
#include "device/cuda/elementwise.h"
#include "layers/cuda/slots.h"
#include "layers/lstm_unit.h"

extern "C" {
#include "layers/lstm.h"
#include "layers/rnn.h"
}

__device__ static inline float sigmoid(float x)
{
    const float e = expf(-fabsf(x));

    return (x >= 0 ? 1 : e) / (1 + e);
}

/* Rows of x times their marks; a mark of 0 hides even NaN. */
__global__ static void mark(int64_t n, int64_t width, const float *cont,
                            const float *x, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const float c = cont[i / width];

        y[i] = c == 0 ? 0 : c * x[i];
    }
}

extern "C" enum ct_status ct_cuda_recurrent_mark(const struct ct_layer *l,
                                                 int64_t rows, int64_t width,
                                                 const float *cont,
                                                 const float *x, float *y)
{
    const int64_t n = rows * width;

    return n ? CT_LAUNCH(l->dev, n, mark, n, width, cont, x, y) : CT_OK;
}

/* A step of n streams of h units.  Sums of gates come in `from`; i f o g go to
 * `gates`, which may be the same. */
struct cell {
    int64_t      n, h;
    const float *cont, *bias, *fixed; /* bias, fixed: NULL for none */
    const float *c_prev, *from;
    float       *gates, *c, *out;
};

__global__ static void cell_forward(struct cell s)
{
    CT_TURN();
    CT_KERNEL_EACH (u, s.n * s.h) {
        const int64_t n = u / s.h, d = u % s.h, row = 4 * n * s.h;
        const float cont = s.cont[n], keep = cont == 0 ? 0 : 1;
        float v[4], c;

#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int64_t at = k * s.h + d;

            v[k] = s.from[row + at] + (s.bias ? s.bias[at] : 0) +
                   (s.fixed ? s.fixed[row + at] : 0);
            v[k] = k < 3 ? sigmoid(v[k]) : tanhf(v[k]);
        }
        v[1] *= keep * cont;
        c = (keep == 0 ? 0 : v[1] * s.c_prev[u]) + v[0] * v[3];
#pragma unroll
        for (int k = 0; k < 4; k++)
            s.gates[row + k * s.h + d] = v[k];
        s.c[u]   = c;
        s.out[u] = v[2] * tanhf(c);
    }
}

/* dh2 is added to dh; dc may be dc_prev.  Each of dh2, dc, dgates and dc_prev
 * may be NULL. */
struct cell_back {
    int64_t      n, h;
    const float *gates, *c_prev, *c, *dh, *dh2, *dc;
    float       *dgates, *dc_prev;
};

__global__ static void cell_backward(struct cell_back s)
{
    CT_TURN();
    CT_KERNEL_EACH (u, s.n * s.h) {
        const int64_t row = 4 * (u / s.h) * s.h + u % s.h;
        const float i = s.gates[row], f = s.gates[row + s.h];
        const float o = s.gates[row + 2 * s.h], g = s.gates[row + 3 * s.h];
        const float t    = tanhf(s.c[u]);
        const float of_h = s.dh[u] + (s.dh2 ? s.dh2[u] : 0);
        const float of_c = of_h * o * (1 - t * t) + (s.dc ? s.dc[u] : 0);

        if (s.dgates) {
            s.dgates[row] = of_c * g * i * (1 - i);
            s.dgates[row + s.h] =
                f == 0 ? 0 : of_c * s.c_prev[u] * f * (1 - f);
            s.dgates[row + 2 * s.h] = of_h * t * o * (1 - o);
            s.dgates[row + 3 * s.h] = of_c * i * (1 - g * g);
        }
        if (s.dc_prev)
            s.dc_prev[u] = of_c * f;
    }
}

extern "C" enum ct_status ct_cuda_lstm_forward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    struct lstm *s              = (struct lstm *)l->state;
    const struct ct_recurrent r = s->r;
    const float *h_before       = ct_recurrent_first(io, &r, H_STATE);
    const float *c_before       = ct_data(s->first);
    const int64_t step          = r.n * r.h;

    CT_TRY(ct_copy_values(l->dev, step, CT_F32,
                          ct_recurrent_first(io, &r, C_STATE),
                          ct_data(s->first)));
    CT_TRY(ct_recurrent_inputs(l, io, &s->r));
    for (int64_t t = 0; step > 0 && t < r.t; t++) {
        float *gates = ct_data(r.gates) + t * r.n * r.g;
        const struct cell c = {
            r.n, r.h, ct_data(io->bottom[1]) + t * r.n,
            ct_data(l->blob[r.b]), r.has_static ? ct_data(r.fixed) : NULL,
            c_before, gates, gates, ct_data(s->c) + t * step,
            ct_data(io->top[0]) + t * step
        };

        CT_TRY(ct_recurrent_step(l, io, &s->r, t, h_before));
        CT_TRY(CT_LAUNCH(l->dev, step, cell_forward, c));
        h_before = c.out;
        c_before = c.c;
    }
    CT_TRY(ct_recurrent_last(l, io, &s->r, H_STATE, h_before));
    return ct_recurrent_last(l, io, &s->r, C_STATE, c_before);
}

extern "C" enum ct_status ct_cuda_lstm_backward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    struct lstm *s              = (struct lstm *)l->state;
    const struct ct_recurrent r = s->r;
    const int64_t step          = r.n * r.h;
    float *dc                   = ct_data(s->dc);

    for (int64_t t = r.t - 1; step > 0 && t >= 0; t--) {
        const bool last = t == r.t - 1;
        const float *c  = ct_data(s->c) + t * step;
        const struct cell_back b = {
            r.n, r.h, ct_data(r.gates) + t * r.n * r.g,
            t > 0 ? c - step : ct_data(s->first), c,
            ct_diff(io->top[0]) + t * step, last ? NULL : ct_data(r.dh),
            last ? NULL : dc, ct_data(r.dgates) + t * r.n * r.g, dc
        };

        CT_TRY(CT_LAUNCH(l->dev, step, cell_backward, b));
        if (t > 0)
            CT_TRY(ct_recurrent_step_back(l, io, &s->r, t));
    }
    return ct_recurrent_finish(l, io, &s->r);
}

enum { C_PREV, GATES, CONT };
enum { C, H };

extern "C" enum ct_status ct_cuda_lstm_unit_forward(struct ct_layer *l,
                                                    const struct ct_io *io)
{
    const struct lstm_unit *u = (const struct lstm_unit *)l->state;
    const struct cell c = {
        u->n, u->h, ct_data(io->bottom[CONT]), NULL, NULL,
        ct_data(io->bottom[C_PREV]), ct_data(io->bottom[GATES]),
        ct_data(u->gates), ct_data(io->top[C]), ct_data(io->top[H])
    };

    if (u->n * u->h == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, u->n * u->h, cell_forward, c);
}

extern "C" enum ct_status ct_cuda_lstm_unit_backward(struct ct_layer *l,
                                                     const struct ct_io *io)
{
    const struct lstm_unit *u = (const struct lstm_unit *)l->state;
    const struct cell_back b = {
        u->n, u->h, ct_data(u->gates), ct_data(io->bottom[C_PREV]),
        ct_data(io->top[C]), ct_diff(io->top[H]), NULL, ct_diff(io->top[C]),
        io->want_grad[GATES] ? ct_diff(io->bottom[GATES]) : NULL,
        io->want_grad[C_PREV] ? ct_diff(io->bottom[C_PREV]) : NULL
    };

    if ((b.dgates || b.dc_prev) && u->n * u->h > 0)
        CT_TRY(CT_LAUNCH(l->dev, u->n * u->h, cell_backward, b));
    if (io->want_grad[CONT])
        return ct_clear_values(l->dev, u->n, CT_F32,
                               ct_diff(io->bottom[CONT]));
    return CT_OK;
}

/* y = tanh(y + bias [+ fixed]) */
__global__ static void rnn_tanh(int64_t n, int64_t h, const float *bias,
                                const float *fixed, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        y[i] = tanhf(y[i] + bias[i % h] + (fixed ? fixed[i] : 0));
}

struct tanh_grad {
    __device__ float operator()(float dy, float y) const
    {
        return dy * (1 - y * y);
    }
    __device__ float operator()(float dy, float more, float y) const
    {
        return (dy + more) * (1 - y * y);
    }
};

extern "C" enum ct_status ct_cuda_rnn_forward(struct ct_layer *l,
                                              const struct ct_io *io)
{
    struct rnn *s               = (struct rnn *)l->state;
    const struct ct_recurrent r = s->r;
    const float *before         = ct_recurrent_first(io, &r, 0);
    const int64_t step          = r.n * r.h;
    const float *fixed          = r.has_static ? ct_data(r.fixed) : NULL;
    float *h = ct_data(r.gates), *o = ct_data(io->top[0]);

    CT_TRY(ct_recurrent_inputs(l, io, &s->r));
    for (int64_t t = 0; step > 0 && t < r.t; t++) {
        CT_TRY(ct_recurrent_step(l, io, &s->r, t, before));
        CT_TRY(CT_LAUNCH(l->dev, step, rnn_tanh, step, r.h,
                         (const float *)ct_data(l->blob[r.b]), fixed,
                         h + t * step));
        before = h + t * step;
    }
    CT_TRY(ct_ip_forward(&s->output, h, ct_data(l->blob[s->w_o]), NULL, o));
    if (r.t * step > 0)
        CT_TRY(CT_LAUNCH(l->dev, r.t * step, rnn_tanh, r.t * step, r.h,
                         (const float *)ct_data(l->blob[s->b_o]),
                         (const float *)NULL, o));
    return ct_recurrent_last(l, io, &s->r, 0, before);
}

/* The output product's gradients; leaves what h gets from it in dhid. */
static enum ct_status rnn_output_back(struct ct_layer *l,
                                      const struct ct_io *io)
{
    struct rnn *s               = (struct rnn *)l->state;
    const struct ct_recurrent r = s->r;
    float *dout                 = ct_data(s->dout);

    CT_TRY(ct_map(l->dev, r.t * r.n * r.h, tanh_grad(), dout,
                  (const float *)ct_diff(io->top[0]),
                  (const float *)ct_data(io->top[0])));
    CT_TRY(ct_ip_backward_weights(&s->output, ct_data(r.gates), dout,
                                  ct_diff(l->blob[s->w_o]),
                                  ct_diff(l->blob[s->b_o])));
    return ct_ip_backward_data(&s->output, ct_data(l->blob[s->w_o]), dout,
                               ct_data(s->dhid));
}

extern "C" enum ct_status ct_cuda_rnn_backward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    struct rnn *s               = (struct rnn *)l->state;
    const struct ct_recurrent r = s->r;
    const int64_t step          = r.n * r.h;

    CT_TRY(rnn_output_back(l, io));
    for (int64_t t = r.t - 1; t >= 0; t--) {
        const float *h    = ct_data(r.gates) + t * step;
        const float *from = ct_data(s->dhid) + t * step;
        float *dg         = ct_data(r.dgates) + t * step;

        if (t == r.t - 1)
            CT_TRY(ct_map(l->dev, step, tanh_grad(), dg, from, h));
        else
            CT_TRY(ct_map(l->dev, step, tanh_grad(), dg, from,
                          (const float *)ct_data(r.dh), h));
        if (t > 0)
            CT_TRY(ct_recurrent_step_back(l, io, &s->r, t));
    }
    return ct_recurrent_finish(l, io, &s->r);
}
