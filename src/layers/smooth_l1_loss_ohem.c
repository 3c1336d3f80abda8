/* smooth_l1_loss_ohem.c - SmoothL1Loss for mining of hard examples, R-FCN's
 * type "SmoothL1LossOHEM".
 *
 *     d = u (a - b)     loss = sum f(d) / z      da = u f'(d) w / z = -db
 *     e[i] = sum over channels of f(d), the loss of position i
 *
 * a, b, u: n x c x ..., bottoms 0, 1 and perhaps 2   top 1: e, n x 1 x ...
 * f has sigma 1; z is the normaliser of loss.h, FULL and VALID both n x ...
 *
 * R-FCN leaves u out of da; the two agree where u is 0 or 1. */
#include "layers/smooth_l1_loss.h"

#include "layers/cuda/slots.h"
#include "layers/loss.h"

static enum ct_status sl1o_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct smooth_l1_loss *s = l->state;

    s->sigma2 = 1;
    s->inside = io->n_bottom > 2 ? 2 : 0;
    return CT_OK;
}

static enum ct_status sl1o_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_loss loss =
        ct_loss_read(l, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID);
    struct smooth_l1_loss *s = l->state;
    struct ct_shape each     = io->bottom[0]->shape;

    CT_TRY(smooth_l1_shape(l, io));
    s->normalizer = ct_loss_normalizer(&loss, s->outer, s->inner,
                                       s->outer * s->inner);
    if (each.n_axes > 1)
        each.dim[1] = 1;
    return io->n_top > 1 ? ct_reshape(io->top[1], each) : CT_OK;
}

const struct ct_layer_type ct_layer_smooth_l1_loss_ohem = {
    .name       = "SmoothL1LossOHEM",
    .bottoms    = CT_BETWEEN(2, 3),
    .tops       = CT_BETWEEN(1, 2),
    .flags      = CT_LAYER_LOSS | CT_LAYER_NO_TOP,
    .no_grad    = 1 << 2,
    .state_size = sizeof(struct smooth_l1_loss),
    .setup      = sl1o_setup,
    .reshape    = sl1o_reshape,
    .forward    = { smooth_l1_forward, CT_CUDA_FN(smooth_l1_loss_forward) },
    .backward   = { smooth_l1_backward, CT_CUDA_FN(smooth_l1_loss_backward) },
};
