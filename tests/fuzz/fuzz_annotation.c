/* fuzz_annotation.c - any bytes as a record of AnnotatedData.
 *
 * What is read must be written and read again the same. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "data/annotation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct ct_objects one = { 0 }, two = { 0 };
    struct ct_text datum = { 0 }, record = { 0 };
    struct ct_annotated a;

    ct_log_set_level(CT_LOG_FATAL);
    if (ct_annotated_read((struct ct_bytes){ data, n_bytes }, &a, &one) ==
        CT_OK) {
        CT_ASSERT(ct_datum_write(&a.datum, CT_DATUM_SHAPE | CT_DATUM_LABEL |
                                               CT_DATUM_ENCODED,
                                 NULL, &datum) == CT_OK);
        CT_ASSERT(ct_annotated_write((struct ct_bytes){ datum.s,
                                                        datum.n_bytes },
                                     &one, &record) == CT_OK);
        if (a.datum.data.n) /* floats are not written above */
            CT_ASSERT(ct_annotated_read((struct ct_bytes){ record.s,
                                                           record.n_bytes },
                                        &a, &two) == CT_OK);
        CT_ASSERT(!a.datum.data.n ||
                  (one.n == two.n &&
                   (one.n == 0 ||
                    memcmp(&one.at[0].box, &two.at[0].box,
                           sizeof(one.at[0].box)) == 0)));
    }
    ct_objects_fini(&one);
    ct_objects_fini(&two);
    ct_text_fini(&datum);
    ct_text_fini(&record);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
