/* batch_size.h - where a net says how many samples a batch has. */
#ifndef CT_PROTO_BATCH_SIZE_H
#define CT_PROTO_BATCH_SIZE_H

#include "cortado/proto.h"

/* Where a source's batch_size stands; NULL: it is no source, or has none. */
uint32_t *ct_batch_size(Caffe__LayerParameter *l);
/* The batch of the first source: its batch_size, or the first axis of what
 * Input and DummyData bring in.  0: there is none. */
int64_t ct_batch_of(const Caffe__NetParameter *net);
/* Every source that has the batch `from` gets `to`. */
void ct_batch_set(Caffe__NetParameter *net, int64_t from, int64_t to);

#endif
