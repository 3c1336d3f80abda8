/* binary.c - messages in the wire format: caffemodel, solverstate,
 * binaryproto and the records of a database.
 *
 * As everywhere in protobuf a message has at most 2 GB. */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "proto/field.h"
#include "proto/wire_format.h"

/* An enum number that this caffe.proto has no name for is as good as absent,
 * as in protobuf: what reads the field then never meets it. */
static void binary_drop_enums(void *message, const ProtobufCFieldDescriptor *f)
{
    int32_t *value = ct_field_at(message, f);
    size_t kept    = 0, *n;

    if (f->label != PROTOBUF_C_LABEL_REPEATED) {
        if (!protobuf_c_enum_descriptor_get_value(f->descriptor, *value))
            ct_field_clear(message, f);
        return;
    }
    memcpy(&value, value, sizeof(value));
    n = ct_field_count(message, f);
    for (size_t i = 0; i < *n; i++)
        if (protobuf_c_enum_descriptor_get_value(f->descriptor, value[i]))
            value[kept++] = value[i];
    *n = kept;
}

static void binary_check_enums(void *message)
{
    const ProtobufCMessageDescriptor *type =
        ((ProtobufCMessage *)message)->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];
        void **child                      = ct_field_at(message, f);
        size_t n                          = 1;

        if (!ct_field_is_set(message, f))
            continue;
        if (f->type == PROTOBUF_C_TYPE_ENUM)
            binary_drop_enums(message, f);
        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            n = *ct_field_count(message, f);
            memcpy(&child, child, sizeof(child));
        }
        for (size_t k = 0; k < n; k++)
            binary_check_enums(child[k]);
    }
}

static enum ct_status binary_too_large(const char *path, uint64_t n_bytes)
{
    return ct_fail(CT_ENOTSUP,
                   "%s: %llu bytes, a protobuf file has at most %d; "
                   "snapshot_format: HDF5 has no such limit",
                   path, (unsigned long long)n_bytes, INT_MAX);
}

enum ct_status ct_binary_parse(const ProtobufCMessageDescriptor *type,
                               const void *data, size_t n_bytes,
                               const char *source, void *out)
{
    ProtobufCMessage *m;

    if (n_bytes > INT_MAX)
        return binary_too_large(source, n_bytes);
    CT_TRY(ct_wire_check(type, data, n_bytes, source));
    m = protobuf_c_message_unpack(type, NULL, n_bytes, data);
    if (!m)
        return ct_fail(CT_EPARSE,
                       "%s is not a valid %s, or there is no memory for its "
                       "%zu bytes",
                       source, type->name, n_bytes);
    binary_check_enums(m);
    memcpy(out, &m, sizeof(m));
    return CT_OK;
}

enum ct_status ct_binary_read(const ProtobufCMessageDescriptor *type,
                              const char *path, void *out)
{
    struct stat info;
    char *data     = NULL;
    size_t n_bytes = 0;
    enum ct_status st;

    if (stat(path, &info) == 0 && info.st_size > INT_MAX)
        return binary_too_large(path, (uint64_t)info.st_size);
    CT_TRY(ct_file_read(path, &data, &n_bytes));
    st = ct_binary_parse(type, data, n_bytes, path, out);
    ct_free(data);
    return st;
}

enum ct_status ct_binary_write(const void *message, const char *path)
{
    size_t n_bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *data;
    enum ct_status st;

    if (n_bytes > INT_MAX)
        return binary_too_large(path, n_bytes);
    CT_TRY(ct_alloc(n_bytes, 1, "binary message", &data));
    protobuf_c_message_pack(message, data);
    st = ct_file_write(path, data, n_bytes);
    ct_free(data);
    return st;
}
