/* blob_proto.h - blobs to and from BlobProto, Caffe's form in files. */
#ifndef CT_CORE_BLOB_PROTO_H
#define CT_CORE_BLOB_PROTO_H

#include "cortado/blob.h"
#include "cortado/proto.h"

/* The shape a BlobProto has: `shape`, or num/channels/height/width. */
CT_MUST_CHECK enum ct_status ct_blob_proto_shape(const Caffe__BlobProto *p,
                                                 struct ct_shape *out);

/* True when values of `p` belong into a blob of shape `s`: equal shapes, or
 * an old four-axis one that is `s` with ones before it. */
bool ct_blob_proto_fits(const Caffe__BlobProto *p, const struct ct_shape *s);

/* Copy data (and diff, if both have one) into a blob that fits. */
CT_MUST_CHECK enum ct_status ct_blob_from_proto(const Caffe__BlobProto *p,
                                                struct ct_blob *b);
CT_MUST_CHECK enum ct_status ct_blob_to_proto(const struct ct_blob *b,
                                              bool with_diff,
                                              Caffe__BlobProto **out);
#endif
