/* cortado/proto.h - Caffe's messages: text, binary, upgrade.
 *
 * Messages are protobuf-c's structs, generated from src/proto/caffe.proto.
 * One that a function here returned is owned by the caller, who frees it with
 * ct_message_free().  A `void *out` is the address of a pointer to the message
 * and is written on success only.  The field `base` of ExpParameter and
 * LogParameter is `base_` in C, and `base` in every file. */
#ifndef CT_PROTO_H
#define CT_PROTO_H

#include <stddef.h>

#include "cortado/caffe.pb-c.h"
#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A message of `type`, e.g. &caffe__net_parameter__descriptor, from prototxt.
 * `source` names the text in messages: "file:line:column: ...". */
CT_API CT_MUST_CHECK enum ct_status ct_text_parse(
    const ProtobufCMessageDescriptor *type, const char *text, size_t n_bytes,
    const char *source, void *out);
CT_API CT_MUST_CHECK enum ct_status ct_text_read(
    const ProtobufCMessageDescriptor *type, const char *path, void *out);

/* As prototxt, in the order of the field numbers, floats with the fewest
 * digits that read back the same.  *out is ct_free'd by the caller. */
CT_API CT_MUST_CHECK enum ct_status ct_text_print(const void *message,
                                                  char **out);
CT_API CT_MUST_CHECK enum ct_status ct_text_write(const void *message,
                                                  const char *path);

/* The wire format, up to 2 GB.  Reading checks lengths, required fields and
 * the memory needed before it allocates; fields that caffe.proto does not
 * have are kept, enum numbers it does not have are dropped.  Writing replaces
 * the file whole or not at all. */
CT_API CT_MUST_CHECK enum ct_status ct_binary_parse(
    const ProtobufCMessageDescriptor *type, const void *data, size_t n_bytes,
    const char *source, void *out);
CT_API CT_MUST_CHECK enum ct_status ct_binary_read(
    const ProtobufCMessageDescriptor *type, const char *path, void *out);
CT_API CT_MUST_CHECK enum ct_status ct_binary_write(const void *message,
                                                    const char *path);

CT_API void ct_message_free(void *message); /* takes NULL */
CT_API CT_MUST_CHECK enum ct_status ct_message_copy(const void *message,
                                                    void *out);
/* A message with the fields of `a`, and those that `b` of the same type sets
 * in their place; repeated fields are joined.  Either may be NULL, not both. */
CT_API CT_MUST_CHECK enum ct_status ct_message_merge(const void *a,
                                                     const void *b, void *out);

/* Bring an older net or solver to today's form, in place.  `source` is for
 * messages.  A net or solver that needs nothing is left alone. */
CT_API CT_MUST_CHECK enum ct_status ct_upgrade_net(
    Caffe__NetParameter *net, const char *source);
CT_API CT_MUST_CHECK enum ct_status ct_upgrade_solver(
    Caffe__SolverParameter *solver, const char *path);

/* Read and upgrade.  ct_net_param_read takes prototxt; weights are binary. */
CT_API CT_MUST_CHECK enum ct_status ct_net_param_read(
    const char *path, Caffe__NetParameter **out);
CT_API CT_MUST_CHECK enum ct_status ct_net_param_read_binary(
    const char *path, Caffe__NetParameter **out);
CT_API CT_MUST_CHECK enum ct_status ct_solver_param_read(
    const char *path, Caffe__SolverParameter **out);

#ifdef __cplusplus
}
#endif
#endif
