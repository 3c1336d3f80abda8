/* fuzz_datum.c - any bytes as a record of a database. */
#include <stdint.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "data/datum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct ct_datum d = { 0 };
    float *x          = NULL;
    unsigned sum      = 0;

    ct_log_set_level(CT_LOG_FATAL);
    if (ct_datum_read((struct ct_bytes){ data, n_bytes }, &d) != CT_OK) {
        CT_ASSERT(ct_last_error()[0]);
        return 0;
    }
    /* What is accepted can be read without another look. */
    for (size_t i = 0; i < d.data.n; i++)
        sum += ((const uint8_t *)d.data.ptr)[i];
    CT_ASSERT(d.n_floats >= 0 && (size_t)d.n_floats <= n_bytes);
    x = ct_calloc((size_t)d.n_floats + 1, sizeof(*x), "floats");
    if (x)
        ct_datum_floats(&d, x);
    ct_free(x);
    CT_ASSERT(ct_mem_stats().n_live == 0 && sum < UINT32_MAX);
    return 0;
}
