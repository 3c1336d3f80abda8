/* tfevents.h - files that TensorBoard reads.
 *
 * A file is a row of records, each little-endian:
 *
 *     u64 length | u32 masked CRC of it | length bytes | u32 masked CRC of them
 *
 * and each record a protobuf Event: wall_time, step, and a version, a graph, a
 * session's start or a summary.  Records are appended to a text here; whoever
 * has it writes it, whole records at a time. */
#ifndef CT_OBSERVE_TFEVENTS_H
#define CT_OBSERVE_TFEVENTS_H

#include <stdint.h>

#include "base/text.h"

struct ct_histogram; /* observe/histogram.h */
struct ct_net;

/* The first record of a file; and that steps from `step` on come anew. */
void ct_tf_begin(struct ct_text *out, double time, int64_t step);
void ct_tf_scalar(struct ct_text *out, double time, int64_t step,
                  const char *tag, double value);
void ct_tf_histogram(struct ct_text *out, double time, int64_t step,
                     const char *tag, const struct ct_histogram *h);
/* Layers as nodes; a layer's name may hold slashes, which are levels. */
void ct_tf_graph(struct ct_text *out, double time, const struct ct_net *net);

#endif
