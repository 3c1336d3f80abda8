/* edit.h - changing protobuf-c messages in place.
 *
 * Messages own their strings, lists and sub-messages in the C library's heap,
 * because protobuf-c frees them there.  These functions are the only ones that
 * touch that heap. */
#ifndef CT_PROTO_EDIT_H
#define CT_PROTO_EDIT_H

#include <stddef.h>

#include "cortado/proto.h"

/* A message of `type` with nothing set. */
CT_MUST_CHECK enum ct_status ct_edit_create(
    const ProtobufCMessageDescriptor *type, void *out);

/* Replace a string that has no default in the schema. */
CT_MUST_CHECK enum ct_status ct_edit_string(char **field, const char *value);

/* Put `item`, a message that the list now owns, before place `at`.
 * `list` is the address of the message's T **list. */
CT_MUST_CHECK enum ct_status ct_edit_insert(void *list, size_t *n, size_t at,
                                            void *item);
CT_MUST_CHECK enum ct_status ct_edit_add_string(char ***list, size_t *n,
                                                const char *value);
CT_MUST_CHECK enum ct_status ct_edit_add_float(float **list, size_t *n,
                                               float value);
/* Room for n elements of `size` bytes in place of what a list field holds. */
CT_MUST_CHECK enum ct_status ct_edit_resize(void *list, size_t n, size_t size);

/* n zeroed elements for a list field that is empty. */
CT_MUST_CHECK enum ct_status ct_edit_array(size_t n, size_t size, void *out);

/* As ct_edit_resize, for lists that grow one by one: when `need` is more than
 * *room, *room at least doubles. */
CT_MUST_CHECK enum ct_status ct_edit_reserve(void *list, size_t *room,
                                             size_t need, size_t size);

/* A copy of n bytes with a zero after them, for a string or bytes field. */
CT_MUST_CHECK enum ct_status ct_edit_bytes(const void *data, size_t n,
                                           void *out);

/* Free a string, the data of a bytes field or an empty list; takes NULL. */
void ct_edit_free(void *p);

/* Drop element `at` of a list of messages. */
void ct_edit_remove(void *list, size_t *n, size_t at);

#endif
