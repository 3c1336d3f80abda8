/* loss.c - labels and normalisation of the loss layers. */
#include "layers/loss.h"

#include <inttypes.h>

#include "proto/params.h"

struct ct_loss ct_loss_read(const struct ct_layer *l,
                            Caffe__LossParameter__NormalizationMode mode)
{
    const Caffe__LossParameter *p = ct_loss_param(l->param);
    struct ct_loss loss           = { mode, p->has_ignore_label,
                                      p->ignore_label,
                                      p->pre_fixed_normalizer };

    if (p->has_normalization)
        loss.mode = p->normalization;
    else if (p->has_normalize)
        loss.mode = p->normalize
                        ? CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID
                        : CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE;
    return loss;
}

float ct_loss_normalizer(const struct ct_loss *loss, int64_t outer,
                         int64_t inner, int64_t n_valid)
{
    int64_t n = 1;

    switch (loss->mode) {
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__FULL:
        n = outer * inner;
        break;
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID:
        n = n_valid;
        break;
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE:
        n = outer;
        break;
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__PRE_FIXED:
        return loss->fixed > 1 ? loss->fixed : 1;
    default:
        break;
    }
    return n > 1 ? (float)n : 1;
}

enum ct_status ct_loss_check_labels(const struct ct_layer *l,
                                    const struct ct_loss *loss,
                                    const float *label, int64_t n,
                                    int64_t n_classes, int64_t *n_valid)
{
    *n_valid = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ct_loss_ignored(loss, label[i]))
            continue;
        if (!(label[i] > -1 && label[i] < (float)n_classes))
            return ct_fail(CT_EINVAL, "layer %s: label %" PRId64 " is %g, but "
                           "there are %" PRId64 " classes: labels are 0 to %"
                           PRId64 " (or set ignore_label)", l->name, i,
                           (double)label[i], n_classes, n_classes - 1);
        ++*n_valid;
    }
    return CT_OK;
}

enum ct_status ct_loss_reshape(const struct ct_layer *l,
                               const struct ct_io *io)
{
    const struct ct_shape *a = &io->bottom[0]->shape;
    const struct ct_shape *b = &io->bottom[1]->shape;

    if (a->n_axes < 1 || b->n_axes < 1 || a->dim[0] != b->dim[0])
        return ct_fail(CT_ESHAPE, "layer %s: bottoms 0 and 1 need the same "
                       "first dimension", l->name);
    return ct_reshape(io->top[0], CT_SCALAR);
}

enum ct_status ct_loss_one_label_a_row(const struct ct_layer *l,
                                       const struct ct_io *io)
{
    int64_t n = io->bottom[0]->shape.dim[0];

    if (io->bottom[1]->count != n)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " labels for %" PRId64
                       " predictions", l->name, io->bottom[1]->count, n);
    return CT_OK;
}
