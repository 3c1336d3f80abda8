/* hinge_loss.c - one-against-all hinge loss, Caffe type "HingeLoss".
 *
 *     m[i, c] = max(0, 1 + s x[i, c])      s = -1 for c = t_i, else 1
 *     L1: loss = sum m / N         dx = w s [m > 0] / N
 *     L2: loss = sum m^2 / N       dx = w s 2 m / N
 *
 * x: N rows of classes   t: N labels   w: top[0]'s loss weight
 * Backward OVERWRITES dx; labels get no gradient. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "layers/hinge_loss.h"
#include "layers/loss.h"
#include "proto/params.h"

static enum ct_status hl_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct hinge_loss *h = l->state;

    (void)io;
    h->squared = ct_hinge_loss_param(l->param)->norm ==
                 CAFFE__HINGE_LOSS_PARAMETER__NORM__L2;
    return ct_layer_add_scratch(l, &h->terms);
}

static enum ct_status hl_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct hinge_loss *h = l->state;

    CT_TRY(ct_loss_reshape(l, io));
    h->n       = io->bottom[0]->shape.dim[0];
    h->classes = ct_count(io->bottom[0], 1, CT_END);
    CT_TRY(ct_loss_one_label_a_row(l, io));
    return ct_reshape(h->terms, CT_SHAPE(h->n));
}

/* The margin of one score, before it is cut at zero. */
static inline float margin(float x, bool is_label)
{
    return is_label ? 1 - x : 1 + x;
}

static enum ct_status hl_forward(struct ct_layer *l, const struct ct_io *io)
{
    static const struct ct_loss all = { .ignores = false };
    const struct hinge_loss *h      = l->state;
    const float *x = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    float *terms = ct_data(h->terms);
    int64_t n_valid;
    double sum = 0;

    CT_TRY(ct_loss_check_labels(l, &all, t, h->n, h->classes, &n_valid));
    CT_FOR_ROWS (i, h->n, h->classes) {
        const float *row = x + i * h->classes;
        float term       = 0;

        for (int64_t c = 0; c < h->classes; c++) {
            float m = margin(row[c], c == (int64_t)t[i]);

            m = m < 0 ? 0 : m; /* keeps NaN */
            term += h->squared ? m * m : m;
        }
        terms[i] = term;
    }
    for (int64_t i = 0; i < h->n; i++)
        sum += terms[i];
    ct_data(io->top[0])[0] = h->n ? (float)(sum / (double)h->n) : 0;
    return CT_OK;
}

static enum ct_status hl_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct hinge_loss *h = l->state;
    const float *x = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    const float scale = ct_diff(io->top[0])[0] / (float)h->n;
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_FOR_ROWS (i, h->n, h->classes) {
        for (int64_t c = 0; c < h->classes; c++) {
            bool is_label = c == (int64_t)t[i];
            float m       = margin(x[i * h->classes + c], is_label);
            float slope   = h->squared ? 2 * m : 1;

            dx[i * h->classes + c] =
                m > 0 ? (is_label ? -scale : scale) * slope : 0;
        }
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_hinge_loss = {
    .name       = "HingeLoss",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_LOSS | CT_LAYER_GRAD_FIRST | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct hinge_loss),
    .setup      = hl_setup,
    .reshape    = hl_reshape,
    .forward    = { hl_forward, CT_CUDA_FN(hinge_loss_forward) },
    .backward   = { hl_backward, CT_CUDA_FN(hinge_loss_backward) },
};
