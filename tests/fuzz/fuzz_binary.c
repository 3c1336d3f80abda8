/* fuzz_binary.c - any bytes as caffemodel, solverstate, binaryproto or record.
 *
 * The first byte chooses the message.  What unpacks must print as text and
 * survive copying; a net must survive upgrade. */
#include <stdint.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "cortado/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void exercise(const void *message)
{
    void *copy = NULL;
    char *text = NULL;

    CT_ASSERT(ct_text_print(message, &text) == CT_OK);
    ct_free(text);
    CT_ASSERT(ct_message_copy(message, &copy) == CT_OK);
    ct_message_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &caffe__net_parameter__descriptor,
        &caffe__solver_state__descriptor,
        &caffe__blob_proto__descriptor,
        &caffe__datum__descriptor,
    };
    const ProtobufCMessageDescriptor *type;
    void *message = NULL;

    ct_log_set_level(CT_LOG_FATAL);
    if (n_bytes == 0)
        return 0;
    type = types[data[0] % (sizeof(types) / sizeof(types[0]))];
    if (ct_binary_parse(type, data + 1, n_bytes - 1, "fuzz", &message) != CT_OK)
        return 0;
    exercise(message);
    if (type == types[0] && ct_upgrade_net(message, "fuzz") == CT_OK)
        exercise(message);
    ct_message_free(message);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
