/* conv_fuse.c - what a convolution does for the layers behind it.
 *
 * In training it clamps its output for a ReLU, and masks dy before its own
 * backward passes:
 *
 *     y = max(W x + b, 0)        dy = 0 where y = 0, in place
 *
 * In the other direction, it may end the gradient of a residual block whose end
 * it reads, with the sums that BatchNorm needs (ct_conv_end).  With a kernel of
 * one point and a stride it leaves out the positions of that gradient that are
 * 0, where all that read this end do so.
 *
 * In a net that only runs forward it also adds the other bottom of a sum
 * before that, and takes BatchNorm and Scale into its weights (fold.h); with
 * parameters that stand the weights are packed once. */
#include <string.h>

#include "base/mem.h"
#include "device/impl.h"
#include "layers/batch_norm.h"
#include "layers/common.h"
#include "layers/conv_base.h"
#include "layers/eltwise.h"
#include "proto/params.h"

bool ct_conv_layer_absorb(struct ct_layer *l, const struct ct_layer *next)
{
    struct ct_conv_layer *s = l->state;
    const bool finishes     = ct_conv_finishes(l->dev);

    if (!next) {
        ct_fold_fini(&s->fold);
        s->sum = s->relu = false;
        l->flags |= CT_LAYER_NO_TOP | CT_LAYER_LEAVES_DIFF;
        return true;
    }
    if (s->relu || s->axis != 1)
        return false;
    if (!s->sum && finishes && ct_fold_absorb(&s->fold, l, next, s->num_output))
        return true;
    if (!s->sum && finishes && l->run->forward_only &&
        ct_layer_is_plain_sum(next)) {
        s->sum = true;
        return true;
    }
    s->relu = strcmp(next->type->name, "ReLU") == 0 &&
              ct_relu_param(next->param)->negative_slope == 0;
    if (s->relu) /* backward reads its sign, and masks dy */
        l->flags &= ~(unsigned)(CT_LAYER_NO_TOP | CT_LAYER_LEAVES_DIFF);
    return s->relu;
}

/* Whether it reads some positions alone, each once. */
static bool reads_thinly(const struct ct_conv_layer *s)
{
    const struct ct_conv_desc *d = &s->desc;
    bool thin                    = false;

    for (int i = 0; i < d->n_spatial; i++) {
        if (d->kernel[i] != 1 || d->pad[i] != 0)
            return false;
        thin |= d->stride[i] > 1;
    }
    return thin && d->n_spatial == 2 && s->axis == 1;
}

/* Whether it may end the gradient of a residual block. */
static bool may_end(void)
{
    return ct_impl_allowed("ends", "conv") ||
           ct_impl_allowed("ends", "faster");
}

bool ct_conv_layer_meet(struct ct_layer *l, int i, struct ct_layer *writer,
                        const struct ct_blob *top, bool last)
{
    struct ct_conv_layer *s = l->state;

    (void)top;
    if (i > 0)
        return false;
    s->end = s->thin = NULL;
    if (!writer || l->dev->kind == CT_CPU || writer->dev != l->dev ||
        s->kind != CT_CONV_PLAIN || s->n_conv > 1 || l->run->forward_only ||
        !batch_norm_splits(writer))
        return false;
    if (reads_thinly(s) && ct_impl_allowed("thin", "conv") &&
        batch_norm_reader(writer, s->desc.stride))
        s->thin = writer;
    else if (last && may_end())
        s->end = writer;
    return s->thin || s->end;
}

enum ct_status ct_conv_layer_weights(struct ct_layer *l, const float **w,
                                     const float **b)
{
    struct ct_conv_layer *s = l->state;
    const bool folds        = ct_fold_any(&s->fold);
    const int64_t n         = s->num_output;
    bool kept               = false;

    *w = ct_data(l->blob[CT_CONV_WEIGHT]);
    *b = s->has_bias ? ct_data(l->blob[CT_CONV_BIAS]) : NULL;
    if (!s->desc.packed)
        return CT_OK;
    if (!ct_fold_holds(&s->fold, l->run)) {
        if (folds)
            CT_TRY(ct_fold_make(&s->fold, l->run, n,
                                l->blob[CT_CONV_WEIGHT]->count / n, false, *w,
                                *b));
        CT_TRY(ct_conv_pack(s->conv[0], folds ? s->fold.w : *w, &kept));
        s->fold.made   = true;
        s->fold.params = l->run->params;
        if (kept) {
            ct_free(s->fold.w);
            s->fold.w = NULL;
        }
    }
    if (folds) {
        *w = s->fold.w;
        *b = s->fold.b;
    }
    return CT_OK;
}

bool ct_conv_layer_masks(const struct ct_layer *l, float **db)
{
    const struct ct_conv_layer *s = l->state;

    *db = s->relu ? ct_conv_layer_diff(l, CT_CONV_BIAS) : NULL;
    return s->relu;
}

void ct_conv_layer_masked(struct ct_layer *l)
{
    struct ct_conv_layer *s = l->state;

    s->masked = true;
}

enum ct_status ct_conv_layer_mask(const struct ct_layer *l,
                                  const struct ct_blob *top, float **db)
{
    const struct ct_conv_layer *s  = l->state;
    const struct ct_bias_desc desc = { s->desc.batch, s->num_output,
                                       ct_count(top, s->axis + 1, CT_END),
                                       top->data.layout, top->data.dtype };
    const bool cpu    = l->dev->kind == CT_CPU;
    float *const sums = cpu && desc.dtype != CT_BF16 ? NULL : *db;

    if (sums && cpu && l->overwrites)
        CT_TRY(ct_fill(l->dev, s->num_output, 0, sums));
    *db = sums ? NULL : *db;
    return ct_bias_mask(l->dev, &desc, ct_data(top), ct_diff(top), sums);
}
