/* lstm_gates.c - one LSTM cell, forward and backward, a stream at a time. */
#include "layers/lstm_gates.h"

#include <stddef.h>

#include "layers/squash.h"

CT_SIMD static void cell_add(int64_t n, const float *x, float *y)
{
    CT_SIMD_EACH (d, n)
        y[d] += x[d];
}

CT_SIMD static void cell_forward(int64_t h, float cont, const float *c_prev,
                                 float *gates, float *c, float *out)
{
    float *i = gates, *f = gates + h, *o = gates + 2 * h, *g = gates + 3 * h;
    const float keep = cont == 0 ? 0 : 1;

    CT_SIMD_EACH (d, 3 * h)
        gates[d] = ct_sigmoid_row(gates[d]);
    CT_SIMD_EACH (d, h) {
        f[d]   = keep * cont * f[d];
        g[d]   = ct_tanh_row(g[d]);
        c[d]   = (keep == 0 ? 0 : f[d] * c_prev[d]) + i[d] * g[d];
        out[d] = o[d] * ct_tanh_row(c[d]);
    }
}

void ct_lstm_forward(int64_t h, float cont, const float *bias,
                     const float *fixed, const float *c_prev, float *gates,
                     float *c, float *out)
{
    if (bias)
        cell_add(4 * h, bias, gates);
    if (fixed)
        cell_add(4 * h, fixed, gates);
    cell_forward(h, cont, c_prev, gates, c, out);
}

CT_SIMD static void cell_backward(int64_t h, const float *gates,
                                  const float *c_prev, const float *c,
                                  const float *dh, const float *dh2,
                                  const float *dc, float *dgates,
                                  float *dc_prev)
{
    const float *i = gates, *f = gates + h, *o = gates + 2 * h;
    const float *g = gates + 3 * h;

    CT_SIMD_EACH (d, h) {
        float t    = ct_tanh_row(c[d]);
        float of_h = dh[d] + (dh2 ? dh2[d] : 0);
        float of_c = of_h * o[d] * (1 - t * t) + (dc ? dc[d] : 0);
        float of_f = f[d] == 0 ? 0 : of_c * c_prev[d] * f[d] * (1 - f[d]);

        if (dgates) {
            dgates[d]         = of_c * g[d] * i[d] * (1 - i[d]);
            dgates[h + d]     = of_f;
            dgates[2 * h + d] = of_h * t * o[d] * (1 - o[d]);
            dgates[3 * h + d] = of_c * i[d] * (1 - g[d] * g[d]);
        }
        if (dc_prev)
            dc_prev[d] = of_c * f[d];
    }
}

void ct_lstm_backward(int64_t h, const float *gates, const float *c_prev,
                      const float *c, const float *dh, const float *dh2,
                      const float *dc, float *dgates, float *dc_prev)
{
    cell_backward(h, gates, c_prev, c, dh, dh2, dc, dgates, dc_prev);
}
