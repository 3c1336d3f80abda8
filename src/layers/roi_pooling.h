/* roi_pooling.h - what a ROIPooling layer keeps; see roi_pooling.c. */
#ifndef CT_LAYERS_ROI_POOLING_H
#define CT_LAYERS_ROI_POOLING_H

#include "cortado/layer.h"

struct roi_pooling {
    int64_t         n, c, h, w, rois, ph, pw;
    float           scale;
    struct ct_blob *argmax; /* int32: place in the plane, or -1 */
};

#endif
