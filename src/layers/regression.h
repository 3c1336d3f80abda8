/* regression.h - bbox_reg_param: how codes of boxes are normalised. */
#ifndef CT_LAYERS_REGRESSION_H
#define CT_LAYERS_REGRESSION_H

#include "cortado/layer.h"
#include "proto/params.h"

struct regression { float mean[4], deviation[4]; };

/* Means 0 and deviations 1 where the parameter has none. */
CT_MUST_CHECK static inline enum ct_status regression_read(
    const struct ct_layer *l, struct regression *out)
{
    const Caffe__BBoxRegParameter *p = ct_bbox_reg_param(l->param);

    *out = (struct regression){ { 0 }, { 1, 1, 1, 1 } };
    if (p->n_bbox_mean == 0 || p->n_bbox_std == 0)
        return CT_OK;
    if (p->n_bbox_mean != 4 || p->n_bbox_std != 4)
        return ct_fail(CT_EINVAL, "layer %s: bbox_reg_param takes four "
                       "bbox_mean and four bbox_std", l->name);
    for (int i = 0; i < 4; i++) {
        out->mean[i]      = p->bbox_mean[i];
        out->deviation[i] = p->bbox_std[i];
        if (!(out->deviation[i] > 0))
            return ct_fail(CT_EINVAL, "layer %s: bbox_std %d is %g, and must "
                           "be greater than 0", l->name, i,
                           (double)out->deviation[i]);
    }
    return CT_OK;
}

static inline void regression_normalise(const struct regression *r,
                                        float *code)
{
    for (int i = 0; i < 4; i++)
        code[i] = (code[i] - r->mean[i]) / r->deviation[i];
}

static inline void regression_restore(const struct regression *r,
                                      const float *code, float *out)
{
    for (int i = 0; i < 4; i++)
        out[i] = code[i] * r->deviation[i] + r->mean[i];
}

#endif
