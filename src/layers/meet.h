/* meet.h - a layer gets to know the one that writes a bottom of it. */
#ifndef CT_LAYERS_MEET_H
#define CT_LAYERS_MEET_H

#include "cortado/layer.h"

/* Once it is known who absorbs whom: `writer` alone writes `top`, which is
 * bottom i of l and has no other reader.  From then on a Concat on a GPU does
 * in its backward pass what a convolution's ReLU and bias ask for.  Other
 * layers take no notice.  Both live as long as their net. */
CT_MUST_CHECK enum ct_status ct_layer_meet(struct ct_layer *l, int i,
                                           struct ct_layer *writer,
                                           const struct ct_blob *top);

#endif
