/* cortado/memory_data.h - feeding a MemoryData layer from a program's arrays.
 *
 *     ct_memory_data_set(layer, images, labels, 1000);
 *
 * Every forward pass takes the next batch_size entries and starts over after
 * the last. */
#ifndef CT_MEMORY_DATA_H
#define CT_MEMORY_DATA_H

#include <stdint.h>

#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_layer;

/* `data` holds n entries of channels x height x width floats, `labels` one
 * float each.  Both are borrowed: they stay where they are until they are
 * replaced or the layer is destroyed.  n is a multiple of the layer's
 * batch_size.  The next pass starts at entry 0. */
CT_API CT_MUST_CHECK enum ct_status ct_memory_data_set(struct ct_layer *l,
                                                       const float *data,
                                                       const float *labels,
                                                       int64_t n);

#ifdef __cplusplus
}
#endif
#endif
