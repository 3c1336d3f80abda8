/* rois.h - bottoms of layers that pool regions: images, and regions of them. */
#ifndef CT_LAYERS_ROIS_H
#define CT_LAYERS_ROIS_H

#include <inttypes.h>

#include "cortado/layer.h"

enum { ROI_VALUES = 5 };

/* Bottom 0 is N x C x H x W, with pixels if there are regions; bottom 1 is
 * R x 5. */
CT_MUST_CHECK static inline enum ct_status ct_rois_check(
    const struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_shape *x = &io->bottom[0]->shape;

    if (x->n_axes != 4)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 0 must be images, N x C x "
                       "H x W, not %d axes", l->name, x->n_axes);
    if (io->bottom[1]->shape.n_axes < 2 ||
        ct_count(io->bottom[1], 1, CT_END) != ROI_VALUES)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 1 must be R x 5: image, "
                       "x1, y1, x2, y2", l->name);
    if (io->bottom[1]->count > 0 && io->bottom[0]->count == 0)
        return ct_fail(CT_ESHAPE, "layer %s: bottom 1 has regions of bottom 0, "
                       "which is empty", l->name);
    return CT_OK;
}

/* Region `r` of bottom 1 cannot be pooled from these images. */
CT_MUST_CHECK static inline enum ct_status ct_rois_none(
    const struct ct_layer *l, int64_t r, const float *rois, int64_t images)
{
    const float *v = rois + r * ROI_VALUES;

    return ct_fail(CT_EINVAL, "layer %s: region %" PRId64 " (image %g of %"
                   PRId64 ", %g %g %g %g) is none", l->name, r, (double)v[0],
                   images, (double)v[1], (double)v[2], (double)v[3],
                   (double)v[4]);
}

#endif
