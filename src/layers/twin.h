/* twin.h - a second layer that works with the parameters of a first.
 *
 * It has state and scratch of its own, for other shapes or another thread, and
 * does the same work, that of layers which the first has absorbed included.
 * Its blobs have shapes and no memory: the caller points them at some. */
#ifndef CT_LAYERS_TWIN_H
#define CT_LAYERS_TWIN_H

#include "cortado/layer.h"

/* `then`: the n layers that the first has absorbed, in order.  `io` has the
 * bottoms of the first and the tops of the last.  `of` and `run` outlive it. */
CT_MUST_CHECK enum ct_status ct_layer_twin(const struct ct_layer *of,
                                           const struct ct_layer *const *then,
                                           int n, const struct ct_run *run,
                                           const struct ct_io *io,
                                           struct ct_layer **out);

#endif
