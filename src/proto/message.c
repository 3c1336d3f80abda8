/* message.c - freeing, copying and merging messages. */
#include <string.h>

#include "base/mem.h"
#include "cortado/proto.h"

void ct_message_free(void *message)
{
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

/* Through the wire format, which also carries fields that are unknown to this
 * version of caffe.proto; two messages behind each other there are merged. */
enum ct_status ct_message_merge(const void *a, const void *b, void *out)
{
    const ProtobufCMessageDescriptor *type =
        ((const ProtobufCMessage *)(a ? a : b))->descriptor;
    size_t a_bytes = a ? protobuf_c_message_get_packed_size(a) : 0;
    size_t b_bytes = b ? protobuf_c_message_get_packed_size(b) : 0;
    uint8_t *wire  = ct_malloc(a_bytes + b_bytes, "message copy");
    ProtobufCMessage *copy;

    if (!wire)
        return CT_ENOMEM;
    if (a)
        protobuf_c_message_pack(a, wire);
    if (b)
        protobuf_c_message_pack(b, wire + a_bytes);
    copy = protobuf_c_message_unpack(type, NULL, a_bytes + b_bytes, wire);
    ct_free(wire);
    if (!copy)
        return ct_fail(CT_ENOMEM, "cannot copy a %s of %zu bytes", type->name,
                       a_bytes + b_bytes);
    memcpy(out, &copy, sizeof(copy));
    return CT_OK;
}

enum ct_status ct_message_copy(const void *message, void *out)
{
    return ct_message_merge(message, NULL, out);
}
