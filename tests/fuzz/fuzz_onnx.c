/* fuzz_onnx.c - any bytes as an ONNX model: a net, or a clear refusal. */
#include <stdint.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "cortado/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    Caffe__NetParameter *net = NULL;
    enum ct_status st;

    ct_log_set_level(CT_LOG_FATAL);
    st = ct_onnx_import_bytes(data, n_bytes, "fuzz", NULL, &net);
    CT_ASSERT(st == CT_OK || ct_last_error()[0]);
    ct_message_free(net);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
