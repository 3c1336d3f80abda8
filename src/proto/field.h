/* field.h - the fields of any message, by protobuf-c's descriptors. */
#ifndef CT_PROTO_FIELD_H
#define CT_PROTO_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include "cortado/proto.h"

/* The field that prototxt calls `name`, or NULL.  A name that protobuf-c
 * cannot use in C (`base`) has an underscore after it in the descriptor and
 * none here. */
const ProtobufCFieldDescriptor *
ct_field_find(const ProtobufCMessageDescriptor *type, const char *name,
              size_t n_bytes);

/* How long the field's name is in prototxt; for "%.*s". */
int ct_field_name_bytes(const ProtobufCFieldDescriptor *f);

/* Bytes of one value in the C struct, e.g. sizeof(char *) for a string. */
size_t ct_field_bytes(const ProtobufCFieldDescriptor *f);

/* Where the value, or the pointer to the array of a repeated field, lies. */
void *ct_field_at(const void *message, const ProtobufCFieldDescriptor *f);
/* Of a repeated field. */
size_t *ct_field_count(const void *message, const ProtobufCFieldDescriptor *f);

/* Present in the message: has_, non-NULL, or at least one element. */
bool ct_field_is_set(const void *message, const ProtobufCFieldDescriptor *f);

/* After a value was written at ct_field_at(): marks it present. */
void ct_field_set(void *message, const ProtobufCFieldDescriptor *f);

/* Back to the default, freeing what was there. */
void ct_field_clear(void *message, const ProtobufCFieldDescriptor *f);

/* The value of `f` in `from` becomes that of `g` in `to`, or is added to it
 * when only `g` is repeated; `f` is left unset.  Nothing is copied. */
CT_MUST_CHECK enum ct_status ct_field_move(void *from,
                                           const ProtobufCFieldDescriptor *f,
                                           void *to,
                                           const ProtobufCFieldDescriptor *g);

/* Move every field that both messages have under the same name and type. */
CT_MUST_CHECK enum ct_status ct_field_move_common(void *from, void *to);

/* The message in field `f`, made when it is not there yet. */
CT_MUST_CHECK enum ct_status
ct_field_submessage(void *message, const ProtobufCFieldDescriptor *f,
                    void *out);

#endif
