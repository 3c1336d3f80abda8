/* wire_format.h - looking through the wire format before anything is
 * allocated. */
#ifndef CT_PROTO_WIRE_FORMAT_H
#define CT_PROTO_WIRE_FORMAT_H

#include "cortado/proto.h"

/* Whether `data` is a sound message of `type`: every length inside its
 * message, every known field with the wire type it can have, the required
 * ones there, no deeper than 100 messages, and no more memory to unpack than
 * its size warrants.  Fields that `type` does not know are skipped. */
CT_MUST_CHECK enum ct_status
ct_wire_check(const ProtobufCMessageDescriptor *type, const uint8_t *data,
              size_t n_bytes, const char *source);

#endif
