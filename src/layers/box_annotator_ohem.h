/* box_annotator_ohem.h - what a BoxAnnotatorOHEM layer keeps; see its .c file.
 */
#ifndef CT_LAYERS_BOX_ANNOTATOR_OHEM_H
#define CT_LAYERS_BOX_ANNOTATOR_OHEM_H

#include "base/rng.h"
#include "cortado/layer.h"

struct box_annotator_ohem {
    int64_t n, channels, inner; /* rois; values of a weight; positions */
    int64_t keep;
    float   ignore;
};

/* Whether position i is one of the hardest of its image; equal ones go by
 * their order.  A loss that is NaN is hard. */
CT_HOST_DEVICE static inline bool box_is_hard(
    const struct box_annotator_ohem *s, const float *rois, const float *loss,
    int64_t i)
{
    const int64_t all = s->n * s->inner;
    const float image = rois[i / s->inner * 5 * s->inner + i % s->inner];
    int64_t harder    = 0;

    for (int64_t k = 0; k < all && harder < s->keep; k++)
        harder += (loss[k] > loss[i] || (loss[k] == loss[i] && k < i)) &&
                  rois[k / s->inner * 5 * s->inner + k % s->inner] == image;
    return harder < s->keep;
}

#endif
