/* fuzz_log.c - any bytes as the log of a training, for `cortado plot`. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "observe/training_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct ct_training_log *log = ct_calloc(1, sizeof(*log), "log");
    char *text                  = ct_calloc(n_bytes + 1, 1, "text");

    ct_log_set_level(CT_LOG_FATAL);
    if (log && text) {
        memcpy(text, data, n_bytes);
        if (ct_training_log_read(log, text) != CT_OK)
            CT_ASSERT(ct_last_error()[0]);
        ct_training_log_fini(log);
    }
    ct_free(text);
    ct_free(log);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
