/* message.c - freeing and copying messages. */
#include <string.h>

#include "base/mem.h"
#include "cortado/proto.h"

void ct_message_free(void *message)
{
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

/* Through the wire format, which also carries fields that are unknown to this
 * version of caffe.proto. */
enum ct_status ct_message_copy(const void *message, void *out)
{
    const ProtobufCMessage *m = message;
    size_t bytes              = protobuf_c_message_get_packed_size(m);
    uint8_t *wire             = ct_malloc(bytes, "message copy");
    ProtobufCMessage *copy;

    if (!wire)
        return CT_ENOMEM;
    protobuf_c_message_pack(m, wire);
    copy = protobuf_c_message_unpack(m->descriptor, NULL, bytes, wire);
    ct_free(wire);
    if (!copy)
        return ct_fail(CT_ENOMEM, "cannot copy a %s of %zu bytes",
                       m->descriptor->name, bytes);
    memcpy(out, &copy, sizeof(copy));
    return CT_OK;
}
