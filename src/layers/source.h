/* source.h - what the layers share that bring data in. */
#ifndef CT_LAYERS_SOURCE_H
#define CT_LAYERS_SOURCE_H

#include "cortado/layer.h"

/* A prototxt `shape { dim: 64 dim: 3 }`; refuses what no blob can have. */
CT_MUST_CHECK enum ct_status ct_source_shape(const struct ct_layer *l,
                                             const Caffe__BlobShape *from,
                                             struct ct_shape *out);
#endif
