/* filler.h - initial values, Caffe's seven fillers. */
#ifndef CT_CORE_FILLER_H
#define CT_CORE_FILLER_H

#include "cortado/blob.h"
#include "cortado/proto.h"

/* Fill the data of `b` (in host-readable memory) from draws keyed by `key`
 * and `stream`.  A NULL filler is constant 0. */
CT_MUST_CHECK enum ct_status ct_filler_run(const Caffe__FillerParameter *f,
                                           uint64_t key, uint64_t stream,
                                           struct ct_blob *b);
#endif
