/* multinomial_logistic_loss.c - cross entropy of probabilities that another
 * layer made, Caffe type "MultinomialLogisticLoss".
 *
 *     loss = sum_i -log(q_i) / N      q_i = max(p[i, t_i], 1e-20)
 *     dp[i, c] = -w / (N q_i) for c = t_i, else 0
 *
 * p: N rows of classes   t: N labels   w: top[0]'s loss weight
 * Backward OVERWRITES dp; labels get no gradient. */
#include "cortado/layer.h"

#include <string.h>

#include "layers/cuda/slots.h"
#include "layers/loss.h"

static enum ct_status mll_reshape(struct ct_layer *l, const struct ct_io *io)
{
    CT_TRY(ct_loss_reshape(l, io));
    return ct_loss_one_label_a_row(l, io);
}

static float floored(float p)
{
    return p < CT_LOG_FLOOR ? CT_LOG_FLOOR : p;
}

static enum ct_status mll_forward(struct ct_layer *l, const struct ct_io *io)
{
    static const struct ct_loss all = { .ignores = false };
    const float *p = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    int64_t n       = io->bottom[0]->shape.dim[0];
    int64_t classes = ct_count(io->bottom[0], 1, CT_END), n_valid;
    double sum = 0;

    CT_TRY(ct_loss_check_labels(l, &all, t, n, classes, &n_valid));
    for (int64_t i = 0; i < n; i++)
        sum -= logf(floored(p[i * classes + (int64_t)t[i]]));
    ct_data(io->top[0])[0] = n ? (float)(sum / (double)n) : 0;
    return CT_OK;
}

static enum ct_status mll_backward(struct ct_layer *l, const struct ct_io *io)
{
    const float *p = ct_data(io->bottom[0]), *t = ct_data(io->bottom[1]);
    int64_t n         = io->bottom[0]->shape.dim[0];
    int64_t classes   = ct_count(io->bottom[0], 1, CT_END);
    const float scale = -ct_diff(io->top[0])[0] / (float)n;
    float *dp         = ct_diff(io->bottom[0]);

    (void)l;
    if (!io->want_grad[0])
        return CT_OK;
    memset(dp, 0, (size_t)io->bottom[0]->count * sizeof(*dp));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * classes + (int64_t)t[i];

        dp[at] = scale / floored(p[at]);
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_multinomial_logistic_loss = {
    .name     = "MultinomialLogisticLoss",
    .bottoms  = CT_EXACTLY(2),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_LOSS | CT_LAYER_GRAD_FIRST | CT_LAYER_NO_TOP,
    .reshape  = mll_reshape,
    .forward  = { mll_forward, CT_CUDA_FN(multinomial_logistic_loss_forward) },
    .backward = { mll_backward,
                  CT_CUDA_FN(multinomial_logistic_loss_backward) },
};
