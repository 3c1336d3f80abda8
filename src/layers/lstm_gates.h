/* lstm_gates.h - the arithmetic of one LSTM cell, for LSTM and LSTMUnit.
 *
 *     i = sigmoid(g_i)   f = cont sigmoid(g_f)   o = sigmoid(g_o)
 *     g = tanh(g_g)      c = f c_prev + i g      h = o tanh(c)
 *
 * Gates of one stream lie one after the other: i f o g, H values each. */
#ifndef CT_LAYERS_LSTM_GATES_H
#define CT_LAYERS_LSTM_GATES_H

#include <stdint.h>

/* One stream: `gates` (4 H) come as sums and go as i f o g.  `bias` and
 * `fixed`, of the same shape, are added first; either may be NULL. */
void ct_lstm_forward(int64_t h, float cont, const float *bias,
                     const float *fixed, const float *c_prev, float *gates,
                     float *c, float *out);

/* One stream backward.  `dc` comes as the gradient of c that later steps
 * sent, or NULL for none; `dgates` and `dc_prev` (which may be dc) are written
 * where they are not NULL.  dh2 is added to dh, or NULL. */
void ct_lstm_backward(int64_t h, const float *gates, const float *c_prev,
                      const float *c, const float *dh, const float *dh2,
                      const float *dc, float *dgates, float *dc_prev);

#endif
