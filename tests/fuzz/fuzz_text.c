/* fuzz_text.c - any bytes as prototxt.
 *
 * The first byte chooses the message, "0" a net and "1" a solver.  What parses
 * must print, and what was printed must parse and print the same again; nets
 * and solvers must survive upgrade. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "cortado/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void round_trip(const ProtobufCMessageDescriptor *type,
                       const void *message)
{
    char *once = NULL, *twice = NULL;
    void *again = NULL;

    CT_ASSERT(ct_text_print(message, &once) == CT_OK);
    CT_ASSERT(ct_text_parse(type, once, strlen(once), "printed", &again) ==
              CT_OK);
    CT_ASSERT(ct_text_print(again, &twice) == CT_OK);
    CT_ASSERT(strcmp(once, twice) == 0);
    ct_free(once);
    ct_free(twice);
    ct_message_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &caffe__net_parameter__descriptor,
        &caffe__solver_parameter__descriptor,
        &caffe__layer_parameter__descriptor,
        &caffe__datum__descriptor,
    };
    const ProtobufCMessageDescriptor *type;
    void *message = NULL;

    ct_log_set_level(CT_LOG_FATAL);
    if (n_bytes == 0)
        return 0;
    type = types[data[0] % (sizeof(types) / sizeof(types[0]))];
    if (ct_text_parse(type, (const char *)data + 1, n_bytes - 1, "fuzz",
                      &message) != CT_OK)
        return 0;
    round_trip(type, message);
    if (type == types[0] && ct_upgrade_net(message, "fuzz") == CT_OK)
        round_trip(type, message);
    if (type == types[1] && ct_upgrade_solver(message, "fuzz") == CT_OK)
        round_trip(type, message);
    ct_message_free(message);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
