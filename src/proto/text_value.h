/* text_value.h - one scalar, string or enum value of a prototxt. */
#ifndef CT_PROTO_TEXT_VALUE_H
#define CT_PROTO_TEXT_VALUE_H

#include "cortado/proto.h"
#include "proto/text_lex.h"

/* Read the value of field `f` that the lexer stands on into the
 * ct_field_bytes(f) bytes at `out`, and go past it.  Strings and bytes come
 * from ct_edit_bytes().  Not for messages. */
CT_MUST_CHECK enum ct_status ct_value_parse(struct ct_lexer *lex,
                                            const ProtobufCFieldDescriptor *f,
                                            void *out);

#endif
