/* upgrade.h - the steps from older net formats to today's.
 *
 * Each brings `net` one step on, in place.  What Caffe only complains about
 * is logged and makes *clean false; what it dies of is an error. */
#ifndef CT_PROTO_UPGRADE_H
#define CT_PROTO_UPGRADE_H

#include <stdbool.h>

#include "cortado/proto.h"

/* `layers { layer { type: "conv" } }` to `layers { type: CONVOLUTION }`. */
CT_MUST_CHECK enum ct_status ct_upgrade_v0(Caffe__NetParameter *net,
                                           const char *source, bool *clean);

/* scale, mean_file, crop_size and mirror out of V1 data_param, image_data_param
 * and window_data_param into transform_param. */
bool ct_upgrade_needs_transform(const Caffe__NetParameter *net);
CT_MUST_CHECK enum ct_status ct_upgrade_transform(Caffe__NetParameter *net);

/* `layers { type: CONVOLUTION }` to `layer { type: "Convolution" }`. */
CT_MUST_CHECK enum ct_status ct_upgrade_v1(Caffe__NetParameter *net,
                                           const char *source, bool *clean);

#endif
