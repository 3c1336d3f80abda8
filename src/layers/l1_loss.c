/* l1_loss.c - absolute differences, NVIDIA's and FlowNet's type "L1Loss".
 *
 *     d = a - b          loss = sum |d| / n        da = sign(d) w / n = -db
 *
 * a, b: n x c x ..., bottoms 0 and 1; without bottom 1 d = a.  Backward
 * OVERWRITES da and db.  FlowNet's l1_loss_param changes the sum:
 *
 *     l2_per_location           sqrt(k sum of d^2 + epsilon) of each position,
 *                               over its channels; k is 1, or 1 / c with
 *                               l2_prescale_by_channels
 *     plateau                   what is not larger adds nothing
 *     normalize_by_num_entries  n is the number of positions that have a label
 *
 * With an l1_loss_param a NaN in bottom 1 means that there is no label; with
 * l2_per_location its whole position has none.  A NaN in bottom 0 makes the
 * loss NaN always, where FlowNet leaves it out. */
#include "layers/l1_loss.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

static enum ct_status l1_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__L1LossParameter *p = ct_l1_loss_param(l->param);
    struct l1_loss *s               = l->state;

    (void)io;
    s->lengths = p->l2_per_location;
    s->masks   = l->param->l1_loss_param != NULL;
    s->counts  = p->normalize_by_num_entries;
    s->epsilon = p->epsilon;
    s->plateau = p->plateau;
    CT_TRY(ct_layer_add_scratch(l, &s->z));
    return ct_reshape(s->z, CT_SHAPE(1));
}

static enum ct_status l1_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__L1LossParameter *p = ct_l1_loss_param(l->param);
    const struct ct_blob *a         = io->bottom[0];
    struct l1_loss *s               = l->state;

    if (a->shape.n_axes < 1)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 0 is a scalar", l->name);
    if (io->n_bottom > 1 && io->bottom[1]->count != a->count)
        return ct_fail(CT_ESHAPE, "layer %s: bottoms have %" PRId64 " and %"
                       PRId64 " values, which must be the same", l->name,
                       a->count, io->bottom[1]->count);
    s->outer    = a->shape.dim[0];
    s->channels = a->shape.n_axes > 1 ? a->shape.dim[1] : 1;
    s->inner    = a->shape.n_axes > 2 ? ct_count(a, 2, CT_END) : 1;
    s->n_terms  = s->lengths ? s->outer * s->inner : a->count;
    s->share    = p->l2_prescale_by_channels && s->channels > 0
                      ? 1 / (float)s->channels
                      : 1;
    /* A position has a term, or c of them. */
    s->times = s->counts && !s->lengths ? (float)s->channels : 1;
    return ct_reshape(io->top[0], CT_SCALAR);
}

static enum ct_status l1_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct l1_loss *s  = l->state;
    const struct l1_values v = l1_values_of(s, io);
    double sum = 0, known = 0;

    CT_SUM_EACH (i, s->n_terms, sum) {
        float term = 0;

        l1_term(&v, i, &term);
        sum += (double)term;
    }
    if (s->counts)
        CT_SUM_EACH (i, s->n_terms, known) {
            float term = 0;

            known += l1_term(&v, i, &term);
        }
    else
        known = (double)s->outer;
    known = known > 1 ? known : 1;
    ct_data(s->z)[0]       = (float)known;
    ct_data(io->top[0])[0] = (float)(sum * (double)s->times / known);
    return CT_OK;
}

/* da or, with the sign turned, db. */
static void l1_side(const struct l1_loss *s, const struct l1_values *v,
                    float scale, float *dx)
{
    CT_FOR_ROWS (i, s->outer * s->inner, 8 * s->channels) {
        const int64_t first =
            i / s->inner * s->channels * s->inner + i % s->inner;
        const float square = s->lengths ? l1_square(v, i) : 0;

        for (int64_t c = 0; c < s->channels; c++)
            dx[first + c * s->inner] =
                scale * l1_slope(v, first + c * s->inner, square);
    }
}

static enum ct_status l1_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct l1_loss *s  = l->state;
    const struct l1_values v = l1_values_of(s, io);
    const float scale =
        ct_diff(io->top[0])[0] * s->times / ct_data(s->z)[0];

    for (int side = 0; side < io->n_bottom; side++)
        if (io->want_grad[side])
            l1_side(s, &v, side == 0 ? scale : -scale,
                    ct_diff(io->bottom[side]));
    return CT_OK;
}

const struct ct_layer_type ct_layer_l1_loss = {
    .name       = "L1Loss",
    .bottoms    = CT_BETWEEN(1, 2),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_LOSS | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct l1_loss),
    .setup      = l1_setup,
    .reshape    = l1_reshape,
    .forward    = { l1_forward, CT_CUDA_FN(l1_loss_forward) },
    .backward   = { l1_backward, CT_CUDA_FN(l1_loss_backward) },
};
