/* lstm_unit.c - one time step of an LSTM, Caffe type "LSTMUnit".
 *
 *     c, h = cell(g, c_prev, cont)                   (lstm_gates.h)
 *
 * Bottoms: c_prev (1 x N x H), g (1 x N x 4H: i f o g), cont (1 x N).
 * Tops: c and h (1 x N x H).  Backward OVERWRITES; cont gets zero. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/lstm_gates.h"
#include "layers/lstm_unit.h"

enum { C_PREV, GATES, CONT };
enum { C, H };

static enum ct_status unit_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct lstm_unit *u = l->state;

    (void)io;
    return ct_layer_add_scratch(l, &u->gates);
}

static enum ct_status unit_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct lstm_unit *u      = l->state;
    const struct ct_shape *c = &io->bottom[C_PREV]->shape;

    if (c->n_axes != 3 || c->dim[0] != 1)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 0 must be 1 x streams x "
                       "units", l->name);
    u->n = c->dim[1];
    u->h = c->dim[2];
    if (!ct_shape_equal(&io->bottom[GATES]->shape,
                        &CT_SHAPE(1, u->n, 4 * u->h)))
        return ct_fail(CT_ESHAPE, "layer %s: bottom 1 must be 1 x %" PRId64
                       " x %" PRId64 ", four gates a unit", l->name, u->n,
                       4 * u->h);
    if (!ct_shape_equal(&io->bottom[CONT]->shape, &CT_SHAPE(1, u->n)))
        return ct_fail(CT_ESHAPE, "layer %s: bottom 2 must be 1 x %" PRId64,
                       l->name, u->n);
    CT_TRY(ct_reshape(u->gates, io->bottom[GATES]->shape));
    CT_TRY(ct_reshape(io->top[C], *c));
    return ct_reshape(io->top[H], *c);
}

static enum ct_status unit_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct lstm_unit *u = l->state;
    const float *c_prev = ct_data(io->bottom[C_PREV]);
    const float *from = ct_data(io->bottom[GATES]);
    const float *cont = ct_data(io->bottom[CONT]);
    float *gates = ct_data(u->gates), *c = ct_data(io->top[C]);
    float *h = ct_data(io->top[H]);

    CT_FOR_ROWS (n, u->n, 32 * u->h) {
        memcpy(gates + 4 * n * u->h, from + 4 * n * u->h,
               (size_t)(4 * u->h) * sizeof(*gates));
        ct_lstm_forward(u->h, cont[n], NULL, NULL, c_prev + n * u->h,
                        gates + 4 * n * u->h, c + n * u->h, h + n * u->h);
    }
    return CT_OK;
}

static enum ct_status unit_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct lstm_unit *u = l->state;
    const float *c_prev = ct_data(io->bottom[C_PREV]);
    const float *gates = ct_data(u->gates), *c = ct_data(io->top[C]);
    const float *dc = ct_diff(io->top[C]), *dh = ct_diff(io->top[H]);
    float *dgates = io->want_grad[GATES] ? ct_diff(io->bottom[GATES]) : NULL;
    float *dc_prev = io->want_grad[C_PREV] ? ct_diff(io->bottom[C_PREV]) : NULL;

    if (dgates || dc_prev)
        CT_FOR_ROWS (n, u->n, 32 * u->h) {
            int64_t at = n * u->h;

            ct_lstm_backward(u->h, gates + 4 * at, c_prev + at, c + at,
                             dh + at, NULL, dc + at,
                             dgates ? dgates + 4 * at : NULL,
                             dc_prev ? dc_prev + at : NULL);
        }
    if (io->want_grad[CONT])
        memset(ct_diff(io->bottom[CONT]), 0, (size_t)u->n * sizeof(float));
    return CT_OK;
}

const struct ct_layer_type ct_layer_lstm_unit = {
    .name       = "LSTMUnit",
    .bottoms    = CT_EXACTLY(3),
    .tops       = CT_EXACTLY(2),
    .state_size = sizeof(struct lstm_unit),
    .setup      = unit_setup,
    .reshape    = unit_reshape,
    .forward    = { unit_forward, CT_CUDA_FN(lstm_unit_forward) },
    .backward   = { unit_backward, CT_CUDA_FN(lstm_unit_backward) },
};
